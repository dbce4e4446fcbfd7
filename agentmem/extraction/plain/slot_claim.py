"""A claim about a slot as it was read from a turn."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from agentmem.beliefs.belief import Mark, Operation, Tense


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotClaim:
    """A claim as it was read: see `agentmem.beliefs.belief.Claim`. `span` is the stretch of the turn it rests on.

    `noun` is what a person is to the subject, in English.
    """

    subject: str
    slot: str
    value: str = ""
    tense: Tense = "current"
    operation: Operation = "is"
    mark: Mark = ""
    since: datetime | None = None
    until: datetime | None = None
    noun: str = ""
    span: tuple[int, int] = (0, 0)
