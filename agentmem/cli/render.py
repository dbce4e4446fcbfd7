"""How things look: one line per record, JSON with ordered keys, progress, text that is safe on a terminal."""

from __future__ import annotations

import codecs
import io
import json
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import click

from agentmem.core.jsonable import to_jsonable
from agentmem.text.terminal_text import escape_json, neutralize, neutralize_styled

MAX_LINE_CHARS = 240  # characters of a record in a list; --json has all of it


def to_one_line(text: str, max_chars: int = MAX_LINE_CHARS) -> str:
    """The text on one line, cut with an ellipsis."""
    line = neutralize(" ".join(text.split()))
    return line if len(line) <= max_chars else line[: max_chars - 1].rstrip() + "…"


def escape_unencodable() -> None:
    """Let standard output and standard error write what their encoding lacks as an escape, such as \\u2192."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def echo(text: str = "") -> None:
    """Print text for people, with nothing in it that a terminal would obey but our own styles, where it has any."""
    click.echo(neutralize_styled(text))


def echo_stderr(message: str) -> None:
    """Print a line about the run itself on standard error."""
    click.echo(neutralize(f"agentmem: {message}"), err=True)


def bold(text: str) -> str:
    """Emphasis on a terminal."""
    return click.style(_to_part_of_line(text), bold=True)


def dim(text: str) -> str:
    """What may be read over, on a terminal."""
    return click.style(_to_part_of_line(text), dim=True)


def render_operation(operation_id: str) -> str:
    """The line that names an operation, for `agentmem undo`."""
    return dim(f"    operation {operation_id}")


def colorize(text: str, color: str) -> str:
    """A color on a terminal."""
    return click.style(_to_part_of_line(text), fg=color)


def _to_part_of_line(text: str) -> str:
    """The text without line ends, its blanks kept."""
    return neutralize(text).replace("\n", " ")


def pluralize(number: int, noun: str) -> str:
    """A number with its noun, such as `1 turn` or `2,000 turns`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_time(moment: datetime | None) -> str:
    """A moment to the minute, with its offset where it is not in UTC; a dash for none."""
    return "-" if moment is None else moment.isoformat(" ", "minutes").removesuffix("+00:00")


def render_record(record: Any, max_chars: int = MAX_LINE_CHARS) -> str:
    """A record of any kind in one line: what it says, and when or how sure."""
    if record.kind == "Turn":
        return to_one_line(
            f"{format_time(record.timestamp)} {record.speaker or record.role}: {record.content}", max_chars
        )
    if record.kind == "Fact":
        return to_one_line(f"{record.claim} ({_render_fact_notes(record)})", max_chars)
    if record.kind == "Entity":
        return to_one_line(f"{record.name} ({record.type}) {record.description}", max_chars)
    if record.kind == "User":
        return "the user"
    return to_one_line(record.search_text() or record.id, max_chars)


def _render_fact_notes(fact: Any) -> str:
    notes = [f"confidence {fact.confidence:.2f}"]
    if fact.valid_from is not None:
        notes.append(f"from {format_time(fact.valid_from)}")
    if fact.valid_to is not None:
        notes.append(f"until {format_time(fact.valid_to)}")
    if fact.superseded_at is not None:
        notes.append(f"withdrawn {format_time(fact.superseded_at)}")
    return ", ".join([*notes, *([] if fact.status == "active" else [str(fact.status)])])


def show_json(value: Any) -> None:
    """Print one JSON document, indented, its keys in order."""
    click.echo(_dump_json(value, indent=2))


def show_json_lines(values: Iterable[Any]) -> None:
    """Print one JSON document per line; nothing for none."""
    for value in values:
        click.echo(_dump_json(value, indent=None))


def _dump_json(value: Any, indent: int | None) -> str:
    is_utf8 = codecs.lookup(getattr(sys.stdout, "encoding", None) or "ascii").name == "utf-8"
    return escape_json(
        json.dumps(to_jsonable(value), ensure_ascii=not is_utf8, indent=indent, sort_keys=True, allow_nan=False)
    )


def render_mapping(values: Mapping[str, Any], indent: int = 0) -> str:
    """A mapping as lines `name  value`, nested ones indented under their name, columns aligned."""
    width = max((len(str(name)) for name in values), default=0)
    lines = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines += [" " * indent + neutralize(str(name)), *([render_mapping(value, indent + 2)] if value else [])]
        else:
            shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else _render_value(value)
            lines.append(f"{' ' * indent}{neutralize(str(name)):<{width}}  {shown}")
    return "\n".join(lines)


def _render_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, (list, tuple)):
        return ", ".join(to_one_line(str(item)) for item in value) or "-"
    return "-" if value is None else to_one_line(str(value))


class Progress:
    """Call it with what is being done, how much is done, and how much there is; one bar for each thing in turn."""

    def __init__(self) -> None:
        self._enabled = sys.stderr.isatty()
        self._stage = ""
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_bar()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show the progress; does nothing without a terminal."""
        if not self._enabled:
            return
        if stage != self._stage:
            self._close_bar()
            self._stage = stage
            self._bar = click.progressbar(length=max(total, 1), label=stage, show_pos=True, file=sys.stderr)
            self._bar.__enter__()
        self._bar.length = max(total, 1)
        self._bar.update(done - self._bar.pos)

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None
