"""`python -m tests.benchmarks.date_cases`: how the rules read the dates of sentences, by the tense of the verb.

A case is one line of `cases/dates.jsonl`: a sentence, its day, and the tense and the interval that it tells.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib import resources
from typing import Any

from agentmem.extraction.frames.reader import FrameReader
from agentmem.extraction.frames.slot_claim import SlotClaim


@dataclass(frozen=True, slots=True)
class DateReading:
    """What came of a case: the tense that was read, "" for none, and both ends."""

    case: dict[str, Any]
    tense: str
    since: str | None
    until: str | None

    @property
    def is_wrong_tense(self) -> bool:
        """Whether the sentence was read in another tense than its own."""
        return self.tense not in ("", self.case["tense"])

    @property
    def is_right(self) -> bool:
        """Whether tense and interval are those of the case."""
        return (self.tense, self.since, self.until) == tuple(self.case[name] for name in ("tense", "since", "until"))


def read_date_cases() -> list[DateReading]:
    """Read each sentence by the rules."""
    text = resources.files(__package__).joinpath("cases", "dates.jsonl").read_text(encoding="utf-8")
    return [_read_case(json.loads(line)) for line in text.splitlines()]


def _read_case(case: dict[str, Any]) -> DateReading:
    said = datetime.combine(date.fromisoformat(case["said"]), datetime.min.time(), tzinfo=UTC)
    claims = FrameReader().read(case["text"], said.replace(hour=10))
    if not claims:
        return DateReading(case, "", None, None)
    since, until = (str(day.date()) if day else None for day in (claims[0].since, claims[0].until))
    return DateReading(case, _find_tense(claims[0], said), since, until)


def _find_tense(claim: SlotClaim, said: datetime) -> str:
    is_over = claim.operation == "over" or (claim.until is not None and claim.until <= said)
    return "ended" if is_over and claim.tense != "planned" else claim.tense


def print_report() -> None:
    """Print the three shares and the cases that were read wrong."""
    readings = read_date_cases()
    counts = {
        "wrong tense": sum(one.is_wrong_tense for one in readings),
        "tense and interval right": sum(one.is_right for one in readings),
        "unread": sum(not one.tense for one in readings),
    }
    for name, count in counts.items():
        print(f"{name}: {count / len(readings):.3f} ({count} of {len(readings)})")
    for one in readings:
        if not one.is_right:
            print(f"  {one.case['text']} -> {one.tense or 'unread'} {one.since} {one.until}")


if __name__ == "__main__":
    print_report()
