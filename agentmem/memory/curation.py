"""Curation: what should be seen again, what proved itself, what says the same, and what nobody needs any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentmem.errors import InvalidRecord
from agentmem.memory import Seat, first_of
from agentmem.memory.clusters import Cluster, Sign, find_clusters
from agentmem.memory.facts import holds
from agentmem.memory.joining import joining, leaning
from agentmem.memory.promoting import EVERYWHERE, LONG, TARGETS, Promoted, Promoting
from agentmem.model.changes import Change, Write, fingerprint, keyed_change_id
from agentmem.model.decay import review_priority
from agentmem.model.dues import score_now
from agentmem.model.records import Fact

SHORT = "short"
PAGE = 1000


class Report(Protocol):
    """What a job did; see `agentmem.JobReport`."""

    @property
    def counts(self) -> Mapping[str, int]: ...
    @property
    def operation_ids(self) -> Sequence[str]: ...
    @property
    def notes(self) -> Sequence[str]: ...


Run = Callable[[str, bool], Awaitable[Sequence[Report]]]
"""Runs a job for the user by its name, dry or not: jobs stand above memory."""


@dataclass(frozen=True, slots=True)
class ToReview:
    """A fact that is about to be forgotten: its score as of now, and how urgent it is to see it again, 0 to 1."""

    fact: Fact
    score: float
    priority: float


@dataclass
class Curation:
    """The verbs over what fades and what stays. `sign` says what two facts must share to say the same."""

    seat: Seat
    sign: Sign
    run: Run

    async def queue(self, limit: int = 10) -> list[ToReview]:
        """Short-lived facts of the readable channels that are in the danger zone now, the most urgent first."""
        if limit < 0:
            raise InvalidRecord(f"limit must be 0 or more, got {limit}", field="limit")
        resources = self.seat.resources
        decay, now = resources.settings.decay, resources.clock.now()
        facts = [fact for fact in await self.seat.all("Fact") if isinstance(fact, Fact) and fact.tier == SHORT]
        fading = [fact for fact in facts if holds(fact, now)]
        found = []
        for start in range(0, len(fading), PAGE):
            page = fading[start : start + PAGE]
            usage = await resources.log.usage([fact.key for fact in page], self.seat.scope)
            for fact in page:
                score = score_now(fact, usage.get(fact.key), now, decay)
                priority = review_priority(score, decay.danger_low, decay.danger_high)
                if priority > 0:
                    found.append(ToReview(fact, score, priority))
        return sorted(found, key=lambda each: (-each.priority, each.fact.id))[:limit]

    async def touch(
        self, fact_id: str, *, boost: float = 0.0, idempotency_key: str | None = None
    ) -> tuple[float, float]:
        """Count a use of a fact and return its score before and after.

        It is last used now, and once more; `boost` (0 to 1) is added to its strength, which stays at 2.0 or below.
        NotFound when this scope has no such fact.
        """
        if not 0 <= boost <= 1:
            raise InvalidRecord(f"boost must be within 0 and 1, got {boost!r}", field="boost")
        fact = await self._fact(fact_id)
        resources, scope = self.seat.resources, self.seat.scope
        now, decay = resources.clock.now(), resources.settings.decay
        before = (await resources.log.usage([fact.key], scope)).get(fact.key)
        key = idempotency_key
        use_id = resources.ids.new() if key is None else keyed_change_id(scope, "touch", key)
        await resources.log.touch([fact.key], scope, use_id, used=True, at=now, boost=boost)
        after = (await resources.log.usage([fact.key], scope)).get(fact.key)
        row = resources.auditor.write("touch", scope, memory_type="semantic", count=1, metadata={"ids": [fact_id]})
        if row is not None:
            await resources.log.audit([row])
        return score_now(fact, before, now, decay), score_now(fact, after, now, decay)

    async def clusters(self) -> list[Cluster]:
        """Facts of the active channel that may say the same, the closest first; [] where all differ."""
        await self.seat.resources.follow(self.seat.scope)
        return await find_clusters(self.seat, self.seat.scope.channel, self.sign)

    async def merge(self, cluster: Cluster | Sequence[str], *, idempotency_key: str | None = None) -> Fact:
        """Make one fact of a cluster, or of the facts of these ids, and return it as one operation.

        The one kept for long, then the surest, then the oldest stays, with the sources, tags and entities of all; the
        others are superseded by it. They must hold and stand in one channel: InvalidRecord otherwise.
        """
        if isinstance(cluster, str):
            raise InvalidRecord("cluster must be a Cluster or a list of ids, got a string", field="cluster")
        ids = [fact.id for fact in cluster.facts] if isinstance(cluster, Cluster) else list(cluster)

        async def make(write: Write) -> Change:
            return await joining(self.seat, write, ids, await leaning(self.seat))

        entry = await self.seat.resources.write(
            self.seat.scope, "merge_facts", make, kind="Fact", key=idempotency_key, payload=fingerprint(ids=ids)
        )
        return first_of(entry, Fact)

    async def promote(
        self, fact_id: str, to: str = LONG, reason: str = "by hand", *, idempotency_key: str | None = None
    ) -> Promoted:
        """Keep a fact for `long`, with a note where there is a vault, or make it known in every channel (`global`).

        See `semantic.promote_to_global`. Promoted before, nothing changes; a note that is missing is written.
        """
        if to not in TARGETS:
            raise InvalidRecord(f"to must be one of {', '.join(TARGETS)}, got {to!r}", field="to")
        promoting = Promoting(self.seat)
        verb = promoting.spread if to == EVERYWHERE else promoting.keep
        return await verb(fact_id, reason, key=idempotency_key)

    async def gc(self, dry_run: bool = True) -> Report:
        """Collect short-lived facts whose score fell below the threshold; by default only say which."""
        return (await self.run("gc", dry_run))[0]

    async def _fact(self, fact_id: str) -> Fact:
        fact = await self.seat.one("Fact", fact_id)
        assert isinstance(fact, Fact)
        return fact
