"""Sessions of Claude Code: `~/.claude/projects/*/*.jsonl`, an entry a line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from agentmem.core.clock import derive_id
from agentmem.core.input_fields import (
    SourceLocation,
    TurnInput,
    parse_datetime,
    parse_identifier,
    parse_mapping,
)
from agentmem.core.messages import MessageReader
from agentmem.importers.format import Format, read_each
from agentmem.importers.items import ImportItem, Omission
from agentmem.importers.source import ErrorHandler, SourceFile

_FLAGS = {
    "isSidechain": "message of a subagent",
    "isMeta": "message of the program",
    "isCompactSummary": "summary of earlier messages",
    "isApiErrorMessage": "message of the program",
}
_OWN_TAGS = ("<command-", "<local-command-", "<bash-", "<system-reminder>", "[Request interrupted")


def detect_claude_code(source: SourceFile) -> bool:
    """Whether the first lines are entries of a session, or summaries of sessions."""
    return source.layout == "lines" and any(map(_is_entry, source.find_sample("")))


def read_claude_code(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """What the user and the model said and which tools they used; what the program writes for itself is left out."""
    readers = defaultdict[str, MessageReader](MessageReader)  # one for each session

    def parse(value: Any, location: SourceLocation) -> Iterator[ImportItem]:
        entry = parse_mapping(value, "entry", location)
        if entry.get("type") not in ("user", "assistant"):
            yield Omission("entry of the program")
            return
        reason = next((reason for flag, reason in _FLAGS.items() if entry.get(flag)), None)
        if reason is not None:
            yield Omission(reason)
            return
        given = entry.get("sessionId") or PurePath(source.name).stem  # files are named by their session
        session = parse_identifier(given, "sessionId", location)
        at = location.child("message")
        message = parse_mapping(entry.get("message"), "message", location)
        fields = readers[session].read_fields({"role": message.get("role"), "content": message.get("content")}, at)
        if not fields["content"].strip() or fields["content"].startswith(_OWN_TAGS):
            yield Omission("message of the program" if fields["content"].strip() else "message without text")
            return
        turn = TurnInput(role=fields["role"], content=fields["content"], conversation_id=session)
        turn["turn_id"] = derive_id("turn", session, parse_identifier(entry.get("uuid"), "uuid", location))
        if entry.get("timestamp") is not None:
            turn["timestamp"] = parse_datetime(entry["timestamp"], "timestamp", location)
        yield turn

    return read_each(source, ("",), parse, on_error)


def _is_entry(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    is_spoken = value.get("type") in ("user", "assistant") and isinstance(value.get("message"), Mapping)
    is_summary = value.get("type") == "summary" and "leafUuid" in value
    return (is_spoken and ("sessionId" in value or "uuid" in value)) or is_summary


FORMAT = Format(
    name="claude_code",
    title="Claude Code session (.jsonl)",
    detect=detect_claude_code,
    read=read_claude_code,
)
