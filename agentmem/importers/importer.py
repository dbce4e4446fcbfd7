"""Conversations of other programs and exports: read from files, looked through first, stored in batches.

Formats: `jsonl` (one turn a line), `messages` (OpenAI- or Anthropic-style lists, whole or one a line) and `locomo`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NoReturn, cast, get_args

from agentmem.core.clock import derive_id, to_utc
from agentmem.core.plain_values import describe_value
from agentmem.errors import ConfigError, InvalidRecord
from agentmem.importers.fields import (
    SourceLocation,
    TurnInput,
    parse_datetime,
    parse_identifier,
    parse_mapping,
    parse_metadata,
    parse_nonempty_text,
    read_role,
)
from agentmem.importers.formats.locomo import is_locomo, parse_dialogues
from agentmem.importers.formats.messages import is_message, parse_conversation, parse_message

if TYPE_CHECKING:
    from agentmem.core.telemetry import ProgressCallback
    from agentmem.facade.async_memory import AsyncAgentMemory


FormatName = Literal["jsonl", "messages", "locomo"]
ErrorHandler = Callable[[InvalidRecord], None]

MAX_LINE_BYTES = 32 << 20  # of a line, or a document of several: parsing takes three times as much memory

_TURN_FIELDS = ("role", "content", "turn_id", "speaker", "timestamp", "conversation_id", "metadata")
# A conversation without an id is named by its first turns, so that a file that grew keeps its name.
_OPENING_TURNS = 4
_BLANK_BYTES = b"\xef\xbb\xbf \t\r\n"

BATCH_SIZE = 500
EXPORT_FORMAT = "agentmem-export"
SkipCallback = Callable[[Exception], None]


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
    for name in source:
        if name not in _TURN_FIELDS:
            raise location.build_error(
                name, f"is not a field of a turn ({', '.join(_TURN_FIELDS)}); put it into metadata"
            )
    turn = TurnInput(
        role=read_role(source.get("role"), "role", location),
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
        turn["metadata"] = parse_metadata(source["metadata"], location)
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
        said = [
            (t["role"], t.get("speaker", ""), str(to_utc(t["timestamp"])) if "timestamp" in t else "", t["content"])
            for t in head
        ]
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
    for number, line in enumerate(_read_lines(file, filename), start=1):
        if not line.strip(_BLANK_BYTES):
            continue
        if not begun and _is_unfinished(line):
            rest = file.read(MAX_LINE_BYTES + 1 - len(line))
            if len(line) + len(rest) > MAX_LINE_BYTES:
                raise SourceLocation(filename).build_error(
                    "document", f"{_state_limit()}; put one conversation on a line"
                )
            yield b"\n" * (number - 1) + line + rest, SourceLocation(filename)
            return
        begun = True
        yield line, SourceLocation(filename, number)


def _read_lines(file: BinaryIO, filename: str) -> Iterator[bytes]:
    """The lines of a file with their ends. Raises InvalidRecord for one that is too long, before it is read whole."""
    number = 1
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise SourceLocation(filename, number).build_error("line", _state_limit())
        yield line
        number += 1


def _state_limit() -> str:
    return f"must have at most {MAX_LINE_BYTES:,} bytes"


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


@dataclass
class ImportReport:
    """What came of an import: turns read and those that were new, changes of exports, what was left out, seconds."""

    files: int = 0
    turns: int = 0
    new_turns: int = 0
    exports: int = 0
    changes: int = 0
    new_changes: int = 0
    skipped: int = 0
    seconds: float = 0.0


@contextmanager
def open_input_files(paths: Sequence[str]) -> Iterator[list[Path]]:
    """The paths as files that can be read twice; standard input (`-`) and pipes are copied into a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="agentmem-") as folder:
        out = []
        for number, path in enumerate(paths):
            if path != "-" and Path(path).is_file():
                out.append(Path(path))
                continue
            out.append(Path(folder) / f"{number}-{'stdin' if path == '-' else Path(path).name}")
            with out[-1].open("wb") as copy:
                if path == "-":
                    shutil.copyfileobj(sys.stdin.buffer, copy)
                else:
                    with open(path, "rb") as pipe:
                        shutil.copyfileobj(pipe, copy)
        yield out


def is_export(path: Path) -> bool:
    """Whether the first line of a file says that it is an export."""
    with path.open("rb") as file:
        line = file.readline(100_000)
    try:
        first: Any = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and first.get("format") == EXPORT_FORMAT


@dataclass
class Importer:
    """One import. With `on_skip`, what is wrong is handed to it and left out; without, it stops the import."""

    format: str | None = None
    conversation: str | None = None
    on_skip: SkipCallback | None = None
    report: ImportReport = field(default_factory=ImportReport)

    async def import_files(
        self, memory: AsyncAgentMemory, paths: Iterable[Path], progress: ProgressCallback
    ) -> ImportReport:
        """Store all files in their order, and wait until what they hold can be found.

        Raises InvalidRecord naming file, line and field before anything of any file is stored.
        """
        from agentmem.core.clock import Stopwatch

        watch = Stopwatch(memory.engine.clock)
        counted = [(path, await asyncio.to_thread(self._count_turns, path)) for path in paths]
        for path, count in counted:
            if count is None:
                await self._import_export(memory, path, progress)
            else:
                await self.import_turns(memory, self._read_turns(path), count, progress)
            self.report.files += 1
        await memory.flush()
        self.report.seconds = watch.milliseconds() / 1000
        return self.report

    def _count_turns(self, path: Path) -> int | None:
        """How many turns a file holds, all of them looked through; None for an export, whose import does so itself."""
        return None if is_export(path) else sum(1 for _ in self._read_turns(path, quiet=True))

    def _read_turns(self, path: Path, *, quiet: bool = False) -> Iterator[TurnInput]:
        """The turns of a file, marked so that what is taken from them is trusted a little less than what is said."""
        from agentmem.memory.episodic import IMPORTED_MARK

        on_error = None if self.on_skip is None else self._ignore_error if quiet else self._skip_or_raise
        for turn in load_turns(path, format=cast("FormatName | None", self.format), on_error=on_error):
            if self.conversation is not None:
                turn["conversation_id"] = self.conversation
            turn["metadata"] = {IMPORTED_MARK: True, **turn.get("metadata", {})}
            yield turn

    def _ignore_error(self, error: InvalidRecord) -> None:
        """The second reading tells it."""

    def _skip_or_raise(self, error: Exception) -> None:
        if self.on_skip is None:
            raise error
        self.report.skipped += 1
        self.on_skip(error)

    async def import_turns(
        self, memory: AsyncAgentMemory, turns: Iterable[TurnInput], count: int, progress: ProgressCallback
    ) -> None:
        """Store turns in batches of 500."""
        before, done = await _count_turns(memory), 0
        source = iter(turns)
        progress("storing", 0, count)
        while batch := await asyncio.to_thread(lambda: list(islice(source, BATCH_SIZE))):
            await self._store_batch(memory, batch)
            done += len(batch)
            progress("storing", done, count)
        self.report.turns += done
        self.report.new_turns += await _count_turns(memory) - before

    async def _store_batch(self, memory: AsyncAgentMemory, batch: Sequence[TurnInput]) -> None:
        from agentmem.errors import Conflict, InvalidRecord

        try:
            await memory.store_turns(batch)
        except (Conflict, InvalidRecord):
            if self.on_skip is None:
                raise
            for turn in batch:  # find the ones that are to blame
                try:
                    await memory.store_turns([turn])
                except (Conflict, InvalidRecord) as error:
                    self._skip_or_raise(error)

    async def _import_export(self, memory: AsyncAgentMemory, path: Path, progress: ProgressCallback) -> None:
        from agentmem.admin.export_import import import_user
        from agentmem.errors import InvalidRecord

        with path.open("rb") as file:
            lines = (line.decode() for line in _read_lines(file, path.name))
            try:
                moved = await import_user(memory.engine, memory.scope, lines, progress)
            except UnicodeDecodeError as error:
                raise InvalidRecord(f"{path.name}: must be UTF-8, {error.reason}", field="line") from error
        self.report.exports += 1
        self.report.new_changes += moved.changes
        self.report.changes += moved.changes + moved.repeated


async def _count_turns(memory: AsyncAgentMemory) -> int:
    from agentmem.stores.values import Where

    return await memory.engine.log.count(memory.scope, Where(kinds=("Turn",)))
