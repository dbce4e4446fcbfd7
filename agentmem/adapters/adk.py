"""The memory service of Google's Agent Development Kit: what was said in sessions, searched with `remember`.

A user of ADK is a user here, an app a channel that it alone reads, a session a conversation. An event with text is a
turn.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from agentmem.adapters.bridge import MemoryBridge
from agentmem.core.plain_values import has_visible
from agentmem.core.records import Fact, Turn
from agentmem.core.scope import check_identifier
from agentmem.core.telemetry import log_event
from agentmem.errors import NotFound
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.facade.memory import AgentMemory
from agentmem.recall.bundle import ScoredRecord

MAX_RESULTS = 10
BATCH_SIZE = 1000  # turns that one call stores


class AgentMemMemoryService(BaseMemoryService):
    """Keeps the sessions of all apps and users in one memory.

    It does not close the memory. An `AgentMemory` serves any event loop, an `AsyncAgentMemory` its own.
    """

    def __init__(self, memory: AgentMemory | AsyncAgentMemory) -> None:
        self._bridge = MemoryBridge(memory)

    async def add_session_to_memory(self, session: Session) -> None:
        """Store the session's events with text. What is stored already is not stored again."""
        view = self._open_view(session.app_name, session.user_id)
        await self._store(view, session.events, session.app_name, session.id)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """The same for some events. `custom_metadata` has no effect."""
        await self._store(self._open_view(app_name, user_id), events, app_name, session_id)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store what is known, each memory as a fact. The same one again strengthens it.

        A timestamp is when it became true. `custom_metadata` has no effect.
        """
        view = self._open_view(app_name, user_id)
        for entry in memories:
            if text := _join_text(entry.content):
                since = None if entry.timestamp is None else _parse_time(entry.timestamp)
                await self._bridge.finish(view.learn_fact(text, source="adk", valid_from=since))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """What fits the query best of this user and this app: turns, and facts that were read from them or added."""
        if not has_visible(query):
            return SearchMemoryResponse()
        view = self._open_view(app_name, user_id)
        bundle = await self._bridge.run_async(view.remember(query, top_k=MAX_RESULTS, include=("episodic", "semantic")))
        return SearchMemoryResponse(memories=[entry for item in bundle.items for entry in _describe(item)])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget softly the memory of this id; a session that is added again does not bring it back."""
        if not memory_id:
            return
        try:
            await self._bridge.finish(self._open_view(app_name, user_id).forget(memory_id, reason="deleted"))
        except NotFound:
            log_event(logging.INFO, "adk_memory_not_found", app=app_name)

    def _open_view(self, app_name: str, user_id: str) -> AsyncAgentMemory:
        channel = f"adk:{app_name}"
        return self._bridge.memory.scoped(user_id=user_id, channel=channel, channels=(channel,))

    async def _store(
        self, view: AsyncAgentMemory, events: Iterable[Event], app_name: str, session_id: str | None
    ) -> None:
        conversation = check_identifier(f"adk:{app_name}:{session_id or ''}", "session_id")
        turns = [_build_turn(event, conversation) for event in events if _has_text(event)]
        for start in range(0, len(turns), BATCH_SIZE):
            batch = turns[start : start + BATCH_SIZE]
            stored = await self._bridge.finish(view.store_turns(batch, on_error="skip"))
            if stored.skipped:
                log_event(logging.WARNING, "adk_events_skipped", app=app_name, count=len(stored.skipped))


def _has_text(event: Event) -> bool:
    return not event.partial and bool(_join_text(event.content))


def _join_text(content: types.Content | None) -> str:
    """The text of a message, without thoughts, calls of tools, and files."""
    parts = (content.parts or []) if content is not None else []
    return "\n".join(part.text for part in parts if part.text and part.text.strip() and not part.thought)


def _build_turn(event: Event, conversation: str) -> dict[str, Any]:
    """The turn of an event. Its id follows from app, session and event, so that it is stored once."""
    key = json.dumps([conversation, event.id]).encode()
    is_user = event.author in ("user", "")
    return {
        "content": _join_text(event.content),
        "role": "user" if is_user else "assistant",
        "speaker": None if is_user else event.author,
        "timestamp": datetime.fromtimestamp(event.timestamp, UTC),
        "turn_id": f"adk-{hashlib.sha256(key).hexdigest()[:32]}",
        "conversation_id": conversation,
    }


def _parse_time(text: str) -> datetime | None:
    """The moment that a text tells in ISO 8601; None for other text."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _describe(item: ScoredRecord) -> list[MemoryEntry]:
    """A found turn or fact as ADK shows it to a model."""
    record = item.record
    if isinstance(record, Turn):
        text, author, moment = record.content, record.speaker or record.role, record.timestamp
    elif isinstance(record, Fact):
        text, author, moment = record.claim, None, record.valid_from or record.recorded_at
    else:
        return []
    is_model = isinstance(record, Turn) and record.role != "user"
    return [
        MemoryEntry(
            id=record.id,
            author=author,
            timestamp=None if moment is None else moment.isoformat(),
            content=types.Content(role="model" if is_model else "user", parts=[types.Part(text=text)]),
            custom_metadata={"kind": record.kind, "score": item.score},
        )
    ]
