"""What recall put into a prompt is known again when it is pasted back, as recall really makes it."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from agentmem.extraction.echo import own_lines, within
from agentmem.model.records import Entity, Fact, Goal, Record, Turn
from agentmem.recall.context import pack
from agentmem.recall.render import known_line

MOMENT = datetime(2026, 5, 7, tzinfo=UTC)
UUID = "0190a1b2-0000-7000-8000-00001a2b3c4d"


def shown(*records: Record) -> str:
    return pack(records, profile={"preferences": {"tone": "dry"}}).text


RECORDS = (
    Fact(id=UUID, claim="Ann is allergic to peanuts", valid_from=MOMENT, confidence=0.6),
    Fact(id=UUID[:-1] + "e", claim="Ann lives in Rome", stale_since=MOMENT, fallen_premise="Ann works in Rome"),
    Entity(id=UUID, name="Ann", type="person", aliases=("Annie",), description="a sailor"),
    Goal(id=UUID, description="Learn to sail", deadline=MOMENT),
    Turn(id="t1", conversation_id=UUID, index=3, timestamp=MOMENT, content="I bought a kayak: red.", speaker="Ann"),
    Turn(id="t2", conversation_id=UUID, index=4, timestamp=MOMENT, content="Mine is blue.", role="user"),
)


def test_every_line_of_a_context_is_known_again() -> None:
    text = shown(*RECORDS)
    assert len(text.splitlines()) >= 12
    for pasted in (text, "\n".join(f"> {line}" for line in text.splitlines()), f"Look:\n{text}\n\nThat is all."):
        spans = own_lines(pasted)
        found = [pasted[start:end].lstrip("> ") for start, end in spans]
        assert found == text.splitlines()


def test_a_line_of_its_own_is_known_by_its_id() -> None:
    for record in RECORDS[:4]:
        line = known_line(record)
        assert own_lines(f"You said:\n{line}\nIs it so?") == [(10, 10 + len(line))]
    doubtful = known_line(RECORDS[1], unknown=True)
    assert own_lines(doubtful) == [(0, len(doubtful))]


def test_what_people_write_is_not_ours() -> None:
    text = (
        "My list:\n- milk\n- eggs [organic]\n# Facts of life\n- none\n3 apples: two red\n- see [1]\n# 7 May\n"
        "Ann: hello\nIt is unknown since 7 May 2023."
    )
    assert own_lines(text) == []


def test_what_follows_pasted_lines_is_the_speakers_own() -> None:
    text = f"{shown(*RECORDS[:1])}\nBut I moved to Milan."
    assert [text[start:end] for start, end in own_lines(text)] == text.splitlines()[:-1]


def test_a_page_of_working_memory_is_ours_to_its_end() -> None:
    for heading in ("Short-Term Memory Context", "short-term memory"):  # now, and before 0.2
        text = f"Here:\n# Agent {heading}\n\n### Recent Messages\n\n**Ann:** I bought a kayak.\n"
        assert own_lines(text) == [(6, len(text))]


def test_spans_touch_when_they_share_a_character() -> None:
    assert within((3, 6), [(0, 4)])
    assert not within((4, 6), [(0, 4), (6, 9)])


@given(st.text(alphabet="#- \n:[]0123abcFacts>unknown ", max_size=200))
def test_any_text_gives_spans_in_order(text: str) -> None:
    spans = own_lines(text)
    assert spans == sorted(spans)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
