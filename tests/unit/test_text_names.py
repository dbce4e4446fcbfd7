"""Slugs of names and hashes of claims: equal for spellings of one thing, different for different things."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.text.normalization import hash_claim, normalize_claim, slugify


@pytest.mark.parametrize(
    "name,expected",
    [
        ("Ada  Lovelace", "ada-lovelace"),
        ("Jos\u00e9 \u00c1lvarez", "jose-alvarez"),
        ("Jose\u0301", "jose"),
        ("O\u2019Brien & Sons, Ltd.", "o-brien-sons-ltd"),
        ("foo_bar/baz", "foo-bar-baz"),
        ("C", "c"),
        ("C++", "c-plus-plus"),
        ("C#", "c-sharp"),
        ("Stra\u00dfe", "strasse"),
        ("\u0419\u043e\u0434", "\u0439\u043e\u0434"),
        ("\u304c\u3063\u3053\u3046", "\u304c\u3063\u3053\u3046"),
        ("\ud55c\uad6d", "\ud55c\uad6d"),
        ("\U0001f389", "u1f389"),
        ("!?", "u21-u3f"),
        ("", ""),
        (" \u200b\n", ""),
    ],
)
def test_slug(name: str, expected: str) -> None:
    assert slugify(name) == expected


@given(st.text(st.characters()))
@settings(deadline=None)
def test_slug_is_stable_and_never_empty_for_what_can_be_seen(name: str) -> None:
    found = slugify(name)
    assert slugify(found) == found
    assert not re.search(r"\s|--|^-|-$", found)
    assert found.encode("utf-8") or not re.search(r"\w", name)
    assert found or not re.search(r"\w", name)


@pytest.mark.parametrize(
    "one,other",
    [
        ("Ann likes tea.", "ann  likes TEA"),
        ("Ann doesn\u2019t smoke", "Ann doesn't smoke!"),
        ("\uff21nn", "ann"),
        ("Ann\nlikes tea ", "Ann likes tea"),
    ],
)
def test_spellings_of_one_claim_have_one_hash(one: str, other: str) -> None:
    assert hash_claim(one) == hash_claim(other)


@pytest.mark.parametrize(
    "one,other",
    [
        ("Ann likes tea", "Ann does not like tea"),
        ("It costs 5", "It costs 50"),
        ("It costs 1.5", "It costs 15"),
        ("Ann writes C", "Ann writes C++"),
        ("Ann writes C", "Ann writes C#"),
        ("?", "!"),
    ],
)
def test_different_claims_have_different_hashes(one: str, other: str) -> None:
    assert hash_claim(one) != hash_claim(other)


@given(st.text(st.characters()))
@settings(deadline=None)
def test_normalising_twice_changes_nothing(text: str) -> None:
    found = normalize_claim(text)
    assert normalize_claim(found) == found
    assert bool(found) == bool(text.strip())
    assert re.fullmatch("[0-9a-f]{64}", hash_claim(text))
