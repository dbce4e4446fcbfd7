"""Features of a text: words, length, questions and words of time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.text.features import Features, analyse, features
from agentmem.text.passages import passages
from agentmem.text.words import counts


@pytest.mark.parametrize(
    "text,expected",
    [
        ("", Features(0, 0, False, False, False)),
        ("How are you?", Features(3, 0, True, True, False)),
        ("Really? I went yesterday.", Features(4, 3, False, True, True)),
        ("See this? [shares a photo of last year?]", Features(8, 5, True, True, False)),
        ("See example.com/?q=1 now", Features(3, 6, False, False, False)),
        ("In 2022 we met", Features(4, 2, False, False, True)),
        ("\u5143\u6c17\u3067\u3059\u304b\uff1f", Features(1, 4, True, True, False)),
        ("\u0643\u064a\u0641 \u061f", Features(2, 1, True, True, False)),
    ],
)
def test_features(text: str, expected: Features) -> None:
    assert features(text) == expected


@pytest.mark.parametrize("word", ["last", "Tuesday", "in May", "3 weeks", "tonight", "two years ago", "this morning"])
def test_words_of_time(word: str) -> None:
    assert features(f"we met {word}").when


def test_no_words_of_time() -> None:
    assert not features("the cat sat on the mat, weakly and daylong").when


@given(st.text(st.characters()) | st.text(st.sampled_from("ab ?[].\uff1f"), max_size=60))
@settings(deadline=None)
def test_analyse_agrees_with_its_parts(text: str) -> None:
    read, found, pieces = analyse(text)
    assert read == features(text)
    assert found == counts(text)
    assert pieces == passages(text)
    assert read.length == sum(found.values())
    assert read.any_ask or not read.asks
