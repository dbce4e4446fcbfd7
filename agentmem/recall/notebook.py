"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MAX_CELL_CHARS = 2000


def render_html(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; stored text stands in it as text, whatever it holds."""
    lines = [f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>"]
    lines += [f"<tr>{''.join(map(_render_cell, row))}</tr>" for row in rows]
    return f"<table>{''.join(lines)}</table>"


def _render_cell(value: object) -> str:
    text = str(value)
    cut = text if len(text) <= MAX_CELL_CHARS else f"{text[: MAX_CELL_CHARS - 1]}…"
    return f'<td style="text-align:left;white-space:pre-wrap">{escape(cut)}</td>'
