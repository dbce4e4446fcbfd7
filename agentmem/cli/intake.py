"""Reading files into a memory: looked through first, stored in batches, and told what became of them."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentmem.cli.render import pluralize

if TYPE_CHECKING:
    from agentmem.agent_memory import AsyncAgentMemory
    from agentmem.cli.progress import Progress
    from agentmem.errors import InvalidRecord
    from agentmem.interchange.fields import TurnInput
    from agentmem.interchange.turns import FormatName

BATCH_SIZE = 500
EXPORT_FORMAT = "agentmem-export"
SkipCallback = Callable[[Exception], None]


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

    def render(self) -> str:
        """The same in a sentence."""
        parts = []
        if self.turns or not self.exports:
            parts.append(f"{pluralize(self.new_turns, 'turn')} stored" + _render_existing(self.turns - self.new_turns))
        if self.exports:
            known = _render_existing(self.changes - self.new_changes)
            parts.append(f"{pluralize(self.new_changes, 'change')} of an export stored{known}")
        if self.skipped:
            parts.append(f"{self.skipped:,} skipped")
        return f"{', '.join(parts)}; {pluralize(self.files, 'file')}, {self.seconds:.1f} s"


def _render_existing(count: int) -> str:
    return f" ({count:,} were there)" if count else ""


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
    except ValueError:
        return False
    return isinstance(first, dict) and first.get("format") == EXPORT_FORMAT


@dataclass
class Importer:
    """One import. With `on_skip`, what is wrong is handed to it and left out; without, it stops the import."""

    format: str | None = None
    conversation: str | None = None
    on_skip: SkipCallback | None = None
    report: ImportReport = field(default_factory=ImportReport)

    async def import_files(self, memory: AsyncAgentMemory, paths: Iterable[Path], progress: Progress) -> ImportReport:
        """Store all files in their order, and wait until what they hold can be found.

        Raises InvalidRecord naming file, line and field before anything of any file is stored.
        """
        from agentmem.model.clock import Stopwatch

        watch = Stopwatch(memory.engine.clock)
        counted = [
            (path, None if is_export(path) else sum(1 for _ in self._read_turns(path, quiet=True))) for path in paths
        ]
        for path, count in counted:
            if count is None:
                await self._import_export(memory, path, progress)
            else:
                await self.import_turns(memory, self._read_turns(path), count, progress)
            self.report.files += 1
        await memory.flush()
        self.report.seconds = watch.milliseconds() / 1000
        return self.report

    def _read_turns(self, path: Path, *, quiet: bool = False) -> Iterator[TurnInput]:
        """The turns of a file, marked so that what is taken from them is trusted a little less than what is said."""
        from agentmem.interchange.turns import load_turns
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
        self, memory: AsyncAgentMemory, turns: Iterable[TurnInput], count: int, progress: Progress
    ) -> None:
        """Store turns in batches of 500."""
        before, done = await _count_turns(memory), 0
        source = iter(turns)
        progress("storing", 0, count)
        while batch := list(islice(source, BATCH_SIZE)):
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

    async def _import_export(self, memory: AsyncAgentMemory, path: Path, progress: Progress) -> None:
        from agentmem.errors import InvalidRecord
        from agentmem.upkeep.portable import import_user

        with path.open(encoding="utf-8", newline="\n") as lines:
            try:
                moved = await import_user(memory.engine, memory.scope, lines, progress)
            except UnicodeDecodeError as error:
                raise InvalidRecord(f"{path.name}: must be UTF-8, {error.reason}", field="line") from error
        self.report.exports += 1
        self.report.new_changes += moved.changes
        self.report.changes += moved.changes + moved.repeated


async def _count_turns(memory: AsyncAgentMemory) -> int:
    from agentmem.stores import Where

    return await memory.engine.log.count(memory.scope, Where(kinds=("Turn",)))
