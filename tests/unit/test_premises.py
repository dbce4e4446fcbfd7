"""Which facts are stale, against the plain definition over random premises, circles among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.core.record import Record, Status
from agentmem.core.records import Fact
from agentmem.core.truth_maintenance import covers, find_stale, find_unreplaced_stale, read_premises

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


@given(known=facts())
def test_stale_is_what_rests_on_something_that_ended_since_the_first_of_them(known: dict[str, Fact]) -> None:
    wanted = {}
    for name in known:
        gone = [end for one in grounds(known, name) if (end := known[one].valid_to) is not None and end <= NOW]
        if gone:
            wanted[name] = min(gone)
    assert {name: why.invalid_since for name, why in find_stale(known, NOW).items()} == wanted


def day(number: int) -> datetime:
    return NOW + timedelta(days=number)


def record(name: str, claim_hash: str, **fields: Any) -> Fact:
    return Fact(id=name, claim=claim_hash, claim_hash=claim_hash, **fields)


WRONG = {"superseded_at": day(-1), "status": Status.SUPERSEDED}
FORGOTTEN = {"superseded_at": day(-1), "status": Status.FORGOTTEN}


@pytest.mark.parametrize(
    "name, records, since",
    [
        ("holds", [record("a", "x")], None),
        ("ends later", [record("a", "x", valid_to=day(3))], None),
        ("ended", [record("a", "x", valid_to=day(-2))], day(-2)),
        ("wrong", [record("a", "x", **WRONG)], day(-1)),
        ("forgotten", [record("a", "x", **FORGOTTEN)], day(-1)),
        ("archived", [record("a", "x", status=Status.ARCHIVED)], None),
        ("begins later", [record("a", "x", valid_from=day(3))], None),
        ("gone", [], NOW),
        ("put off", [record("a", "x", **WRONG, valid_to=day(-2)), record("b", "x", valid_to=day(4))], None),
        ("learned anew", [record("a", "x", valid_to=day(-2)), record("b", "x", valid_from=day(-1))], None),
        ("back next month", [record("a", "x", valid_to=day(-2)), record("b", "x", valid_from=day(30))], day(-2)),
        ("back and gone", [record("a", "x", valid_to=day(-9)), record("b", "x", valid_to=day(-3))], day(-3)),
        ("another belief", [record("a", "x", valid_to=day(-2)), record("b", "y")], day(-2)),
        ("lost its sources", [record("a", "x", stale_since=day(-4))], day(-4)),
        ("one carries it", [record("a", "x", stale_since=day(-4)), record("b", "x")], None),
    ],
)
def test_a_premise_is_a_belief_that_any_of_its_records_carries(
    name: str, records: list[Fact], since: datetime | None
) -> None:
    above = Fact(id="above", claim="above", depends_on=("a",))
    top = Fact(id="top", claim="top", depends_on=("above",))
    found = find_stale({each.id: each for each in (*records, above, top)}, NOW)
    assert {each: found[each].invalid_since if each in found else None for each in ("above", "top")} == {
        "above": since,
        "top": since,
    }, name


def test_values_of_one_slot_are_beliefs_of_their_own() -> None:
    slot = {"slot": "home", "subject": "user", "claim": "x"}
    oslo = Fact(id="oslo", value="Oslo", valid_to=day(-5), **slot)
    bergen = Fact(id="bergen", value="Bergen", valid_from=day(-5), valid_to=day(-1), **slot)
    back = Fact(id="back", value="oslo", valid_from=day(-1), **slot)
    ferry = Fact(id="ferry", claim="takes the ferry", depends_on=("oslo",))
    funicular = Fact(id="funicular", claim="takes the funicular", depends_on=("bergen",))
    known = {each.id: each for each in (oslo, bergen, back, ferry, funicular)}
    assert set(find_stale(known, day(-9))) == set()
    assert set(find_stale(known, day(-3))) == {"ferry"}
    assert set(find_stale(known, NOW)) == {"funicular"}


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
    "fields, does",
    [
        ({}, True),
        ({"valid_to": NOW}, False),
        ({"valid_to": day(1)}, True),
        ({"valid_from": day(1)}, False),
        ({"status": Status.ARCHIVED}, True),
        ({"status": Status.PROMOTED}, True),
        ({"superseded_at": day(2), "status": Status.SUPERSEDED}, False),
        ({"status": Status.FORGOTTEN, "superseded_at": NOW}, False),
        ({"status": Status.FORGOTTEN, "superseded_at": day(1)}, True),
    ],
)
def test_a_record_covers_its_interval_unless_it_was_wrong(fields: dict[str, Any], does: bool) -> None:
    assert covers(Fact(claim="x", **fields), NOW) is does


def test_unknown_is_where_no_other_fact_is_about_the_same() -> None:
    stale = {"stale_since": NOW, "fallen_premise": "x"}
    ann = Fact(id="ann", claim="a", entity_ids=("e1",), **stale)
    bob = Fact(id="bob", claim="b", entity_ids=("e2",), **stale)
    bare = Fact(id="bare", claim="c", **stale)
    about_bob = Fact(id="d", claim="d", entity_ids=("e2", "e3"))
    assert find_unreplaced_stale([ann, bob, bare, about_bob]) == {"ann", "bare"}
    assert find_unreplaced_stale([bare, Fact(id="f", claim="f")]) == set()
    assert find_unreplaced_stale([about_bob]) == set()
