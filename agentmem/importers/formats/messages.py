"""Message lists as OpenAI's and Anthropic's interfaces have them, as turns with readable text.

Text parts are kept verbatim; tool calls and results become bracketed lines; thinking is left out; a picture or a file
is named, not read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentmem.core.plain_values import describe_value
from agentmem.errors import InvalidRecord
from agentmem.importers.fields import (
    SourceLocation,
    TurnInput,
    parse_datetime,
    parse_identifier,
    parse_list_field,
    parse_mapping,
    parse_metadata,
    parse_text,
    read_role,
)

_SKIPPED_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
_CALL_PARTS = frozenset({"tool_use", "server_tool_use"})
_ATTACHMENT_LABELS = {"image_url": "image", "input_image": "image", "input_audio": "audio", "input_file": "file"}
_MESSAGE_ONLY_FIELDS = ("tool_calls", "tool_call_id", "function_call", "name", "refusal")


def is_message(value: object) -> bool:
    """Whether a JSON value is a message with content of a kind that a plain turn does not have."""
    return isinstance(value, Mapping) and (
        isinstance(value.get("content"), list) or any(value.get(field) is not None for field in _MESSAGE_ONLY_FIELDS)
    )


def parse_conversation(
    value: object, location: SourceLocation, on_error: Callable[[InvalidRecord], None]
) -> Iterator[TurnInput]:
    """The turns of a list of messages, or of an object with `messages` and perhaps `system` and an `id`.

    What is wrong with one message goes to `on_error`; when that returns, reading goes on with the next message.
    """
    whole: Mapping[str, Any] = (
        {"messages": value} if isinstance(value, list) else parse_mapping(value, "messages", location)
    )
    called: dict[str, str] = {}
    own_id = whole.get("conversation_id", whole.get("id"))
    shared = None if own_id is None else parse_identifier(own_id, "conversation_id", location)
    listed = list(enumerate(parse_list_field(whole, "messages", location)))
    if whole.get("system"):
        listed.insert(0, (-1, {"role": "system", "content": whole["system"]}))
    for i, message in listed:
        at = location.child("system") if i < 0 else location.child("messages").child(i)
        try:
            turn = parse_message(parse_mapping(message, f"messages[{i}]", location), called, at)
        except InvalidRecord as error:
            on_error(error)
            continue
        if turn is not None:
            if shared is not None:
                turn.setdefault("conversation_id", shared)
            yield turn


def parse_message(message: Mapping[str, Any], tool_names: dict[str, str], location: SourceLocation) -> TurnInput | None:
    """One message as a turn, or None when nothing of it can be read as text (only thinking, or empty).

    `tool_names` maps the ids of the tool calls seen so far to the names of the tools, and grows.
    """
    turn = TurnInput(role=read_role(message.get("role"), "role", location), content="")
    content = message.get("content")
    if content is None and not any(message.get(field) for field in (*_MESSAGE_ONLY_FIELDS, "audio")):
        raise location.build_error("content", "must be text or a list of content parts, got nothing")
    pieces = [_render_content(content, tool_names, location)] if content is not None else []
    if isinstance(message.get("refusal"), str):
        pieces.append(message["refusal"])
    pieces += _render_tool_calls(message, tool_names, location)
    turn["content"] = "\n".join(piece for piece in pieces if piece.strip())
    if not turn["content"]:
        return None
    if turn["role"] == "tool":
        turn["content"] = _render_result(
            tool_names.get(str(message.get("tool_call_id")), message.get("name")), turn["content"]
        )
    elif turn["role"] == "user" and _has_only_results(content):
        turn["role"] = "tool"
    parse_text(turn["content"], "content", location)
    return _add_details(turn, message, location)


def _add_details(turn: TurnInput, message: Mapping[str, Any], location: SourceLocation) -> TurnInput:
    speaker = message.get("speaker", None if turn["role"] == "tool" else message.get("name"))
    if speaker is not None:
        turn["speaker"] = parse_identifier(speaker, "speaker", location)
    for field in ("timestamp", "created_at", "create_time"):
        if message.get(field) is not None:
            turn["timestamp"] = parse_datetime(message[field], field, location)
            break
    if message.get("turn_id") is not None:
        turn["turn_id"] = parse_identifier(message["turn_id"], "turn_id", location)
    if message.get("conversation_id") is not None:
        turn["conversation_id"] = parse_identifier(message["conversation_id"], "conversation_id", location)
    if message.get("metadata"):
        turn["metadata"] = parse_metadata(message["metadata"], location)
    return turn


def _render_content(content: object, tool_names: dict[str, str], location: SourceLocation) -> str:
    if not isinstance(content, list):
        return parse_text(content, "content", location)
    pieces = [_render_part(part, tool_names, location.child("content").child(i)) for i, part in enumerate(content)]
    return "\n".join(piece for piece in pieces if piece.strip())


def _render_part(part: object, tool_names: dict[str, str], location: SourceLocation) -> str:
    if isinstance(part, str):
        return parse_text(part, "content", location)
    block = parse_mapping(part, "content", location)
    kind = block.get("type", "text")
    if not isinstance(kind, str):
        raise location.build_error("type", f"must be text, got {describe_value(kind)}")
    if kind in _SKIPPED_PARTS:
        return ""
    if kind in _CALL_PARTS:
        return _render_call(block.get("id"), block.get("name"), block.get("input"), tool_names)
    if kind == "tool_result":
        return _render_result(
            tool_names.get(str(block.get("tool_use_id"))), _render_result_content(block.get("content"), location)
        )
    if kind == "refusal":
        return parse_text(block.get("refusal"), "refusal", location)
    if kind.endswith("text"):
        return parse_text(block.get("text"), "text", location)
    return _render_attachment(kind, block)


def _render_result_content(content: object, location: SourceLocation) -> str:
    """A result's own text. Results do not nest, so parts of it that are no text are only named."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return parse_text(content, "content", location)
    pieces = []
    for i, part in enumerate(content):
        block = {"text": part} if isinstance(part, str) else parse_mapping(part, "content", location)
        written = block.get("text")
        kind = str(block.get("type", "text"))
        pieces.append(
            _render_attachment(kind, block) if written is None else parse_text(written, "text", location.child(i))
        )
    return "\n".join(pieces)


def _render_attachment(kind: str, block: Mapping[str, Any]) -> str:
    title = block.get("title", block.get("filename"))
    return (
        f"[{_ATTACHMENT_LABELS.get(kind, kind)} {title}]"
        if isinstance(title, str)
        else f"[{_ATTACHMENT_LABELS.get(kind, kind)}]"
    )


def _render_tool_calls(message: Mapping[str, Any], tool_names: dict[str, str], location: SourceLocation) -> list[str]:
    found = []
    for i, value in enumerate(parse_list_field(message, "tool_calls", location) if message.get("tool_calls") else []):
        at = location.child("tool_calls").child(i)
        call = parse_mapping(value, "tool_calls", at)
        function = parse_mapping(call.get("function", call.get("custom", {})), "function", at)
        arguments = function.get("arguments", function.get("input"))
        found.append(_render_call(call.get("id"), function.get("name"), arguments, tool_names))
    if message.get("function_call"):
        function = parse_mapping(message["function_call"], "function_call", location)
        found.append(_render_call(None, function.get("name"), function.get("arguments"), tool_names))
    return found


def _render_call(call_id: object, tool: object, arguments: object, tool_names: dict[str, str]) -> str:
    known = tool if isinstance(tool, str) and tool else "a tool"
    if isinstance(call_id, str):
        tool_names[call_id] = known
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f"[calls {known}]" if written.strip() in ("", "{}", "null") else f"[calls {known} {written.strip()}]"


def _render_result(tool: object, content: str) -> str:
    known = tool if isinstance(tool, str) and tool else "a tool"
    return f"[{known} returned] {content}".rstrip()


def _has_only_results(content: object) -> bool:
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(part, Mapping) and part.get("type") == "tool_result" for part in content)
    )
