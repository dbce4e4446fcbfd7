"""Finds in a turn what recall had put there: nothing that the memory said itself is learned again."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SECTION_TITLES = (
    r"(?:How to answer|The user|People|Planned|Not known any more|Goals|Goals that ended|Going on|Known about this|"
    r"What has worked|What failed before|Outputs of tools|Said about this)"
)
_OLD_SECTION_TITLES = (  # before 0.3
    r"(?:About the user|What the user is up to|Standing instructions|Goals|Facts|People, places and things|"
    r"What has worked|Ways of doing|Outputs of tools)"
)
_LINE_PREFIX = r"[ \t>]*"
_MEMORY_START = re.compile(rf'{_LINE_PREFIX}<memory(?: as_of="[\d-]*")?>\s*')
_MEMORY_END = re.compile(rf"{_LINE_PREFIX}</memory>\s*")
_SECTION_HEADING = re.compile(rf"{_LINE_PREFIX}(?:## {_SECTION_TITLES}|# {_OLD_SECTION_TITLES})\s*")
_DAY = r"(?:\d{1,2} [A-Z][a-z]+ \d{1,4}|undated)"
_TURNS_HEADING = re.compile(
    rf"{_LINE_PREFIX}(?:\[{_DAY}(?:, conversation \S[^\]]*)?\]|# (?:{_DAY}, conversation \S.*|undated))\s*"
)
_SESSION_PAGE = re.compile(rf"{_LINE_PREFIX}# Agent (?i:short-term memory)(?: Context)?\s*")
_LIST_ITEM = re.compile(rf"{_LINE_PREFIX}- \S")
_TURN_LINE = re.compile(rf"{_LINE_PREFIX}(?:\d+ )?[^\s:][^:]{{0,199}}: \S")
_RECORD_LINE = re.compile(rf"{_LINE_PREFIX}- .*\[[0-9a-f]{{8}}\]\s*")
_UNKNOWN_SINCE = re.compile(rf"{_LINE_PREFIX}(?:- )?unknown since \d{{1,2}} [A-Z][a-z]+ \d{{1,4}}: \S")


def recalled_lines(text: str) -> list[tuple[int, int]]:
    """The spans of lines that recall made, in the order of `text`, each without its line break; empty for none.

    These are contexts between their markers, lines that end with a short id, a heading of ours and the lines under it
    that look like its items, and a page of working memory up to its end.
    """
    return list(_find_recalled_lines(text))


def _find_recalled_lines(text: str) -> Iterator[tuple[int, int]]:
    at, inside = 0, ""
    lines = text.split("\n")
    last_end = max((n for n, line in enumerate(lines) if _MEMORY_END.fullmatch(line)), default=-1)
    for number, line in enumerate(lines):
        if _SESSION_PAGE.fullmatch(line):
            yield at, len(text)
            return
        if inside == "ending":
            inside = ""
        if inside == "memory" and _MEMORY_END.fullmatch(line):
            inside = "ending"
        elif inside != "memory":
            inside = _enter_section(line, inside, may_open=number < last_end)
        if inside or _RECORD_LINE.fullmatch(line) or _UNKNOWN_SINCE.match(line):
            yield at, at + len(line)
        at += len(line) + 1


def _enter_section(line: str, inside: str, *, may_open: bool) -> str:
    """What a line stands in that is in no context between markers: turns, what is known, or nothing of ours."""
    if may_open and _MEMORY_START.fullmatch(line):
        return "memory"
    if _TURNS_HEADING.fullmatch(line):
        return "turns"
    if _SECTION_HEADING.fullmatch(line):
        return "known"
    return inside if inside and (_LIST_ITEM if inside == "known" else _TURN_LINE).match(line) else ""


def overlaps_any(span: tuple[int, int], spans: list[tuple[int, int]]) -> bool:
    """Whether a span shares a character with one of the others."""
    return any(start < span[1] and span[0] < end for start, end in spans)
