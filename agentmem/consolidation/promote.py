"""Facts that proved themselves: short-lived ones are kept for long, a project's are made known in every channel.

What a person took back by `undo` is not promoted again by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agentmem.consolidation import JobOptions, JobReport
from agentmem.consolidation.clusters import seat_of
from agentmem.consolidation.lease import leased_run
from agentmem.errors import Conflict, InvalidRecord, NotFound
from agentmem.memory.promoting import Promoted, Promoting, Ruling
from agentmem.model.dues import PROMOTE, Next, global_since, lasting_since, next_due, score_now
from agentmem.model.records import Fact, Key
from agentmem.model.scope import Scope
from agentmem.resources import Resources
from agentmem.stores import Usage
from agentmem.stores.jobs import Due

NAME = PROMOTE
MINUTES = 60.0
TRIGGER = "due"
MOST = 500  # facts looked at in one run
FOR_LONG = ("score", "use_count", "within_days")
FOR_ALL = ("confidence", "access_count", "conversations")


@leased_run(NAME)
async def run(
    resources: Resources, scope: Scope, options: JobOptions, report: JobReport, fence: int
) -> None:  # fmt: skip
    """Promote what is due; each promotion is one operation.

    Counts: `kept` for long, `spread` to every channel. Notes say why, and which pages of the vault were not written.
    """
    now = resources.clock.now()
    keys = await resources.jobs.due_records(NAME, now, scope, limit=MOST + 1)
    report.pending = len(keys[MOST:])
    work = _Run(resources, scope, report, now, fence)
    for number, (fact, usage) in enumerate(await work.found(keys[:MOST])):
        options.progress(NAME, number, len(keys[:MOST]))
        await work.one(fact, usage)


@dataclass
class _Run:
    """One run for one user."""

    resources: Resources
    scope: Scope
    report: JobReport
    now: datetime
    fence: int

    async def found(self, keys: Sequence[Key]) -> list[tuple[Fact, Usage | None]]:
        """The facts that are due with their usage; what else was due, or is gone, is so no more."""
        records = await self.resources.log.get("Fact", [name for kind, name in keys if kind == "Fact"], self.scope)
        used = await self.resources.log.usage(keys, self.scope)
        facts = {record.key: record for record in records if isinstance(record, Fact)}
        if not self.report.dry_run:
            stray = [Due(*key, None) for key in keys if key not in facts]
            await self.resources.jobs.settle(self.scope, stray)
        return [(facts[key], used.get(key)) for key in keys if key in facts]

    async def one(self, fact: Fact, usage: Usage | None) -> None:
        """Promote a fact as far as it deserves, and note when it is due next."""
        laws = self.resources.settings
        lasting, everywhere = (self._reached(since(fact, usage, laws)) for since in (lasting_since, global_since))
        if (lasting or everywhere) and await self._taken_back(fact):
            await self._settle(fact, None, never=True)
            return
        memory = Promoting(seat_of(self.resources, self.scope, fact.channel))
        try:
            if lasting:
                fact = await self._keep(memory, fact, usage)
            if everywhere:
                fact = await self._spread(memory, fact, usage)
        except Conflict as error:  # others are writing to it: it stays due
            self.report.notes.append(str(error))
            return
        except (InvalidRecord, NotFound) as error:  # it holds no longer, or its copy cannot be
            self.report.notes.append(str(error))
            await self._settle(fact, None, never=True)
            return
        await self._settle(fact, usage)

    async def _settle(self, fact: Fact, usage: Usage | None, *, never: bool = False) -> None:
        """Note when the fact is due next; `never` by itself, until it is used again."""
        if self.report.dry_run:
            return
        due = Next() if never else next_due(fact, usage, self.now, self.resources.settings)
        await self.resources.jobs.settle(self.scope, [Due(*fact.key, due.due_at, due.due_for, due.review_priority)])

    def _reached(self, since: datetime | None) -> bool:
        return since is not None and since <= self.now

    async def _taken_back(self, fact: Fact) -> bool:
        """Whether the fact was promoted before, and is not any more."""
        versions = [each for each in await self.resources.log.versions(fact.key, self.scope) if isinstance(each, Fact)]
        kept = fact.tier == "short" and any(each.tier == "long" for each in versions)
        return kept or (fact.promoted_to is None and any(each.promoted_to for each in versions))

    async def _keep(self, memory: Promoting, fact: Fact, usage: Usage | None) -> Fact:
        settings, used = self.resources.settings, usage.use_count if usage else 0
        score = score_now(fact, usage, self.now, settings.decay)
        assert fact.recorded_at is not None, "it is stored"
        reason = f"score {score:.2f} at the age of {(self.now - fact.recorded_at).days} days"
        if used >= settings.promotion.use_count:
            reason = f"used {used} times within {settings.promotion.within_days:g} days"
        return await self._promoted("kept", fact, reason, memory.keep, FOR_LONG)

    async def _spread(self, memory: Promoting, fact: Fact, usage: Usage | None) -> Fact:
        accesses, conversations = (usage.access_count, usage.conversations) if usage else (0, 0)
        reason = f"confidence {fact.confidence:.2f}, recalled {accesses} times in {conversations} conversations"
        return await self._promoted("spread", fact, reason, memory.spread, FOR_ALL)

    async def _promoted(self, what: str, fact: Fact, reason: str, verb: Any, names: Sequence[str]) -> Fact:
        """Promote by a verb, under the thresholds of these names; the fact as it stands then."""
        thresholds = {name: getattr(self.resources.settings.promotion, name) for name in names}
        done = Promoted(fact)
        if not self.report.dry_run:
            done = await verb(fact.id, reason, ruling=Ruling(thresholds, self.fence))
        self.report.notes.append(f"{fact.id}: {what}: {reason}")
        self.report.count(**{what: 1})
        if done.operation_id:
            self.report.operation_ids.append(done.operation_id)
        if done.note:
            self.report.notes.append(done.note)
        return done.fact
