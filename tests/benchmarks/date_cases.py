"""`python -m tests.benchmarks.date_cases`: the dates of sentences by the tense of the verb, and how rules read them.

A case is one line of `cases/dates.jsonl`: a sentence, its day, and the tense and the interval that it tells.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib import resources
from typing import Any

from agentmem.extraction.plain.dates import find_dates
from agentmem.extraction.plain.reader import PlainReader
from agentmem.extraction.plain.slot_claim import SlotClaim


@dataclass(frozen=True, slots=True)
class DateReading:
    """What came of a case: the days that were found, and the tense in which rules read it, "" where they do not."""

    case: dict[str, Any]
    days: frozenset[str]
    tense: str

    @property
    def is_wrong_tense(self) -> bool:
        """Whether the sentence was read in another tense than its own."""
        return self.tense not in ("", self.case["tense"])

    @property
    def is_right(self) -> bool:
        """Whether the ends of the interval are among the days."""
        return {self.case[name] for name in ("since", "until") if self.case[name]} <= self.days


def read_date_cases() -> list[DateReading]:
    """Read each sentence."""
    text = resources.files(__package__).joinpath("cases", "dates.jsonl").read_text(encoding="utf-8")
    return [_read_case(json.loads(line)) for line in text.splitlines()]


def _read_case(case: dict[str, Any]) -> DateReading:
    said = datetime.combine(date.fromisoformat(case["said"]), datetime.min.time(), tzinfo=UTC).replace(hour=10)
    found = find_dates(case["text"].lower(), said)
    days = frozenset(str(day.date()) for each in found for day in (each.moment, each.end) if day)
    claims = PlainReader().read(case["text"], said)
    return DateReading(case, days, _find_tense(claims[0], said) if claims else "")


def _find_tense(claim: SlotClaim, said: datetime) -> str:
    is_over = claim.operation == "over" or (claim.until is not None and claim.until <= said)
    return "ended" if is_over and claim.tense != "planned" else claim.tense


def print_report() -> None:
    """Print the three shares and the cases that were read wrong."""
    readings = read_date_cases()
    counts = {
        "wrong tense": sum(one.is_wrong_tense for one in readings),
        "dates right": sum(one.is_right for one in readings),
        "unread": sum(not one.tense for one in readings),
    }
    for name, count in counts.items():
        print(f"{name}: {count / len(readings):.3f} ({count} of {len(readings)})")
    for one in readings:
        if not one.is_right:
            print(f"  {one.case['text']} -> {one.tense or 'unread'} {sorted(one.days)}")


if __name__ == "__main__":
    print_report()
