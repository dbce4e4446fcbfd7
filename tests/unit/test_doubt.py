"""Which turns cast doubt on a belief; the stories are lines of `doubt_stories.txt`."""

from __future__ import annotations

from pathlib import Path

from agentmem.extraction.doubt import Held, find_doubt
from agentmem.extraction.plain.turn_text import read_turn

STORIES = Path(__file__).with_name("doubt_stories.txt")


def test_most_endings_cast_doubt_and_few_mentions_do() -> None:
    found: dict[str, list[tuple[str, bool]]] = {"ends": [], "stays": []}
    for line in STORIES.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            kind, subject, slot, value, text = line.split(" | ", 4)
            found[kind].append((text, find_doubt(Held(subject, slot, value), read_turn(text)) is not None))
    missed = [text for text, is_doubted in found["ends"] if not is_doubted]
    wrong = [text for text, is_doubted in found["stays"] if is_doubted]
    assert len(found["ends"]) >= 60
    assert len(found["stays"]) >= 60
    assert len(missed) <= 0.1 * len(found["ends"]), missed
    assert len(wrong) <= 0.03 * len(found["stays"]), wrong


def test_a_doubt_names_its_sentence() -> None:
    text = "Busy week. Sold the Volvo on Friday. More soon."
    span = find_doubt(Held("user", "car", "Volvo"), read_turn(text))
    assert span is not None
    assert text[slice(*span)] == "Sold the Volvo on Friday"


def test_what_the_user_is_told_by_others_or_quotes_casts_no_doubt() -> None:
    belief = Held("user", "employer", "Acme")
    for text in ('She wrote: "I quit my job at Acme."', "> I quit my job at Acme", "Did I quit my job at Acme?"):
        assert find_doubt(belief, read_turn(text)) is None
