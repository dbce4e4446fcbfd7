"""Facts that proved themselves: short-lived ones are kept for long, a project's are made known in every channel.

What a person took back by `undo` is not promoted again by itself. To every channel go only facts that may flow: of a
portable slot of the user, or said in two channels; never those of private slots, or told in confidence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from agentmem.beliefs.slots import USER_SUBJECT, find_slot
from agentmem.core.lifecycle import (
    DOUBTFUL,
    PROMOTE,
    NextDue,
    decay_score_now,
    next_due,
    promotable_to_global_since,
    promotable_to_long_since,
)
from agentmem.core.record import Key
from agentmem.core.records import Fact, slot_prefix
from agentmem.core.scope import Scope
from agentmem.engine.engine import Engine
from agentmem.errors import Conflict, InvalidRecord, NotFound
from agentmem.jobs.job import Job, RecordNote, context_for
from agentmem.jobs.runner import LeasedRun, build_leased_run
from agentmem.memory.semantic.facts import is_current
from agentmem.memory.semantic.promotion import FactPromotion, PromotionAuthority, PromotionResult
from agentmem.stores.job_queue import DueDate
from agentmem.stores.values import RecordUsage, Where

MAX_FACTS = 500  # facts looked at in one run
MAX_SAME_FACTS = 100  # of one belief that are looked at
_CONFIDENCE = re.compile(
    r"\b(?:confidential\w*|in confidence|between (?:us|you and me)|(?:keep|stays?) (?:this|that|it) (?:private|secret"
    r"|to yourself|between us)|(?:do not|don['\u2019]t) (?:tell|share|mention)|nobody (?:knows|must know)|under nda"
    r"|off the record|my secret|vertraulich|unter uns|confidencial|confidentiel|entre nous|entre nosotros)\b",
    re.IGNORECASE,
)
LONG_TERM_THRESHOLDS = ("score", "use_count", "within_days")
GLOBAL_THRESHOLDS = ("confidence", "access_count", "conversations")


async def may_flow(engine: Engine, scope: Scope, fact: Fact) -> bool:
    """Whether a project's fact may be made known in every channel by itself; by hand any may."""
    slot = find_slot(fact.slot, engine.settings.slots) if fact.slot else None
    if fact.certainty == DOUBTFUL or fact.in_doubt_since or (slot is not None and slot.is_private):
        return False
    turns = await engine.log.read_records("Turn", fact.source_turn_ids, scope) if fact.source_turn_ids else []
    if any(_CONFIDENCE.search(turn.search_text()) for turn in turns):
        return False
    if slot is not None and slot.is_portable and fact.subject == USER_SUBJECT:
        return True
    return not engine.settings.promotion.portable_only and await _is_said_elsewhere(engine, scope, fact)


async def _is_said_elsewhere(engine: Engine, scope: Scope, fact: Fact) -> bool:
    """Whether another project's channel has a fact of the same belief that holds."""
    prefix = slot_prefix(fact.subject, fact.slot) if fact.slot else fact.identity()
    where = Where(kinds=("Fact",), dedup_prefix=prefix)
    found = await engine.log.find(scope, where, limit=MAX_SAME_FACTS)
    return any(
        isinstance(each, Fact)
        and each.channel != fact.channel
        and not each.channel.startswith("_")
        and each.identity() == fact.identity()
        and is_current(each, engine.clock.now())
        for each in found
    )


class _PromoteRun(LeasedRun):
    async def run_all(self) -> None:
        """Promote what is due; each promotion is one operation.

        Counts: `kept` for long, `spread` to every channel. Notes say why, and which pages of the vault were not
        written.
        """
        self.now = self.engine.clock.now()
        keys = await self.engine.job_queue.due_records(PROMOTE, self.now, self.scope, limit=MAX_FACTS + 1)
        self.report.pending = len(keys[MAX_FACTS:])
        for number, (fact, usage) in enumerate(await self.read_due_facts(keys[:MAX_FACTS])):
            self.options.progress(PROMOTE, number, len(keys[:MAX_FACTS]))
            await self.promote_fact(fact, usage)

    async def read_due_facts(self, keys: Sequence[Key]) -> list[tuple[Fact, RecordUsage | None]]:
        """The facts that are due with their usage; what else was due, or is gone, is so no more."""
        records = await self.engine.log.read_records(
            "Fact", [name for kind, name in keys if kind == "Fact"], self.scope
        )
        used = await self.engine.log.usage(keys, self.scope)
        facts = {record.key: record for record in records if isinstance(record, Fact)}
        if not self.report.dry_run:
            stray = [DueDate(*key, None) for key in keys if key not in facts]
            await self.engine.job_queue.set_due_dates(self.scope, stray)
        return [(facts[key], used.get(key)) for key in keys if key in facts]

    async def promote_fact(self, fact: Fact, usage: RecordUsage | None) -> None:
        """Promote a fact as far as it deserves, and note when it is due next."""
        settings = self.engine.settings
        lasting, everywhere = (
            (moment := since(fact, usage, settings)) is not None and moment <= self.now
            for since in (promotable_to_long_since, promotable_to_global_since)
        )
        may_spread = not everywhere or await may_flow(self.engine, self.scope, fact)
        everywhere = everywhere and may_spread
        if (lasting or everywhere) and await self._was_undone(fact):
            await self._set_due_date(fact, None, unscheduled=True)
            return
        memory = FactPromotion(context_for(self.engine, self.scope, fact.channel))
        try:
            if lasting:
                fact = await self._promote_to_long_term(memory, fact, usage)
            if everywhere:
                fact = await self._promote_to_global(memory, fact, usage)
        except Conflict as error:  # others are writing to it: it stays due
            self.report.notes.append(str(error))
            return
        except (InvalidRecord, NotFound) as error:  # it holds no longer, or its copy cannot be
            self.report.notes.append(str(error))
            await self._set_due_date(fact, None, unscheduled=True)
            return
        await self._set_due_date(fact, usage, may_spread=may_spread)

    async def _set_due_date(
        self, fact: Fact, usage: RecordUsage | None, *, unscheduled: bool = False, may_spread: bool = True
    ) -> None:
        """Note when the fact is due next; `unscheduled` by itself, until it is used again.

        One that may not go to every channel is asked about again when it is used.
        """
        if self.report.dry_run:
            return
        due = NextDue()
        if not unscheduled:
            due = next_due(fact, usage, self.now, self.engine.settings, may_spread=may_spread)
        await self.engine.job_queue.set_due_dates(
            self.scope, [DueDate(*fact.key, due.due_at, due.due_for, due.review_priority)]
        )

    async def _was_undone(self, fact: Fact) -> bool:
        """Whether the fact was promoted before, and is not any more."""
        versions = [each for each in await self.engine.log.versions(fact.key, self.scope) if isinstance(each, Fact)]
        kept = fact.tier == "short" and any(each.tier == "long" for each in versions)
        return kept or (fact.promoted_to is None and any(each.promoted_to for each in versions))

    async def _promote_to_long_term(self, memory: FactPromotion, fact: Fact, usage: RecordUsage | None) -> Fact:
        settings, used = self.engine.settings, usage.use_count if usage else 0
        score = decay_score_now(fact, usage, self.now, settings.decay)
        assert fact.recorded_at is not None, "it is stored"
        reason = f"score {score:.2f} at the age of {(self.now - fact.recorded_at).days} days"
        if used >= settings.promotion.use_count:
            reason = f"used {used} times within {settings.promotion.within_days:g} days"
        return await self._promote("kept", fact, reason, memory.promote_to_long_term, LONG_TERM_THRESHOLDS)

    async def _promote_to_global(self, memory: FactPromotion, fact: Fact, usage: RecordUsage | None) -> Fact:
        accesses, conversations = (usage.access_count, usage.conversations) if usage else (0, 0)
        reason = f"confidence {fact.confidence:.2f}, recalled {accesses} times in {conversations} conversations"
        return await self._promote("spread", fact, reason, memory.copy_to_global, GLOBAL_THRESHOLDS)

    async def _promote(
        self, action: str, fact: Fact, reason: str, promote: Any, threshold_names: Sequence[str]
    ) -> Fact:
        """Promote by a verb, under the thresholds of these names; the fact as it stands then."""
        thresholds = {name: getattr(self.engine.settings.promotion, name) for name in threshold_names}
        done = PromotionResult(fact)
        if not self.report.dry_run:
            done = await promote(fact.id, reason, authority=PromotionAuthority(thresholds, self.fence))
        self.report.notes.append(RecordNote.build(fact.id, fact, action, reason))
        self.report.add_counts(**{action: 1})
        if done.operation_id:
            self.report.operation_ids.append(done.operation_id)
        if done.note:
            self.report.notes.append(done.note)
        return done.fact


JOB = Job(PROMOTE, 60.0, "due", build_leased_run(PROMOTE, _PromoteRun))
