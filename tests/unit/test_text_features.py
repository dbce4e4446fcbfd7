"""Features of a text: words, length, questions and words of time."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.text.tokenizer import TextFeatures, extract_features, extract_features_and_terms, tokenize


@pytest.mark.parametrize(
    "text,expected",
    [
        ("", TextFeatures(0, 0, False, False, False)),
        ("How are you?", TextFeatures(3, 0, True, True, False)),
        ("Really? I went yesterday.", TextFeatures(4, 3, False, True, True)),
        ("See this? [shares a photo of last year?]", TextFeatures(8, 5, True, True, False)),
        ("See example.com/?q=1 now", TextFeatures(3, 6, False, False, False)),
        ("In 2022 we met", TextFeatures(4, 2, False, False, True)),
        ("\u5143\u6c17\u3067\u3059\u304b\uff1f", TextFeatures(1, 4, True, True, False)),
        ("\u0643\u064a\u0641 \u061f", TextFeatures(2, 1, True, True, False)),
    ],
)
def test_features(text: str, expected: TextFeatures) -> None:
    assert extract_features(text) == expected


@pytest.mark.parametrize("word", ["last", "Tuesday", "in May", "3 weeks", "tonight", "two years ago", "this morning"])
def test_words_of_time(word: str) -> None:
    assert extract_features(f"we met {word}").mentions_time


def test_no_words_of_time() -> None:
    assert not extract_features("the cat sat on the mat, weakly and daylong").mentions_time


@given(st.text(st.characters()) | st.text(st.sampled_from("ab ?[].\uff1f"), max_size=60))
@settings(deadline=None)
def test_features_agree_with_the_terms(text: str) -> None:
    read, found = extract_features_and_terms(text)
    assert read == extract_features(text)
    assert found == Counter(tokenize(text))
    assert read.term_count == sum(found.values())
    assert read.contains_question or not read.ends_with_question
