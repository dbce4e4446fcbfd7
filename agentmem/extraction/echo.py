"""Text that we put into a prompt, found again where somebody pasted it: it is no news and is not extracted again."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SECTION_TITLES = (
    r"(?:About the user|What the user is up to|Standing instructions|Goals|Facts|People, places and things|"
    r"What has worked|Ways of doing|Outputs of tools)"
)
_LINE_PREFIX = r"[ \t>]*"
_SECTION_HEADING = re.compile(rf"{_LINE_PREFIX}# {_SECTION_TITLES}\s*")
_TURNS_HEADING = re.compile(rf"{_LINE_PREFIX}# (?:\d{{1,2}} [A-Z][a-z]+ \d{{1,4}}, conversation \S.*|undated)\s*")
_SESSION_PAGE = re.compile(rf"{_LINE_PREFIX}# Agent (?i:short-term memory)(?: Context)?\s*")
_LIST_ITEM = re.compile(rf"{_LINE_PREFIX}- \S")
_TURN_LINE = re.compile(rf"{_LINE_PREFIX}(?:\d+ )?[^\s:][^:]{{0,199}}: \S")
_RECORD_LINE = re.compile(rf"{_LINE_PREFIX}- .*\[[0-9a-f]{{8}}\]\s*")
_UNKNOWN_SINCE = re.compile(rf"{_LINE_PREFIX}(?:- )?unknown since \d{{1,2}} [A-Z][a-z]+ \d{{1,4}}: \S")


def recalled_lines(text: str) -> list[tuple[int, int]]:
    """The spans of lines that recall made, in the order of `text`, each without its line break; empty for none.

    These are lines that end with a short id, a heading of ours and the lines under it that look like its items, and a
    page of working memory up to its end.
    """
    return list(_find_recalled_lines(text))


def _find_recalled_lines(text: str) -> Iterator[tuple[int, int]]:
    at, inside = 0, ""
    for line in text.split("\n"):
        if _SESSION_PAGE.fullmatch(line):
            yield at, len(text)
            return
        if _TURNS_HEADING.fullmatch(line):
            inside = "turns"
        elif _SECTION_HEADING.fullmatch(line):
            inside = "known"
        elif inside and not (_LIST_ITEM if inside == "known" else _TURN_LINE).match(line):
            inside = ""
        if inside or _RECORD_LINE.fullmatch(line) or _UNKNOWN_SINCE.match(line):
            yield at, at + len(line)
        at += len(line) + 1


def overlaps_any(span: tuple[int, int], spans: list[tuple[int, int]]) -> bool:
    """Whether a span shares a character with one of the others."""
    return any(start < span[1] and span[0] < end for start, end in spans)
