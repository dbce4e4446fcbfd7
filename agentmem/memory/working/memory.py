"""Working memory: what the running session has at hand. A cache; what must not vanish lies in the log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from agentmem.core.arguments import check_arguments
from agentmem.core.plain_values import copy_json, has_visible
from agentmem.core.records import Goal, Turn
from agentmem.core.scope import check_identifier
from agentmem.core.telemetry import WARNING, log_event
from agentmem.errors import InvalidRecord, StoreError, StoreUnavailable
from agentmem.memory.context import MemoryContext
from agentmem.memory.goals import Goals
from agentmem.memory.read_audit import audit_read
from agentmem.memory.working import tool_outputs
from agentmem.memory.working.session_page import get_session_pages, quote_lines, remove_page
from agentmem.memory.working.tool_outputs import ToolOutput, ToolOutputMatch
from agentmem.stores.values import Where
from agentmem.text.plain_line import to_plain_line, to_plain_name
from agentmem.text.tokenizer import rank_by_bm25

T = TypeVar("T")
MAX_THOUGHTS = 100
MAX_TTL_SECONDS = 10 * 365 * 24 * 3600  # ten years
_ROLE_LABELS = {"user": "User", "assistant": "Agent"}


@check_arguments
@dataclass
class WorkingMemory:
    """The session's last turns, context values, thoughts, active goal and outputs of tools, each with a time to live.

    While the session store is away, reads find nothing. `set`, `push_thought`, `delete` and `clear` raise
    StoreUnavailable then, so that no lost write looks done.
    """

    _context: MemoryContext

    def _session_key(self, suffix: str) -> str:
        scope = self._context.scope
        return _build_session_key(scope.channel, scope.conversation_id or "", suffix)

    @property
    def _ttl(self) -> float:
        return self._context.engine.settings.working_ttl

    async def _read_or_default(self, reading: Awaitable[T], default: T) -> T:
        try:
            return await reading
        except StoreUnavailable:  # any key may be gone at any time, and so may all of them
            return default

    async def cache_turns(self, turns: Sequence[Turn]) -> None:
        """Put turns just stored at hand; best effort, for a cache must not fail a write."""
        settings, session = self._context.engine.settings, self._context.engine.session
        if session.is_shared:  # working memory reads turns from the log; the cache's list is for other programs
            with suppress(StoreError):
                for turn in turns:
                    value = {"id": turn.id, "role": turn.role, "speaker": turn.speaker, "content": turn.content}
                    key = _build_session_key(turn.channel, turn.conversation_id, "turns")
                    await session.push(self._context.scope, key, value, keep=settings.working_turns, ttl=self._ttl)
        if settings.current_md and turns:
            last = turns[-1]
            scope = replace(self._context.scope, conversation_id=last.conversation_id, session_id=last.session_id)
            try:
                await WorkingMemory(MemoryContext(self._context.engine, scope)).write_current_markdown()
            except StoreError as error:
                log_event(WARNING, "page_not_written", user_id=scope.user_id, error=str(error))

    @audit_read
    async def turns(self, limit: int = 10) -> list[Turn]:
        """The last turns of the current conversation, oldest first; [] before the first one."""
        conversation = self._context.scope.conversation_id
        if conversation is None or limit < 1:
            return []
        where = Where(
            kinds=("Turn",),
            channels=self._context.scope.readable_channels(),
            conversation_id=conversation,
            status=("active",),
        )
        kept = min(limit, self._context.engine.settings.working_turns)
        found = await self._context.engine.log.find(
            self._context.scope, where, order="position", descending=True, limit=kept
        )
        return [turn for turn in reversed(found) if isinstance(turn, Turn)]

    async def search(self, query: str, limit: int = 5) -> list[Turn]:
        """The session's turns that share words with the query, best first (BM25 over the turns at hand)."""
        turns = await self.turns(self._context.engine.settings.working_turns)
        return [turns[at] for at in rank_by_bm25(query, [turn.content for turn in turns], limit)]

    async def set(self, key: str, value: Any, ttl: Annotated[float | None, "Seconds."] = None) -> None:
        """Keep a JSON value for `ttl` seconds (by default the setting `working_ttl`) after it was last set or read.

        A user's values and thoughts take at most `working_mb` (10 MB): beyond that those written longest ago go. Raises
        InvalidRecord for a value that alone takes more.
        """
        if ttl is not None and not 0 < ttl <= MAX_TTL_SECONDS:
            raise InvalidRecord(f"ttl must be above 0 and at most {MAX_TTL_SECONDS:,} seconds, got {ttl}", field="ttl")
        value = copy_json(value, "value")
        session, scope = self._context.engine.session, self._context.scope
        name, own = self._value_keys(key)
        room = self._check_room(value, "value")
        await session.set(scope, name, value, ttl=ttl or self._ttl, max_bytes=room)
        if ttl is None:
            await session.delete(scope, own)
        else:
            await session.set(scope, own, ttl, ttl=ttl, max_bytes=room)

    def _check_room(self, value: Any, field: str) -> int:
        """How many bytes the user's values and thoughts may take; InvalidRecord where this one alone takes more."""
        room = int(self._context.engine.settings.working_mb * tool_outputs.MEGABYTE)
        size = len(json.dumps(value, ensure_ascii=False).encode())
        if size > room:
            raise InvalidRecord(
                f"{field} takes {size:,} bytes; values and thoughts of a user take at most {room:,} "
                "(setting working_mb)",
                field=field,
            )
        return room

    async def get(self, key: str) -> Any:
        """The value of a key, whose time to live starts again; None when it is missing or expired."""
        name, own = self._value_keys(key)
        return await self._read_or_default(self._read_and_renew(name, own), None)

    async def delete(self, key: str) -> None:
        """Drop a value; nothing happens when there is none."""
        for name in self._value_keys(key):
            await self._context.engine.session.delete(self._context.scope, name)

    def _value_keys(self, key: str) -> tuple[str, str]:
        """The keys of a value, and its own time to live where it has one."""
        checked = check_identifier(key, "key")
        return self._session_key(f"context:{checked}"), self._session_key(f"ttl:{checked}")

    async def _read_and_renew(self, name: str, own: str) -> Any:
        session, scope = self._context.engine.session, self._context.scope
        value = await session.get(scope, name)
        if value is not None:
            await self._renew(name, own)
        return value

    async def _renew(self, name: str, own: str) -> None:
        session, scope = self._context.engine.session, self._context.scope
        ttl = await session.get(scope, own)
        await session.renew(scope, name, ttl=ttl or self._ttl)
        if ttl is not None:
            await session.renew(scope, own, ttl=ttl)

    async def context(self) -> dict[str, Any]:
        """All values of the current conversation by key. Reading them renews their time to live."""
        prefix = self._session_key("context:")
        found = await self._read_or_default(self._context.engine.session.items(self._context.scope, prefix), {})
        for name in found:
            own = self._session_key(f"ttl:{name.removeprefix(prefix)}")
            await self._read_or_default(self._renew(name, own), None)
        return {name.removeprefix(prefix): value for name, value in sorted(found.items())}

    async def push_thought(self, thought: str) -> None:
        """Note a thought; the last 100 are kept."""
        said: object = thought
        if not isinstance(said, str) or not has_visible(said):
            raise InvalidRecord("thought must be non-empty text", field="thought")
        scope, key, room = self._context.scope, self._session_key("thoughts"), self._check_room(thought, "thought")
        await self._context.engine.session.push(scope, key, thought, keep=MAX_THOUGHTS, ttl=self._ttl, max_bytes=room)

    async def thoughts(self, limit: int = 10) -> list[str]:
        """The last thoughts, oldest first. Reading them renews their time to live."""
        session, scope, key = self._context.engine.session, self._context.scope, self._session_key("thoughts")
        found = await self._read_or_default(session.tail(scope, key, limit), [])
        if found:
            await self._read_or_default(session.renew(scope, key, ttl=self._ttl), None)
        return [str(item) for item in found]

    async def set_active_goal(self, goal_id: str | None, *, idempotency_key: str | None = None) -> Goal | None:
        """Make an open goal the active one of the current conversation, and return it; without an id none is active.

        It is kept in the log, with the goal, and so outlives the session.
        """
        return await Goals(self._context).set_active_in_conversation(goal_id, idempotency_key=idempotency_key)

    async def active_goal(self) -> Goal | None:
        """The goal that the current conversation pursues, if there is one."""
        return await Goals(self._context).find_active_in_conversation()

    async def remember_output(self, text: str, *, source: str, metadata: Mapping[str, Any] | None = None) -> ToolOutput:
        """Keep the output of a tool (`source`) in this process, for `search_outputs`; returns it as kept.

        A user's outputs take at most `buffer.outputs_mb` (10 MB): beyond that the oldest are dropped. All are dropped
        when the user neither adds nor searches for `working_ttl`, and when data of the user is erased. Raises
        InvalidRecord for an output that alone takes more, and for metadata that are not JSON.
        """
        return await tool_outputs.remember_output(self._context, text, source, metadata)

    async def search_outputs(self, query: str, limit: int = 5) -> list[ToolOutputMatch]:
        """The `limit` (1 to 100) outputs of tools that lie nearest to the query, best first; [] when nothing is kept.

        Those of every conversation in the readable channels. While the embedder is away they are found by their words.
        """
        return await tool_outputs.search_outputs(self._context, query, limit)

    async def clear(self) -> None:
        """Forget the cached values and outputs of the current conversation; turns stay in episodic memory.

        The page that `write_current_markdown` wrote for this user is removed.
        """
        engine, scope = self._context.engine, self._context.scope
        tool_outputs.get_output_store(engine).drop(scope.user_id, scope.channel, (scope.conversation_id,))
        await self._remove_page()
        await engine.session.clear(scope, self._session_key(""))

    async def drop_channel(self, channel: str) -> None:
        """Forget what is cached of a channel that was cleared; what the session store holds ends by itself if away."""
        engine, scope = self._context.engine, self._context.scope
        tool_outputs.get_output_store(engine).drop(scope.user_id, channel)
        with suppress(StoreUnavailable):
            await self._remove_page()
        with suppress(StoreUnavailable):
            await engine.session.clear(scope, f"working:{quote(channel, safe='')}:")

    async def _remove_page(self) -> None:
        engine, scope = self._context.engine, self._context.scope
        if engine.settings.current_md:
            await engine.drain_background()  # a page on its way would come back
        try:
            await asyncio.to_thread(remove_page, engine.settings.home, scope.agent_id, scope.user_id)
        except OSError as error:
            raise StoreUnavailable(f"the page of the session cannot be removed: {error}") from error

    async def new_session(self) -> str:
        """Begin a new session with a new conversation; returns the session's id."""
        session = self._context.engine.ids.new_id()
        self._context.start_session(session)
        return session

    async def current_markdown(self) -> str:
        """The session as a readable Markdown page: recent turns, context values, thoughts.

        This read restarts the time to live of values and thoughts. The further lines of a message follow `> `.
        """
        scope = self._context.scope
        lines = ["# Agent Short-Term Memory Context", ""]
        if session := scope.session_id or scope.conversation_id:
            lines.append(f"## Session: {to_plain_line(session)}")
        lines.append(f"## Last Updated: {self._context.engine.clock.now():%Y-%m-%d %H:%M:%S}")
        lines += ["", "### Recent Messages", ""]
        for turn in await self.turns(self._context.engine.settings.working_turns):
            role = _ROLE_LABELS.get(turn.role, turn.role.capitalize())
            speaker = to_plain_name(turn.speaker or "", turn.role)
            shown = role if speaker == turn.role else speaker
            lines += [f"**{to_plain_line(shown)}:** {quote_lines(turn.content)}", ""]
        for title, items in (
            ("Context", [f"{name}: {value}" for name, value in (await self.context()).items()]),
            ("Thoughts", await self.thoughts()),
        ):
            if items:
                lines += [f"### {title}", "", *(f"- {to_plain_line(str(item))}" for item in items), ""]
        return "\n".join(lines).rstrip() + "\n"

    async def write_current_markdown(self) -> Path:
        """Write the page to `agents/<agent>/current.md` in the home, in one step, for its owner only; its path.

        The folder is the agent's id, percent-encoded, or `default`. With the setting `current_md` this is done after
        each stored turn. Raises StoreUnavailable where it cannot be written.
        """
        engine, scope = self._context.engine, self._context.scope
        of_process = get_session_pages(engine)
        ticket = of_process.next_version()  # before reading: what was read later is newer
        page = await self.current_markdown()
        try:
            return await asyncio.to_thread(of_process.write, scope.agent_id, scope.user_id, page, ticket)
        except OSError as error:
            raise StoreUnavailable(f"the page of the session cannot be written: {error}") from error


def _build_session_key(channel: str, conversation_id: str, suffix: str) -> str:
    # The documents' pattern: working:{user}:channel:conversation:*; the store adds the user, as a column or behind the
    # first part.
    # Quoted, so that a colon in a name cannot make one conversation's keys look like another's.
    return f"working:{quote(channel, safe='')}:{quote(conversation_id, safe='') or '-'}:{suffix}"
