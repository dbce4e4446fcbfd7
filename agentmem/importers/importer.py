"""Files of other programs and exports: looked through first, then stored in batches.

`importers/formats` holds what can be read, a module a format.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from agentmem.core.clock import Stopwatch, derive_id
from agentmem.core.input_fields import TurnInput
from agentmem.core.record import Record
from agentmem.errors import Conflict, InvalidRecord
from agentmem.importers.format import Format, build_unknown_error, detect_format, get_format
from agentmem.importers.items import ImportedEntity, ImportedFact, ImportedRelation, ImportItem, ImportReport, Omission
from agentmem.importers.knowledge import ImportTarget, KnowledgeWriter
from agentmem.importers.source import ErrorHandler, SourceFile, list_source_files
from agentmem.importers.titles import add_missing_titles
from agentmem.memory.episodic import IMPORTED_MARK, OnError

if TYPE_CHECKING:
    from agentmem.core.telemetry import ProgressCallback

BATCH_SIZE = 500
PROGRESS_STEP = 1000  # items looked through between two reports of progress
EXPORT_FORMAT = "agentmem-export"
SkipCallback = Callable[[Exception], None]


def load_turns(
    path: str | os.PathLike[str], *, format: str | None = None, on_error: ErrorHandler | None = None
) -> Iterator[TurnInput]:
    """Yield the turns of a file, in its order; nothing for an empty file. Lines are read one by one, never all at once.

    `format` is detected when it is not given. A `turn_id` or `conversation_id` that is missing is derived from the
    conversation, the position in it and the content, so that a file read twice, also from another folder, gives the
    same ids.

    What is wrong raises InvalidRecord with file, line and field; with `on_error` it is handed over instead, and
    reading goes on with the next line or message. Raises ConfigError when the file cannot be read.
    """
    chosen = None if format is None else get_format(format)
    return _load_turns(Path(path), chosen, on_error or raise_error)


def _load_turns(path: Path, chosen: Format | None, on_error: ErrorHandler) -> Iterator[TurnInput]:
    try:
        for source in list_source_files(path):
            found = _read_items(source, chosen or detect_format(source), on_error)
            yield from (item for item in found if isinstance(item, dict))
    except InvalidRecord as error:  # what is wrong with a file as a whole
        on_error(error)


def raise_error(error: InvalidRecord) -> NoReturn:
    """Stop at the first mistake."""
    raise error


def _read_items(source: SourceFile, chosen: Format | None, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """What a file holds, each turn with a conversation and an id that a second reading gives again."""
    if chosen is None:
        if source.head.strip():
            on_error(build_unknown_error(source))
        return
    positions: Counter[str] = Counter()
    for item in chosen.read(source, on_error):
        if isinstance(item, dict):
            conversation = item.setdefault("conversation_id", derive_id("conversation", chosen.name, source.name))
            position = positions[conversation]
            positions[conversation] += 1
            item.setdefault("turn_id", derive_id("turn", conversation, str(position), item["role"], item["content"]))
        yield item


@contextmanager
def open_input_files(paths: Sequence[str]) -> Iterator[list[Path]]:
    """The paths as files that can be read twice; standard input (`-`) and pipes are copied into a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="agentmem-") as folder:
        out = []
        for number, path in enumerate(paths):
            if path != "-" and (Path(path).is_file() or Path(path).is_dir()):
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


def is_export(source: SourceFile) -> bool:
    """Whether the first line of a file says that it is an export."""
    with source.open_utf8() as file:
        line = file.readline(100_000)
    try:
        first: Any = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and first.get("format") == EXPORT_FORMAT


@dataclass(frozen=True)
class _Reviewed:
    """A file that was looked through: how many items of it come in. Its format is None for an export."""

    source: SourceFile
    format: Format | None
    count: int


@dataclass
class Importer:
    """One import. `on_error` says whether a mistake stops it (`raise`) or is left out (`skip`).

    Without it, files stop it that are written for it, and those of other programs do not. `on_skip` is told of each.
    `conversation` is where all turns go, `owner` whose of the memories of several users in a file come in.
    """

    format: str | None = None
    conversation: str | None = None
    on_error: OnError | None = None
    owner: str | None = None
    dry_run: bool = False
    on_skip: SkipCallback | None = None
    report: ImportReport = field(default_factory=ImportReport)

    async def import_files(
        self, memory: ImportTarget, paths: Sequence[Path], progress: ProgressCallback
    ) -> ImportReport:
        """Store all files in their order, and wait until their content can be found.

        A folder or an archive means its files of a known format. Raises InvalidRecord naming file, line and field
        before anything of any file is stored.
        """
        watch = Stopwatch(memory.engine.clock)
        day_first, reviewed = memory.engine.settings.day_first, list[_Reviewed]()
        for path in paths:
            reviewed += await asyncio.to_thread(self._review, path, progress, day_first)
        self.report.dry_run = self.dry_run
        self.report.files = len(reviewed)
        if not self.dry_run:
            for each in reviewed:
                if each.format is None:
                    await self._import_export(memory, each.source, progress)
                else:
                    await self._import_items(memory, each, progress)
            await memory.flush()
        self.report.seconds = watch.milliseconds() / 1000
        return self.report

    # -- looking through

    def _review(self, path: Path, progress: ProgressCallback, day_first: bool | None) -> list[_Reviewed]:
        sources = [replace(each, day_first=day_first) for each in list_source_files(path)]
        found = list[_Reviewed]()
        for source in sources:
            if is_export(source):
                found.append(_Reviewed(source, None, 0))
                self.report.exports += 1
                continue
            chosen = get_format(self.format) if self.format is not None else detect_format(source)
            if chosen is None:
                if source.head.strip() and len(sources) == 1 and not path.is_dir():
                    self._handle_error(build_unknown_error(source), is_strict=True)
                elif source.head.strip():
                    self.report.count_omission("file of no known format")
                continue
            self.report.formats[chosen.name] = self.report.formats.get(chosen.name, 0) + 1
            found.append(_Reviewed(source, chosen, self._count_items(source, chosen, progress)))
        return found

    def _count_items(self, source: SourceFile, chosen: Format, progress: ProgressCallback) -> int:
        """How many items come in; the report tells how many of each kind, and what is left out."""
        conversations, owners, done = set[int](), Counter[str](), 0
        report = self.report
        for done, item in enumerate(self._read_items(source, chosen, quiet=False), start=1):
            if done % PROGRESS_STEP == 0:
                progress(f"reading {source.name}", done, done)
            owners[_get_owner(item)] += 1
            report.replaced += _get_text(item).count("\ufffd")
            if isinstance(item, dict):
                report.turns += 1
                conversations.add(hash(item["conversation_id"]))
            elif isinstance(item, ImportedFact):
                report.facts += 1
            elif isinstance(item, ImportedEntity):
                report.entities += 1
            else:
                report.relations += 1
        report.conversations += len(conversations)
        self._check_owners(source, owners)
        return done

    def _check_owners(self, source: SourceFile, owners: Counter[str]) -> None:
        """Raise InvalidRecord for a file with the memories of several users: they never come in as those of one."""
        named = [name for name, _ in owners.most_common() if name]
        if len(named) > 1:
            shown = ", ".join(named[:5]) + (", …" if len(named) > 5 else "")
            raise InvalidRecord(
                f"{source.name}: owner: holds memories of {len(named)} users ({shown}); import them one by one, each "
                f"for its own user: --owner {named[0]}",
                field="owner",
            )

    def _read_items(self, source: SourceFile, chosen: Format, *, quiet: bool) -> Iterator[ImportItem]:
        """The items of a file that come in, turns marked so that what is taken from them is trusted a little less."""

        def on_error(error: InvalidRecord) -> None:
            if not quiet:  # the first reading sets it
                self._handle_error(error, is_strict=chosen.is_strict)

        for item in _read_items(source, chosen, on_error):
            if isinstance(item, Omission):
                if not quiet:
                    self.report.count_omission(item.reason)
                continue
            if self.owner is not None and _get_owner(item) not in ("", self.owner):
                continue
            if isinstance(item, dict):
                if self.conversation is not None:
                    item["conversation_id"] = self.conversation
                    item.pop("conversation_title", None)  # of one of several that come together
                item["metadata"] = {IMPORTED_MARK: True, **item.get("metadata", {})}
            yield item

    def _stops(self, *, is_strict: bool) -> bool:
        return self.on_error == "raise" or (self.on_error is None and is_strict)

    def _handle_error(self, error: Exception, *, is_strict: bool) -> None:
        if self._stops(is_strict=is_strict):
            raise error
        self.report.skipped += 1
        self.report.count_omission(_strip_place(str(error)))
        if self.on_skip is not None:
            self.on_skip(error)

    # -- storing

    async def _import_items(self, memory: ImportTarget, file: _Reviewed, progress: ProgressCallback) -> None:
        assert file.format is not None
        items, done, stage = self._read_items(file.source, file.format, quiet=True), 0, f"storing {file.source.name}"
        turns_before, facts_before = await _count(memory, "Turn"), await _count(memory, "Fact")
        writer, head = KnowledgeWriter(memory), (await memory.engine.log.head(memory.scope)).seq
        progress(stage, 0, file.count)
        while batch := await asyncio.to_thread(lambda: list(islice(items, BATCH_SIZE))):
            turns = [item for item in batch if isinstance(item, dict)]
            stored: list[Record] = await self._store_turns(memory, turns, file.format.is_strict) if turns else []
            stored += await add_missing_titles(memory, turns, stored, head)
            for item in batch:
                if isinstance(item, ImportedFact | ImportedEntity | ImportedRelation):
                    stored += await self._store_knowledge(writer, item, file.format.is_strict)
            new = dict.fromkeys(each.operation_id for each in stored if each.seq > head and each.operation_id)
            self.report.operation_ids += [each for each in new if each not in self.report.operation_ids]
            done += len(batch)
            progress(stage, done, file.count)
        self.report.new_turns += await _count(memory, "Turn") - turns_before
        self.report.new_facts += await _count(memory, "Fact") - facts_before

    async def _store_turns(self, memory: ImportTarget, batch: Sequence[TurnInput], is_strict: bool) -> list[Record]:
        given = [{name: value for name, value in turn.items() if name != "owner"} for turn in batch]
        stored: list[Record] = []
        try:
            stored += await memory.store_turns(given)
        except (Conflict, InvalidRecord):
            if self._stops(is_strict=is_strict):
                raise
            for turn in given:  # find the ones that are to blame
                try:
                    stored += await memory.store_turns([turn])
                except (Conflict, InvalidRecord) as error:
                    self._handle_error(error, is_strict=is_strict)
        return stored

    async def _store_knowledge(
        self, writer: KnowledgeWriter, item: ImportedFact | ImportedEntity | ImportedRelation, is_strict: bool
    ) -> list[Record]:
        try:
            fact = await writer.store(item)
        except (Conflict, InvalidRecord) as error:
            self._handle_error(error, is_strict=is_strict)
            return []
        return [] if fact is None else [fact]

    async def _import_export(self, memory: ImportTarget, source: SourceFile, progress: ProgressCallback) -> None:
        from agentmem.admin.export_import import import_user

        lines = (f"{line}\n" for line, _ in source.read_text_lines())
        moved = await import_user(memory.engine, memory.scope, lines, progress)
        self.report.new_changes += moved.changes
        self.report.changes += moved.changes + moved.repeated


def _get_owner(item: ImportItem) -> str:
    return item.get("owner", "") if isinstance(item, dict) else getattr(item, "owner", "")


def _get_text(item: ImportItem) -> str:
    return item["content"] if isinstance(item, dict) else getattr(item, "claim", getattr(item, "description", ""))


def _strip_place(message: str) -> str:
    """What is wrong, without where and without the value, so that mistakes of one kind are counted together."""
    return message.rpartition(": ")[2].partition(", got")[0].partition(", not")[0][:80]


async def _count(memory: ImportTarget, kind: str) -> int:
    from agentmem.stores.values import Where

    return await memory.engine.log.count(memory.scope, Where(kinds=(kind,)))
