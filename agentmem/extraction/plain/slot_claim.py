"""A claim about a slot as it was read from a turn."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from agentmem.beliefs.belief import Mark, Need, Operation, Tense


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotClaim:
    """A claim as it was read: see `agentmem.beliefs.belief.Claim`. `span` is the stretch of the turn it rests on.

    `needs` says where the claim counts: `known` where its value is held ("left Leeds" may be a town or an employer),
    `empty` where the slot has no value yet (a move of long ago). `noun` is what a person is to the subject, in English.
    """

    subject: str
    slot: str
    value: str = ""
    tense: Tense = "current"
    operation: Operation = "is"
    mark: Mark = ""
    since: datetime | None = None
    until: datetime | None = None
    is_unsure: bool = False
    needs: Need = ""
    noun: str = ""
    span: tuple[int, int] = (0, 0)
