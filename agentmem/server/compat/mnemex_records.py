"""Memories as the tools of Mnemex show them: short-lived facts, with how they were used and what they are worth now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal, TypeVar

from pydantic import BaseModel, Field

from agentmem.core.lifecycle import decay_score_now, decay_start, elapsed_days
from agentmem.core.plain_values import describe_value
from agentmem.core.record import Status
from agentmem.core.records import Entity, Fact
from agentmem.errors import InvalidRecord, NotFound
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.mcp.records import MAX_TEXT_CHARS
from agentmem.stores.values import RecordUsage

T = TypeVar("T")
SHORT_TERM: Final = "short"
DEFAULT_PAGE_SIZE = 10
MAX_MEMORIES = 10_000  # read for one answer
LASTING_SCORE = 1.0  # of a fact that does not fade, which is what a new one has
StatusName = Literal["active", "promoted", "archived"]
PageNumber = Annotated[int | None, "Which page, from 1; all if left out."]
PageSize = Annotated[int | None, "How many on a page."]
KNOWN_STATUSES: tuple[StatusName, ...] = ("active", "promoted", "archived")


class Answer(BaseModel):
    """What every result holds beside its own."""

    success: bool = True
    notices: list[str] = Field([], description="In what the answer falls short.")


class MemoryEntry(BaseModel):
    """One memory."""

    id: str
    content: str
    tags: list[str]
    entities: list[str] = []
    status: str
    created_at: str
    last_used: str = Field(description="Empty for never.")
    use_count: int
    strength: float
    score: float = Field(description="1 for one that does not fade, 0 when not asked for.")


class Pagination(BaseModel):
    """Where a page stands."""

    page: int
    page_size: int
    total_count: int
    total_pages: int
    has_more: bool


@dataclass(frozen=True, slots=True)
class UsedFact:
    """A fact with its use, and its score as of `now`."""

    fact: Fact
    usage: RecordUsage
    now: datetime
    score: float

    @property
    def age_days(self) -> float:
        """Days since it was recorded."""
        return 0.0 if self.fact.recorded_at is None else round(elapsed_days(self.fact.recorded_at, self.now), 2)

    @property
    def last_used(self) -> str:
        """When it was last used or delivered; empty for never."""
        return format_moment(self.usage.last_accessed)

    @property
    def strength(self) -> float:
        """1 to 2, grown by use."""
        return round(self.usage.strength, 4)

    def is_within(self, days: float) -> bool:
        """Whether it was used, or before its first use recorded, in so many days."""
        return elapsed_days(decay_start(self.fact, self.usage), self.now) <= days

    def show(self, names: dict[str, str], *, with_score: bool = True) -> MemoryEntry:
        """As a tool returns it; `names` are those of the entities by id."""
        return MemoryEntry(
            id=self.fact.id,
            content=shorten_text(self.fact.claim),
            tags=list(self.fact.tags),
            entities=[names[each] for each in self.fact.entity_ids if each in names],
            status=self.fact.status.value,
            created_at=format_moment(self.fact.recorded_at),
            last_used=self.last_used,
            use_count=self.usage.use_count,
            strength=self.strength,
            score=self.score if with_score else 0.0,
        )


async def read_use(memory: AsyncAgentMemory, facts: Sequence[Fact]) -> list[UsedFact]:
    """Facts with their use, in the same order."""
    now, decay = memory.engine.clock.now(), memory.settings.decay
    return [
        UsedFact(
            fact,
            usage,
            now,
            round(decay_score_now(fact, usage, now, decay), 4) if fact.tier == SHORT_TERM else LASTING_SCORE,
        )
        for fact, usage in zip(facts, await memory.records.usage(facts), strict=True)
    ]


async def find_memories(memory: AsyncAgentMemory, ids: Sequence[str]) -> tuple[list[Fact], list[str]]:
    """The facts of these ids that the scope may read, and the ids without one; each once, in the order asked."""
    found, missing = list[Fact](), list[str]()
    for name in dict.fromkeys(ids):
        try:
            found.append(await memory.semantic.get_fact(name))
        except NotFound:
            missing.append(name)
    shown = [fact for fact in found if fact.status is not Status.FORGOTTEN]
    return shown, [*missing, *(fact.id for fact in found if fact not in shown)]


async def get_memory(memory: AsyncAgentMemory, memory_id: str) -> Fact:
    """The fact of this id; NotFound, word for word alike, for what was forgotten, never was, or is somebody else's."""
    found, _ = await find_memories(memory, [memory_id])
    if not found:
        raise NotFound(f"there is no memory {memory_id!r}; search for it to get its id")
    return found[0]


async def list_memories(
    memory: AsyncAgentMemory, statuses: Sequence[StatusName], tags: Sequence[str] | None = None
) -> list[Fact]:
    """Facts of these statuses that have one of the tags, the latest first; those that ended count only as archived."""
    facts = await memory.semantic.facts(limit=MAX_MEMORIES)
    if Status.ARCHIVED in statuses:
        facts += await memory.semantic.facts({"status": Status.ARCHIVED}, limit=MAX_MEMORIES)
    wanted = {fact.id: fact for fact in facts if fact.status in statuses and has_tag(fact, tags)}
    return sorted(wanted.values(), key=lambda fact: fact.seq, reverse=True)


async def read_names(memory: AsyncAgentMemory, facts: Sequence[Fact]) -> dict[str, str]:
    """The names of the entities that facts are about, by id."""
    found = await memory.records.find(Entity, [entity for fact in facts for entity in fact.entity_ids])
    return {each.id: each.name for each in found}


def has_tag(fact: Fact, tags: Sequence[str] | None) -> bool:
    """Whether a fact has one of these tags; none asked for is any."""
    return not tags or not set(tags).isdisjoint(fact.tags)


def cut_page(items: Sequence[T], page: int | None, page_size: int | None) -> tuple[list[T], Pagination]:
    """One page, the first one of 10 where only one of the two is given, or everything where neither is."""
    size = page_size if page_size is not None else DEFAULT_PAGE_SIZE if page is not None else max(1, len(items))
    number = page if page is not None else 1
    check_at_least(1, page=number, page_size=size)
    start, pages = (number - 1) * size, -(-len(items) // size)
    place = Pagination(page=number, page_size=size, total_count=len(items), total_pages=pages, has_more=number < pages)
    return list(items[start : start + size]), place


def check_at_least(least: float, **given: float | None) -> None:
    """Refuse numbers below the least; None is not given."""
    for name, number in given.items():
        if number is not None and number < least:
            raise InvalidRecord(f"{name} must be {least:g} or more, got {describe_value(number)}", field=name)


def shorten_text(text: str, length: int | None = None) -> str:
    """The beginning of a text: 2,000 characters if not said otherwise, all of it for 0."""
    most = len(text) if length == 0 else MAX_TEXT_CHARS if length is None else length
    return text if len(text) <= most else f"{text[: most - 1]}…"


def format_moment(moment: datetime | None) -> str:
    """As ISO 8601; empty for none."""
    return "" if moment is None else moment.isoformat(timespec="seconds")
