"""ChatGPT's `conversations.json`: of each conversation the branch that is open, with its saved memories as facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentmem.core.clock import derive_id
from agentmem.core.input_fields import (
    SourceLocation,
    TurnInput,
    get_mapping,
    parse_datetime,
    parse_identifier,
    parse_mapping,
    parse_text,
)
from agentmem.importers.branches import find_branch
from agentmem.importers.format import Format, read_each, report_errors
from agentmem.importers.items import ImportedFact, ImportItem, Omission
from agentmem.importers.record_fields import name_conversation
from agentmem.importers.source import ErrorHandler, SourceFile

_MEMORY_TOOL = "bio"  # the recipient of what ChatGPT saves about its user
_CONTEXT_TYPES = frozenset({"model_editable_context", "user_editable_context"})
_THINKING_TYPES = frozenset({"thoughts", "reasoning_recap"})
_LABELS = {
    "image_asset_pointer": "image",
    "audio_asset_pointer": "audio",
    "video_container_asset_pointer": "video",
    "real_time_user_audio_video_asset_pointer": "audio",
}


def detect_chatgpt(source: SourceFile) -> bool:
    """Whether a document is a conversation that is a tree of messages, or a list of such."""
    first = next(iter(source.find_sample(*_find_paths(source))), None)
    return isinstance(first, Mapping) and isinstance(first.get("mapping"), Mapping)


def read_chatgpt(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """The turns and saved memories of all conversations."""

    def parse(value: Any, location: SourceLocation) -> Iterator[ImportItem]:
        conversation = parse_mapping(value, "conversation", location)
        given = conversation.get("conversation_id") or conversation.get("id")
        conversation_id = parse_identifier(given, "conversation_id", location)
        mapping = parse_mapping(conversation.get("mapping"), "mapping", location)
        nodes = {key: node for key, node in mapping.items() if isinstance(node, Mapping)}
        messages = {key: message for key, node in nodes.items() if (message := get_mapping(node, "message"))}
        parents = {key: node.get("parent") for key, node in nodes.items()}
        times = {key: message.get("create_time") for key, message in messages.items()}
        branch = [key for key in find_branch(parents, times, conversation.get("current_node")) if key in messages]
        for _ in range(len(messages) - len(branch)):
            yield Omission("message of another branch")
        for key in branch:
            at = location.child("mapping").child(key)
            for item in report_errors(_read_message(messages[key], key, conversation_id, at), at, on_error):
                if isinstance(item, dict):
                    name_conversation(item, conversation.get("title"))
                yield item

    return read_each(source, _find_paths(source), parse, on_error)


def _find_paths(source: SourceFile) -> tuple[str, ...]:
    return ("",) if isinstance(source.sample, Mapping) else ("item",)


def _read_message(
    message: Mapping[str, Any], node_id: str, conversation_id: str, location: SourceLocation
) -> Iterator[ImportItem]:
    metadata, content, author = (get_mapping(message, name) for name in ("metadata", "content", "author"))
    kind, role = content.get("content_type"), author.get("role")
    if metadata.get("is_visually_hidden_from_conversation") or kind in _CONTEXT_TYPES:
        yield Omission("hidden message")
        return
    if kind in _THINKING_TYPES:
        yield Omission("reasoning of the model")
        return
    text = _render_content(content, metadata, location)
    moment = message.get("create_time")
    timestamp = None if moment is None else parse_datetime(moment, "create_time", location)
    if role == "tool" and author.get("name") == _MEMORY_TOOL:
        yield Omission("answer of the memory tool")
        return
    if message.get("recipient") == _MEMORY_TOOL:
        for line in text.splitlines():
            if line.strip():
                yield ImportedFact(
                    line.strip(), id=f"{node_id}:{line.strip()}", valid_from=timestamp, tags=("chatgpt",)
                )
        return
    if not text.strip() or role not in ("user", "assistant", "system", "tool"):
        yield Omission("message without text")
        return
    if message.get("recipient") not in (None, "all") and role == "assistant":
        text = f"[calls {message['recipient']} {text.strip()}]"
    elif role == "tool":
        text = f"[{author.get('name') or 'a tool'} returned] {text}"
    turn = TurnInput(role=role, content=parse_text(text, "content", location), conversation_id=conversation_id)
    turn["turn_id"] = derive_id("turn", conversation_id, node_id)
    if timestamp is not None:
        turn["timestamp"] = timestamp
    yield turn


def _render_content(content: Mapping[str, Any], metadata: Mapping[str, Any], location: SourceLocation) -> str:
    """The text of a message, with marks for what is no text, and the names of files given with it."""
    parts = content.get("parts")
    listed = parts if isinstance(parts, list) else [content.get("text") or content.get("result") or ""]
    pieces = [_render_part(part, location) for part in listed]
    attachments = metadata.get("attachments")
    given = attachments if isinstance(attachments, list) else []
    names = [each.get("name") for each in given if isinstance(each, Mapping)]
    pieces += [f"[file {name}]" for name in names if isinstance(name, str)]
    return "\n".join(piece for piece in pieces if piece.strip())


def _render_part(part: object, location: SourceLocation) -> str:
    if isinstance(part, str):
        return parse_text(part, "parts", location)
    if not isinstance(part, Mapping):
        return ""
    if isinstance(part.get("text"), str):  # what was spoken, beside its recording
        return parse_text(part["text"], "parts", location)
    kind = part.get("content_type")
    return f"[{_LABELS.get(kind, 'file') if isinstance(kind, str) else 'file'}]"


FORMAT = Format(
    name="chatgpt",
    title="ChatGPT export (conversations.json)",
    detect=detect_chatgpt,
    read=read_chatgpt,
)
