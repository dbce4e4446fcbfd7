"""Records: frozen, typed, and refused with the field's name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from agentmem import Conversation, Edge, EdgeKind, Entity, Fact, Goal, InvalidRecord, Record, Status, Turn, User
from agentmem.core.records import KINDS, RELATION_KINDS, build_record, extract_fields, replace_validated

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def test_the_label_of_a_record_is_its_class_name() -> None:
    assert {name: cls.__name__ for name, cls in KINDS.items()} == {name: name for name in KINDS}
    assert Turn(id="t", content="x").key == ("Turn", "t")


def test_records_are_frozen_and_know_their_fields() -> None:
    fact = Fact(claim="x")
    with pytest.raises(ValidationError):
        fact.claim = "y"  # type: ignore[misc]
    with pytest.raises(InvalidRecord, match="colour"):
        build_record(Fact, claim="x", colour="red")


@pytest.mark.parametrize(
    "cls, fields, field",
    [
        (Turn, {"content": ""}, "content"),
        (Turn, {"content": "x" * 1_000_001}, "content"),
        (Turn, {"content": "x", "index": -2}, "index"),
        (Turn, {"content": "x", "token_count": -1}, "token_count"),
        (Turn, {"content": "x", "id": "\n"}, "id"),
        (Turn, {"content": "x", "timestamp": "soon"}, "timestamp"),
        (Fact, {"claim": "x", "confidence": float("inf")}, "confidence"),
        (Fact, {"claim": "x", "status": "asleep"}, "status"),
        (Fact, {"claim": "x", "source_spans": [("t", "a", 1)]}, "source_spans.0.1"),
        (Entity, {"name": "x", "type": "t" * 51}, "type"),
        (Goal, {"description": "x", "priority": 0}, "priority"),
        (Goal, {"description": "x", "goal_status": "won"}, "goal_status"),
        (Edge, {"edge_kind": "LIKES", "source": "a", "target": "b"}, "edge_kind"),
        (User, {"expertise_areas": 7}, "expertise_areas"),
        (Conversation, {"archived": "maybe"}, "archived"),
    ],
)
def test_the_first_wrong_field_is_named(cls: type[Record], fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecord) as error:
        build_record(cls, **fields)
    assert error.value.field == field
    assert str(error.value).startswith(f"{cls.__name__}.{field}: ")
    assert len(str(error.value)) < 500, "what came is quoted in part"


def test_moments_are_kept_in_utc() -> None:
    east = timezone(timedelta(hours=2))
    assert Turn(content="x", timestamp=datetime(2026, 3, 1, 2, tzinfo=east)).timestamp == DAY
    assert Turn(content="x", timestamp=datetime(2026, 3, 1)).timestamp == DAY


def test_a_change_is_checked_like_a_new_record() -> None:
    fact = Fact(claim="x", id="f")
    assert replace_validated(fact, confidence=0.5).confidence == 0.5
    with pytest.raises(InvalidRecord, match="confidence"):
        replace_validated(fact, confidence=2)


def test_what_is_given_is_a_record_or_a_mapping_of_its_fields() -> None:
    assert extract_fields(Goal, {"description": "x"}) == {"description": "x"}
    assert extract_fields(Goal, Goal(description="x", priority=4)) == {"description": "x", "priority": 4}
    for wrong, field in ((7, "goal"), ([("description", "x")], "goal"), ({"name": "x"}, "name"), ({1: 2}, "1")):
        with pytest.raises(InvalidRecord) as error:
            extract_fields(Goal, wrong)  # type: ignore[arg-type]
        assert error.value.field == field


def test_what_recall_searches_of_each_kind() -> None:
    assert Turn(content="x", metadata={"caption": "a cat"}).search_text() == "x [shares a cat]"
    assert Turn(content="x", metadata={"caption": 7}).search_text() == "x"
    assert Entity(name="Ann", aliases=("Annie", "Ann"), description="a nurse").search_text() == "Ann, Annie: a nurse"
    assert (Fact(claim="c").search_text(), Goal(description="d").search_text()) == ("c", "d")
    assert (Conversation(title="t").search_text(), User(preferences={"a": 1}).search_text()) == ("", "")


def test_one_current_fact_per_claim() -> None:
    fact = Fact(claim="x", claim_hash="h")
    assert fact.dedup_key() == "h"
    for retired in ({"superseded_at": DAY}, {"status": Status.FORGOTTEN}, {"status": Status.SUPERSEDED}):
        assert fact.model_copy(update=retired).dedup_key() == ""
    ends = [fact.model_copy(update={"valid_to": DAY + timedelta(days=n)}).dedup_key() for n in (0, 0, 1)]
    assert ends[0] == ends[1] != ends[2]
    assert "h" not in ends


def test_one_current_entity_per_type_and_slug() -> None:
    entity = Entity(name="Ann", type="person", slug="ann")
    assert entity.dedup_key() == "person:ann"
    assert entity.model_copy(update={"superseded_at": DAY}).dedup_key() == ""
    assert Entity(name="-", slug="").dedup_key() == ""


def test_world_time_of_each_kind() -> None:
    assert Turn(content="x", timestamp=DAY).valid_interval() == (DAY, None)
    assert Fact(claim="x", valid_from=DAY, valid_to=DAY).valid_interval() == (DAY, DAY)
    assert Conversation(started_at=DAY).valid_interval() == (DAY, None)
    assert Entity(name="x").valid_interval() == (None, None)


def test_callers_relate_entities_only_by_relations() -> None:
    assert {"KNOWS", "WORKS_FOR", "RELATED_TO"} <= RELATION_KINDS
    assert not {"HAS_TURN", "DERIVED_FROM", "SUPERSEDES", "ABOUT"} & RELATION_KINDS
    assert set(EdgeKind) > RELATION_KINDS
