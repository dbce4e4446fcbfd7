"""LibreChat's export of one conversation as JSON, as a list or as a tree: the branch of the newest message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from agentmem.core.clock import derive_id
from agentmem.core.input_fields import (
    SourceLocation,
    TurnInput,
    get_mapping,
    parse_datetime,
    parse_identifier,
    parse_text,
)
from agentmem.core.messages import MessageReader
from agentmem.errors import InvalidRecord
from agentmem.importers.branches import find_branch
from agentmem.importers.format import Format, report_errors
from agentmem.importers.items import ImportItem, Omission
from agentmem.importers.record_fields import name_conversation
from agentmem.importers.source import ErrorHandler, SourceFile

_LISTS = ("messages.item", "messagesTree.item")


def detect_librechat(source: SourceFile) -> bool:
    """Whether a document is a conversation whose messages say whether the user wrote them."""
    whole = next(iter(source.find_sample("")), None)
    first = next(iter(source.find_sample(*_LISTS)), None)
    return (
        isinstance(whole, Mapping)
        and "conversationId" in whole
        and isinstance(first, Mapping)
        and "isCreatedByUser" in first
    )


def read_librechat(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """The turns of the conversation."""
    whole = next((each for each in source.find_sample("") if isinstance(each, Mapping)), {})
    place = SourceLocation(source.name)
    yield from report_errors(_read_conversation(source, whole, on_error), place, on_error)


def _read_conversation(source: SourceFile, whole: Mapping[str, Any], on_error: ErrorHandler) -> Iterator[ImportItem]:
    conversation_id = parse_identifier(whole.get("conversationId"), "conversationId", SourceLocation(source.name))
    places, nodes, parents = dict[str, SourceLocation](), dict[str, Mapping[str, Any]](), dict[str, object]()
    for key, parent, message, place in _list_messages(source, on_error):
        nodes[key], parents[key], places[key] = message, parent, place
    times = {key: moment.timestamp() for key, node in nodes.items() if (moment := _get_time(node)) is not None}
    branch = find_branch(parents, times, None)
    for _ in range(len(nodes) - len(branch)):
        yield Omission("message of another branch")
    reader = MessageReader()
    for key in branch:
        for item in report_errors(_read_message(nodes[key], reader, places[key]), places[key], on_error):
            if isinstance(item, dict):
                item["conversation_id"] = conversation_id
                item["turn_id"] = derive_id("turn", conversation_id, key)
                name_conversation(item, whole.get("title"))
            yield item


def _list_messages(
    source: SourceFile, on_error: ErrorHandler
) -> Iterator[tuple[str, object, Mapping[str, Any], SourceLocation]]:
    """All messages with their ids, those of their parents and their places, parents first."""
    waiting = [(value, None, place) for value, place in source.read_records(_LISTS, on_error)]
    waiting.reverse()
    while waiting:
        value, parent, place = waiting.pop()
        if not isinstance(value, Mapping) or not isinstance(value.get("messageId"), str):
            on_error(place.build_error("messageId", "must be the text of an id"))
            continue
        yield value["messageId"], value.get("parentMessageId", parent), value, place
        children = value.get("children")
        for number, child in reversed(list(enumerate(children if isinstance(children, list) else []))):
            waiting.append((child, value["messageId"], place.child("children").child(number)))


def _get_time(message: Mapping[str, Any]) -> datetime | None:
    """When a message was written, where that can be read; reading the message says what is wrong."""
    try:
        return parse_datetime(message.get("createdAt"), "createdAt", SourceLocation(""))
    except InvalidRecord:
        return None


def _read_message(message: Mapping[str, Any], reader: MessageReader, location: SourceLocation) -> Iterator[ImportItem]:
    if message.get("error"):
        yield Omission("message of the program")
        return
    parts = message.get("content")
    given = [block for part in parts for block in _convert_part(part)] if isinstance(parts, list) else []
    role = "user" if message.get("isCreatedByUser") else "assistant"
    said = reader.read_fields({"role": role, "content": given}, location)["content"]
    files = message.get("files")
    names = [each.get("filename") for each in files if isinstance(each, Mapping)] if isinstance(files, list) else []
    marks = [f"[file {name}]" if isinstance(name, str) else "[file]" for name in names]
    pieces = [said or parse_text(message.get("text") or "", "text", location), *marks]
    content = "\n".join(piece for piece in pieces if piece.strip())
    if not content:
        yield Omission("message without text")
        return
    turn = TurnInput(role=role, content=parse_text(content, "content", location))
    if message.get("createdAt") is not None:
        turn["timestamp"] = parse_datetime(message["createdAt"], "createdAt", location)
    yield turn


def _convert_part(part: object) -> Iterator[object]:
    """A part of a message as the blocks that `MessageReader` knows; a call of a tool has its result with it."""
    if not isinstance(part, Mapping) or part.get("type") not in ("think", "tool_call", "error"):
        yield part
    elif part["type"] == "tool_call":
        call = get_mapping(part, "tool_call")
        yield {"type": "tool_use", "id": call.get("id"), "name": call.get("name"), "input": call.get("args") or ""}
        if call.get("output"):
            yield {"type": "tool_result", "tool_use_id": call.get("id"), "content": call["output"]}


FORMAT = Format(
    name="librechat",
    title="LibreChat conversation (JSON)",
    detect=detect_librechat,
    read=read_librechat,
)
