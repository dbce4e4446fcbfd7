"""Reads what a sentence given by hand says of a slot, by the plain rules that read turns."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from agentmem.beliefs.slots import USER_SUBJECT, find_slot
from agentmem.core.clock import EPOCH
from agentmem.memory.semantic.beliefs import ClaimWords, SpokenClaim

if TYPE_CHECKING:
    from agentmem.extraction.plain.slot_claim import SlotClaim

MAX_KNOWN_ORDERS = 1_000  # whose slots are remembered
SAMPLE_ORDER = "Please answer in English."
_USER_NAME = "User"
_USERS_OWN = re.compile(r"\A(?:the )?user['\u2019]s\b", re.IGNORECASE)
_USER = re.compile(r"\A(?:the )?user\b", re.IGNORECASE)
_SUBJECT = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_TENSES = {"planned": "future", "past": "past", "current": ""}


def read_spoken_claim(claim: str, now: datetime, day_first: bool | None = None) -> SpokenClaim | None:
    """What a sentence says as a whole about one slot; None for every other text.

    "The user" and "I" are the user. Another name at its beginning is whom it is about.
    """
    from agentmem.extraction.plain.language import LANGUAGES, load_language
    from agentmem.extraction.plain.reader import MAX_SENTENCE_CHARS, PlainReader  # compiles its patterns

    if len(claim) > MAX_SENTENCE_CHARS:
        return None
    said = " ".join(claim.split())
    said = _USER.sub(_USER_NAME, _USERS_OWN.sub("My", said[:1].upper() + said[1:]))
    first = _SUBJECT.match(said)
    is_name = first and not any(first[0].lower() in load_language(name).stop_words for name in LANGUAGES)
    for people in ([_USER_NAME], [first[0]] if first and is_name else []):
        read = PlainReader(people, day_first=day_first).read(said, now)
        whole = [one for one in read if not re.search(r"\w", said[: one.span[0]] + said[one.span[1] :])]
        if len(whole) == 1:
            return _to_spoken(whole[0])
    return None


@lru_cache(maxsize=MAX_KNOWN_ORDERS)
def find_order_slot(instruction: str) -> str:
    """The slot that an order is about, as `answer_language` or `units`; "" where no plain rule reads one."""
    said = read_spoken_claim(instruction, EPOCH)
    slot = said.fields["slot"] if said else ""
    return slot if slot and find_slot(slot).is_instruction else ""


def _to_spoken(read: SlotClaim) -> SpokenClaim:
    fields = {
        "subject": USER_SUBJECT if read.subject == _USER_NAME else read.subject,
        "slot": read.slot,
        "value": read.value,
        "temporal_context": _TENSES[read.tense],
        "valid_from": read.since,
        "valid_to": read.until,
    }
    said = {name: value for name, value in fields.items() if value or name == "value"}
    return SpokenClaim(said, ClaimWords(read.operation, read.mark))
