"""Claims about slots as sentences in the third person, understood alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from agentmem.beliefs.slots import THING_SUBJECT
from agentmem.extraction.frames.slot_claim import SlotClaim

_CURRENT, _PAST, _PLANNED, _DENIED = range(4)


def write_sentence(claim: SlotClaim, subject: str) -> str:
    """The claim about a subject, such as "Mira lives in Utrecht". A slot without a phrase of its own is named."""
    form = _PLANNED if claim.tense == "planned" else _PAST if claim.tense == "past" or claim.operation == "over" else 0
    form = _DENIED if claim.operation == "deny" else form
    name = _name_slot(claim.slot)
    if claim.operation == "over" and not claim.value:
        return f"{subject} has no {name} any more"
    phrase = _phrases().get(claim.slot, ())
    if claim.subject != THING_SUBJECT and len(phrase) > form and phrase[form]:
        return f"{subject} {phrase[form].format(claim.value)}"
    verb = ("is", "was", "will be", "is not")[form]
    owner = f"The {name}" if claim.subject == THING_SUBJECT else f"{subject}'s {name}"
    return f"{owner} {verb} {claim.value}"


def _name_slot(slot: str) -> str:
    key, colon, rest = slot.partition(":")
    if not colon:
        return key.replace("_", " ")
    names = {"favourite": f"favorite {rest}", "flight": f"flight to {rest}", "version": f"version of {rest}"}
    return names.get(key, f"date of the {rest}" if key == "date" else rest)


@cache
def _phrases() -> Mapping[str, Sequence[str]]:
    return dict(json.loads(files(__package__).joinpath("claims.json").read_text(encoding="utf-8")))
