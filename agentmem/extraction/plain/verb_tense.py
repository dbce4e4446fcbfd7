"""Whether the verb around a date tells of the past or of what is to come, in five languages."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from agentmem.extraction.plain.language import LANGUAGES, read_language

Direction = Literal["past", "future", ""]

_CLAUSE_END = re.compile(r"[,;:.!?](?!\d)|\b(?:and|but|because|und|aber|pero|mais|mas)\b")


def find_language(plain: str) -> str:
    """Which of five languages most small words of a text are of; English for none."""
    counts = {name: len(_compile(name, "small").findall(plain)) for name in LANGUAGES}
    return max(counts, key=counts.__getitem__)


def find_direction(plain: str, at: int) -> Direction:
    """Whether the verb of the clause around a place tells of the past or of what is to come; "" for neither."""
    ends = [0, *(found.start() for found in _CLAUSE_END.finditer(plain)), len(plain)]
    start = max(end for end in ends if end <= at)
    clause = plain[start : min((end for end in ends if end > at), default=len(plain))]
    language = find_language(plain)
    is_led = not plain[start:at].strip(" ,;:.!?")  # "In May, I moved": the verb stands in another clause
    for text in (clause, plain) if is_led else (clause,):
        if _compile(language, "future").search(text):
            return "future"
        if _compile(language, "past").search(text):
            return "past"
    return ""


@cache
def _compile(language: str, name: str) -> re.Pattern[str]:
    """The small words of a language, or its verbs of the past or of what is to come."""
    row = read_language(language)["tense"][name]
    return re.compile(rf"(?<![\w])(?:{row})(?!\w)" if name == "small" else row)
