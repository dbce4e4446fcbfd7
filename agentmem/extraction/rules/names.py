"""Names of people, pets and places in a text, with lists of names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources

from agentmem.extraction.rules.sentences import Sentence
from agentmem.text.normalization import slugify

NAME_PATTERN = r"\b[A-Z]\w{1,40}(?:[ '\u2019-][A-Z]\w{1,40}){0,3}"
_KIN_WORD = (
    r"(?:(?:older|younger|little|big|elder|eldest|youngest|oldest|twin|late|step|half|best|old|close|good|dear|new|"
    r"ex)[ -]?)*"
    r"(?:sister|brother|mother|mom|mum|father|dad|son|daughter|wife|husband|partner|girlfriend|boyfriend|"
    r"fianc[e\u00e9]+|aunt|auntie|uncle|"
    r"cousin|niece|nephew|grandma|grandmother|granny|grandpa|grandfather|grandson|granddaughter|friend|buddy|"
    r"colleague|coworker|"
    r"co-worker|boss|manager|neighbou?r|roommate|flatmate|teacher|coach|mentor|teammate|classmate|mother-in-law|"
    r"father-in-law|"
    r"sister-in-law|brother-in-law|stepmom|stepdad|therapist|doctor)"
)
_PET_WORD = (
    r"(?:(?:new|little|old|adorable|cute|beloved|sweet|rescue|other)[ -])*(?:dog|puppy|pup|cat|kitten|horse|parrot|"
    r"hamster|rabbit|turtle|tortoise|bird|guinea pig|pet)"
)
_NAME_WORD = r"(?:[A-Z][a-z\u00c0-\u024f]{1,40}(?:['\u2019][A-Z][a-z]{1,40})?(?:[A-Z][a-z]{1,40})?|Mc[A-Z][a-z]{1,40})"
_NAME_RUN = re.compile(
    rf"(?<![\w'\u2019@#/.-]){_NAME_WORD}(?:(?: of the | of | and the |-| "
    rf"){_NAME_WORD}){{0,4}}(?![\w@/-])(?!['\u2019]s [A-Z])"
)
_TITLE = re.compile(r'["\u201c]([A-Z][^"\u201c\u201d.!?]{2,60})["\u201d]')
_KIN = re.compile(
    rf"\b[Mm]y (?P<kin>{_KIN_WORD}|{_PET_WORD}),? (?:(?:is |was )?(?:named|called) )?(?P<name>{NAME_PATTERN})(?![\w])",
)
_KIN_NAME = re.compile(rf"\b[Mm]y (?P<kin>{_KIN_WORD}|{_PET_WORD})['\u2019]s name is (?P<name>{NAME_PATTERN})")
_KIN_AFTER = re.compile(
    rf"(?P<name>{NAME_PATTERN})(?: is my (?P<kin>{_KIN_WORD}|{_PET_WORD})\b(?!['\u2019]s|,? [A-Z])"
    rf"|, my (?P<apposed>{_KIN_WORD}|{_PET_WORD})(?=[,.;!)]|$))"
)
_KIN_HAVE = re.compile(
    rf"\bI(?:['\u2019]ve| have| got| adopted| have got)(?: got)? (?:a|an) (?P<kin>{_KIN_WORD}|{_PET_WORD})(?: named| "
    rf"called|,) (?P<name>{NAME_PATTERN})"
)
_ALIAS = re.compile(
    rf"(?P<name>{NAME_PATTERN}),? (?:or|aka|a\.k\.a\.|also known as|also called|known as|(?:but )?everyone calls "
    rf"(?:him|her|"
    rf"them)) (?P<alias>{NAME_PATTERN})(?=[\s,.!;]|$)"
)
_PLACE_BEFORE = re.compile(
    r"\b(?:liv(?:e|es|ed|ing) in|mov(?:e|ed|ing) (?:to|from)|(?:trip|travel(?:l?ed|l?ing)?|flew|flight|fly|flying|"
    r"drive|drove|went|going|been|move|visit|return(?:ed)?|semester) "
    r"(?:back )?(?:to|in|around)|visit(?:ed|ing)?|(?:born|raised|grew up|based|stay(?:ed|ing)?|city|town|house|home|"
    r"place|castle|hometown) (?:in|of|to)|back from|explor(?:ed|ing)) (?:the )?$"
)
_ORG_BEFORE = re.compile(
    r"\b(?:work(?:s|ed|ing)? (?:at|for)|job (?:at|with)|(?:deal|contract|endorsement|sponsorship|partnership|"
    r"collaborat\w+|internship|interview|offer) (?:at|with|from)|hired by|employed by|"
    r"stud(?:y|ied|ying) at|graduated from|volunteer(?:s|ed|ing)? (?:at|for|with)|joined|signed (?:up )?with|member "
    r"of) (?:the )?$"
)
_PET_BEFORE = re.compile(rf"\b{_PET_WORD}s?\b[^.!?]{{0,15}}\b(?:named|called),? $")
_PERSON_BEFORE = re.compile(
    r"\b(?:friend|buddy|colleague|teammate|co-?worker|neighbou?r|man|woman|guy|girl|lady|kid|boy|veteran|volunteer|"
    r"author|"
    r"singer|player|actor|actress|doctor|coach|teacher|nurse)(?:,| named| called)? $"
)
_ORG_WORD = re.compile(
    r"\b(?:University|College|School|Academy|Institute|Hospital|Inc|Corp|Ltd|LLC|Bank|Club|Watchers|Association|"
    r"Foundation|Society|Church)\b"
)
_PLACE_WORD = re.compile(
    r"\b(?:Park|Lake|Mountains?|Canyon|Beach|River|Island|Islands|County|Street|Avenue|Valley|Falls|Bay|Coast|Cliffs|"
    r"Bridge|Square|Castle|Parkway|Forest|Desert|Northwest|Rockies)\b"
)

_TITLE_PREPOSITIONS = frozenset(
    {"with", "from", "into", "over", "under", "upon", "about", "than", "without", "through"}
)


def _load_lists() -> dict[str, frozenset[str]]:
    text = resources.files(__package__).joinpath("names.txt").read_text(encoding="utf-8")
    out = {}
    for section in text.split("\n[")[1:]:
        title, _, words = section.partition("]")
        out[title] = frozenset(word.strip() for word in words.replace("\n", " ").split(",") if word.strip())
    return out


_LISTS = _load_lists()

GIVEN_NAMES = _LISTS["given names"]
PLACES = _LISTS["places"]
NON_NAMES = _LISTS["no names"]
"""As slugs: months, days, languages, interjections and the ordinary words that begin sentences."""


@dataclass(frozen=True, slots=True)
class NameMention:
    """A name as one turn has it."""

    name: str
    type: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class KinMention:
    """A relative, friend or pet that the speaker names; its words are at `start:end` of the turn."""

    name: str
    relation: str
    is_pet: bool
    start: int
    end: int


def find_names(sentences: Iterable[Sentence], kin: Iterable[KinMention], skip: frozenset[str]) -> Iterator[NameMention]:
    """The names of a turn's sentences in order, without those whose slug is in `skip`."""
    kinds = {slugify(one.name): "pet" if one.is_pet else "person" for one in kin}
    for sentence in sentences:
        titles = [match for match in _TITLE.finditer(sentence.text) if _is_title(match[1])]
        for match in _NAME_RUN.finditer(sentence.text):
            if any(title.start() < match.start() < title.end() for title in titles):
                continue
            name, start = _strip_ordinary_words(match[0], match.start(), sentence.text)
            if not name or slugify(name) in skip or any(whole.startswith(slugify(name)) for whole in skip):
                continue
            kind = kinds.get(slugify(name)) or classify_name(name, sentence.text[max(0, start - 60) : start])
            if kind:
                yield NameMention(name, kind, sentence.start + start, sentence.start + start + len(name))
        for match in titles:
            yield NameMention(
                match[1].rstrip(",;: "), "work", sentence.start + match.start(1), sentence.start + match.end(1)
            )


def classify_name(name: str, preceding_text: str) -> str:
    """The type of a name by itself and what stands before it; "" when it is better left out."""
    low = name.lower()
    if low in PLACES or _PLACE_WORD.search(name):
        return "place"
    if _ORG_WORD.search(name):
        return "organisation"
    if low in GIVEN_NAMES or (low.split()[0] in GIVEN_NAMES and " of " not in low):
        return "person"
    if _PET_BEFORE.search(preceding_text):
        return "pet"
    if _PERSON_BEFORE.search(preceding_text):
        return "person"
    if _ORG_BEFORE.search(preceding_text):
        return "organisation"
    if _PLACE_BEFORE.search(preceding_text):
        return "place"
    if " " not in name and not re.search(r"[a-z,0-9] (?:the |a |an )?$", preceding_text):
        return ""
    return "thing"


def find_kin(sentences: Iterable[Sentence], skip: frozenset[str]) -> Iterator[KinMention]:
    """Relatives, friends and pets that are named: "my sister Anna", "Rex, my dog"."""
    for sentence in sentences:
        if sentence.is_question:
            continue
        seen: set[str] = set()
        for pattern in (_KIN, _KIN_NAME, _KIN_HAVE, _KIN_AFTER):
            for match in pattern.finditer(sentence.text):
                kin = match["kin"] or match.groupdict().get("apposed") or ""
                name = _trim_name(match["name"])
                if name and slugify(name) not in skip | seen and slugify(name) not in NON_NAMES:
                    seen.add(slugify(name))
                    end = match.start("name") + len(name) if match.start("name") > match.start() else match.end()
                    pet = re.fullmatch(_PET_WORD, kin, re.IGNORECASE) is not None
                    yield KinMention(name, kin.lower(), pet, sentence.start + match.start(), sentence.start + end)


def find_aliases(sentences: Iterable[Sentence]) -> dict[str, str]:
    """By slug of a name another one that a sentence gives for it: "Robert, or Bob"."""
    out = {}
    for sentence in sentences:
        for match in _ALIAS.finditer(sentence.text):
            if " or " not in match[0] or ", or " in match[0]:
                out[slugify(match["name"])] = match["alias"]
    return out


def _trim_name(name: str) -> str:
    words = name.split(" ")
    while words and slugify(words[-1]) in NON_NAMES:
        words.pop()
    return " ".join(words)


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
    return (
        start == 0
        or re.search(r"(?:^|[.!?:;*\"\u201c(\u2026\u2013\u2014-])\s*$", text[max(0, start - 4) : start]) is not None
    )


def _is_ordinary(word: str) -> bool:
    """Whether a capital at the beginning of a sentence says nothing of a word."""
    return word.lower() not in GIVEN_NAMES and word.lower() not in PLACES


def _is_title(text: str) -> bool:
    words = re.findall(r"[A-Za-z']+", text)
    capital = sum(word[0].isupper() or len(word) < 4 or word in _TITLE_PREPOSITIONS for word in words)
    return 1 <= len(words) <= 8 and capital == len(words) and len(text) > 3 and slugify(text) not in NON_NAMES
