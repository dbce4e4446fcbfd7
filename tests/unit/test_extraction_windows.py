"""Which turns are read together, and which cost no call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.core.records import Turn
from agentmem.extraction.windows import MAX_TOKENS, MAX_TURNS, is_substantive, split_into_windows
from agentmem.text.tokenizer import estimate_tokens


def turn(text: str, number: int = 0, conversation: str = "c", **fields: object) -> Turn:
    return Turn(id=f"t{number}", conversation_id=conversation, content=text, index=number, **fields)  # type: ignore[arg-type]


SIZES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 6_000)), max_size=40)


@given(SIZES, st.integers(1, 8), st.integers(1, 1_500))
def test_windows_keep_every_turn_once_in_order_and_within_bounds(
    sizes: list[tuple[str, int]], most: int, tokens: int
) -> None:
    turns = [turn("x" * size, n, conversation) for n, (conversation, size) in enumerate(sizes)]
    windows = split_into_windows(turns, max_turns=most, max_tokens=tokens)
    assert [each for window in windows for each in window] == turns
    for window in windows:
        assert 1 <= len(window) <= most
        assert len({each.conversation_id for each in window}) == 1
        assert len(window) == 1 or sum(estimate_tokens(each.content) for each in window) <= tokens


def test_a_window_takes_six_turns_or_1200_tokens_and_an_oversized_turn_stands_alone() -> None:
    assert (MAX_TURNS, MAX_TOKENS) == (6, 1_200)
    assert [len(window) for window in split_into_windows([turn("word", n) for n in range(14)])] == [6, 6, 2]
    assert [len(window) for window in split_into_windows([turn("x" * 2_000, n) for n in range(5)])] == [2, 2, 1]
    assert [len(window) for window in split_into_windows([turn("a"), turn("x" * 9_000), turn("b"), turn("c")])] == [
        1,
        1,
        2,
    ]
    assert split_into_windows([]) == []


@pytest.mark.parametrize(
    "text",
    [
        "ok",
        "Thank you!",
        "I'm vegan",
        "Good morning, Caroline!",
        "Thanks so much, have a great day! 😀🎉",
        "Hey Mel! Good to see you! How have you been?",
        "Haha, that's great!!! 👍👍👍",
        "yes yes yes yes yes",
        "You’re welcome, Anna.",
        "…………………………",
        "谢谢你",
        "Sounds good. Talk to you later, bye!",
    ],
)
def test_pleasantries_and_short_turns_are_not_worth_reading(text: str) -> None:
    assert not is_substantive(turn(text))


@pytest.mark.parametrize(
    "text",
    [
        "I'm a vegan.",
        "Thanks, I moved to Oslo.",
        "Good morning from Lima!",
        "我对花生过敏",
        "Yes, on Friday at nine.",
        "Okay, it is Zurich",
        "thanks " * 60,
        "See you in Rome tomorrow",
        "No, Anna is my sister",
        "Hello World Cup",
    ],
)
def test_what_says_something_is_worth_reading(text: str) -> None:
    assert is_substantive(turn(text))


def test_a_shared_picture_says_something() -> None:
    assert is_substantive(turn("Look!", metadata={"caption": "a dog on a beach"}))


@given(st.text(alphabet="thanksomuchi yeoC!'’ ", max_size=300))
def test_any_text_is_judged(text: str) -> None:
    assert is_substantive(turn(text + "x")) in (True, False)
