"""Fragments: sentences that leave out their subject or verb ("allergic to nuts", "got a van") with both put back."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import replace
from functools import cache
from importlib.resources import files

from agentmem.extraction.frames.frame_set import load_frames
from agentmem.extraction.frames.plain_text import PlainSentence


@cache
def _load_fragments() -> tuple[re.Pattern[str], re.Pattern[str], tuple[tuple[str, re.Pattern[str]], ...]]:
    """What "'s" is a verb before, the words before a fragment, and what is missing where a fragment begins so."""
    data = json.loads(files(__package__).joinpath("fragments.json").read_text(encoding="utf-8"))
    values = load_frames("english").values
    spelled = (
        (words, pattern.replace("{job}", values["job"]).replace("{illness}", values["illness"]))
        for words, pattern in data["missing"]
    )
    missing = tuple((words, re.compile(pattern)) for words, pattern in spelled)
    return re.compile(data["is"]), re.compile(data["before"]), missing


def complete_fragment(sentence: PlainSentence, people: Collection[str]) -> PlainSentence:
    """The sentence with its subject and verb; as it is where nothing is missing.

    `people` are known names in small letters: "deans moved" is "dean is moved" where Dean is known.
    """
    is_verb, before, missing = _load_fragments()
    while found := is_verb.search(sentence.plain):
        sentence = _replace_text(sentence, found.start(), found.start() + 2, " is")
    bare = re.match(r"((?:our )?)([^\W\d_]+)s (?=(?:an?|now|not|moved|moving|got|gone|\d{1,2})\b)", sentence.plain)
    if bare and bare[2] in people:
        sentence = _replace_text(sentence, bare.end() - 2, bare.end() - 1, " is")
    lead = before.match(sentence.plain)
    start = lead.end() if lead else 0
    for words, pattern in missing:
        if pattern.match(sentence.plain, start):
            return _replace_text(sentence, start, start, words)
    return sentence


def _replace_text(sentence: PlainSentence, start: int, end: int, words: str) -> PlainSentence:
    """The plain form with other words; they stand where those before them stood in the turn."""
    at = sentence.offsets[start] if start < len(sentence.offsets) else sentence.offsets[-1]
    inserted = ((at[0], at[0]) if start == end else at,) * len(words)
    return replace(
        sentence,
        plain=sentence.plain[:start] + words + sentence.plain[end:],
        offsets=(*sentence.offsets[:start], *inserted, *sentence.offsets[end:]),
    )
