"""Anthropic's memory tool (`memory_20250818`): the tree of files below `/memories`, kept as documents.

There are no files on a disk, and so no links and no way out of the tree. A directory is there while a file is in it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaCacheControlEphemeralParam,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from agentmem.adapters.bridge import MemoryBridge
from agentmem.core.documents import MAX_NAME_CHARS, Document
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.facade.memory import AgentMemory
from agentmem.memory.documents import DocumentDraft

ROOT = "/memories"
FILES = ("anthropic_memory_tool",)  # the namespace of the tree
MAX_LINES = 999_999  # of a file that is viewed
NUMBER_WIDTH = len(str(MAX_LINES))
VIEW_DEPTH = 2  # levels of directories in a listing
SNIPPET_LINES = 2  # before and after a change
SIZES = ("B", "K", "M", "G")
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+")
_HEADING = re.compile(r"^\s*(?:#|```|---|===)")

Files = Mapping[str, str]  # texts by path below the root


class MemoryFiles:
    """The commands of the tool as coroutines. Each is one step: two agents who edit one file lose no change.

    `remember` finds what is written. With `learn`, each line that is written is learned as a fact, too, as `learn_fact`
    reads it, and forgotten when it leaves its file.
    """

    def __init__(self, memory: AsyncAgentMemory, *, learn: bool = False) -> None:
        self._memory, self._learn = memory, learn

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """The numbered lines of a file, or what is in a directory, two levels deep."""
        name, files = parse_path(command.path), await self._read()
        if name in files:
            return _show_file(command.path, files[name], command.view_range)
        if name and not _is_directory(name, files):
            raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
        listing = "\n".join(f"{size}\t{path}" for size, path in _list_directory(command.path.rstrip("/"), name, files))
        return (
            f"Here're the files and directories up to {VIEW_DEPTH} levels deep in {command.path}, "
            f"excluding hidden items:\n{listing}"
        )

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Write a new file."""
        name = parse_path(command.path)

        def plan(files: Files) -> dict[str, str]:
            if not name or name in files or _is_directory(name, files):
                raise ToolError(f"File {command.path} already exists")
            _check_parents(name, files, command.path)
            return {**files, name: command.file_text}

        await self._edit(plan)
        return f"File created successfully at: {command.path}"

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that a file holds once; shows the lines around the change."""
        name, old, shown = parse_path(command.path), command.old_str, list[str]()

        def plan(files: Files) -> dict[str, str]:
            text = _require_file(name, files, command.path)
            _check_once(text, old, command.path)
            changed = text.replace(old, command.new_str or "")
            first = text[: text.index(old)].count("\n")
            shown[:] = _number_lines(changed.split("\n"), max(0, first - SNIPPET_LINES), first + SNIPPET_LINES + 1)
            return {**files, name: changed}

        await self._edit(plan)
        heading = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return "\n".join([heading, *shown])

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines behind a line; 0 is the beginning."""
        name, place = parse_path(command.path), command.insert_line

        def plan(files: Files) -> dict[str, str]:
            lines = _require_file(name, files, command.path).split("\n")
            if lines[-1] == "":
                lines.pop()
            if not 0 <= place <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {place}. It should be within the range [0, {len(lines)}]."
                )
            lines.insert(place, command.insert_text.rstrip("\n"))
            return {**files, name: "\n".join(lines).removesuffix("\n") + "\n"}

        await self._edit(plan)
        return f"The file {command.path} has been edited."

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a directory with all that is in it."""
        name = parse_path(command.path)
        if not name:
            raise ToolError(f"Cannot delete the {ROOT} directory itself")

        def plan(files: Files) -> dict[str, str]:
            left = {path: text for path, text in files.items() if not _is_below(path, name)}
            if len(left) == len(files):
                raise ToolError(f"The path {command.path} does not exist")
            return left

        await self._edit(plan)
        return f"Successfully deleted {command.path}"

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or a directory to a path that is free."""
        old, new = parse_path(command.old_path), parse_path(command.new_path)
        if not old:
            raise ToolError(f"Cannot rename the {ROOT} directory itself")

        def plan(files: Files) -> dict[str, str]:
            if not any(_is_below(path, old) for path in files):
                raise ToolError(f"The path {command.old_path} does not exist")
            if not new or new in files or _is_directory(new, files):
                raise ToolError(f"The destination {command.new_path} already exists")
            if _is_below(new, old):
                raise ToolError(f"Cannot move {command.old_path} into itself")
            _check_parents(new, files, command.new_path)
            return {new + path[len(old) :] if _is_below(path, old) else path: text for path, text in files.items()}

        await self._edit(plan)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    async def clear(self) -> str:
        """Delete every file."""
        await self._edit(lambda files: {})
        return "All memory cleared"

    async def _read(self) -> dict[str, str]:
        found = await self._memory.documents.find(FILES, limit=None)
        return {each.name: each.load()["text"] for each in found}

    async def _edit(self, plan: Callable[[Files], dict[str, str]]) -> None:
        """Change the files as `plan` does, in one transaction; then learn and forget the lines that changed."""
        before, after = dict[str, Document](), dict[str, str]()

        def decide(documents: Mapping[str, Document]) -> tuple[list[DocumentDraft], list[str]]:
            before.clear()
            after.clear()
            before.update(documents)
            texts = {name: each.load()["text"] for name, each in documents.items()}
            after.update(plan(texts))
            changed = [_draft(name, text) for name, text in after.items() if texts.get(name) != text]
            return changed, [name for name in texts if name not in after]

        await self._memory.documents.edit(FILES, decide)
        if self._learn:
            await self._learn_lines({name: each.load()["text"] for name, each in before.items()}, after)

    async def _learn_lines(self, before: Files, after: Files) -> None:
        old, new = ({line for text in files.values() for line in _read_lines(text)} for files in (before, after))
        for line in sorted(new - old):
            await self._memory.learn_fact(line, source=FILES[0], tags=[FILES[0]])
        if gone := old - new:
            for fact in await self._memory.semantic.facts({"tags": FILES[0]}):
                if fact.claim in gone:
                    await self._memory.forget(fact.id, reason="its line was removed")


class AgentMemMemoryTool(BetaAbstractMemoryTool):
    """The tool for `client.beta.messages.tool_runner(tools=[AgentMemMemoryTool(memory)], …)`; see `MemoryFiles`."""

    def __init__(
        self,
        memory: AgentMemory,
        *,
        learn: bool = False,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._bridge = MemoryBridge(memory)
        self._files = MemoryFiles(self._bridge.memory, learn=learn)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """See `MemoryFiles.view`, as for each command."""
        return self._bridge.run(self._files.view(command))

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Write a new file."""
        return self._bridge.run(self._files.create(command))

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text."""
        return self._bridge.run(self._files.str_replace(command))

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines."""
        return self._bridge.run(self._files.insert(command))

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file or a directory."""
        return self._bridge.run(self._files.delete(command))

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or a directory."""
        return self._bridge.run(self._files.rename(command))

    def clear_all_memory(self) -> str:
        """Delete every file."""
        return self._bridge.run(self._files.clear())


class AgentMemAsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for `AsyncAnthropic`."""

    def __init__(
        self,
        memory: AgentMemory | AsyncAgentMemory,
        *,
        learn: bool = False,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._bridge = MemoryBridge(memory)
        self._files = MemoryFiles(self._bridge.memory, learn=learn)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """See `MemoryFiles.view`, as for each command."""
        return await self._bridge.run_async(self._files.view(command))

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Write a new file."""
        return await self._bridge.finish(self._files.create(command))

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text."""
        return await self._bridge.finish(self._files.str_replace(command))

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines."""
        return await self._bridge.finish(self._files.insert(command))

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file or a directory."""
        return await self._bridge.finish(self._files.delete(command))

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or a directory."""
        return await self._bridge.finish(self._files.rename(command))

    async def clear_all_memory(self) -> str:
        """Delete every file."""
        return await self._bridge.finish(self._files.clear())


def parse_path(path: str) -> str:
    """The path below the root, "" for the root itself. Raises ToolError for one that is not below it."""
    if path != ROOT and not path.startswith(ROOT + "/"):
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    parts = path.split("/")
    if ".." in parts and not f"{posixpath.normpath(path)}/".startswith(ROOT + "/"):
        raise ToolError(f"Path {path} would escape {ROOT} directory")
    name = posixpath.normpath(path)[len(ROOT) + 1 :]
    if "\x00" in name or len(name) > MAX_NAME_CHARS:
        raise ToolError(f"A path must have at most {MAX_NAME_CHARS:,} characters, and none of them NUL")
    return name


def _draft(name: str, text: str) -> DocumentDraft:
    return DocumentDraft(FILES, name, {"text": text}, [f"{ROOT}/{name}\n{text}"])


def _is_below(path: str, name: str) -> bool:
    """Whether a path is a file or directory of this name, or in it."""
    return path == name or path.startswith(f"{name}/")


def _is_directory(name: str, files: Files) -> bool:
    return any(path.startswith(f"{name}/") for path in files)


def _check_parents(name: str, files: Files, path: str) -> None:
    parts = name.split("/")
    for depth in range(1, len(parts)):
        if (parent := "/".join(parts[:depth])) in files:
            raise ToolError(f"Cannot write {path}: {ROOT}/{parent} is a file")


def _require_file(name: str, files: Files, path: str) -> str:
    if name in files:
        return files[name]
    if not name or _is_directory(name, files):
        raise ToolError(f"The path {path} is not a file.")
    raise ToolError(f"The path {path} does not exist. Please provide a valid path.")


def _check_once(text: str, old: str, path: str) -> None:
    """Raise ToolError unless the file holds the text once."""
    places = [found.start() for found in re.finditer(f"(?={re.escape(old)})", text)] if old else []
    if not places:
        raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    if len(places) > 1:
        lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in places)
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
            "Please ensure it is unique"
        )


def _show_file(path: str, text: str, view_range: Sequence[int] | None) -> str:
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of {MAX_LINES:,} lines.")
    first, last = (view_range[0], view_range[1]) if view_range and len(view_range) == 2 else (1, -1)
    shown = _number_lines(lines, max(1, first) - 1, len(lines) if last == -1 else last)
    return "\n".join([f"Here's the content of {path} with line numbers:", *shown])


def _number_lines(lines: Sequence[str], begin: int, end: int) -> list[str]:
    return [f"{number:>{NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines[begin:end], begin + 1)]


def _list_directory(path: str, name: str, files: Files) -> Iterator[tuple[str, str]]:
    """The size and the path of a directory and of what is in it, two levels deep; hidden names are left out."""
    inside = {file[len(name) + 1 if name else 0 :]: text for file, text in files.items() if _is_in(file, name)}
    sizes: dict[str, int] = {}
    for file, text in inside.items():
        parts = file.split("/")
        for depth in range(1, min(len(parts), VIEW_DEPTH) + 1):
            shown = "/".join(parts[:depth]) + ("/" if depth < len(parts) else "")
            if not any(part.startswith(".") for part in parts[:depth]):
                sizes[shown] = sizes.get(shown, 0) + len(text.encode("utf-8", "surrogatepass"))
    yield _format_size(sum(len(text.encode("utf-8", "surrogatepass")) for text in inside.values())), path
    for shown in sorted(sizes):
        yield _format_size(sizes[shown]), f"{path}/{shown}"


def _is_in(file: str, directory: str) -> bool:
    return not directory or file.startswith(f"{directory}/")


def _format_size(size: int) -> str:
    """A size as `0B`, `12B`, `1.5K`."""
    unit = min((size.bit_length() - 1) // 10, len(SIZES) - 1) if size else 0
    scaled = size / 1024**unit
    return f"{scaled:.0f}{SIZES[unit]}" if scaled == int(scaled) else f"{scaled:.1f}{SIZES[unit]}"


def _read_lines(text: str) -> Iterator[str]:
    """The lines that state something: without headings, without the marks of lists, of two words at least."""
    for line in text.splitlines():
        stated = _BULLET.sub("", line).strip()
        if not _HEADING.match(line) and len(stated.split()) > 1:
            yield stated
