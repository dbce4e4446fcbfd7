"""Fragments: sentences that leave out their subject or verb ("allergic to nuts", "got a van") with both put back."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from agentmem.extraction.frames.frame_set import load_frames, load_markers
from agentmem.extraction.frames.plain_text import PlainSentence

_THIRD_PERSON = (
    ("i am ", "is "),
    ("i have ", "has "),
    ("i was ", "was "),
    ("i take ", "takes "),
    ("i drive ", "drives "),
    ("i ", ""),
)
# "deans moved": a name or a word for somebody with the verb's bare s.
_BARE_VERB = re.compile(
    r"((?:our )?)([^\W\d_]+)s "
    r"(?=(?:an?|now|not|moved|moving|got|gone|joined|started|starting|left|back|off|\d{1,2})\b)"
)


@dataclass(frozen=True, slots=True)
class _Fragments:
    """What "'s" is a verb before, what stands `before` a fragment, what is `missing` where one begins so, `dialect`."""

    is_verb: re.Pattern[str]
    before: re.Pattern[str]
    missing: tuple[tuple[str, re.Pattern[str]], ...]
    dialect: tuple[tuple[re.Pattern[str], str], ...]


@cache
def _load_fragments() -> _Fragments:
    data = json.loads(files(__package__).joinpath("fragments.json").read_text(encoding="utf-8"))
    values = load_frames("english").values
    spelled = (
        (words, re.sub(r"\{(job|illness|car)\}", lambda found: values[found[1]], pattern))
        for words, pattern in data["missing"]
    )
    return _Fragments(
        re.compile(data["is"]),
        re.compile(data["before"]),
        tuple((words, re.compile(pattern)) for words, pattern in spelled),
        tuple((re.compile(pattern), words) for pattern, words in data["dialect"]),
    )


def complete_fragment(sentence: PlainSentence, people: Collection[str], topic: str = "") -> PlainSentence:
    """The sentence with its subject and verb, and words of dialect in their common form.

    `people` are known names in small letters: "deans moved" is "dean is moved" where Dean is known.
    `topic` is whom the question before was about, if not the user: what is missing is about them then.
    """
    known = _load_fragments()
    is_english = not any(words.search(sentence.plain) for words in load_markers().values())
    for pattern, words in known.dialect if is_english else ():
        while found := pattern.search(sentence.plain):
            sentence = sentence.with_words(*found.span(), found.expand(words))
    while found := known.is_verb.search(sentence.plain):
        sentence = sentence.with_words(found.start(), found.start() + 2, " is")
    bare = _BARE_VERB.match(sentence.plain)
    if bare and (bare[2] in people or bare[2] in load_frames("english").nouns):
        sentence = sentence.with_words(bare.end() - 2, bare.end() - 1, " is")
    lead = known.before.match(sentence.plain)
    start = lead.end() if lead else 0
    for words, pattern in known.missing:
        if pattern.match(sentence.plain, start):
            return sentence.with_words(start, start, _turn_to(topic, words) if topic else words)
    return sentence


def _turn_to(topic: str, words: str) -> str:
    """The missing words in the third person; none of "my"."""
    for first, third in _THIRD_PERSON:
        if words.startswith(first):
            return f"{topic.lower()} {third}{words.removeprefix(first)}"
    return ""
