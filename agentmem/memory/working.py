"""Working memory: what the running session has at hand. A cache; what must not vanish lies in the log."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from agentmem.errors import InvalidRecord, StoreError, StoreUnavailable
from agentmem.memory import Seat
from agentmem.model.records import Turn
from agentmem.model.scope import checked_name
from agentmem.stores import Where
from agentmem.text.ranks import best_matches

T = TypeVar("T")
THOUGHTS = 100


@dataclass
class Working:
    """The session's last turns, context values, thoughts and active goal, each with a time to live.

    While the session store is away nothing is at hand: what reads it finds nothing. `set`, `push_thought`, `delete` and
    `clear` raise StoreUnavailable then, so that nobody takes for done what was not.
    """

    seat: Seat

    def _key(self, what: str) -> str:
        scope = self.seat.scope
        return _key(scope.channel, scope.conversation_id or "", what)

    @property
    def _ttl(self) -> float:
        return self.seat.resources.settings.working_ttl

    async def _found(self, question: Awaitable[T], nothing: T) -> T:
        try:
            return await question
        except StoreUnavailable:  # any key may be gone at any time, and so may all of them
            return nothing

    async def saw(self, turns: Sequence[Turn]) -> None:
        """Put turns just stored at hand; best effort, for a cache must not fail a write."""
        keep = self.seat.resources.settings.working_turns
        with suppress(StoreError):
            for turn in turns:
                value = {"id": turn.id, "role": turn.role, "speaker": turn.speaker, "content": turn.content}
                key = _key(turn.channel, turn.conversation_id, "turns")
                await self.seat.resources.session.push(self.seat.scope, key, value, keep=keep, ttl=self._ttl)

    async def turns(self, limit: int = 10) -> list[Turn]:
        """The last turns of the current conversation, oldest first; [] before the first one."""
        conversation = self.seat.scope.conversation_id
        if conversation is None or limit < 1:
            return []
        where = Where(
            kinds=("Turn",), channels=self.seat.scope.readable(), conversation_id=conversation, status=("active",)
        )
        kept = min(limit, self.seat.resources.settings.working_turns)
        found = await self.seat.resources.log.find(
            self.seat.scope, where, order="position", descending=True, limit=kept
        )
        return [turn for turn in reversed(found) if isinstance(turn, Turn)]

    async def search(self, query: str, limit: int = 5) -> list[Turn]:
        """The session's turns that share words with the query, best first (BM25 over the turns at hand)."""
        turns = await self.turns(self.seat.resources.settings.working_turns)
        return [turns[at] for at in best_matches(query, [turn.content for turn in turns], limit)]

    async def set(self, key: str, value: Any, ttl: float | None = None) -> None:
        """Keep a JSON value for `ttl` seconds (the setting `working_ttl` when None)."""
        if ttl is not None and ttl <= 0:
            raise InvalidRecord(f"ttl must be positive seconds, got {ttl}", field="ttl")
        name = self._key(f"context:{checked_name(key, 'key')}")
        await self.seat.resources.session.set(self.seat.scope, name, value, ttl=ttl or self._ttl)

    async def get(self, key: str) -> Any:
        """The value kept under a key; None when there is none, or its time is over."""
        name = self._key(f"context:{checked_name(key, 'key')}")
        return await self._found(self.seat.resources.session.get(self.seat.scope, name), None)

    async def delete(self, key: str) -> None:
        """Drop a value; nothing happens when there is none."""
        await self.seat.resources.session.delete(self.seat.scope, self._key(f"context:{checked_name(key, 'key')}"))

    async def context(self) -> dict[str, Any]:
        """All context values of the current conversation by key."""
        prefix = self._key("context:")
        found = await self._found(self.seat.resources.session.items(self.seat.scope, prefix), {})
        return {name.removeprefix(prefix): value for name, value in sorted(found.items())}

    async def push_thought(self, thought: str) -> None:
        """Note a thought; the last 100 are kept."""
        said: object = thought
        if not isinstance(said, str) or not said.strip():
            raise InvalidRecord("thought must be non-empty text", field="thought")
        await self.seat.resources.session.push(
            self.seat.scope, self._key("thoughts"), thought, keep=THOUGHTS, ttl=self._ttl
        )

    async def thoughts(self, limit: int = 10) -> list[str]:
        """The last thoughts, oldest first."""
        question = self.seat.resources.session.tail(self.seat.scope, self._key("thoughts"), limit)
        return [str(item) for item in await self._found(question, [])]

    async def clear(self) -> None:
        """Forget the session's cached values of the current conversation; turns stay in episodic memory."""
        await self.seat.resources.session.clear(self.seat.scope, self._key(""))

    async def new_session(self) -> str:
        """Begin a new session with a new conversation; returns the session's id."""
        session = self.seat.resources.ids.new()
        self.seat.begin(session)
        return session

    async def current_markdown(self) -> str:
        """The session as a readable Markdown page: recent turns, context values, thoughts."""
        lines = ["# Agent short-term memory", ""]
        if self.seat.scope.session_id:
            lines.append(f"## Session: {self.seat.scope.session_id}")
        lines.append(f"## Last updated: {self.seat.resources.clock.now():%Y-%m-%d %H:%M:%S}")
        lines += ["", "### Recent messages", ""]
        for turn in await self.turns(self.seat.resources.settings.working_turns):
            lines += [f"**{turn.speaker or turn.role.capitalize()}:** {turn.content}", ""]
        for title, items in (
            ("Context", [f"{name}: {value}" for name, value in (await self.context()).items()]),
            ("Thoughts", await self.thoughts()),
        ):
            if items:
                lines += [f"### {title}", "", *(f"- {item}" for item in items), ""]
        return "\n".join(lines).rstrip() + "\n"


def _key(channel: str, conversation_id: str, what: str) -> str:
    # The documents' pattern: working:{user}:channel:conversation:*; the store adds the user, as a column or behind the
    # first part.
    # Quoted, so that a colon in a name cannot make one conversation's keys look like another's.
    return f"working:{quote(channel, safe='')}:{quote(conversation_id, safe='') or '-'}:{what}"
