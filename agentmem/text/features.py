"""What recall knows about a text besides its words: how long it is, whether it asks, whether it speaks of time."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from agentmem.text.passages import Chunk, chunk_text, find_trailing_blocks
from agentmem.text.words import tokenize

_QUESTION = re.compile(r"[?\u061f](?=\s|\Z)|\uff1f")
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_TIME_WORD = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|since|recently|lately|weeks?|weekends?|months?|years?|"
    r"decades?"
    r"|morning|afternoon|evening|night|\w+day|\d{4}"
    r"|january|february|march|april|may|june|july|august|september|october|november|december)\b"
)  # of folded text: ignoring case takes five times as long


@dataclass(frozen=True, slots=True)
class TextFeatures:
    """Features of one text.

    `word_count`: words between white space, trailing bracketed blocks included (the 90-word rule for neighbours adds
    these). `term_count`: index terms (the length in BM25). `ends_with_question`: the last sentence is a question;
    `contains_question`: some sentence is. `mentions_time`: it holds a word of time. The last three leave trailing
    bracketed blocks out.
    """

    word_count: int
    term_count: int
    ends_with_question: bool
    contains_question: bool
    mentions_time: bool


def extract_features(text: str) -> TextFeatures:
    """Return the features of `text`; all zero and false when it is empty."""
    return extract_features_and_terms(text)[0]


def analyze_text(text: str) -> tuple[TextFeatures, dict[str, int], list[Chunk]]:
    """Return the features, the counts of index terms and the passages of `text`."""
    return *extract_features_and_terms(text), chunk_text(text)


def extract_features_and_terms(text: str) -> tuple[TextFeatures, dict[str, int]]:
    """Return the features and the counts of index terms of `text`."""
    found = tokenize(text)
    blocks = find_trailing_blocks(text)
    body = text[: blocks[0][0]] if blocks else text
    read = TextFeatures(
        word_count=len(text.split()),
        term_count=len(found),
        ends_with_question=body.rstrip().endswith(_QUESTION_MARKS),
        contains_question=_QUESTION.search(body) is not None,
        mentions_time=_TIME_WORD.search(body.casefold()) is not None,
    )
    return read, dict(Counter(found))
