"""Passages: the stretches of a text that get a vector of their own, the whole and its sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

MAX_SENTENCES = 64
"""Sentences of one text at most; what follows them is part of the last."""

MAX_SENTENCE_CHARS = 1000
"""Characters after which a sentence is cut at a clause or a word."""

MAX_TRAILING_BLOCKS = 8
"""Maximum number of bracketed blocks at the end of a text that are not part of it."""

# Latin, Arabic, Urdu and Hindi marks end a sentence before white space; Chinese and Japanese ones end it anywhere, and
# the closing quotes and brackets behind them still belong to it.
_SENTENCE_END = re.compile(
    r"[.!?\u061f\u06d4\u0964](\s+)|"
    r"[\u3002\uff01\uff1f\uff61][\u3002\uff01\uff1f\uff61\u300d\u300f\uff09\u3011\u300b\u201d\u2019]*(\s*)"
)
_CUT_BOUNDARIES = (
    re.compile(r"\n"),
    re.compile(r"[;:,\u060c\u061b](?=\s)|[\u3001\uff0c\uff1b\uff1a]"),
    re.compile(r"\s"),
)
_OPERATORS = frozenset("=([{,:+-*/<>&|")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch `text[start:end]` of a record's text, offsets in characters.

    `granularity` is "whole" (part 0, the text as it is) or "sentence" (parts 1, 2, … in the order of the text).
    """

    granularity: str
    part: int
    start: int
    end: int
    text: str


def chunk_text(text: str, *, include_sentences: bool = True) -> list[Chunk]:
    """Return the whole and, where there are at least two, the sentences of `text`; empty when it has only white space.

    A text without sentence passages is one sentence: its one vector serves both grains. Sentences end at . ! ? before
    white space; line breaks alone end none. A bracketed block at the end (` [shares a photo of a dog]`) is a sentence.
    Without `include_sentences` the whole alone.
    """
    if not text.strip():
        return []
    whole = Chunk("whole", 0, 0, len(text), text)
    spans = _split_sentences(text) if include_sentences else []
    if len(spans) < 2:
        return [whole]
    return [whole, *(Chunk("sentence", n, a, b, text[a:b]) for n, (a, b) in enumerate(spans, 1))]


def _split_sentences(text: str) -> list[tuple[int, int]]:
    blocks = find_trailing_blocks(text)
    body = (0, blocks[0][0] if blocks else len(text))
    sentences = chain(_split_at_sentence_ends(text, *body), blocks)
    spans = [span for start, end in sentences for span in _split_long_span(text, start, end)]
    if len(spans) > MAX_SENTENCES:
        spans[MAX_SENTENCES - 1 :] = [(spans[MAX_SENTENCES - 1][0], spans[-1][1])]
    return spans


def find_trailing_blocks(text: str) -> list[tuple[int, int]]:
    """Return the spans of the bracketed blocks that end `text`, in order; empty when it ends otherwise.

    A block starts with `[` and a letter or digit, after a space that follows no operator (`x = [a]` is code).
    """
    blocks: list[tuple[int, int]] = []
    end = _trim_end(text, len(text))
    while len(blocks) < MAX_TRAILING_BLOCKS and end and text[end - 1] == "]":
        start = _find_opening_bracket(text, end)
        before = _trim_end(text, start)
        if start < 0 or not text[start + 1].isalnum() or (before and text[start - 1] != " "):
            break
        if text[before - 1 : before] in _OPERATORS:
            break
        blocks.insert(0, (start, end))
        end = before
    return blocks


def _find_opening_bracket(text: str, end: int) -> int:
    """Where the bracket that closes just before `end` was opened; -1 when it was not, within a sentence's length."""
    depth = 0
    for at in range(end - 1, max(-1, end - 1 - MAX_SENTENCE_CHARS), -1):
        depth += (text[at] == "]") - (text[at] == "[")
        if depth == 0:
            return at
    return -1


def _trim_end(text: str, end: int) -> int:
    return len(text[: max(end, 0)].rstrip())


def _split_at_sentence_ends(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for found in _SENTENCE_END.finditer(text, start, end):
        stop = found.start(found.lastindex or 0)
        yield from _trim_span(text, start, stop)
        start = found.end()
    yield from _trim_span(text, start, end)


def _trim_span(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The span without white space at its ends; nothing when nothing is left."""
    piece = text[start:end]
    if stripped := piece.strip():
        start += len(piece) - len(piece.lstrip())
        yield start, start + len(stripped)


def _split_long_span(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The span in pieces of at most LONGEST_SENTENCE characters, cut at a line, else a clause, else a word."""
    while end - start > MAX_SENTENCE_CHARS:
        stop = _find_cut_point(text, start, start + MAX_SENTENCE_CHARS)
        yield from _trim_span(text, start, stop)
        start = stop
    yield from _trim_span(text, start, end)


def _find_cut_point(text: str, start: int, end: int) -> int:
    """The last boundary in the second half of the window, best kind first; the end of the window when there is none."""
    middle = (start + end) // 2
    for kind in _CUT_BOUNDARIES:
        if found := [match.end() for match in kind.finditer(text, middle, end)]:
            return found[-1]
    return end
