"""Names in a text: people, pets, places, organisations and other things that are called by one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agentmem.extraction.rules import gazetteer, verbs
from agentmem.extraction.rules.readings import NAME
from agentmem.extraction.rules.sentences import Sentence
from agentmem.text.names import slug

_WORD = r"(?:[A-Z][a-z\u00c0-\u024f]{1,40}(?:['\u2019][A-Z][a-z]{1,40})?(?:[A-Z][a-z]{1,40})?|Mc[A-Z][a-z]{1,40})"
_RUN = re.compile(
    rf"(?<![\w'\u2019@#/.-]){_WORD}(?:(?: of the | of | and the |-| ){_WORD}){{0,4}}(?![\w@/-])(?!['\u2019]s [A-Z])"
)
_TITLE = re.compile(r'["\u201c]([A-Z][^"\u201c\u201d.!?]{2,60})["\u201d]')
_KIN = re.compile(
    rf"\b[Mm]y (?P<kin>{verbs.KIN}|{verbs.PET}),? (?:(?:is |was )?(?:named|called) )?(?P<name>{NAME})(?![\w])",
)
_KIN_NAME = re.compile(rf"\b[Mm]y (?P<kin>{verbs.KIN}|{verbs.PET})['\u2019]s name is (?P<name>{NAME})")
_KIN_AFTER = re.compile(rf"(?P<name>{NAME})(?: is|,) my (?P<kin>{verbs.KIN}|{verbs.PET})\b(?!['\u2019]s|,? [A-Z])")
_KIN_HAVE = re.compile(
    rf"\bI(?:['\u2019]ve| have| got| adopted| have got)(?: got)? (?:a|an) (?P<kin>{verbs.KIN}|{verbs.PET})(?: named| "
    rf"called|,) (?P<name>{NAME})"
)
_ALIAS = re.compile(
    rf"(?P<name>{NAME}),? (?:or|aka|a\.k\.a\.|also known as|also called|known as|(?:but )?everyone calls (?:him|her|"
    rf"them)) (?P<alias>{NAME})(?=[\s,.!;]|$)"
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
_PET_BEFORE = re.compile(rf"\b{verbs.PET}s?\b[^.!?]{{0,15}}\b(?:named|called),? $")
_PERSON_BEFORE = re.compile(
    r"\b(?:friend|buddy|colleague|teammate|co-?worker|neighbou?r|man|woman|guy|girl|lady|kid|boy|veteran|volunteer|author|"
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


@dataclass(frozen=True, slots=True)
class Named:
    """A name as one turn has it."""

    name: str
    type: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Kin:
    """A relative, friend or pet that the speaker names; `quote` is at `start:end` of the turn."""

    name: str
    relation: str
    pet: bool
    start: int
    end: int


def named(found: Iterable[Sentence], kin: Iterable[Kin], skip: frozenset[str]) -> Iterator[Named]:
    """The names of a turn's sentences in order, without those whose slug is in `skip`."""
    kinds = {slug(one.name): "pet" if one.pet else "person" for one in kin}
    for sentence in found:
        titles = [match for match in _TITLE.finditer(sentence.text) if _is_title(match[1])]
        for match in _RUN.finditer(sentence.text):
            if any(title.start() < match.start() < title.end() for title in titles):
                continue
            name, start = _stripped(match[0], match.start(), sentence.text)
            if not name or slug(name) in skip or any(whole.startswith(slug(name)) for whole in skip):
                continue
            kind = kinds.get(slug(name)) or kind_of(name, sentence.text[max(0, start - 60) : start])
            if kind:
                yield Named(name, kind, sentence.start + start, sentence.start + start + len(name))
        for match in titles:
            yield Named(match[1].rstrip(",;: "), "work", sentence.start + match.start(1), sentence.start + match.end(1))


def kind_of(name: str, before: str) -> str:
    """The type of a name by itself and what stands before it; "" when it is better left out."""
    low = name.lower()
    if low in gazetteer.PLACES or _PLACE_WORD.search(name):
        return "place"
    if _ORG_WORD.search(name):
        return "organisation"
    if low in gazetteer.GIVEN_NAMES or (low.split()[0] in gazetteer.GIVEN_NAMES and " of " not in low):
        return "person"
    if _PET_BEFORE.search(before):
        return "pet"
    if _PERSON_BEFORE.search(before):
        return "person"
    if _ORG_BEFORE.search(before):
        return "organisation"
    if _PLACE_BEFORE.search(before):
        return "place"
    if " " not in name and not re.search(r"[a-z,0-9] (?:the |a |an )?$", before):
        return ""
    return "thing"


def kin_of(found: Iterable[Sentence], skip: frozenset[str]) -> Iterator[Kin]:
    """Relatives, friends and pets that are named: "my sister Anna", "Rex, my dog"."""
    for sentence in found:
        if sentence.question:
            continue
        seen: set[str] = set()
        for pattern in (_KIN, _KIN_NAME, _KIN_HAVE, _KIN_AFTER):
            for match in pattern.finditer(sentence.text):
                name = _trimmed_name(match["name"])
                if name and slug(name) not in skip | seen and slug(name) not in gazetteer.NO_NAMES:
                    seen.add(slug(name))
                    end = match.start("name") + len(name) if match.start("name") > match.start() else match.end()
                    pet = re.fullmatch(verbs.PET, match["kin"], re.IGNORECASE) is not None
                    yield Kin(name, match["kin"].lower(), pet, sentence.start + match.start(), sentence.start + end)


def aliases_of(found: Iterable[Sentence]) -> dict[str, str]:
    """By slug of a name another one that a sentence gives for it: "Robert, or Bob"."""
    out = {}
    for sentence in found:
        for match in _ALIAS.finditer(sentence.text):
            if " or " not in match[0] or ", or " in match[0]:
                out[slug(match["name"])] = match["alias"]
    return out


def _trimmed_name(name: str) -> str:
    words = name.split(" ")
    while words and slug(words[-1]) in gazetteer.NO_NAMES:
        words.pop()
    return " ".join(words)


def _stripped(run: str, start: int, text: str) -> tuple[str, int]:
    """The run without ordinary words at its edges, such as one that begins a sentence; ("", 0) when none is left."""
    parts = re.split(r"( of the | of | and the |-| )", run)
    if parts[0] == "The" and len(parts) > 1 and not _begins(text, start):
        return run, start  # a title: "we saw The Godfather"
    while parts and (slug(parts[0]) in gazetteer.NO_NAMES or (_begins(text, start) and _ordinary(parts[0]))):
        start += len(parts[0]) + (len(parts[1]) if len(parts) > 1 else 0)
        parts = parts[2:]
    while parts and slug(parts[-1]) in gazetteer.NO_NAMES:
        parts = parts[:-2]
    return ("".join(parts), start) if parts else ("", 0)


def _begins(text: str, start: int) -> bool:
    return (
        start == 0
        or re.search(r"(?:^|[.!?:;*\"\u201c(\u2026\u2013\u2014-])\s*$", text[max(0, start - 4) : start]) is not None
    )


def _ordinary(word: str) -> bool:
    """Whether a capital at the beginning of a sentence says nothing of a word."""
    return word.lower() not in gazetteer.GIVEN_NAMES and word.lower() not in gazetteer.PLACES


_JOINING = frozenset({"with", "from", "into", "over", "under", "upon", "about", "than", "without", "through"})


def _is_title(text: str) -> bool:
    words = re.findall(r"[A-Za-z']+", text)
    capital = sum(word[0].isupper() or len(word) < 4 or word in _JOINING for word in words)
    return 1 <= len(words) <= 8 and capital == len(words) and len(text) > 3 and slug(text) not in gazetteer.NO_NAMES
