"""What tools gave back, found again by its meaning: kept in the process, bounded by bytes, the oldest out first."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentmem.core.event_loop import Backoff
from agentmem.core.record import Identifier, Text, UtcDatetime
from agentmem.core.records import to_invalid_record
from agentmem.core.telemetry import WARNING, log_event
from agentmem.engine.engine import Engine
from agentmem.errors import InvalidRecord, ModelError
from agentmem.memory.context import MemoryContext
from agentmem.memory.working.buffer_search import check_positive_int, check_query, embed_texts, to_json_dict
from agentmem.models.protocols import Embedder
from agentmem.settings.settings import Settings
from agentmem.stores.values import SENTENCE
from agentmem.text.chunking import chunk_text
from agentmem.text.tokenizer import rank_by_bm25

MEGABYTE = 1024 * 1024
BACKOFF_SECONDS = 30.0  # seconds without tries after the embedder failed
MAX_RESULTS = 100  # results of one search


class ToolOutput(BaseModel):
    """What a tool gave back: its text verbatim, which tool, when, and where it was kept."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: Identifier
    text: Text
    source: Annotated[str, Field(min_length=1, max_length=200)]
    metadata: dict[str, Any] = Field(default_factory=dict)
    channel: str
    conversation_id: str | None = None
    at: UtcDatetime


@dataclass(frozen=True, slots=True)
class ToolOutputMatch:
    """An output and its cosine with the query; None where it was found by its words, while the embedder was away."""

    output: ToolOutput
    score: float | None


@dataclass(slots=True, eq=False)
class StoredOutput:
    """An output, the bytes it takes, and its vectors, one for each passage; `embedder` is "" before there are any."""

    output: ToolOutput
    size_bytes: int
    embedder: str = ""
    vectors: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))


@dataclass(slots=True)
class UserOutputs:
    """The outputs of one user, oldest first."""

    last_used: datetime
    size_bytes: int = 0
    outputs: list[StoredOutput] = field(default_factory=list)


class ToolOutputStore:
    """The outputs of every user of this process: at most `max_bytes` bytes of each, for as long as the user is at
    work.
    """

    def __init__(self, max_bytes: int, idle_timeout: timedelta, sweep_interval: timedelta) -> None:
        self.max_bytes = max_bytes
        self.embedder_backoff = Backoff()
        self._idle_timeout = idle_timeout
        self._sweep_interval = sweep_interval
        self._last_swept: datetime | None = None
        self._users: dict[str, UserOutputs] = {}

    @classmethod
    def from_settings(cls, settings: Settings) -> ToolOutputStore:
        """As the settings say."""
        options = settings.buffer
        return cls(
            int(options.outputs_mb * MEGABYTE),
            timedelta(seconds=settings.working_ttl),
            timedelta(minutes=options.outputs_sweep_minutes),
        )

    def __len__(self) -> int:
        """How many users have something here."""
        return len(self._users)

    def add(self, user_id: str, stored: StoredOutput, now: datetime) -> None:
        """Add an output; the oldest of this user make room."""
        if self._last_swept is None or now - self._last_swept >= self._sweep_interval:
            self.sweep(now)
        shelf = self._find_user_outputs(user_id, now)
        if shelf is None:
            shelf = self._users[user_id] = UserOutputs(now)
        shelf.outputs.append(stored)
        shelf.size_bytes += stored.size_bytes
        surplus = 0
        while shelf.size_bytes > self.max_bytes:
            shelf.size_bytes -= shelf.outputs[surplus].size_bytes
            surplus += 1
        del shelf.outputs[:surplus]

    def list_outputs(self, user_id: str, channels: Sequence[str], now: datetime) -> list[StoredOutput]:
        """The user's outputs in these channels, oldest first; [] when there are none any more."""
        shelf = self._find_user_outputs(user_id, now)
        return [] if shelf is None else [kept for kept in shelf.outputs if kept.output.channel in channels]

    def drop(self, user_id: str, channel: str, conversations: Collection[str | None] | None = None) -> None:
        """Forget what was kept in a channel, in these conversations (all when None)."""

        def goes(output: ToolOutput) -> bool:
            meant = conversations is None or output.conversation_id in conversations
            return output.channel == channel and meant

        if shelf := self._users.get(user_id):
            shelf.outputs = [kept for kept in shelf.outputs if not goes(kept.output)]
            shelf.size_bytes = sum(kept.size_bytes for kept in shelf.outputs)

    def forget(self, user_id: str) -> None:
        """Forget everything of a user."""
        self._users.pop(user_id, None)

    def sweep(self, now: datetime) -> None:
        """Forget the users who have neither added nor asked for the working memory's time to live."""
        self._last_swept = now
        for user_id in [
            user_id for user_id, shelf in self._users.items() if now - shelf.last_used >= self._idle_timeout
        ]:
            del self._users[user_id]

    def _find_user_outputs(self, user_id: str, now: datetime) -> UserOutputs | None:
        shelf = self._users.get(user_id)
        if shelf is None or now - shelf.last_used >= self._idle_timeout:
            self._users.pop(user_id, None)
            return None
        shelf.last_used = max(now, shelf.last_used)
        return shelf


def get_output_store(engine: Engine) -> ToolOutputStore:
    """Those of an opened memory, shared by all of its views."""
    return engine.get_shared(ToolOutputStore, lambda: ToolOutputStore.from_settings(engine.settings))


async def remember_output(
    context: MemoryContext, text: str, source: str, metadata: Mapping[str, Any] | None
) -> ToolOutput:
    """Keep an output of a tool in the active channel. See `WorkingMemory.remember_output`."""
    engine, scope = context.engine, context.scope
    engine.check_open()
    now, fields = engine.clock.now(), to_json_dict(metadata)
    try:
        output = ToolOutput(
            id=engine.ids.new_id(),
            text=text,
            source=source,
            metadata=fields,
            channel=scope.channel,
            conversation_id=scope.conversation_id,
            at=now,
        )
    except ValidationError as error:
        raise to_invalid_record(error, "output") from error
    here, embedder = get_output_store(engine), engine.vector_projections[0].embedder
    pieces = len(chunk_text(text, include_sentences=SENTENCE in embedder.granularities))
    size = len(text.encode()) + len(json.dumps(fields)) + 4 * pieces * embedder.dimensions
    if size > here.max_bytes:
        raise InvalidRecord(
            f"text takes {size:,} bytes with its vectors; outputs of a user take at most {here.max_bytes:,} "
            "(setting buffer.outputs_mb)",
            field="text",
        )
    kept = StoredOutput(output, size)
    here.add(scope.user_id, kept, now)
    await _embed_missing(here, embedder, [kept])
    return output


async def search_outputs(context: MemoryContext, query: str, limit: int) -> list[ToolOutputMatch]:
    """The outputs that the scope may read, nearest first. See `WorkingMemory.search_outputs`."""
    check_query(query)
    if check_positive_int(limit, "limit") > MAX_RESULTS:
        raise InvalidRecord(f"limit must be at most {MAX_RESULTS}, got {limit}", field="limit")
    engine, scope = context.engine, context.scope
    engine.check_open()
    here = get_output_store(engine)
    found = here.list_outputs(scope.user_id, scope.readable_channels(), engine.clock.now())
    if not found:
        return []
    embedder = engine.vector_projections[0].embedder
    asked = await _embed_missing(here, embedder, found, query)
    if asked is None:
        places = rank_by_bm25(query, [kept.output.text for kept in found], limit)
        return [ToolOutputMatch(found[place].output, None) for place in places]
    near = [kept for kept in found if kept.embedder == embedder.identity and len(kept.vectors)]
    scores = np.round([float((kept.vectors @ asked).max()) for kept in near], 4)
    order = sorted(range(len(near)), key=lambda n: (-scores[n], -n))[:limit]
    return [ToolOutputMatch(near[n].output, float(scores[n])) for n in order]


async def _embed_missing(
    store: ToolOutputStore, embedder: Embedder, outputs: Sequence[StoredOutput], query: str = ""
) -> NDArray[np.float32] | None:
    """Give vectors to those that have none of this embedder; the query's own, or None while the embedder is away."""
    if store.embedder_backoff.is_active(BACKOFF_SECONDS):
        return None
    missing = [each for each in outputs if each.embedder != embedder.identity]
    sentences = SENTENCE in embedder.granularities
    pieces = [[piece.text for piece in chunk_text(each.output.text, include_sentences=sentences)] for each in missing]
    wanted = dict.fromkeys([text for texts in pieces for text in texts] + ([query] if query else []))
    try:
        vectors = await embed_texts(embedder, list(wanted))
    except ModelError as error:
        log_event(WARNING, "model_away", part="outputs", embedder=embedder.identity, error=str(error))
        store.embedder_backoff.start()
        return None
    for each, texts in zip(missing, pieces, strict=True):
        rows = [row for text in texts if (row := vectors[text]) is not None]
        each.embedder, each.vectors = embedder.identity, np.reshape(rows, (len(rows), embedder.dimensions))
    return vectors.get(query)
