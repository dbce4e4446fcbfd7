"""What recall put into a prompt is known again when it is pasted back, as recall really makes it."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from agentmem.core.record import Record
from agentmem.core.records import Entity, Fact, Goal, Turn
from agentmem.extraction.recalled_text import overlaps_any, recalled_lines
from agentmem.recall.context import pack
from agentmem.recall.render import render_record

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
        spans = recalled_lines(pasted)
        found = [pasted[start:end].lstrip("> ") for start, end in spans]
        assert found == text.splitlines()


def test_a_line_of_its_own_is_known_by_its_id() -> None:
    for record in RECORDS[:4]:
        line = render_record(record, with_id=True)
        assert recalled_lines(f"You said:\n{line}\nIs it so?") == [(10, 10 + len(line))]
    doubtful = render_record(RECORDS[1], is_unknown=True)
    assert recalled_lines(doubtful) == [(0, len(doubtful))]


def test_sections_without_their_markers_are_known_again() -> None:
    lines = shown(*RECORDS).splitlines()[2:-1]
    assert [end for _, end in recalled_lines("\n".join(lines))][-1] == len("\n".join(lines))
    assert len(recalled_lines("\n".join(lines))) == len(lines)


def test_a_marker_that_is_never_closed_hides_nothing() -> None:
    assert recalled_lines('<memory as_of="2026-05-07">\nI moved to Milan.') == []


def test_what_people_write_is_not_ours() -> None:
    text = (
        "My list:\n- milk\n- eggs [organic]\n# Facts of life\n- none\n3 apples: two red\n- see [1]\n# 7 May\n"
        "Ann: hello\nIt is unknown since 7 May 2023."
    )
    assert recalled_lines(text) == []


def test_what_follows_pasted_lines_is_the_speakers_own() -> None:
    text = f"{shown(*RECORDS[:1])}\nBut I moved to Milan."
    assert [text[start:end] for start, end in recalled_lines(text)] == text.splitlines()[:-1]


def test_a_page_of_working_memory_is_ours_to_its_end() -> None:
    for heading in ("Short-Term Memory Context", "short-term memory"):  # now, and before 0.2
        text = f"Here:\n# Agent {heading}\n\n### Recent Messages\n\n**Ann:** I bought a kayak.\n"
        assert recalled_lines(text) == [(6, len(text))]


def test_spans_touch_when_they_share_a_character() -> None:
    assert overlaps_any((3, 6), [(0, 4)])
    assert not overlaps_any((4, 6), [(0, 4), (6, 9)])


@given(st.text(alphabet="#- \n:[]0123abcFacts>unknown ", max_size=200))
def test_any_text_gives_spans_in_order(text: str) -> None:
    spans = recalled_lines(text)
    assert spans == sorted(spans)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
