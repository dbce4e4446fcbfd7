"""Reads conversation turns from files of other programs, one at a time, ready for `store_turns`.

Formats: `jsonl` (one turn a line), `messages` (OpenAI- or Anthropic-style lists, whole or one a line) and `locomo`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, NoReturn, get_args

from agentmem.errors import ConfigError, InvalidRecord
from agentmem.interchange.fields import (
    SourceLocation,
    TurnInput,
    describe_value,
    parse_datetime,
    parse_identifier,
    parse_mapping,
    parse_nonempty_text,
    parse_role,
)
from agentmem.interchange.locomo import is_locomo, parse_dialogues
from agentmem.interchange.messages import is_message, parse_conversation, parse_message
from agentmem.model.clock import derive_id

FormatName = Literal["jsonl", "messages", "locomo"]
ErrorHandler = Callable[[InvalidRecord], None]

_TURN_FIELDS = ("role", "content", "turn_id", "speaker", "timestamp", "conversation_id", "metadata")
# A conversation without an id is named by its first turns, so that a file that grew keeps its name.
_OPENING_TURNS = 4
_BLANK_BYTES = b"\xef\xbb\xbf \t\r\n"


def load_turns(
    path: str | os.PathLike[str], *, format: FormatName | None = None, on_error: ErrorHandler | None = None
) -> Iterator[TurnInput]:
    """Yield the turns of a file, in its order; nothing for an empty file. Lines are read one by one, never all at once.

    `format` is detected for every line or document when it is not given. A `turn_id` or `conversation_id` that is
    missing is derived from the conversation, the position in it and the content, so that a file read twice, also from
    another folder, gives the same ids. A LoCoMo turn's id is `<dialogue>/<dia_id>`, unique over the whole file.

    What is wrong raises InvalidRecord with file, line and field; with `on_error` it is handed over instead, and
    reading goes on with the next line or message. Raises ConfigError when the file cannot be read.
    """
    if format is not None and format not in get_args(FormatName):
        raise ConfigError(f"format must be one of {', '.join(get_args(FormatName))}, got {describe_value(format)}")
    return _Reader(format, on_error or _raise).load(Path(path))


def parse_turn(source: Mapping[str, Any], location: SourceLocation) -> TurnInput:
    """One turn from the fields that `store_turns` knows; another field is refused, so that no typing error passes."""
    for field in source:
        if field not in _TURN_FIELDS:
            raise location.build_error(
                field, f"is not a field of a turn ({', '.join(_TURN_FIELDS)}); put it into metadata"
            )
    turn = TurnInput(
        role=parse_role(source.get("role"), "role", location),
        content=parse_nonempty_text(source.get("content"), "content", location),
    )
    if source.get("turn_id") is not None:
        turn["turn_id"] = parse_identifier(source["turn_id"], "turn_id", location)
    if source.get("speaker") is not None:
        turn["speaker"] = parse_identifier(source["speaker"], "speaker", location)
    if source.get("timestamp") is not None:
        turn["timestamp"] = parse_datetime(source["timestamp"], "timestamp", location)
    if source.get("conversation_id") is not None:
        turn["conversation_id"] = parse_identifier(source["conversation_id"], "conversation_id", location)
    if source.get("metadata") is not None:
        turn["metadata"] = dict(parse_mapping(source["metadata"], "metadata", location))
    return turn


def _raise(error: InvalidRecord) -> NoReturn:
    raise error


class _Reader:
    """One reading of one file. It remembers how many turns each conversation had so far, and nothing else."""

    def __init__(self, format: FormatName | None, on_error: ErrorHandler) -> None:
        self._format = format
        self._on_error = on_error
        self._positions: Counter[str] = Counter()
        self._openings: Counter[str] = Counter()

    def load(self, path: Path) -> Iterator[TurnInput]:
        found = chain.from_iterable(self._parse_value(value, place) for value, place in self._load_values(path))
        head = list(islice(found, _OPENING_TURNS))
        unnamed = self._derive_conversation_id(head)
        for turn in chain(head, found):
            conversation = turn.setdefault("conversation_id", unnamed)
            position = self._positions[conversation]
            self._positions[conversation] += 1
            turn.setdefault("turn_id", derive_id("turn", conversation, str(position), turn["role"], turn["content"]))
            yield turn

    def _load_values(self, path: Path) -> Iterator[tuple[Any, SourceLocation]]:
        """Every JSON value of the file that can be parsed, with its place."""
        try:
            with path.open("rb") as file:
                for written, place in _split_values(file, path.name):
                    try:
                        value = _parse_json(written, place)
                    except InvalidRecord as error:
                        self._on_error(error)
                        continue
                    yield value, place
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error

    def _parse_value(self, value: object, location: SourceLocation) -> Iterator[TurnInput]:
        kind = self._format or _detect_format(value)
        try:
            if kind == "locomo":
                yield from _parse_dialogue_turns(value, location)
            elif kind == "messages" and (isinstance(value, list) or (isinstance(value, dict) and "messages" in value)):
                yield from self._parse_conversation(value, location)
            elif kind == "messages":
                turn = parse_message(parse_mapping(value, "message", location), {}, location)
                yield from [] if turn is None else [turn]
            else:
                yield parse_turn(parse_mapping(value, "turn", location), location)
        except InvalidRecord as error:
            self._on_error(error)
        except RecursionError:
            self._on_error(location.build_error("value", "is nested too deeply"))

    def _parse_conversation(self, value: object, location: SourceLocation) -> Iterator[TurnInput]:
        turns = list(parse_conversation(value, location, self._on_error))
        unnamed = self._derive_conversation_id(turns[:_OPENING_TURNS])
        for turn in turns:
            turn.setdefault("conversation_id", unnamed)
            yield turn

    def _derive_conversation_id(self, head: list[TurnInput]) -> str:
        """A name made from the first turns, and from how many conversations of this file began the same way."""
        said = [(t["role"], t.get("speaker", ""), str(t.get("timestamp", "")), t["content"]) for t in head]
        opening = derive_id("opening", *chain.from_iterable(said))
        self._openings[opening] += 1
        return derive_id("conversation", opening, str(self._openings[opening]))


def _detect_format(value: object) -> FormatName:
    if is_locomo(value):
        return "locomo"
    if isinstance(value, list) or is_message(value) or (isinstance(value, Mapping) and "messages" in value):
        return "messages"
    return "jsonl"


def _parse_dialogue_turns(value: object, location: SourceLocation) -> Iterator[TurnInput]:
    for dialogue in parse_dialogues(value, location):
        for turn in dialogue.turns:
            turn["turn_id"] = parse_identifier(f"{dialogue.id}/{turn['turn_id']}", "dia_id", location)
            yield turn


def _split_values(file: BinaryIO, filename: str) -> Iterator[tuple[bytes, SourceLocation]]:
    """The lines that are not blank; or the whole file, when the first of them is only the beginning of a value."""
    begun = False
    for number, line in enumerate(file, start=1):
        if not line.strip(_BLANK_BYTES):
            continue
        if not begun and _is_unfinished(line):
            yield b"\n" * (number - 1) + line + file.read(), SourceLocation(filename)
            return
        begun = True
        yield line, SourceLocation(filename, number)


def _is_unfinished(line: bytes) -> bool:
    """Whether a line is only the beginning of a JSON value: parsing fails at its very end."""
    written = line.decode("utf-8-sig", errors="replace").rstrip()
    try:
        json.loads(written)
    except json.JSONDecodeError as error:
        return error.pos >= len(written)
    except (ValueError, RecursionError):
        return False  # wrong in itself; reading it as a line gives the error with its number
    return False


def _parse_json(raw: bytes, location: SourceLocation) -> Any:
    field = "line" if location.line else "document"
    try:
        return json.loads(raw.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise location.build_error(field, f"must be UTF-8, byte {error.start + 1} is not") from error
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if not location.line else ""
        raise location.build_error(field, f"is not valid JSON: {error.msg} ({line}column {error.colno})") from error
    except ValueError as error:
        raise location.build_error(field, f"is not valid JSON: {error}") from error
    except RecursionError as error:
        raise location.build_error(field, "is nested too deeply") from error


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")
