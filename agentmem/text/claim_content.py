"""What two claims share: `normalize_content` is equal where they say the same, `find_contrasts` where they may.

Only spelling, punctuation and `a` for `the` count as harmless. Articles of other languages stay: they mark case, gender
or person ("in die Stadt" is not "in der Stadt"); so do endings, and small words are content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise

from agentmem.beliefs.values import CONTRAST_WORDS, has_digit
from agentmem.text.normalization import comparable_names, normalize_claim, rewrite_numbers
from agentmem.text.temporal import MONTH_NUMBERS

_REWRITES = tuple(
    (re.compile(pattern), said)
    for pattern, said in (
        (r"\b(?:can't|cannot)\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"\bshan't\b", "shall not"),
        (r"n't\b", " not"),
        (r"'ll\b", " will"),
        (r"'ve\b", " have"),
        (r"'re\b", " are"),
        (r"\bi'm\b", "i am"),
        (r"\ba few\b", "several"),  # unlike "few"
        (r"\b(?:a|an|the)\b(?!')", "the"),  # in its place, so that nothing is lost where "a" is not an article
        (r"(?<=[^\W\d])[-\u2010-\u2014](?=[^\W\d])|\s[-\u2010-\u2014]+\s", " "),
    )
)
_OPENING, _CLOSING = "'\"([{«»“„‚¿¡", ".,;:!?…'\")]}«»”“"
_DENYING_PREFIX = re.compile(r"(?:un|dis|mis|non|anti|im)\w{3,}")
_WORD = re.compile(r"[^\W\d_]+")
_FIGURE_SIGNS = frozenset("$€£¥%°<>=+#")
_PAST_ENDING = re.compile(
    r"\w{2,}(?:ed|(?:[b-df-hj-np-tv-z]|e)te(?:n|st|t)?|ai[st]|aient|é|ée|és|ées|ó|aron|ieron|aban?|ían?|ou|[aei]ram|avam?)"
)
_FUTURE_ENDING = re.compile(r"\w+[aeid]r(?:a|á|ás|án|é|ão|ei|ai|ons|ont|ez|emos)")


def normalize_content(claim: str) -> str:
    """A claim as it is compared: one form for case, punctuation, spaces, contractions, numbers and a, an, the."""
    text = normalize_claim(claim)
    for pattern, said in _REWRITES:
        text = pattern.sub(said, text)
    return " ".join(word.lstrip(_OPENING).rstrip(_CLOSING) or word for word in rewrite_numbers(text).split())


def find_contrasts(claim: str) -> Hashable:
    """What alike claims differ in where they contradict each other: words of direction, polarity, tense, modality,
    number and person, figures, and names in their order.
    """
    content = normalize_content(claim)
    pairs = pairwise((*content.split(), ""))  # a figure and its unit
    figures = tuple(pair for pair in pairs if has_digit(pair[0]) or _FIGURE_SIGNS & set(pair[0]))
    marks = sorted(mark for word in _WORD.findall(content) for mark in _find_marks(word))
    return tuple(marks), figures, tuple(comparable_names(claim))


@lru_cache(maxsize=1)
def _marks_by_word() -> dict[str, str]:
    """The mark of each word that makes a contrast: one for all negations and one for all pasts, else the word."""
    classes = json.loads(files("agentmem.text").joinpath("contrasts.json").read_text(encoding="utf-8"))
    marks = {word: word for word in (*CONTRAST_WORDS, *MONTH_NUMBERS)}
    for name, languages in classes.items():
        words = " ".join(languages.values()).split()
        marks |= {word: f"<{name}>" if name in ("negation", "past") else word for word in words}
    return marks


def _find_marks(word: str) -> Iterator[str]:
    marks = _marks_by_word()
    forms = {word, *(form for ending in ("s", "es", "d", "ed", "ing") if len(form := word.removesuffix(ending)) > 2)}
    yield from {marks[form] for form in forms if form in marks}
    if _DENYING_PREFIX.fullmatch(word):
        yield word
    if _PAST_ENDING.fullmatch(word):
        yield "<past>"
    if _FUTURE_ENDING.fullmatch(word):
        yield "<future>"
