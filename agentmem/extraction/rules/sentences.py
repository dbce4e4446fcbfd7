"""The sentences of a turn, up to where it begins to quote, to make up, or to hand over material to work on."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_TURN_CHARS = 20_000
"""Characters of a turn that are read; what follows is not."""

_SENTENCE_END = re.compile(r"[.!?\u2026]+[\"\u201d')\]]*(?=\s|$)|\n+|[\u2600-\u27bf\U0001f300-\U0001faff]+")
_ABBREVIATION = re.compile(r"(?:^|\s)(?:mr|mrs|ms|dr|st|vs|prof|e\.g|i\.e|[A-Z])$", re.IGNORECASE)

# What follows such words in a turn is made up, somebody else's, or material to work on.
_FICTION_OR_MATERIAL = re.compile(
    r"\b(?:imagine|pretend|suppose|supposing|role-?play\w*|let'?s say|hypothetical\w*|what if|once upon a time|"
    r"(?:in|from) (?:my|a|the) (?:dream|novel|story|game)\b,?\s+I|"
    r"(?:write|draft|compose|translate|proofread|rewrite|paraphrase|summari[sz]e|correct|fix|edit|say|"
    r"repeat)\b[^.!?]{0,80}:|"
    r"(?:lyrics?|poem|quote|character|example|essay|email|letter)\b[^.!?]{0,40}:)|```|^[ \t]*>",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A stretch `text[start:end]` of a turn, without the white space around it."""

    text: str
    start: int
    is_question: bool


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of the first 20,000 characters; [] for white space alone."""
    text, start = text[:MAX_TURN_CHARS], 0
    found: list[tuple[int, int, bool]] = []
    for end in _SENTENCE_END.finditer(text):
        if end[0] == "." and _ABBREVIATION.search(text[max(0, end.start() - 6) : end.start()]):
            continue
        found.append((start, end.end(), "?" in end[0]))
        start = end.end()
    found.append((start, len(text), False))
    out = []
    for begin, stop, question in found:
        stretch = text[begin:stop]
        if stretch.strip():
            lead = len(stretch) - len(stretch.lstrip())
            out.append(Sentence(stretch.strip(), begin + lead, question))
    return out


def drop_quoted_material(text: str) -> str:
    """The text up to where it begins to quote, to make up or to hand over material; all of it where it does not."""
    text = text[:MAX_TURN_CHARS]
    found = _FICTION_OR_MATERIAL.search(text)
    if found is None:
        return text
    before = [end.end() for end in _SENTENCE_END.finditer(text, 0, found.start())]
    return text[: before[-1]] if before else ""
