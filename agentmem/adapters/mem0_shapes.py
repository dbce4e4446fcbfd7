"""What mem0's programs send and get: bodies, filters, memories and their history."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, model_validator

from agentmem.core.clock import add_time
from agentmem.core.plain_values import replace_surrogates_within, require_iso_text
from agentmem.core.record import Status
from agentmem.core.records import Fact, Turn
from agentmem.errors import InvalidRecord

MemoryRecord = Fact | Turn
Day = Annotated[date, BeforeValidator(require_iso_text), Strict(False)]

IDENTIFIERS = ("user_id", "agent_id", "run_id")
ANYTHING = "*"  # in a filter: whatever the value is
MAX_FILTER_TEXT = 2000  # characters of filters in a URL
VERBATIM_SOURCE = "mem0"  # of facts that are messages, word for word
REPLACEMENT_SOURCE = "mem0:"  # before the id of the turn, in the source of the fact that took the turn's place


class LenientBody(BaseModel):
    """A body that may have more fields than this server knows; the answer names those."""

    model_config = ConfigDict(strict=True, extra="allow")
    _mended = model_validator(mode="before")(replace_surrogates_within)

    user_id: str | None = Field(None, description="Whose memory; the caller's own when left out.")
    agent_id: str | None = Field(None, description="The agent in whose channel the memories lie.")
    run_id: str | None = Field(None, description="The conversation.")
    filters: dict[str, Any] | None = Field(None, description="user_id, agent_id, run_id, fields of metadata, AND.")

    def list_notices(self) -> list[str]:
        """A sentence that names the fields without effect; [] when there are none."""
        unknown = sorted(name for name, value in (self.model_extra or {}).items() if value is not None)
        return [f"Without effect here: {', '.join(unknown)[:200]}."] if unknown else []


class Mem0Message(BaseModel, strict=True, extra="allow"):
    """One message of a conversation, in the form of any vendor; what is no text leaves a mark such as `[image]`."""

    role: str = "user"
    content: str | list[Any] | None = Field(None, description="Text, or parts such as {type: text, text: …}.")
    name: str | None = Field(None, description="Who speaks.")


class NewMemories(LenientBody):
    """Messages to remember."""

    messages: list[Mem0Message]
    metadata: dict[str, Any] | None = None
    app_id: str | None = Field(None, description="Kept in the metadata.")
    infer: bool | None = Field(None, description="False keeps each message as it is; else what it says is read.")
    timestamp: int | None = Field(None, description="When it was said, in seconds since 1970; now when left out.")
    expiration_date: Day | None = Field(None, description="The last day of the memories; with infer=false alone.")


class Mem0Search(LenientBody):
    """What to look for."""

    query: str
    top_k: int = Field(10, ge=1, le=100)
    threshold: float | None = Field(None, description="Leaves out what scores less.")
    explain: bool | None = Field(None, description="Adds what spoke for each memory.")


class ListQuery(LenientBody):
    """Which memories to list."""

    page: int | None = Field(None, ge=1)
    page_size: int | None = Field(None, ge=1, le=1000)


class MemoryUpdate(BaseModel, strict=True):
    """What was wrong about a memory."""

    text: str | None = None
    expiration_date: Day | None = Field(None, description="The last day of the memory; null for none.")
    metadata: dict[str, Any] | None = Field(None, description="Refused: it is that of the message.")
    timestamp: int | float | str | None = Field(None, description="Refused, too.")


class BatchUpdateItem(MemoryUpdate):
    """One memory of a batch."""

    memory_id: str


class BatchUpdate(BaseModel, strict=True):
    """Memories to update."""

    memories: list[BatchUpdateItem] = Field(max_length=1000)


class BatchDeleteItem(BaseModel, strict=True):
    """One memory of a batch."""

    memory_id: str


class BatchDelete(BaseModel, strict=True):
    """Memories to delete."""

    memories: list[BatchDeleteItem] = Field(max_length=1000)


class MemoryItem(BaseModel):
    """One memory: a fact, or a message (`kind`) that no fact was read from."""

    id: str
    memory: str
    kind: str
    user_id: str
    agent_id: str | None
    run_id: str | None
    role: str | None = Field(None, description="Who said it: user, assistant, system or tool.")
    actor_id: str | None = Field(None, description="The name of who said it.")
    metadata: dict[str, Any]
    created_at: datetime | None
    updated_at: datetime | None
    expiration_date: Day | None = None


class FoundItem(MemoryItem):
    """One memory that a search found. The score ranks within one answer."""

    score: float
    score_details: dict[str, Any] | None = None


class AddedItem(BaseModel):
    """What became of messages. `event` is ADD, UPDATE of an older memory, or NONE where it was known."""

    id: str
    memory: str
    event: str
    kind: str
    role: str | None = None
    actor_id: str | None = None


class AddAnswer(BaseModel):
    """What is remembered now; `notices` say in what that falls short."""

    results: list[AddedItem]
    notices: list[str] = Field(default_factory=list)


class SearchAnswer(BaseModel):
    """What was found, best first."""

    results: list[FoundItem]
    notices: list[str] = Field(default_factory=list)


class ListAnswer(BaseModel):
    """Memories, latest first."""

    results: list[MemoryItem]


class PageAnswer(ListAnswer):
    """One page of them. `count` is that of all pages."""

    count: int
    next: str | None
    previous: str | None
    notices: list[str] = Field(default_factory=list)


class HistoryItem(BaseModel):
    """One change of a memory: ADD, UPDATE or DELETE."""

    id: str
    memory_id: str
    old_memory: str | None
    new_memory: str | None
    event: str
    user_id: str
    created_at: datetime | None
    updated_at: datetime | None


class Mem0Entity(BaseModel):
    """A user, an agent or a run with memories."""

    id: str
    name: str
    type: str
    owner: str
    total_memories: int
    created_at: datetime | None
    updated_at: datetime | None


class EntitiesAnswer(BaseModel):
    """All of them, on one page."""

    count: int
    next: str | None = None
    previous: str | None = None
    results: list[Mem0Entity]


class PingAnswer(BaseModel):
    """That the server is there, and for whom."""

    status: str = "ok"
    user_email: str
    org_id: str = "agentmem"
    project_id: str = "agentmem"


class MessageAnswer(BaseModel):
    """What was done."""

    message: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Which memories a request is about; None and {} do not restrict."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def read_selection(body: LenientBody) -> Selection:
    """What a body names, at its top and in its filters."""
    return select_memories(body.filters, **{name: getattr(body, name) for name in IDENTIFIERS})


def select_memories(filters: Mapping[str, Any] | None = None, **named: str | None) -> Selection:
    """The selection of filters and identifiers. InvalidRecord names the filter that is not served, or contradicts."""
    found: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    waiting: list[Mapping[str, Any]] = [named, filters or {}]
    while waiting:
        for name, value in waiting.pop(0).items():
            if name == "AND" and isinstance(value, list) and all(isinstance(part, dict) for part in value):
                waiting += value
            elif name == "metadata" and isinstance(value, dict):
                waiting.append({f"metadata.{key}": each for key, each in value.items()})
            elif value is None or (value == ANYTHING and name in IDENTIFIERS):
                continue
            elif isinstance(value, dict | list) or name in ("AND", "OR", "NOT"):
                raise InvalidRecord(f"filters: {name[:50]!r} is not served; give single values", field="filters")
            elif name in IDENTIFIERS and not isinstance(value, str):
                raise InvalidRecord(f"filters: {name} must be a string", field="filters")
            else:
                group, key = (found, name) if name in IDENTIFIERS else (metadata, name.removeprefix("metadata."))
                if group.setdefault(key, value) != value:
                    raise InvalidRecord(f"filters: {key[:50]!r} has two values", field="filters")
    return Selection(**found, metadata=metadata)


def parse_filter_text(text: str | None) -> dict[str, Any] | None:
    """Filters from a URL: JSON, or a dict as Python prints it, which is what mem0's client sends there."""
    if text is None:
        return None
    try:
        if len(text) > MAX_FILTER_TEXT:
            raise ValueError
        try:
            found = json.loads(text)
        except ValueError:
            found = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise InvalidRecord("filters must be a JSON object of at most 2,000 characters", field="filters")
    return found


def get_text(record: MemoryRecord) -> str:
    """What a memory says."""
    return record.claim if isinstance(record, Fact) else record.content


def get_kind(record: MemoryRecord) -> str:
    """Whether a memory is a fact or a message."""
    return "fact" if isinstance(record, Fact) else "message"


def end_of_day(day: date | None) -> datetime | None:
    """The moment from which a memory with this expiration date is over; None for none."""
    if day is None:
        return None
    if day == date.max:
        raise InvalidRecord("expiration_date is the last day there is; use null for none", field="expiration_date")
    return add_time(datetime.combine(day, time(), UTC), timedelta(days=1))


def parse_timestamp(seconds: int | None) -> datetime | None:
    """The moment that many seconds after 1970 began; None for none."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        raise InvalidRecord("timestamp must be seconds since 1970", field="timestamp") from None


def describe_speaker(message: Turn | None) -> dict[str, str | None]:
    """Role and name of who said a message."""
    return {"role": message.role, "actor_id": message.speaker} if message is not None else {}


def describe_memory(record: MemoryRecord, memory_id: str, message: Turn | None) -> MemoryItem:
    """The memory as mem0 shows it. `message` is the turn that a fact was read from, which bears its metadata."""
    ends = record.valid_to if isinstance(record, Fact) else None
    said = message.timestamp if message is not None else None
    return MemoryItem(
        id=memory_id,
        memory=get_text(record),
        kind=get_kind(record),
        user_id=record.user_id,
        agent_id=message.agent_id if message is not None else None,
        run_id=message.conversation_id if message is not None else None,
        **describe_speaker(message),
        metadata=dict(message.metadata) if message is not None else {},
        created_at=said or record.recorded_at,
        updated_at=record.recorded_at,
        expiration_date=None if ends is None else (ends - timedelta(microseconds=1)).date(),
    )


def find_echoes(facts: Sequence[Fact]) -> set[str]:
    """Ids of facts that were read from nothing but messages that are kept word for word: no memories of their own."""
    verbatim = {name for fact in facts if fact.source == VERBATIM_SOURCE for name in fact.source_turn_ids}
    return {
        fact.id
        for fact in facts
        if fact.source != VERBATIM_SOURCE and fact.source_turn_ids and verbatim.issuperset(fact.source_turn_ids)
    }


def describe_entity(kind: str, name: str, records: Sequence[MemoryRecord]) -> Mem0Entity:
    """A user, an agent or a run, whose memories these are."""
    times = [record.recorded_at for record in records if record.recorded_at is not None]
    return Mem0Entity(
        id=name,
        name=name,
        type=kind,
        owner=records[0].user_id,
        total_memories=len(records),
        created_at=min(times, default=None),
        updated_at=max(times, default=None),
    )


def describe_history(memory_id: str, versions: Iterable[MemoryRecord]) -> list[HistoryItem]:
    """What happened to a memory, from all versions of its records in order of time."""
    out: list[HistoryItem] = []
    text: str | None = None
    for version in versions:
        gone = version.status is Status.FORGOTTEN
        if version.status is Status.SUPERSEDED or (gone and text is None):
            continue
        new = None if gone else get_text(version)
        if new == text:
            continue
        event = "DELETE" if gone else "ADD" if text is None else "UPDATE"
        at = version.superseded_at if gone else version.recorded_at
        entry = HistoryItem(
            id=f"{version.id}:{version.seq}",
            memory_id=memory_id,
            old_memory=text,
            new_memory=new,
            event=event,
            user_id=version.user_id,
            created_at=out[0].created_at if out else at,
            updated_at=at,
        )
        out.append(entry)
        text = new
    return out
