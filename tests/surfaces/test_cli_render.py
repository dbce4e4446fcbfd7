"""What is printed: safe on a terminal, cut to a line, and valid JSON whatever is in it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.cli.render import Progress, render_mapping, render_record, show_json, to_one_line
from agentmem.core.jsonable import to_jsonable
from agentmem.core.record import Status
from agentmem.core.records import Entity, Fact, Goal, Turn
from agentmem.text.terminal_text import escape_json, neutralize

UNSEEN = set("\x9b\u202a\u202e\u2066\u2069\u200e\u061c\u200b\u2028\ufeff\U000e0041")
AT = datetime(2025, 3, 8, 18, 5, tzinfo=UTC)


@given(st.text())
def test_safe_text_moves_no_cursor_and_can_be_encoded(text: str) -> None:
    assert not any(ord(c) < 32 and c not in "\t\n" for c in neutralize(text))
    assert not any(0x7F <= ord(c) <= 0x9F for c in neutralize(text))
    assert not set(neutralize(text)) & UNSEEN
    neutralize(text).encode()


@given(st.text())
def test_escaped_json_says_the_same_and_holds_nothing_unseen(text: str) -> None:
    written = escape_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(written) == text
    assert not set(written) & UNSEEN


@given(st.text(), st.integers(min_value=2, max_value=50))
def test_a_line_is_one_line(text: str, longest: int) -> None:
    line = to_one_line(text, longest)
    assert len(line) <= longest
    assert line.splitlines() in ([], [line])


def test_records_say_what_matters_in_a_line() -> None:
    assert render_record(Turn(content="Hi\nyou", speaker="Mira", timestamp=AT)) == "2025-03-08 18:05 Mira: Hi you"
    assert render_record(Turn(content="Hello", role="assistant")) == "- assistant: Hello"
    assert render_record(Fact(claim="Mira works in Utrecht.")) == "Mira works in Utrecht. (confidence 0.80)"
    old = Fact(claim="She works in Basel.", valid_from=AT, valid_to=AT, superseded_at=AT, status=Status.SUPERSEDED)
    times = "from 2025-03-08 18:05, until 2025-03-08 18:05, withdrawn 2025-03-08 18:05"
    assert render_record(old) == f"She works in Basel. (confidence 0.80, {times}, superseded)"
    assert render_record(Entity(name="Biscuit", type="dog", description="a beagle")) == "Biscuit (dog) a beagle"
    assert render_record(Goal(description="Learn cello")) == "Learn cello"


@dataclass
class Odd:
    when: datetime
    numbers: tuple[float, ...]
    names: frozenset[str]


def test_json_takes_whatever_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"z": Odd(AT, (1.5, float("nan"), float("inf")), frozenset({"b", "a"})), "a": "\x9b\ud800é", "m": object}
    show_json(value)
    written = capsys.readouterr().out
    found = json.loads(written)
    assert list(found) == ["a", "m", "z"]
    assert found["z"] == {"when": "2025-03-08T18:05:00+00:00", "numbers": [1.5, None, None], "names": ["a", "b"]}
    assert "\x9b" not in written
    assert "é" in written
    assert to_jsonable(Turn(id="t1", content="Hi"))["kind"] == "Turn"


def test_a_listing_aligns_and_nests() -> None:
    shown = render_mapping(
        {"turns": 12345, "files": {"main": "a.db", "size": 1.5}, "users": ["a", "b"], "none": None, "x": {}}
    )
    assert shown.splitlines() == [
        "turns  12,345",
        "files",
        "  main  a.db",
        "  size  1.500",
        "users  a, b",
        "none   -",
        "x",
    ]


class Terminal:
    """Standard error as a terminal."""

    def __init__(self) -> None:
        self.written = ""

    def write(self, text: str) -> int:
        self.written += text
        return len(text)

    def flush(self) -> None:
        self.written += ""

    def isatty(self) -> bool:
        return True


def test_progress_shows_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal: Any = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress() as shown:
        shown("storing", 0, 10)
        shown("storing", 10, 10)
        shown("asking", 1, 2)
    assert "storing" in terminal.written
    assert "10/10" in terminal.written
    assert "asking" in terminal.written


def test_progress_is_silent_elsewhere(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress() as shown:
        shown("storing", 5, 10)
    assert capfd.readouterr() == ("", "")
