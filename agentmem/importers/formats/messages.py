"""Turns, one a line, and messages as they are sent: OpenAI's, Anthropic's, Gemini's, LangChain's, whole or by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from agentmem.core.clock import derive_id, to_utc
from agentmem.core.input_fields import (
    SourceLocation,
    TurnInput,
    parse_datetime,
    parse_identifier,
    parse_list_field,
    parse_mapping,
    parse_metadata,
    parse_nonempty_text,
    parse_title,
    read_role,
)
from agentmem.core.messages import MessageReader, is_message
from agentmem.errors import InvalidRecord
from agentmem.importers.format import Format
from agentmem.importers.items import ImportItem
from agentmem.importers.record_fields import name_conversation
from agentmem.importers.source import ErrorHandler, SourceFile

_TURN_FIELDS = (
    "role",
    "content",
    "turn_id",
    "speaker",
    "timestamp",
    "conversation_id",
    "conversation_title",
    "metadata",
)
_TYPED_FIELDS = frozenset({"call_id", "data", "kwargs", "status", "summary"})  # of messages without role and content
_LISTS = ("messages", "input", "output", "contents")
# A conversation without an id is named by its first turns, so that a file that grew keeps its name.
_OPENING_TURNS = 4


def detect_messages(source: SourceFile) -> bool:
    """Whether the first values are turns, messages, or conversations of them."""
    values = source.sample if source.layout == "lines" else [source.sample]
    return source.layout != "text" and any(map(_is_known, values[:3]))


def read_messages(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """The turns of all conversations; lines that are single messages are one conversation."""
    return _Reader(on_error).read(source)


class _Reader:
    """One reading of one file. It remembers how many conversations began the same way, and nothing else."""

    def __init__(self, on_error: ErrorHandler) -> None:
        self._on_error = on_error
        self._openings: Counter[str] = Counter()
        self._single = MessageReader()

    def read(self, source: SourceFile) -> Iterator[ImportItem]:
        found = chain.from_iterable(self._read_value(*each) for each in source.read_records(("",), self._on_error))
        head: list[TurnInput] = []
        for turn in found:
            head.append(turn)
            if len(head) == _OPENING_TURNS:
                break
        unnamed = self._derive_conversation_id(head)
        for turn in chain(head, found):
            turn.setdefault("conversation_id", unnamed)
            yield turn

    def _read_value(self, value: object, location: SourceLocation) -> Iterator[TurnInput]:
        try:
            if isinstance(value, list) or (isinstance(value, Mapping) and _find_lists(value)):
                yield from self._read_conversation(value, location)
            else:
                yield from self._read_message(parse_mapping(value, "turn", location), location, self._single)
        except InvalidRecord as error:
            self._on_error(error)
        except RecursionError:
            self._on_error(location.build_error("value", "is nested too deeply"))

    def _read_conversation(self, value: Any, location: SourceLocation) -> Iterator[TurnInput]:
        """The turns of a list of messages, or of an object with such lists and perhaps `system` and an `id`."""
        whole: Mapping[str, Any] = {"messages": value} if isinstance(value, list) else value
        own_id = whole.get("conversation_id", whole.get("id"))
        shared = None if own_id is None else parse_identifier(own_id, "conversation_id", location)
        reader, turns = MessageReader(), list[TurnInput]()
        for message, name, at in _list_messages(whole, location):
            try:
                turns += self._read_message(parse_mapping(message, name, location), at, reader, is_listed=True)
            except InvalidRecord as error:
                self._on_error(error)
        unnamed = shared or self._derive_conversation_id(turns[:_OPENING_TURNS])
        for turn in turns:
            turn.setdefault("conversation_id", unnamed)
            if "conversation_title" not in turn:
                name_conversation(turn, whole.get("conversation_title", whole.get("title")))
            yield turn

    def _read_message(
        self, message: Mapping[str, Any], location: SourceLocation, reader: MessageReader, *, is_listed: bool = False
    ) -> Iterator[TurnInput]:
        if not is_listed and not is_message(message):
            yield parse_turn(message, location)
            return
        fields = reader.read_fields(message, location)
        if fields["content"]:
            yield _build_turn(fields, location)

    def _derive_conversation_id(self, head: list[TurnInput]) -> str:
        """A name made from the first turns, and from how many conversations of this file began the same way."""
        said = [
            (t["role"], t.get("speaker", ""), str(to_utc(t["timestamp"])) if "timestamp" in t else "", t["content"])
            for t in head
        ]
        opening = derive_id("opening", *chain.from_iterable(said))
        self._openings[opening] += 1
        return derive_id("conversation", opening, str(self._openings[opening]))


def parse_turn(source: Mapping[str, Any], location: SourceLocation) -> TurnInput:
    """One turn from the fields that `store_turns` knows; another field is refused, so that no typing error passes."""
    for name in source:
        if name not in _TURN_FIELDS:
            raise location.build_error(
                name, f"is not a field of a turn ({', '.join(_TURN_FIELDS)}); put it into metadata"
            )
    role = read_role(source.get("role"), "role", location)
    content = parse_nonempty_text(source.get("content"), "content", location)
    return _build_turn({**source, "role": role, "content": content}, location)


def _build_turn(fields: Mapping[str, Any], location: SourceLocation) -> TurnInput:
    turn = TurnInput(role=fields["role"], content=fields["content"])
    if fields.get("turn_id") is not None:
        turn["turn_id"] = parse_identifier(fields["turn_id"], "turn_id", location)
    if fields.get("speaker") is not None:
        turn["speaker"] = parse_identifier(fields["speaker"], "speaker", location)
    for name in ("timestamp", "created_at", "create_time"):
        if fields.get(name) is not None:
            turn["timestamp"] = parse_datetime(fields[name], name, location)
            break
    if fields.get("conversation_id") is not None:
        turn["conversation_id"] = parse_identifier(fields["conversation_id"], "conversation_id", location)
    if fields.get("conversation_title") is not None:
        turn["conversation_title"] = parse_title(fields["conversation_title"], "conversation_title", location)
    if fields.get("metadata") is not None:
        turn["metadata"] = parse_metadata(fields["metadata"], location)
    return turn


def _is_known(value: object) -> bool:
    if isinstance(value, list):
        return not value or _is_known(value[0])
    if not isinstance(value, Mapping):
        return False
    is_typed = "type" in value and not _TYPED_FIELDS.isdisjoint(value) and is_message(value)
    return "role" in value or "content" in value or is_typed or bool(_find_lists(value))


def _find_lists(whole: Mapping[str, Any]) -> list[str]:
    """The fields of an object that hold its messages: `messages` alone where it is there."""
    if "role" in whole or "type" in whole:
        return []
    return ["messages"] if "messages" in whole else [name for name in _LISTS if isinstance(whole.get(name), list)]


def _list_messages(whole: Mapping[str, Any], location: SourceLocation) -> Iterator[tuple[object, str, SourceLocation]]:
    """The messages with what an error calls each, and its place."""
    for name in ("system", "instructions"):
        if whole.get(name):
            yield {"role": "system", "content": whole[name]}, name, location.child(name)
    for name in _find_lists(whole):
        for i, message in enumerate(parse_list_field(whole, name, location)):
            yield message, f"{name}[{i}]", location.child(name).child(i)


FORMAT = Format(
    name="messages",
    title="turns or messages of OpenAI, Anthropic, Gemini or LangChain",
    detect=detect_messages,
    read=read_messages,
    is_strict=True,
    rank=9,
)
