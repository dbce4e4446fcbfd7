"""Changes: what a write says of itself before and after."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentmem import Fact
from agentmem.core.changes import Change, WriteAttempt, hash_request
from agentmem.core.scope import Scope

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_the_actor_is_the_agent_else_the_user() -> None:
    def actor(scope: Scope) -> str:
        return Change(scope=scope, operation="x", operation_id="o", change_id="c").actor

    assert actor(Scope("alice", agent_id="bot")) == "bot"
    assert actor(Scope("alice")) == "user"


def test_an_attempt_makes_changes_of_its_own_identity() -> None:
    attempt = WriteAttempt(Scope("alice"), "learn_fact", "o", "c", "p", NOW)
    fact = Fact(claim="x", id="f")
    change = attempt.build_change(fact, expected_versions={fact.key: 3}, deletes=[("Fact", "g")], cause="why")
    assert (change.operation, change.operation_id, change.change_id, change.request_hash) == (
        "learn_fact",
        "o",
        "c",
        "p",
    )
    assert (change.upserts, change.expected_versions, change.deletes, change.cause) == (
        (fact,),
        {("Fact", "f"): 3},
        (("Fact", "g"),),
        "why",
    )


@pytest.mark.parametrize(
    "one, other",
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": ("x", "y")}, {"a": ["x", "y"]}),
        ({"a": NOW}, {"a": datetime(2026, 3, 1, tzinfo=UTC)}),
    ],
)
def test_equal_arguments_have_one_fingerprint(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert hash_request(**one) == hash_request(**other)


@pytest.mark.parametrize(
    "one, other",
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({"a": None}, {}),
        ({"a": "1"}, {"a": 1}),
        ({"a": "x"}, {"a": "X"}),
        ({"a": ["xy"]}, {"a": ["x", "y"]}),
    ],
)
def test_other_arguments_have_another_fingerprint(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert hash_request(**one) != hash_request(**other)


def test_any_text_has_a_fingerprint() -> None:
    assert len(hash_request(text="half a pair \ud800", odd={1, 2})) == 32
