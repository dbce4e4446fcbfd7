"""Slots: the attributes under which beliefs are kept, such as `home` or `employer`, and how their values behave.

The list of `slots.json` serves every person. Keys with a colon are open: `date:release`, `version:Postgres`,
`favourite:color`. Applications add slots of their own with the setting `slots`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agentmem.errors import InvalidRecord

SlotKind = Literal["fixed", "one", "set", "event"]
MAX_SLOT_CHARS = 200
USER_SUBJECT = "user"
THING_SUBJECT = "-"  # of things without an owner: a server, a release
# Slots whose values are people and animals, and slots (before a colon) that tell what somebody prefers.
PEOPLE_SLOTS = frozenset({"partner", "children", "parents", "siblings", "friends", "boss", "landlord", "pets"})
OWN_NAME_SLOTS = ("name", "call_me")
PREFERENCE_SLOTS = frozenset({"likes", "dislikes", "seat", "favourite"})

# The text after the colon is free: a noun phrase, a product, an event, a place, a category, an activity, a purpose.
_OPEN_KINDS: Mapping[str, SlotKind] = {
    "the": "one",
    "version": "one",
    "date": "event",
    "flight": "event",
    "favourite": "one",
    "habit": "set",
    "tool": "one",
    "about": "one",
}


class Slot(BaseModel):
    """How the values of a slot behave.

    `kind`: `fixed` can only be corrected, `one` has one value at a time, `set` has several that end one by one, `event`
    is the date of something named. `rests_on` are slots of the same subject: when their value changes, a value said
    before is stale. `opposite` is the slot whose equal value ends when this one gains it. `value_type` is `age`,
    `place` or `dose` where values need care: another dose of a drug replaces the old one. In an exact slot no value
    refines another: "table tennis" is not tennis. `none_value` holds once a habit is over or denied, if that is a value
    itself: "drinks no coffee". Private values are never promoted to every channel; portable ones may be. A context
    shows a private value only for a question with a word of it, of the slot's name or of its `cues`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: SlotKind = "one"
    value_type: Literal["", "age", "place", "dose"] = ""
    rests_on: tuple[str, ...] = ()
    opposite: str = ""
    is_exact: bool = False
    none_value: str = ""
    is_portable: bool = False
    is_private: bool = False
    is_instruction: bool = False
    cues: tuple[str, ...] = ()


class NamedSlot(Slot):
    """A slot with its name, and what follows the colon of an open key."""

    name: str = Field(max_length=MAX_SLOT_CHARS)


@cache
def builtin_slots() -> Mapping[str, Slot]:
    """The closed list by name."""
    text = files("agentmem.beliefs").joinpath("slots.json").read_text(encoding="utf-8")
    return {name: Slot(**fields) for name, fields in json.loads(text).items()}


def find_slot(name: str, more: Mapping[str, Slot] | None = None) -> NamedSlot:
    """The slot of this name. `more` are an application's own slots, which may also replace a built-in one.

    Raises InvalidRecord naming the field for a name that is neither in the list nor an open key with something behind
    the colon.
    """
    found = (more or {}).get(name) or builtin_slots().get(name)
    if found is None:
        prefix, colon, rest = name.partition(":")
        if not (colon and rest.strip() and prefix in _OPEN_KINDS) or len(name) > MAX_SLOT_CHARS:
            keys = ", ".join(f"{each}:…" for each in _OPEN_KINDS)
            raise InvalidRecord(
                f"slot {name[:MAX_SLOT_CHARS]!r} is not known; use one of {', '.join(builtin_slots())}, an open key "
                f"({keys}), or add it to the setting slots",
                field="slot",
            )
        found = Slot(kind=_OPEN_KINDS[prefix], is_exact=prefix == "about")
    return NamedSlot(name=name, **found.model_dump(exclude={"name"}))
