"""Claims about slots as sentences in the third person, understood alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from agentmem.beliefs.slots import PEOPLE_SLOTS, THING_SUBJECT
from agentmem.extraction.plain.slot_claim import SlotClaim

_CURRENT, _PAST, _PLANNED, _DENIED = range(4)
_NOUNS = {"children": "child", "siblings": "sibling", "parents": "parent", "friends": "friend", "pets": "pet"}
_WITHOUT_ARTICLE = re.compile(r"(?:head|director|vice|second|part of|in|on)\b|.*\b(?:staff|people)\Z")


def write_sentence(claim: SlotClaim, subject: str) -> str:
    """The claim about a subject, such as "Mira lives in Utrecht". A slot without a phrase of its own is named."""
    form = _PLANNED if claim.tense == "planned" else _PAST if claim.tense == "past" or claim.operation == "over" else 0
    form = _DENIED if claim.operation == "deny" else form
    name = _name_slot(claim.slot)
    if claim.operation == "over" and not claim.value:
        return f"{subject} has no {name} any more"
    if claim.slot in PEOPLE_SLOTS:
        return f"{subject} {_write_person(claim, form)}"
    phrase = _find_phrase(claim.slot, claim.value)
    if claim.subject != THING_SUBJECT and len(phrase) > form and phrase[form]:
        return f"{subject} {phrase[form].format(claim.value, a=_choose_article(claim.value))}"
    verb = ("is", "was", "will be", "is not")[form]
    owner = f"The {name}" if claim.subject == THING_SUBJECT else f"{subject}'s {name}"
    return f"{owner} {verb} {claim.value}"


def _write_person(claim: SlotClaim, form: int) -> str:
    """ "has a sister named Anna": who somebody is, by the noun that was said, else by that of the slot."""
    name, _, kind = claim.value.removesuffix(")").partition(" (")
    noun = claim.noun or kind or _NOUNS.get(claim.slot, claim.slot)
    verb = ("has", "had", "will have", "has no")[form]
    article = "" if form == _DENIED else _choose_article(noun)
    return f"{verb} {article}{noun} named {name}"


def _choose_article(value: str) -> str:
    """The article before a role or a noun with a space behind it; "" before one that takes none."""
    if not value[:1].islower() or _WITHOUT_ARTICLE.match(value):
        return ""
    return "an " if value[0] in "aeiou" else "a "


def _name_slot(slot: str) -> str:
    key, colon, rest = slot.partition(":")
    if not colon:
        return key.replace("_", " ")
    names = {"favourite": f"favorite {rest}", "flight": f"flight to {rest}", "version": f"version of {rest}"}
    return names.get(key, f"date of the {rest}" if key == "date" else rest)


def _find_phrase(slot: str, value: str) -> Sequence[str]:
    """The phrases of a value, of values of several words, else of the slot; () for none."""
    known = _phrases()
    several = f"{slot} of several words" if " " in value else slot
    return known.get(f"{slot}={value}") or known.get(several) or known.get(slot, ())


@cache
def _phrases() -> Mapping[str, Sequence[str]]:
    return dict(json.loads(files(__package__).joinpath("claims.json").read_text(encoding="utf-8")))
