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
from agentmem.interchange.fields import Place, TurnInput, filled, mapping, moment, name, role, shown
from agentmem.interchange.locomo import dialogues, is_locomo
from agentmem.interchange.messages import conversation_turns, is_message, message_turn
from agentmem.model.clock import derived_id

Format = Literal["jsonl", "messages", "locomo"]
Report = Callable[[InvalidRecord], None]

_FIELDS = ("role", "content", "turn_id", "speaker", "timestamp", "conversation_id", "metadata")
# A conversation without an id is named by its first turns, so that a file that grew keeps its name.
_OPENING = 4
_BLANK = b"\xef\xbb\xbf \t\r\n"


def read_turns(
    path: str | os.PathLike[str], *, format: Format | None = None, on_error: Report | None = None
) -> Iterator[TurnInput]:
    """Yield the turns of a file, in its order; nothing for an empty file. Lines are read one by one, never all at once.

    `format` is detected for every line or document when it is not given. A `turn_id` or `conversation_id` that is
    missing is derived from the conversation, the position in it and the content, so that a file read twice, also from
    another folder, gives the same ids. A LoCoMo turn's id is `<dialogue>/<dia_id>`, unique over the whole file.

    What is wrong raises InvalidRecord with file, line and field; with `on_error` it is handed over instead, and
    reading goes on with the next line or message. Raises ConfigError when the file cannot be read.
    """
    if format is not None and format not in get_args(Format):
        raise ConfigError(f"format must be one of {', '.join(get_args(Format))}, got {shown(format)}")
    return _Reader(format, on_error or _raise).turns(Path(path))


def plain_turn(source: Mapping[str, Any], place: Place) -> TurnInput:
    """One turn from the fields that `store_turns` knows; another field is refused, so that no typing error passes."""
    for field in source:
        if field not in _FIELDS:
            raise place.error(field, f"is not a field of a turn ({', '.join(_FIELDS)}); put it into metadata")
    turn = TurnInput(
        role=role(source.get("role"), "role", place), content=filled(source.get("content"), "content", place)
    )
    if source.get("turn_id") is not None:
        turn["turn_id"] = name(source["turn_id"], "turn_id", place)
    if source.get("speaker") is not None:
        turn["speaker"] = name(source["speaker"], "speaker", place)
    if source.get("timestamp") is not None:
        turn["timestamp"] = moment(source["timestamp"], "timestamp", place)
    if source.get("conversation_id") is not None:
        turn["conversation_id"] = name(source["conversation_id"], "conversation_id", place)
    if source.get("metadata") is not None:
        turn["metadata"] = dict(mapping(source["metadata"], "metadata", place))
    return turn


def _raise(error: InvalidRecord) -> NoReturn:
    raise error


class _Reader:
    """One reading of one file. It remembers how many turns each conversation had so far, and nothing else."""

    def __init__(self, format: Format | None, report: Report) -> None:
        self._format = format
        self._report = report
        self._positions: Counter[str] = Counter()
        self._openings: Counter[str] = Counter()

    def turns(self, path: Path) -> Iterator[TurnInput]:
        found = chain.from_iterable(self._value_turns(value, place) for value, place in self._values(path))
        head = list(islice(found, _OPENING))
        unnamed = self._conversation_id(head)
        for turn in chain(head, found):
            conversation = turn.setdefault("conversation_id", unnamed)
            position = self._positions[conversation]
            self._positions[conversation] += 1
            turn.setdefault("turn_id", derived_id("turn", conversation, str(position), turn["role"], turn["content"]))
            yield turn

    def _values(self, path: Path) -> Iterator[tuple[Any, Place]]:
        """Every JSON value of the file that can be parsed, with its place."""
        try:
            with path.open("rb") as file:
                for written, place in _pieces(file, path.name):
                    try:
                        value = _parsed(written, place)
                    except InvalidRecord as error:
                        self._report(error)
                        continue
                    yield value, place
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error

    def _value_turns(self, value: object, place: Place) -> Iterator[TurnInput]:
        kind = self._format or _kind(value)
        try:
            if kind == "locomo":
                yield from _dialogue_turns(value, place)
            elif kind == "messages" and (isinstance(value, list) or (isinstance(value, dict) and "messages" in value)):
                yield from self._conversation(value, place)
            elif kind == "messages":
                turn = message_turn(mapping(value, "message", place), {}, place)
                yield from [] if turn is None else [turn]
            else:
                yield plain_turn(mapping(value, "turn", place), place)
        except InvalidRecord as error:
            self._report(error)
        except RecursionError:
            self._report(place.error("value", "is nested too deeply"))

    def _conversation(self, value: object, place: Place) -> Iterator[TurnInput]:
        turns = list(conversation_turns(value, place, self._report))
        unnamed = self._conversation_id(turns[:_OPENING])
        for turn in turns:
            turn.setdefault("conversation_id", unnamed)
            yield turn

    def _conversation_id(self, head: list[TurnInput]) -> str:
        """A name made from the first turns, and from how many conversations of this file began the same way."""
        said = [(t["role"], t.get("speaker", ""), str(t.get("timestamp", "")), t["content"]) for t in head]
        opening = derived_id("opening", *chain.from_iterable(said))
        self._openings[opening] += 1
        return derived_id("conversation", opening, str(self._openings[opening]))


def _kind(value: object) -> Format:
    if is_locomo(value):
        return "locomo"
    if isinstance(value, list) or is_message(value) or (isinstance(value, Mapping) and "messages" in value):
        return "messages"
    return "jsonl"


def _dialogue_turns(value: object, place: Place) -> Iterator[TurnInput]:
    for dialogue in dialogues(value, place):
        for turn in dialogue.turns:
            turn["turn_id"] = name(f"{dialogue.id}/{turn['turn_id']}", "dia_id", place)
            yield turn


def _pieces(file: BinaryIO, filename: str) -> Iterator[tuple[bytes, Place]]:
    """The lines that are not blank; or the whole file, when the first of them is only the beginning of a value."""
    begun = False
    for number, line in enumerate(file, start=1):
        if not line.strip(_BLANK):
            continue
        if not begun and _unfinished(line):
            yield b"\n" * (number - 1) + line + file.read(), Place(filename)
            return
        begun = True
        yield line, Place(filename, number)


def _unfinished(line: bytes) -> bool:
    """Whether a line is only the beginning of a JSON value: parsing fails at its very end."""
    written = line.decode("utf-8-sig", errors="replace").rstrip()
    try:
        json.loads(written)
    except json.JSONDecodeError as error:
        return error.pos >= len(written)
    except (ValueError, RecursionError):
        return False  # wrong in itself; reading it as a line gives the error with its number
    return False


def _parsed(written: bytes, place: Place) -> Any:
    field = "line" if place.line else "document"
    try:
        return json.loads(written.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise place.error(field, f"must be UTF-8, byte {error.start + 1} is not") from error
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if not place.line else ""
        raise place.error(field, f"is not valid JSON: {error.msg} ({line}column {error.colno})") from error
    except ValueError as error:
        raise place.error(field, f"is not valid JSON: {error}") from error
    except RecursionError as error:
        raise place.error(field, "is nested too deeply") from error


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")
