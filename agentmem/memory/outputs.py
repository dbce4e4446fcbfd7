"""What tools gave back, found again by its meaning: kept in the process, bounded by bytes, the oldest out first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentmem.errors import InvalidRecord, ModelError
from agentmem.events import WARNING, tell
from agentmem.memory import Seat
from agentmem.memory.buffer_messages import plain, positive
from agentmem.memory.buffer_search import check_query, embedded
from agentmem.model.record import Moment, Name, Text
from agentmem.model.records import invalid
from agentmem.providers import Embedder
from agentmem.resources import Resources
from agentmem.settings import Settings
from agentmem.stores import SENTENCE
from agentmem.text.passages import passages
from agentmem.text.ranks import best_matches

MEGABYTE = 1024 * 1024
REST = 30.0  # seconds without tries after the embedder failed
MOST = 100  # results of one search
_SHELVES = "outputs"


class Output(BaseModel):
    """What a tool gave back: its text verbatim, which tool, when, and where it was kept."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: Name
    text: Text
    source: Annotated[str, Field(min_length=1, max_length=200)]
    metadata: dict[str, Any] = Field(default_factory=dict)
    channel: str
    conversation_id: str | None = None
    at: Moment


@dataclass(frozen=True, slots=True)
class FoundOutput:
    """An output and its cosine with the query; None where it was found by its words, while the embedder was away."""

    output: Output
    score: float | None


@dataclass(slots=True, eq=False)
class Kept:
    """An output, the bytes it takes, and its vectors, one for each passage; `embedder` is "" before there are any."""

    output: Output
    size: int
    embedder: str = ""
    vectors: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))


@dataclass(slots=True)
class Shelf:
    """The outputs of one user, oldest first."""

    used: datetime
    size: int = 0
    kept: list[Kept] = field(default_factory=list)


class Shelves:
    """The outputs of every user of this process: at most `most` bytes of each, for as long as the user is at work."""

    def __init__(self, most: int, idle: timedelta, interval: timedelta) -> None:
        self.most = most
        self.failed_at = float("-inf")  # by the loop's own clock
        self._idle = idle
        self._interval = interval
        self._swept: datetime | None = None
        self._users: dict[str, Shelf] = {}

    @classmethod
    def made(cls, settings: Settings) -> Shelves:
        """As the settings say."""
        options = settings.buffer
        return cls(
            int(options.outputs_mb * MEGABYTE), timedelta(seconds=settings.working_ttl),
            timedelta(minutes=options.outputs_sweep_minutes),
        )  # fmt: skip

    def __len__(self) -> int:
        """How many users have something here."""
        return len(self._users)

    def put(self, user_id: str, kept: Kept, now: datetime) -> None:
        """Add an output; the oldest of this user make room."""
        if self._swept is None or now - self._swept >= self._interval:
            self.sweep(now)
        shelf = self._shelf(user_id, now)
        if shelf is None:
            shelf = self._users[user_id] = Shelf(now)
        shelf.kept.append(kept)
        shelf.size += kept.size
        surplus = 0
        while shelf.size > self.most:
            shelf.size -= shelf.kept[surplus].size
            surplus += 1
        del shelf.kept[:surplus]

    def get(self, user_id: str, channels: Sequence[str], now: datetime) -> list[Kept]:
        """The user's outputs in these channels, oldest first; [] when there are none any more."""
        shelf = self._shelf(user_id, now)
        return [] if shelf is None else [kept for kept in shelf.kept if kept.output.channel in channels]

    def drop(self, user_id: str, channel: str, conversations: Collection[str | None] | None = None) -> None:
        """Forget what was kept in a channel, in these conversations (all when None)."""

        def goes(output: Output) -> bool:
            meant = conversations is None or output.conversation_id in conversations
            return output.channel == channel and meant

        if shelf := self._users.get(user_id):
            shelf.kept = [kept for kept in shelf.kept if not goes(kept.output)]
            shelf.size = sum(kept.size for kept in shelf.kept)

    def forget(self, user_id: str) -> None:
        """Forget everything of a user."""
        self._users.pop(user_id, None)

    def sweep(self, now: datetime) -> None:
        """Forget the users who have neither added nor asked for the working memory's time to live."""
        self._swept = now
        for user_id in [user_id for user_id, shelf in self._users.items() if now - shelf.used >= self._idle]:
            del self._users[user_id]

    def _shelf(self, user_id: str, now: datetime) -> Shelf | None:
        shelf = self._users.get(user_id)
        if shelf is None or now - shelf.used >= self._idle:
            self._users.pop(user_id, None)
            return None
        shelf.used = max(now, shelf.used)
        return shelf


def shelves(resources: Resources) -> Shelves:
    """Those of an opened memory, shared by all of its views."""
    if _SHELVES not in resources.kept:
        made = resources.kept[_SHELVES] = Shelves.made(resources.settings)
        resources.on_erasure.append(made.forget)
    found: Shelves = resources.kept[_SHELVES]
    return found


async def remember(seat: Seat, text: str, source: str, metadata: Mapping[str, Any] | None) -> Output:
    """Keep an output of a tool in the active channel. See `Working.remember_output`."""
    resources, scope = seat.resources, seat.scope
    resources.check_open()
    now, fields = resources.clock.now(), plain(metadata)
    try:
        output = Output(
            id=resources.ids.new(), text=text, source=source, metadata=fields, channel=scope.channel,
            conversation_id=scope.conversation_id, at=now,
        )  # fmt: skip
    except ValidationError as error:
        raise invalid(error, "output") from error
    here, embedder = shelves(resources), resources.vectors[0].embedder
    pieces = len(passages(text, sentences=SENTENCE in embedder.grains))
    size = len(text.encode()) + len(json.dumps(fields)) + 4 * pieces * embedder.dimensions
    if size > here.most:
        raise InvalidRecord(
            f"text takes {size:,} bytes with its vectors; outputs of a user take at most {here.most:,} "
            "(setting buffer.outputs_mb)", field="text",
        )  # fmt: skip
    kept = Kept(output, size)
    here.put(scope.user_id, kept, now)
    await _embed_missing(here, embedder, [kept])
    return output


async def search(seat: Seat, query: str, k: int) -> list[FoundOutput]:
    """The outputs that the scope may read, nearest first. See `Working.search_outputs`."""
    check_query(query)
    if positive(k, "k") > MOST:
        raise InvalidRecord(f"k must be at most {MOST}, got {k}", field="k")
    resources, scope = seat.resources, seat.scope
    resources.check_open()
    here = shelves(resources)
    found = here.get(scope.user_id, scope.readable(), resources.clock.now())
    if not found:
        return []
    embedder = resources.vectors[0].embedder
    asked = await _embed_missing(here, embedder, found, query)
    if asked is None:
        places = best_matches(query, [kept.output.text for kept in found], k)
        return [FoundOutput(found[place].output, None) for place in places]
    near = [kept for kept in found if kept.embedder == embedder.identity and len(kept.vectors)]
    scores = np.round([float((kept.vectors @ asked).max()) for kept in near], 4)
    order = sorted(range(len(near)), key=lambda n: (-scores[n], -n))[:k]
    return [FoundOutput(near[n].output, float(scores[n])) for n in order]


async def _embed_missing(
    here: Shelves, embedder: Embedder, kept: Sequence[Kept], query: str = ""
) -> NDArray[np.float32] | None:
    """Give vectors to those that have none of this embedder; the query's own, or None while the embedder is away."""
    loop = asyncio.get_running_loop()
    if loop.time() - here.failed_at < REST:
        return None
    missing = [each for each in kept if each.embedder != embedder.identity]
    sentences = SENTENCE in embedder.grains
    pieces = [[piece.text for piece in passages(each.output.text, sentences=sentences)] for each in missing]
    wanted = dict.fromkeys([text for texts in pieces for text in texts] + ([query] if query else []))
    try:
        vectors = await embedded(embedder, list(wanted))
    except ModelError as error:
        tell(WARNING, "model_away", part="outputs", embedder=embedder.identity, error=str(error))
        here.failed_at = loop.time()
        return None
    for each, texts in zip(missing, pieces, strict=True):
        rows = [row for text in texts if (row := vectors[text]) is not None]
        each.embedder, each.vectors = embedder.identity, np.reshape(rows, (len(rows), embedder.dimensions))
    return vectors.get(query)
