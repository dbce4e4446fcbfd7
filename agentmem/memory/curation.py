"""Curation: reviews, promotion, duplicates and garbage collection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from agentmem.core.arguments import check_arguments
from agentmem.core.changes import Change, WriteAttempt, derive_change_id
from agentmem.core.lifecycle import decay_score_now, review_priority
from agentmem.core.plain_values import describe_value
from agentmem.core.record import PromotionTarget
from agentmem.core.records import Fact
from agentmem.errors import InvalidRecord
from agentmem.memory.context import MemoryContext
from agentmem.memory.read_audit import audit_read
from agentmem.memory.semantic.facts import is_current
from agentmem.memory.semantic.merge_facts import (
    Cluster,
    build_merge_change,
    find_clusters,
    read_dependents,
)
from agentmem.memory.semantic.promotion import (
    ALL_CHANNELS,
    PROMOTION_TARGETS,
    FactPromotion,
    PromotionResult,
)

SHORT_TERM: Final = "short"
USAGE_BATCH_SIZE = 1000


class JobReportProtocol(Protocol):
    """What a job did; see `agentmem.JobReport`."""

    @property
    def counts(self) -> Mapping[str, int]: ...
    @property
    def operation_ids(self) -> Sequence[str]: ...
    @property
    def notes(self) -> Sequence[str]: ...


RunJob = Callable[[str, bool], Awaitable[Sequence[JobReportProtocol]]]
"""Runs a job for the user by its name, dry or not: jobs are a layer above memory."""


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A fact that is about to be forgotten: its score as of now, and how urgent it is to see it again, 0 to 1."""

    fact: Fact
    score: float
    priority: float


@check_arguments
@dataclass
class Curation:
    """The verbs over what fades and what stays."""

    _context: MemoryContext
    run_job: RunJob

    @audit_read
    async def queue(self, limit: int = 10) -> list[ReviewItem]:
        """Short-lived facts of the readable channels that are in the danger zone now, the most urgent first."""
        if limit < 0:
            raise InvalidRecord(f"limit must be 0 or more, got {limit}", field="limit")
        engine = self._context.engine
        decay, now = engine.settings.decay, engine.clock.now()
        facts = [
            fact
            for fact in await self._context.list_readable("Fact")
            if isinstance(fact, Fact) and fact.tier == SHORT_TERM
        ]
        fading = [fact for fact in facts if is_current(fact, now)]
        found = []
        for start in range(0, len(fading), USAGE_BATCH_SIZE):
            page = fading[start : start + USAGE_BATCH_SIZE]
            usage = await engine.log.usage([fact.key for fact in page], self._context.scope)
            for fact in page:
                score = decay_score_now(fact, usage.get(fact.key), now, decay)
                priority = review_priority(score, decay.danger_low, decay.danger_high)
                if priority > 0:
                    found.append(ReviewItem(fact, score, priority))
        return sorted(found, key=lambda each: (-each.priority, each.fact.id))[:limit]

    async def touch(
        self, fact_id: str, *, boost: float = 0.0, idempotency_key: str | None = None
    ) -> tuple[float, float]:
        """Count a use of a fact, made on purpose to keep it, and return its score before and after.

        It is last used now, and once more; `boost` (0 to 1) is added to its strength, which stays at 2.0 or below.
        NotFound when this scope has no such fact.
        """
        if not 0 <= boost <= 1:
            raise InvalidRecord(f"boost must be within 0 and 1, got {describe_value(boost)}", field="boost")
        fact = await self._context.get_one(Fact, fact_id)
        engine, scope = self._context.engine, self._context.scope
        now, decay = engine.clock.now(), engine.settings.decay
        before = (await engine.log.usage([fact.key], scope)).get(fact.key)
        key = idempotency_key
        use_id = engine.ids.new_id() if key is None else derive_change_id(scope, "touch", key)
        await engine.log.record_usage([fact.key], scope, use_id, used=True, used_at=now, boost=boost, touched=True)
        after = (await engine.log.usage([fact.key], scope)).get(fact.key)
        row = engine.auditor.build_write_entry(
            "touch", scope, memory_type="semantic", count=1, metadata={"ids": [fact_id]}
        )
        await engine.write_audit(row)
        return decay_score_now(fact, before, now, decay), decay_score_now(fact, after, now, decay)

    @audit_read
    async def clusters(self) -> list[Cluster]:
        """Similar facts of the active channel, the closest cluster first; [] where all differ.

        `action` proposes by cohesion: merge, ask or keep_apart. The job merges only clusters with `is_equal`. Facts
        that differ in a word of direction, polarity, tense, modality or number, or in a name, never share a cluster.
        """
        await self._context.engine.sync_projections(self._context.scope)
        return await find_clusters(self._context, self._context.scope.channel)

    async def merge(self, cluster: Cluster | Sequence[str], *, idempotency_key: str | None = None) -> Fact:
        """Make one fact of a cluster, or of the facts of these ids, and return it as one operation.

        The one kept for long, then the surest, then the oldest stays, with the sources, tags and entities of all; the
        others are superseded by it. They must hold and share one channel: InvalidRecord otherwise.
        """
        if isinstance(cluster, str):
            raise InvalidRecord("cluster must be a Cluster or a list of ids, got a string", field="cluster")
        ids = [fact.id for fact in cluster.facts] if isinstance(cluster, Cluster) else list(cluster)

        async def make(write: WriteAttempt) -> Change:
            return await build_merge_change(self._context, write, ids, await read_dependents(self._context))

        return await self._context.write(Fact, "merge_facts", make, idempotency_key=idempotency_key, given={"ids": ids})

    async def promote(
        self,
        fact_id: str,
        to: PromotionTarget = "long",
        reason: str = "by hand",
        *,
        idempotency_key: str | None = None,
    ) -> PromotionResult:
        """Keep a fact for `long`, with a note where there is a vault, or make it known in every channel (`global`).

        See `semantic.promote_to_global`. Promoted before, nothing changes; a note that is missing is written.
        """
        if to not in PROMOTION_TARGETS:
            raise InvalidRecord(
                f"to must be one of {', '.join(PROMOTION_TARGETS)}, got {describe_value(to)}", field="to"
            )
        promoting = FactPromotion(self._context)
        verb = promoting.copy_to_global if to == ALL_CHANNELS else promoting.promote_to_long_term
        return await verb(fact_id, reason, idempotency_key=idempotency_key)

    async def gc(self, dry_run: bool = True) -> JobReportProtocol:
        """Collect short-lived facts whose score fell below the threshold; by default only say which."""
        return (await self.run_job("gc", dry_run))[0]
