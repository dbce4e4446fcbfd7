"""What recall knows about a text besides its words: how long it is, whether it asks, whether it speaks of time."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from agentmem.text.passages import Passage, passages, trailing_blocks
from agentmem.text.words import terms

_QUESTION = re.compile(r"[?\u061f](?=\s|\Z)|\uff1f")
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_TIME_WORD = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|since|recently|lately|weeks?|weekends?|months?|years?|decades?"
    r"|morning|afternoon|evening|night|\w+day|\d{4}"
    r"|january|february|march|april|may|june|july|august|september|october|november|december)\b"
)  # of folded text: ignoring case takes five times as long


@dataclass(frozen=True, slots=True)
class Features:
    """Features of one text.

    `words`: words between white space, trailing bracketed blocks included (the 90-word rule for neighbours adds these).
    `length`: index terms (the length in BM25). `asks`: the last sentence is a question; `any_ask`: some sentence is.
    `when`: it holds a word of time. The last three leave trailing bracketed blocks out.
    """

    words: int
    length: int
    asks: bool
    any_ask: bool
    when: bool


def features(text: str) -> Features:
    """Return the features of `text`; all zero and false when it is empty."""
    return read_words(text)[0]


def analyse(text: str) -> tuple[Features, dict[str, int], list[Passage]]:
    """Return the features, the counts of index terms and the passages of `text`."""
    return *read_words(text), passages(text)


def read_words(text: str) -> tuple[Features, dict[str, int]]:
    """Return the features and the counts of index terms of `text`."""
    found = terms(text)
    blocks = trailing_blocks(text)
    body = text[: blocks[0][0]] if blocks else text
    read = Features(
        words=len(text.split()),
        length=len(found),
        asks=body.rstrip().endswith(_QUESTION_MARKS),
        any_ask=_QUESTION.search(body) is not None,
        when=_TIME_WORD.search(body.casefold()) is not None,
    )
    return read, dict(Counter(found))
