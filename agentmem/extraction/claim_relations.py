"""Whether a claim relates people and things as its quote does: by a word for the relation, and in the same direction.

Most relations have too many words to be checked. A few are strong: "hates", "married", "died" are not said by accident,
and their words are few enough to be listed. The direction is checked for any word that claim and quote share.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache

from agentmem.text.tokenizer import tokenize

USER = "user"
# What a claim says, and the words of which its quote needs one; English alone.
_STRONG_RELATIONS = {
    "hat(?:e|es|ed)|dislik(?:e|es|ed)|detest\\w*|loath\\w+|despis\\w+": (
        "hat(?:e|ing) dislik detest loath despis stand bear like love enjoy care fan keen into fond eat"
        " touch annoy sick fed gross awful terrible worst wors disgust ugh yuck avoid never not \\w+n't"
        " boring bored bad overrated nightmare meh drives cannot no too skip rather prefer allerg dread"
        " fear scare terrif uncomfortable struggl nasty icky evil stupid dumb"
    ),
    "marr(?:y|ies|ied)|wed(?:s|ded)?|divorc\\w+": (
        "marr wed divorc engag husband wife spouse fianc honeymoon anniversar propos bride groom ring"
        " split ex separat knot vows hitched single partner aisle ceremony"
    ),
    "liv(?:e|es|ed|ing) with": (
        "liv mov home house flat apartment rent stay room share place together household roof with.(?:me|us|my)"
    ),
    "died|passed away|is dead": (
        "die dead death pass lost loss gone funeral late buri sleep kill mourn rip rest griev memorial down went end"
    ),
    "fired|sacked|laid off|dismissed": "fir sack laid let dismiss job redundan terminat downsiz layoff cut",
    "stole|steals|stolen|robbed": "st[eo]l rob theft thief took taken nicked pinch missing burgl broke",
    "propos(?:e|es|ed) to": "propos marr ring engag knee wed fianc suggest idea plan could let yes",
    "cheat(?:s|ed|ing)? on": "cheat affair unfaithful lied behind",
}
# What is so for both when it is so for one: "I met Anna".
_MUTUAL = (
    "meet met marry married wed date dated dating talk talked chat chatted speak spoke fight fought"
    " argue argued hug hugged kiss kissed play played live lived work worked friend friends sibling"
    " cousin cousins know knows knew split together with reunite engaged partner match same neighbour"
    " neighbor"
)
_WORD = re.compile(r"[^\W\d_][\w'-]*")
_ROLE = re.compile(r"[A-Z][\w-]+ (?:is|was) an? (?:\w+ )?(\w+)\.?$")
_MET = "at|to|from|see|saw|seen|visit(?:ed)?|call(?:ed)?|told|asked|met|phoned|by|for"
_DETERMINER = "(?:the|my|a|an|his|her|our|their)"
_ACTOR = re.compile(r"\b([A-Z]\w+) (?=([a-z]+)\b)")
_FIRST_PERSON = frozenset({"i", "me", "we", "us", "i'm", "i've", "i'd", "i'll"})
_PERSON_NOUNS = """
boss manager chef landlord landlady neighbour neighbor colleague coworker friend roommate flatmate teacher
student doctor dentist therapist coach client customer mother father mum mom mam ma dad da sister brother wife
husband partner girlfriend boyfriend fiance fiancee son daughter kid uncle aunt auntie cousin nephew niece
grandma grandpa nan gran granny grandmother grandfather grandson granddaughter stepmother stepfather stepson
stepdaughter ex
"""
_REACH = 4  # words on either side of a shared word in which its two people stand


def find_relations(claim: str, said: str) -> list[bool]:
    """Of each strong relation that a claim states, whether there is a word for it in what was said; [] for none."""
    return [bool(words.search(said)) for claimed, words in _load_relations() if claimed.search(claim)]


@cache
def _load_relations() -> list[tuple[re.Pattern[str], re.Pattern[str]]]:
    return [
        (
            re.compile(rf"\b(?:{claimed})\b", re.IGNORECASE),
            re.compile(rf"\b(?:{'|'.join(said.split())})", re.IGNORECASE),
        )
        for claimed, said in _STRONG_RELATIONS.items()
    ]


@cache
def _load_person_nouns() -> frozenset[str]:
    return frozenset(_PERSON_NOUNS.split())


@cache
def _load_mutual_stems() -> frozenset[str]:
    return frozenset(tokenize(_MUTUAL))


def has_unsaid_role(claim: str, said: str) -> bool:
    """Whether somebody is told to be what was only gone to or met: "at the doctor with Anna" makes Anna no doctor."""
    role = _ROLE.match(claim)
    if role is None or not re.search(rf"\b{role[1]}", said, re.IGNORECASE):
        return False
    place = re.compile(rf"\b(?:{_MET})(?: {_DETERMINER})?(?: \w+)? {role[1]}", re.IGNORECASE)
    return len(place.findall(said)) == len(re.findall(rf"\b{role[1]}", said, re.IGNORECASE))


def has_swapped_people(claim: str, quote: str, user_names: Collection[str]) -> bool:
    """Whether claim and quote share a word, and each tells the other way round who does it to whom."""
    claimed, said = _read_pairs(claim, user_names), _read_pairs(quote, user_names)
    acting = _read_actors(quote, user_names)
    swapped = {(stem, one, other) for stem, other, one in claimed} & said
    swapped |= {pair for pair in claimed if pair[::2] in acting and pair[:2] not in acting}
    return bool(swapped) and not claimed & said


def _read_pairs(text: str, user_names: Collection[str]) -> set[tuple[str, str, str]]:
    """For each word with a person on either side: its stem, the person before, the person behind."""
    words = [(found[0], found.start()) for found in _WORD.finditer(text.replace("\u2019", "'"))]
    people = [_name_person(word, at, text, user_names) for word, at in words]
    found: set[tuple[str, str, str]] = set()
    for place, (word, _) in enumerate(words):
        before = _first(reversed(people[max(0, place - _REACH) : place]))
        after = _first(people[place + 1 : place + 1 + _REACH])
        if people[place] or not before or not after or before == after:
            continue
        following = [each.lower() for each, _ in words[place + 1 : place + 3]]
        leading = [each.lower() for each, _ in words[max(0, place - 2) : place]]
        if "by" in following and {"was", "were", "been", "got", "is"} & set(leading):
            before, after = after, before
        for stem in tokenize(word):
            if stem not in _load_mutual_stems() and "with" not in following[:1]:
                found.add((stem, before, after))
    return found


def _read_actors(text: str, user_names: Collection[str]) -> set[tuple[str, str]]:
    """The stem of each word right behind a person, with the person: in "I told Anna that Bob left" Bob left."""
    return {
        (stem, person)
        for found in _ACTOR.finditer(text)
        if (person := _name_person(found[1], found.start(), text, user_names))
        for stem in tokenize(found[2])
    }


def _name_person(word: str, at: int, text: str, user_names: Collection[str]) -> str:
    bare = word.lower().removesuffix("'s")
    if bare in _FIRST_PERSON or bare == USER or bare in user_names:
        return USER
    if bare in _load_person_nouns():
        return bare
    starts_sentence = at == 0 or text[:at].rstrip().endswith((".", "!", "?"))
    if word[0].isupper() and not (starts_sentence and tokenize(word) == []) and bare not in ("the", "my", "our"):
        return bare
    return ""


def _first(people: Iterable[str]) -> str:
    return next(filter(None, people), "")
