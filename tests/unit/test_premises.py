"""Which facts are stale, against the plain definition over random premises, circles among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.core.record import Record, Status
from agentmem.core.records import Fact
from agentmem.core.truth_maintenance import find_stale, find_unreplaced_stale, invalid_since, read_premises

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = [f"f{number}" for number in range(7)]


@st.composite
def facts(draw: st.DrawFn) -> dict[str, Fact]:
    """Facts that rest on one another in any way; some ended, some will end."""
    out = {}
    for name in NAMES:
        days = draw(st.none() | st.integers(-3, 3))
        out[name] = Fact(
            id=name,
            claim=name,
            depends_on=tuple(draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))),
            valid_to=None if days is None else NOW + timedelta(days=days),
        )
    return out


def grounds(known: Mapping[str, Fact], name: str) -> set[str]:
    """All that a fact rests on at any depth."""
    found: set[str] = set()
    left = list(known[name].depends_on)
    while left:
        if (one := left.pop()) not in found:
            found.add(one)
            left += known[one].depends_on
    return found


@given(known=facts(), standing=st.sets(st.sampled_from(NAMES), max_size=2))
def test_stale_is_what_rests_on_something_that_ended_since_the_first_of_them(
    known: dict[str, Fact], standing: set[str]
) -> None:
    wanted = {}
    for name in known:
        gone = [
            known[one].valid_to for one in grounds(known, name) - standing if invalid_since(known[one], NOW) is not None
        ]
        if gone:
            wanted[name] = min(end for end in gone if end is not None)
    assert {name: why.invalid_since for name, why in find_stale(known, NOW, standing).items()} == wanted


@given(known=facts(), first=st.sampled_from(NAMES))
async def test_premises_are_read_level_by_level_and_each_once(known: dict[str, Fact], first: str) -> None:
    asked: list[str] = []

    async def read(ids: Sequence[str]) -> Sequence[Record]:
        asked.extend(ids)
        return [known[name] for name in ids]

    found = await read_premises([known[first]], read)
    assert set(found) == {first} | grounds(known, first)
    assert sorted(asked) == sorted(set(found) - {first})


@pytest.mark.parametrize(
    "fields, end",
    [
        ({}, None),
        ({"valid_to": NOW}, NOW),
        ({"valid_to": NOW + timedelta(days=1)}, None),
        ({"status": Status.ARCHIVED}, None),
        ({"status": Status.PROMOTED}, None),
        ({"superseded_at": NOW - timedelta(days=2), "valid_to": NOW}, NOW - timedelta(days=2)),
        ({"status": Status.FORGOTTEN, "superseded_at": NOW}, NOW),
    ],
)
def test_a_fact_ends_when_it_is_over_wrong_or_forgotten(fields: dict[str, object], end: datetime | None) -> None:
    assert invalid_since(Fact(claim="x", **fields), NOW) == end


def test_unknown_is_where_no_other_fact_is_about_the_same() -> None:
    stale = {"stale_since": NOW, "fallen_premise": "x"}
    ann = Fact(id="ann", claim="a", entity_ids=("e1",), **stale)
    bob = Fact(id="bob", claim="b", entity_ids=("e2",), **stale)
    bare = Fact(id="bare", claim="c", **stale)
    about_bob = Fact(id="d", claim="d", entity_ids=("e2", "e3"))
    assert find_unreplaced_stale([ann, bob, bare, about_bob]) == {"ann", "bare"}
    assert find_unreplaced_stale([bare, Fact(id="f", claim="f")]) == set()
    assert find_unreplaced_stale([about_bob]) == set()
