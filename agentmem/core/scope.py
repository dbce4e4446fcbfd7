"""Whose memory, and which channels of it. Every store call takes a Scope."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypedDict

from agentmem.core.plain_values import describe_value, has_visible
from agentmem.errors import InvalidRecord, PermissionDenied, ScopeError

GLOBAL = "_global"
SWARM = "_swarm"
SYSTEM_USER = "_system"
MAX_IDENTIFIER_CHARS = 200
_SELF_PREFIX = "_self_"
MAX_AGENT_CHARS = MAX_IDENTIFIER_CHARS - len(_SELF_PREFIX)
_CONTROL_CHARS = re.compile("[\x00-\x1f\ud800-\udfff]")


def check_identifier(value: object, field: str) -> str:
    """A user, channel, agent, conversation or record id: 1 to 200 characters, one of them visible, none a control.

    Raises InvalidRecord naming the field.
    """
    checked = check_stored_identifier(value, field)
    if not has_visible(checked):
        raise InvalidRecord(f"{field} must have a visible character, got {describe_value(checked)}", field=field)
    return checked


def check_stored_identifier(value: object, field: str) -> str:
    """The same for what is stored already, where older versions took names without a visible character."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidRecord(f"{field} must be a non-empty string, got {describe_value(value)}", field=field)
    if len(value) > MAX_IDENTIFIER_CHARS:
        raise InvalidRecord(
            f"{field} must have at most {MAX_IDENTIFIER_CHARS} characters, got {len(value)}", field=field
        )
    if _CONTROL_CHARS.search(value):
        raise InvalidRecord(f"{field} must not hold control characters", field=field)
    return value


def self_channel(agent_id: str) -> str:
    """The private channel of an agent."""
    return f"{_SELF_PREFIX}{agent_id}"


def is_self_channel(channel: str) -> bool:
    """Whether a channel is private to an agent."""
    return channel.startswith(_SELF_PREFIX)


def agent_of_channel(channel: str) -> str | None:
    """The agent whose private channel this is; None for any other channel."""
    return channel.removeprefix(_SELF_PREFIX) if is_self_channel(channel) else None


class ScopeFields(TypedDict, total=False):
    """What another view of a memory may change; None leaves it."""

    user_id: str | None
    channel: str | None
    conversation_id: str | None
    agent_id: str | None
    session_id: str | None
    channels: Sequence[str] | None
    key_id: str | None
    own_channels: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory is meant and from where it is seen.

    `channel` is where writes go. Reads cover the active channel, the agent's own, `_swarm` and `_global`, or exactly
    `channels` when that list is given. `key_id` is the key by which a server let the caller in; a key of one channel or
    agent writes into `own_channels` alone, and reads no other channels than these, `_swarm` and `_global`.
    """

    user_id: str
    channel: str = GLOBAL
    agent_id: str | None = None
    conversation_id: str | None = None
    session_id: str | None = None
    channels: tuple[str, ...] | None = None
    key_id: str | None = None
    own_channels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_stored_identifier(self.user_id, "user_id")
        self._check_names(check_stored_identifier)
        if self.user_id == SYSTEM_USER:
            raise ScopeError(f"user_id {SYSTEM_USER!r} is kept for the system")
        if self.agent_id is not None and len(self.agent_id) > MAX_AGENT_CHARS:
            raise InvalidRecord(f"agent_id must have at most {MAX_AGENT_CHARS} characters", field="agent_id")
        if is_self_channel(self.channel) and (self.agent_id is None or self.channel != self_channel(self.agent_id)):
            raise ScopeError(f"channel {self.channel!r} is private to its agent; give its agent_id")

    def _check_names(self, check: Callable[[object, str], str]) -> None:
        for field in ("channel", "agent_id", "conversation_id", "session_id"):
            if (name := getattr(self, field)) is not None or field == "channel":
                check(name, field)

    def check_visible(self) -> Self:
        """This scope, as a caller may name it. Raises InvalidRecord for a name without a visible character.

        A user's name is checked by the user's first write: what an older version stored can be read and erased.
        """
        self._check_names(check_identifier)
        return self

    @property
    def actor(self) -> str:
        """Who asks: the id of a key, else the agent, else `user`."""
        return self.key_id or self.agent_id or "user"

    def readable_channels(self) -> tuple[str, ...]:
        """The channels a read covers, each once, the active one first."""
        if self.channels is not None:
            return tuple(dict.fromkeys(self.channels))
        own = (self_channel(self.agent_id),) if self.agent_id else ()
        return tuple(dict.fromkeys((self.channel, *own, SWARM, GLOBAL)))

    def with_channels(self, channels: Sequence[str] | None) -> Scope:
        """The same scope, reading exactly these channels; None keeps what it reads."""
        if channels is None:
            return self
        if isinstance(channels, str) or not channels:
            raise InvalidRecord("channels must be a non-empty list of channel names", field="channels")
        names = tuple(check_stored_identifier(name, "channels") for name in channels)
        for name in names:
            if is_self_channel(name) and (self.agent_id is None or name != self_channel(self.agent_id)):
                raise ScopeError(f"channel {name!r} is private to its agent")
            if self.own_channels is not None and name not in self.readable_channels():
                raise ScopeError(f"this key does not open channel {name!r}")
        return replace(self, channels=names)

    def check_writable(self, channels: Iterable[str]) -> None:
        """Raise PermissionDenied for a channel that a key of one channel or agent may only read."""
        if self.own_channels is None:
            return
        for channel in channels:
            if channel not in self.own_channels:
                own = " and ".join(self.own_channels)
                raise PermissionDenied(f"this key writes into {own} alone; {channel} it may only read")


def channel_scope(user_id: str, channel: str, conversation_id: str | None = None) -> Scope:
    """The scope of background work in a channel; it works in an agent's private channel as that agent."""
    return Scope(user_id, channel, agent_of_channel(channel), conversation_id)


@dataclass(frozen=True, slots=True)
class Operator:
    """Replaces a Scope where background work concerns all users; only the worker and `--all-users` hold one."""

    name: str = "operator"
