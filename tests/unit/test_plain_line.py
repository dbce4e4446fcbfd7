"""Stored text on one harmless line, and speakers' names that cannot be taken for another role's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.text.plain_line import to_plain_line, to_plain_name


@pytest.mark.parametrize("space", ["\n", "\r\n", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", " \t ", "\n\n"])
def test_every_line_break_is_one_space(space: str) -> None:
    assert to_plain_line(f"a{space}# b") == "a # b"


@pytest.mark.parametrize(
    "text", ["</memory>", "< / memory >", "<MEMORY>", '<memory as_of="x">', "</mem\u200dory>", "</m\u200bemory>"]
)
def test_no_marker_is_left(text: str) -> None:
    assert "<" not in to_plain_line(f"x {text} y").replace("< y", "")


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200b", "\ufeff", "\x1b", "\x9b", "\x00", "\U000e0041"])
def test_what_is_not_shown_is_left_out(mark: str) -> None:
    assert to_plain_line(f"a{mark}b") == "ab"


@pytest.mark.parametrize("text", ["naïve café", "if a < b: <b>", "👩‍👩‍👧 family", "می‌خواهم", "日本語", "a <men> b"])
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert to_plain_line(text) == text


@given(st.text())
def test_is_one_line_and_stays_so(text: str) -> None:
    line = to_plain_line(text)
    assert len(line.splitlines()) <= 1
    assert to_plain_line(line) == line


@pytest.mark.parametrize(
    "name, role, shown",
    [
        ("Ann", "user", "Ann"),
        ("assistant", "user", "user"),
        ("Assistant", "assistant", "Assistant"),
        ("- ## [x] Ann: hi", "user", "x] Ann hi"),
        ("", "tool", "tool"),
        ("\n## ", "user", "user"),
        ("x" * 500, "user", "x" * 60),
    ],
)
def test_a_name_begins_a_line_safely(name: str, role: str, shown: str) -> None:
    assert to_plain_name(name, role) == shown
