"""`python -m docs.examples.picture FILE`: what the demo prints, drawn as a terminal in SVG."""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path

from click.testing import CliRunner

from docs.examples.demo import command

CHAR_WIDTH, LINE_HEIGHT, MARGIN = 7.8, 18, 20
COLORS = {"1": 'font-weight="bold" fill="#f0f6fc"', "2": 'fill="#8b949e"', "32": 'fill="#7ee787"'}
"""Attributes for the codes that the demo's styles use."""
PLAIN = 'fill="#c9d1d9"'
STYLED = re.compile(r"\x1b\[(\d+)m(.*?)\x1b\[0m")


def write_picture() -> None:
    """Draw the demo into the file that is named."""
    Path(sys.argv[1]).write_text(draw(run_demo()), encoding="utf-8")


def run_demo() -> str:
    """What the demo prints on a terminal with colors; with the embedder that `agentmem-graph[local]` brings."""
    shown = CliRunner().invoke(command, ["--embedder", "local"], color=True, env={"NO_COLOR": None, "FORCE_COLOR": "1"})
    if shown.exit_code:
        raise SystemExit(shown.output)
    return shown.stdout


def draw(text: str) -> str:
    """Text with terminal styles as an SVG."""
    lines = ["\x1b[2m$\x1b[0m make demo", *text.splitlines()]
    width = max(len(STYLED.sub(r"\2", line)) for line in lines) * CHAR_WIDTH + 2 * MARGIN
    height = len(lines) * LINE_HEIGHT + 2 * MARGIN
    rows = "\n".join(
        f'<text x="{MARGIN}" y="{MARGIN + number * LINE_HEIGHT}">{_draw_line(line)}</text>'
        for number, line in enumerate(lines, start=1)
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">
<title>What make demo prints</title>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13" xml:space="preserve" {PLAIN}>
{rows}
</g>
</svg>
"""


def _draw_line(line: str) -> str:
    parts, end = [], 0
    for found in STYLED.finditer(line):
        parts.append(escape(line[end : found.start()]))
        parts.append(f"<tspan {COLORS[found[1]]}>{escape(found[2])}</tspan>")
        end = found.end()
    return "".join([*parts, escape(line[end:])])


if __name__ == "__main__":
    write_picture()
