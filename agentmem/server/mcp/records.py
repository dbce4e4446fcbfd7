"""Records as a model reads them: what they say, when, how they stand, and why they were found."""

from __future__ import annotations

import re

from pydantic import BaseModel, Field

from agentmem.core.record import Record
from agentmem.core.records import Turn
from agentmem.memory.semantic.standing import CURRENT, STANDING_HELP, Standing
from agentmem.text.plain_line import to_plain_line, to_plain_name

MAX_TEXT_CHARS = 2000  # of one record in a result
REASONS = {
    "whole": "close in meaning",
    "sentence": "a sentence of it is close in meaning",
    "words": "shares words with the query",
    "keywords": "shares words with the query",
    "entities": "about somebody or something that the query names",
    "date": "from the time that the query is about",
    "range": "from the time that the query is about",
    "when": "tells when",
    "speaker": "said by the person that the query is about",
}
"""What a list of a recall says in favor of a record, in words."""


class FoundRecord(BaseModel):
    """One record."""

    id: str
    kind: str
    text: str
    when: str = Field("", description="When it was said or became true.")
    standing: str = Field("current", description=STANDING_HELP)
    why: str = Field("", description="Why it was found; empty when little speaks for it.")


def describe_record(record: Record, standing: Standing = CURRENT, why: str = "") -> FoundRecord:
    """A record of any kind and how it stands, its text on one line that no stored text can leave."""
    text = to_plain_line(record.search_text())
    if isinstance(record, Turn):
        text = f"{to_plain_name(record.speaker or '', record.role)}: {text}"
    begun = record.valid_interval()[0] or record.recorded_at
    return FoundRecord(
        id=record.id,
        kind=record.kind.lower(),
        text=text if len(text) <= MAX_TEXT_CHARS else f"{text[: MAX_TEXT_CHARS - 1]}…",
        when="" if begun is None else begun.date().isoformat(),
        standing=str(standing),
        why=_describe_why(why),
    )


def _describe_why(why: str) -> str:
    """The lists that a record is in, or got a bonus from, in words."""
    names = re.findall(r"(\w+) [#+]", why)
    return ", ".join(dict.fromkeys(REASONS[name] for name in names if name in REASONS))
