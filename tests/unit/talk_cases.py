"""Turns of people who type as they talk, with the claims that they make; how many of them the frames read.

`python -m tests.unit.talk_cases` prints each turn that is read otherwise than its line says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from agentmem.extraction.frames.reader import FrameReader
from agentmem.extraction.frames.slot_claim import SlotClaim

FOLDER = Path(__file__).parent / "talk"
NOW = datetime(2026, 3, 21, 10, tzinfo=UTC)
PEOPLE = {
    "craftsman": ("dean", "lee", "claire", "bess", "jan", "tom", "beth", "rusty", "smudge"),
    "researcher": ("Jonas", "Lucía", "Lena", "Ander"),
}


def read_cases(name: str) -> Iterator[tuple[str, str, set[str]]]:
    """What the assistant asked, the turn, and its claims as `subject.slot=value` with their marks."""
    asked = ""
    for line in (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("asked: "):
            asked = line.removeprefix("asked: ")
        elif line and not line.startswith("#"):
            text, _, expected = line.rpartition(" | ")
            yield asked, text, set() if expected == "-" else set(expected.split("; "))
            asked = ""


def describe(claim: SlotClaim) -> str:
    """A claim as `subject.slot=value` with its marks."""
    words = [claim.tense] * (claim.tense != "current") + [claim.operation] * (claim.operation != "is")
    words += [claim.mark] * bool(claim.mark) + ["unsure"] * claim.is_unsure + [claim.needs] * bool(claim.needs)
    return " ".join([f"{claim.subject}.{claim.slot}={claim.value}", *words])


def count_claims(name: str, *, show: bool = False) -> Counter[str]:
    """How many claims are `expected`, `read`, and read `right`; `wrong` are those read that the lines do not have."""
    total = Counter[str]()
    for asked, text, expected in read_cases(name):
        reader = FrameReader(PEOPLE[name])
        found = {describe(replace(claim, needs="")) for claim in reader.read(text, NOW, asked)}
        total += Counter(expected=len(expected), read=len(found), right=len(expected & found))
        total["wrong"] += len(found - expected)
        if show and found != expected:
            print(f"{text}\n   - {sorted(expected - found)}\n   + {sorted(found - expected)}")
    return total


if __name__ == "__main__":
    for name in PEOPLE:
        print(name, dict(count_claims(name, show=True)))
