"""Passages: sentences with exact spans, trailing blocks apart, bounded in number and length."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.text.chunking import MAX_SENTENCE_CHARS, MAX_SENTENCES, Chunk, chunk_text

TEXTISH = st.text(st.sampled_from("ab .!?\u3002\uff01\u300d[]=\n\t,;\ud800\U0001f389"), max_size=200) | st.text(
    st.characters()
)


def sentences(text: str) -> list[str]:
    return [passage.text for passage in chunk_text(text) if passage.granularity == "sentence"]


@pytest.mark.parametrize(
    "text,expected",
    [
        ("Hi! How are you? Fine.", ["Hi!", "How are you?", "Fine."]),
        ("One sentence only.", []),
        ("Version 2.3 is out.See e.g. this", ["Version 2.3 is out.See e.g.", "this"]),
        ("- milk\n- eggs\n\nand bread", []),
        ("Look. \n Nice", ["Look.", "Nice"]),
        ("Look at her! [shares a photo of a dog]", ["Look at her!", "[shares a photo of a dog]"]),
        ("Look [shares a dog] [shares a [small] cat]", ["Look", "[shares a dog]", "[shares a [small] cat]"]),
        ("[shares a photo. Of a dog]", []),
        ("x = [a, b]", []),
        ("a[b] and [] and ]", []),
        (
            "\u884c\u3063\u305f\u3002\u300c\u697d\u3057\u3044\uff01\u300d\u306f\u3044",
            ["\u884c\u3063\u305f\u3002", "\u300c\u697d\u3057\u3044\uff01\u300d", "\u306f\u3044"],
        ),
        ("\u0643\u064a\u0641 \u061f \u0646\u0639\u0645", ["\u0643\u064a\u0641 \u061f", "\u0646\u0639\u0645"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_whole_comes_first_with_the_text_as_it_is() -> None:
    assert chunk_text("  Hi. Bye ") == [
        Chunk("whole", 0, 0, 10, "  Hi. Bye "),
        Chunk("sentence", 1, 2, 5, "Hi."),
        Chunk("sentence", 2, 6, 9, "Bye"),
    ]


@pytest.mark.parametrize("text", ["", " ", "\n\t\u3000"])
def test_nothing_visible_gives_no_passage(text: str) -> None:
    assert chunk_text(text) == []


def test_what_follows_the_last_allowed_sentence_is_part_of_it() -> None:
    found = sentences("Yes. " * 100)
    assert len(found) == MAX_SENTENCES
    assert found[0] == "Yes."
    assert found[-1].count("Yes.") == 100 - MAX_SENTENCES + 1


@pytest.mark.parametrize("joint", [", ", " ", "\n", ""])
def test_a_long_sentence_is_cut_at_the_best_boundary(joint: str) -> None:
    text = joint.join(["word" * 5] * 150)
    found = sentences(text)
    assert len(found) > 2
    assert all(len(piece) <= MAX_SENTENCE_CHARS for piece in found)
    assert "".join("".join(found).split()) == "".join(text.split())
    if joint:
        assert all(piece.strip(", ").startswith("word") and piece.strip(", ").endswith("word") for piece in found)


@given(TEXTISH)
@settings(deadline=None)
def test_spans_are_exact_ordered_and_lose_only_white_space(text: str) -> None:
    found = chunk_text(text)
    assert bool(found) == bool(text.strip())
    assert all(text[p.start : p.end] == p.text and p.text.strip() for p in found)
    parts = found[1:]
    assert len(parts) != 1
    assert [p.part for p in found] == list(range(len(found)))
    assert all(a.end <= b.start for a, b in pairwise(parts))
    if parts:
        assert "".join("".join(p.text for p in parts).split()) == "".join(text.split())


@pytest.mark.parametrize("piece", ["]", "[", ". ", "\u3002", "a ", "a", "[a] ", "\n", ","])
def test_ten_thousand_characters_of_one_kind(piece: str) -> None:
    assert len(chunk_text(piece * (10_000 // len(piece)))) <= MAX_SENTENCES + 1
