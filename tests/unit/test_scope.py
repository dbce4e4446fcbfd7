"""Scopes: whose memory, which channels, and which names may be used."""

from __future__ import annotations

import pytest

from agentmem import InvalidRecord, ScopeError
from agentmem.core.scope import GLOBAL, SWARM, Scope, check_identifier, self_channel


@pytest.mark.parametrize("name", ["a", "a" * 200, "Ann Lee", "日本", "a:b", "_", "😀"])
def test_any_visible_name_of_up_to_200_characters_will_do(name: str) -> None:
    assert check_identifier(name, "user_id") == name
    assert Scope(name).user_id == name


@pytest.mark.parametrize("name", ["", " ", "\n", "a\x00", "a\tb", "a" * 201, "\ud800", None, 7, b"a"])
def test_other_names_are_refused_with_the_field(name: object) -> None:
    for field in ("user_id", "channel", "conversation_id", "agent_id", "session_id"):
        if name is None and field in ("conversation_id", "agent_id", "session_id"):
            continue
        with pytest.raises(InvalidRecord, match=field) as error:
            Scope(**{"user_id": "alice", field: name})  # type: ignore[arg-type]
        assert error.value.field == field


def test_the_system_s_user_and_foreign_private_channels_are_refused() -> None:
    with pytest.raises(ScopeError, match="_system"):
        Scope("_system")
    with pytest.raises(ScopeError, match="private"):
        Scope("alice", "_self_bot")
    with pytest.raises(ScopeError, match="private"):
        Scope("alice", "_self_bot", agent_id="other")
    assert Scope("alice", "_self_bot", agent_id="bot").channel == self_channel("bot")


def test_an_agents_name_leaves_room_for_its_channel() -> None:
    longest = "a" * 194
    assert len(self_channel(longest)) == 200
    assert Scope("alice", agent_id=longest)
    with pytest.raises(InvalidRecord, match="agent_id"):
        Scope("alice", agent_id=longest + "a")


@pytest.mark.parametrize(
    "scope, channels",
    [
        (Scope("alice"), (GLOBAL, SWARM)),
        (Scope("alice", "roof"), ("roof", SWARM, GLOBAL)),
        (Scope("alice", "roof", agent_id="bot"), ("roof", "_self_bot", SWARM, GLOBAL)),
        (Scope("alice", "_self_bot", agent_id="bot"), ("_self_bot", SWARM, GLOBAL)),
        (Scope("alice", SWARM), (SWARM, GLOBAL)),
        (Scope("alice", "roof").with_channels(["cellar", "cellar", GLOBAL]), ("cellar", GLOBAL)),
        (Scope("alice", "roof").with_channels(None), ("roof", SWARM, GLOBAL)),
    ],
)
def test_a_read_covers_each_channel_once_the_active_one_first(scope: Scope, channels: tuple[str, ...]) -> None:
    assert scope.readable_channels() == channels


def test_an_explicit_list_must_be_a_list_of_ones_own_channels() -> None:
    scope = Scope("alice", agent_id="bot")
    assert scope.with_channels(["_self_bot"]).readable_channels() == ("_self_bot",)
    with pytest.raises(ScopeError, match="private"):
        scope.with_channels(["_self_other"])
    for wrong in ([], "roof", [""], [7]):
        with pytest.raises(InvalidRecord, match="channels"):
            scope.with_channels(wrong)  # type: ignore[arg-type]
