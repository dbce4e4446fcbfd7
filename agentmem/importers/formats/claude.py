"""The export of claude.ai: `conversations.json`, and `memories.json` and `projects.json` beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agentmem.core.clock import derive_id
from agentmem.core.input_fields import (
    SourceLocation,
    TurnInput,
    get_mapping,
    parse_datetime,
    parse_identifier,
    parse_list_field,
    parse_mapping,
    parse_text,
)
from agentmem.core.messages import MessageReader
from agentmem.importers.format import Format, read_each, report_errors
from agentmem.importers.items import ImportedFact, ImportItem, Omission
from agentmem.importers.record_fields import name_conversation
from agentmem.importers.source import ErrorHandler, SourceFile

_MEMORY_FIELDS = ("conversations_memory", "project_memories")
_HEADING = re.compile(r"#.*|\*\*[^*\n]*\*\*:?")
_NOTES_OF_THE_PROGRAM = frozenset({"token_budget", "flag"})


def detect_claude(source: SourceFile) -> bool:
    """Whether a document is a list of conversations, projects or memories of Claude."""
    first = next(iter(source.find_sample("item")), None)
    if not isinstance(first, Mapping):
        return False
    is_project = isinstance(first.get("docs"), list) and "prompt_template" in first
    return isinstance(first.get("chat_messages"), list) or is_project or _is_memory(first)


def read_claude(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """The turns of all conversations, and what Claude remembers of its user as facts."""

    def parse(value: Any, location: SourceLocation) -> Iterator[ImportItem]:
        record = parse_mapping(value, "conversation", location)
        if _is_memory(record):
            yield from _read_memories(record, location)
            return
        if "prompt_template" in record:
            yield Omission("project")
            return
        conversation_id = parse_identifier(record.get("uuid"), "uuid", location)
        owner, reader = _get_owner(get_mapping(record, "account").get("uuid")), MessageReader()
        for number, message in enumerate(parse_list_field(record, "chat_messages", location)):
            at = location.child("chat_messages").child(number)
            for item in report_errors(_read_message(message, reader, at), at, on_error):
                if isinstance(item, dict):
                    item["conversation_id"] = conversation_id
                    item["turn_id"] = derive_id("turn", conversation_id, item["turn_id"])
                    name_conversation(item, record.get("name"))
                    if owner:
                        item["owner"] = owner
                yield item

    return read_each(source, ("item",), parse, on_error)


def _read_message(value: object, reader: MessageReader, location: SourceLocation) -> Iterator[ImportItem]:
    message = parse_mapping(value, "message", location)
    blocks = message.get("content")
    given = blocks if isinstance(blocks, list) else []
    kept = [each for each in given if not (isinstance(each, Mapping) and each.get("type") in _NOTES_OF_THE_PROGRAM)]
    fields = reader.read_fields({"role": message.get("sender"), "content": kept}, location)
    said = fields["content"] or parse_text(message.get("text") or "", "text", location)
    pieces = [said, *_render_files(message, location)]
    content = "\n".join(piece for piece in pieces if piece.strip())
    if not content:
        yield Omission("message without text")
        return
    turn = TurnInput(role=fields["role"], content=parse_text(content, "content", location))
    turn["turn_id"] = parse_identifier(message.get("uuid"), "uuid", location)
    if message.get("created_at") is not None:
        turn["timestamp"] = parse_datetime(message["created_at"], "created_at", location)
    yield turn


def _render_files(message: Mapping[str, Any], location: SourceLocation) -> Iterator[str]:
    """Marks for the files of a message, with the text of those whose text Claude took out."""
    for field in ("attachments", "files"):
        listed = message.get(field)
        for each in listed if isinstance(listed, list) else []:
            if isinstance(each, Mapping):
                name = parse_text(each.get("file_name") or "", "file_name", location)
                text = parse_text(each.get("extracted_content") or "", "extracted_content", location)
                yield f"[file {name}]".replace(" ]", "]") + (f"\n{text}" if text.strip() else "")


def _is_memory(record: Mapping[str, Any]) -> bool:
    return any(name in record for name in _MEMORY_FIELDS)


def _read_memories(record: Mapping[str, Any], location: SourceLocation) -> Iterator[ImportItem]:
    """Each paragraph of what Claude remembers, without headings, as a fact."""
    owner = _get_owner(record.get("account_uuid"))
    texts = [record.get("conversations_memory"), *get_mapping(record, "project_memories").values()]
    for text in texts:
        for paragraph in parse_text(text or "", "memory", location).split("\n\n"):
            claim = paragraph.strip()
            if claim and _HEADING.fullmatch(claim) is None:
                yield ImportedFact(claim, id=derive_id("memory", claim), tags=("claude",), owner=owner)


def _get_owner(value: object) -> str:
    return value if isinstance(value, str) else ""


FORMAT = Format(
    name="claude",
    title="Claude export (conversations.json, memories.json)",
    detect=detect_claude,
    read=read_claude,
)
