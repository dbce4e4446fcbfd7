"""Names of people, places and organisations in a text, by their capitals and by lists of names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from importlib import resources

from agentmem.extraction.plain.turn_text import TurnSentence
from agentmem.text.normalization import slugify

NAME_PATTERN = r"\b[A-Z]\w{1,40}(?:[ '\u2019-][A-Z]\w{1,40}){0,3}"
_NAME_WORD = r"(?:[A-Z][a-z\u00c0-\u024f]{1,40}(?:['\u2019][A-Z][a-z]{1,40})?(?:[A-Z][a-z]{1,40})?|Mc[A-Z][a-z]{1,40})"
_NAME_RUN = re.compile(
    rf"(?<![\w'\u2019@#/.-]){_NAME_WORD}(?:(?: of the | of | and the |-| )"
    rf"{_NAME_WORD}){{0,4}}(?![\w@/-])(?!['\u2019]s [A-Z])"
)
_ALIAS = re.compile(
    rf"(?P<name>{NAME_PATTERN})(?:, or|,? aka|,? also known as|,? also called|,? everyone calls (?:him|her|them)) "
    rf"(?P<alias>{NAME_PATTERN})(?=[\s,.!;]|$)"
)
_PLACE_BEFORE = re.compile(
    r"\b(?:liv(?:e|es|ed|ing) in|mov(?:e|ed|ing) (?:to|from)|(?:trip|travell?(?:ed|ing)?|flew|flight|drove|went|going"
    r"|been|visit|returned|born|grew up|based|stayed|city|town|back) (?:back )?(?:to|in|around|of|from)"
    r"|visit(?:ed|ing)?|explor(?:ed|ing)) (?:the )?$"
)
_ORG_BEFORE = re.compile(
    r"\b(?:work(?:s|ed|ing)? (?:at|for)|job (?:at|with)|(?:deal|contract|internship|interview|offer) (?:at|with|from)"
    r"|hired by|stud(?:y|ied|ying) at|graduated from|volunteer(?:s|ed|ing)? (?:at|for)|joined|member of) (?:the )?$"
)
_ORG_WORD = re.compile(
    r"\b(?:University|College|School|Academy|Institute|Hospital|Inc|Corp|Ltd|LLC|Bank|Club|Association|Foundation"
    r"|Society|Church)\b"
)
_PLACE_WORD = re.compile(
    r"\b(?:Park|Lake|Mountains?|Canyon|Beach|River|Islands?|County|Street|Avenue|Valley|Falls|Bay|Coast|Bridge|Square"
    r"|Castle|Forest|Desert)\b"
)
_SENTENCE_START = re.compile(r"(?:^|[.!?:;*\"\u201c(\u2026\u2013\u2014-])\s*$")


def _load_lists() -> dict[str, frozenset[str]]:
    text = resources.files(__package__).joinpath("names.txt").read_text(encoding="utf-8")
    sections = (section.partition("]") for section in text.split("\n[")[1:])
    return {
        title: frozenset(filter(None, map(str.strip, words.replace("\n", " ").split(","))))
        for title, _, words in sections
    }


_LISTS = _load_lists()
GIVEN_NAMES, PLACES = _LISTS["given names"], _LISTS["places"]
NON_NAMES = _LISTS["no names"]
"""As slugs: months, days, languages, interjections and the ordinary words that begin sentences."""


@dataclass(frozen=True, slots=True)
class NameMention:
    """A name, and what has it: a person, a pet, a place, an organisation or a thing."""

    name: str
    type: str


def find_names(sentences: Iterable[TurnSentence], skip: Collection[str]) -> Iterator[NameMention]:
    """The names of sentences in order, without those that begin a slug in `skip`."""
    for sentence in sentences:
        for found in _NAME_RUN.finditer(sentence.text):
            name, start = _strip_ordinary_words(found[0], found.start(), sentence.text)
            if name and not any(whole.startswith(slugify(name)) for whole in skip):
                kind = classify_name(name, sentence.text[max(0, start - 60) : start])
                if kind:
                    yield NameMention(name, kind)


def classify_name(name: str, preceding_text: str) -> str:
    """The type of a name by itself and what stands before it; "" when it is better left out."""
    low = name.lower()
    if low in PLACES or _PLACE_WORD.search(name):
        return "place"
    if _ORG_WORD.search(name):
        return "organisation"
    if low in GIVEN_NAMES or (low.split()[0] in GIVEN_NAMES and " of " not in low):
        return "person"
    if _ORG_BEFORE.search(preceding_text):
        return "organisation"
    if _PLACE_BEFORE.search(preceding_text):
        return "place"
    is_alone = " " not in name and not re.search(r"[a-z,0-9] (?:the |a |an )?$", preceding_text)
    return "" if is_alone else "thing"


def find_aliases(sentences: Iterable[TurnSentence]) -> dict[str, str]:
    """By slug of a name another one that a sentence gives for it: "Robert, or Bob"."""
    return {slugify(found["name"]): found["alias"] for each in sentences for found in _ALIAS.finditer(each.text)}


def _strip_ordinary_words(run: str, start: int, text: str) -> tuple[str, int]:
    """The run without ordinary words at its edges, such as one that begins a sentence; ("", 0) when none is left."""
    parts = re.split(r"( of the | of | and the |-| )", run)
    if parts[0] == "The" and len(parts) > 1 and not _is_sentence_start(text, start):
        return run, start  # a title: "we saw The Godfather"
    while parts and (slugify(parts[0]) in NON_NAMES or (_is_sentence_start(text, start) and _is_ordinary(parts[0]))):
        start += len(parts[0]) + (len(parts[1]) if len(parts) > 1 else 0)
        parts = parts[2:]
    while parts and slugify(parts[-1]) in NON_NAMES:
        parts = parts[:-2]
    return ("".join(parts), start) if parts else ("", 0)


def _is_sentence_start(text: str, start: int) -> bool:
    return start == 0 or _SENTENCE_START.search(text[max(0, start - 4) : start]) is not None


def _is_ordinary(word: str) -> bool:
    """Whether a capital at the beginning of a sentence says nothing of a word."""
    return word.lower() not in GIVEN_NAMES and word.lower() not in PLACES
