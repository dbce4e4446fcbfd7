"""Turns become knowledge: every turn is read once, with its neighbours, by a language model or by rules.

What a window gives is one Change: facts, entities, relations, questions, and a gloss for each turn that marks it as
read. A turn of which no reply can be used is tried again by later runs, and parked with its reason at the third time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agentmem.consolidation import JobOptions, JobReport
from agentmem.consolidation.lease import hold_lease, publish_lock
from agentmem.consolidation.pending import PendingConversation, find_pending_conversations
from agentmem.consolidation.stale import request_stale_reviews
from agentmem.errors import BudgetExceeded, Conflict, InvalidRecord, LeaseLost, ModelUnavailable, NotFound
from agentmem.events import INFO, WARNING, log_event
from agentmem.extraction import ExtractionDraft, Window, rules
from agentmem.extraction.judge import ContradictionClassifier
from agentmem.extraction.known import CandidateRetriever
from agentmem.extraction.llm import ExtractionResult, extract, extractor_name
from agentmem.extraction.settle import RULES_SOURCE, Reconciler
from agentmem.extraction.windows import is_substantive, split_into_windows
from agentmem.memory import MemoryContext
from agentmem.model.changes import Change, WriteAttempt
from agentmem.model.clock import Stopwatch
from agentmem.model.records import Conversation, Fact, Turn
from agentmem.model.scope import Scope
from agentmem.providers.asking import Budget
from agentmem.resources import Engine
from agentmem.stores import DeadLetter
from agentmem.stores.upkeep import DEAD_LETTER_ATTEMPTS

NAME = "consolidate"
MINUTES = 15.0
TRIGGER = "changes"
WATCHES = ("Turn", "Gloss", "Fact")
SKIP_BATCH_SIZE = 500  # turns without content that are marked together
MAX_TURNS_PER_CONVERSATION = 600  # turns of one conversation that are read before the next one is served


async def run(engine: Engine, scope: Scope, options: JobOptions) -> JobReport:
    """Extract what the user's turns say that nobody extracted, oldest conversation first.

    Conversations of pleasantries alone cost no call and do not count among `options.limit`. A model that is away or a
    budget that is spent ends the run, and what was not read waits. In the end facts whose premises fell are put to a
    person. Raises ConfigError for a model that cannot be used.
    """
    engine.check_open()
    watch = Stopwatch(engine.clock)
    spending = engine.llms.build_budget() if options.budget is None else options.budget.child()
    report = JobReport(job=NAME, user_id=scope.user_id, dry_run=options.dry_run)
    if options.retry_parked:
        await engine.admin.requeue_dead_letters(NAME, scope)
    work = _ConsolidateRun(engine, scope, options, report, spending)
    try:
        await work.run_all()
    except (BudgetExceeded, ModelUnavailable) as error:
        if isinstance(error, ModelUnavailable):
            log_event(WARNING, "model_away", job=NAME, user_id=scope.user_id, error=str(error))
        report.stop_reason, report.abort_others = str(error), True
    if not options.dry_run:
        await request_stale_reviews(engine, scope, report)
    used = spending.total
    report.calls, report.tokens, report.cost = used.calls, used.tokens, used.cost
    report.usage = dict(spending.by_purpose)
    report.pending = len(
        find_pending_conversations(await engine.read_columns(scope), await work.read_dead_letter_seqs())
    )
    report.seconds = watch.milliseconds() / 1000
    log_event(INFO, "consolidated", user_id=scope.user_id, conversations=report.conversations, calls=report.calls,
         pending=report.pending)  # fmt: skip
    return report


class _LeasedConversation(NamedTuple):
    """Where one conversation is worked on: what it is seen through, and the token of its lease."""

    context: MemoryContext
    fence: int


@dataclass
class _ConsolidateRun:
    """One run for one user."""

    engine: Engine
    scope: Scope
    options: JobOptions
    report: JobReport
    budget: Budget
    visited: set[tuple[str, str]] = field(default_factory=set)  # conversations that this run is done with

    def __post_init__(self) -> None:
        llms = self.engine.llms
        self.llm = llms.for_purpose("extraction", self.budget)
        verdicts = llms.for_purpose("verdict", self.budget)
        self.classifier = None if verdicts is None else ContradictionClassifier(verdicts)
        self.extractor = rules.EXTRACTOR if self.llm is None else extractor_name(llms.model_name("extraction"))

    async def run_all(self) -> None:
        """Conversation by conversation, until enough of them needed work or none is left."""
        worked = 0
        while worked < self.options.limit:
            waiting = [each for each in await self._find_pending() if self._conversation_key(each) not in self.visited]
            if not waiting:
                return
            self.options.progress(NAME, len(self.visited), len(self.visited) + len(waiting))
            self.visited.add(self._conversation_key(waiting[0]))
            worked += await self._process_conversation(waiting[0])

    async def _find_pending(self) -> list[PendingConversation]:
        return find_pending_conversations(
            await self.engine.read_columns(self.scope), await self.read_dead_letter_seqs()
        )

    async def read_dead_letter_seqs(self) -> set[int]:
        """Journal positions of turns that were given up."""
        found = await self.engine.log.dead_letters(self.scope)
        return {item.seq for item in found if item.projection == NAME and item.attempts >= DEAD_LETTER_ATTEMPTS}

    @staticmethod
    def _conversation_key(pending: PendingConversation) -> tuple[str, str]:
        return pending.channel, pending.conversation_id

    async def _process_conversation(self, pending: PendingConversation) -> bool:
        """Read what waits in one conversation; whether any of it was worth reading."""
        seat, name = MemoryContext(self.engine, self._scope_of(pending)), f"conversation {pending.conversation_id!r}"
        try:
            async with (
                hold_lease(self.engine, _lease_name(seat.scope), name) as fence,
                publish_lock(self.engine, seat.scope),
            ):
                desk = _LeasedConversation(seat, fence)
                # Who had it before may have read some of it since we looked.
                left = [
                    each
                    for each in await self._find_pending()
                    if self._conversation_key(each) == self._conversation_key(pending)
                ]
                if not left:
                    return False
                pending = left[0]
                turns = await self._read_turns(pending.ordinals[:MAX_TURNS_PER_CONVERSATION])
                before = await self._read_turns(pending.context_ordinals)
                worth = any(is_substantive(turn) for turn in turns)
                if self.options.dry_run:
                    self._preview(turns)
                elif worth:
                    await self._process_windows(desk, turns, before)
                else:
                    await self._mark_skipped(desk, turns)
        except LeaseLost as error:
            self.report.notes.append(str(error))
            return False
        self.report.conversations += 1
        return worth

    async def _process_windows(
        self, leased: _LeasedConversation, turns: Sequence[Turn], context_turns: Sequence[Turn]
    ) -> None:
        windows, failed, said = split_into_windows(turns), False, list(context_turns)
        for number, window in enumerate(windows, 1):
            last = number == len(windows) and not failed
            if any(is_substantive(turn) for turn in window):
                failed |= await self._process_window(leased, window, said[-6:], last=last)
            else:
                await self._mark_skipped(leased, window, last=last)
            said += window

    async def _process_window(
        self, leased: _LeasedConversation, turns: Sequence[Turn], context_turns: Sequence[Turn], *, last: bool
    ) -> bool:
        """Read one window and settle it; whether something of it failed."""
        known, people = CandidateRetriever(leased.context), (*context_turns, *turns)
        window = Window(
            conversation_id=turns[0].conversation_id, channel=turns[0].channel, turns=tuple(turns),
            context_turns=tuple(context_turns), known_facts=await self._find_known_facts(known, turns),
            known_entities=await known.find_entities(turns),
            participants=tuple(dict.fromkeys(turn.speaker for turn in people if turn.speaker)),
            agent_id=_agent_of(turns),
        )  # fmt: skip
        read = await self._extract(window)
        failed = dict(read.failed)
        good = replace(window, turns=tuple(turn for turn in turns if turn.id not in failed))
        if good.turns:
            try:
                await self._reconcile(leased, good, read.draft, last=last and not failed)
            except (Conflict, InvalidRecord, NotFound) as error:  # of these turns alone: the others go on
                failed |= {turn.id: str(error) for turn in good.turns}
        await self._record_failures([turn for turn in turns if turn.id in failed], failed)
        return bool(failed)

    async def _reconcile(
        self, leased: _LeasedConversation, window: Window, draft: ExtractionDraft, *, last: bool
    ) -> None:
        settling = Reconciler(
            leased.context, window, draft, self.extractor, by_rules=self.llm is None, classifier=self.classifier
        )
        operation_id = await self._write(leased, settling, last=last)
        if operation_id:
            self.report.operation_ids.append(operation_id)
            self.report.add_counts(turns=len(window.turns), **{kind.lower(): n for kind, n in settling.counts.items()})
        self.report.notes += draft.notes

    async def _extract(self, window: Window) -> ExtractionResult:
        if self.llm is None:
            return ExtractionResult(draft=await asyncio.to_thread(rules.extract, window))
        return await extract(window, self.llm)

    async def _find_known_facts(self, retriever: CandidateRetriever, turns: Sequence[Turn]) -> tuple[Fact, ...]:
        return await (retriever.find_facts_by_source(RULES_SOURCE) if self.llm is None else retriever.find_facts(turns))

    async def _mark_skipped(self, leased: _LeasedConversation, turns: Sequence[Turn], *, last: bool = True) -> None:
        """Mark turns that say nothing, without a call."""
        for start in range(0, len(turns), SKIP_BATCH_SIZE):
            some = tuple(turns[start : start + SKIP_BATCH_SIZE])
            window = Window(conversation_id=some[0].conversation_id, channel=some[0].channel, turns=some)
            at_the_end = last and start + SKIP_BATCH_SIZE >= len(turns)
            if await self._write(
                leased, Reconciler(leased.context, window, ExtractionDraft(), self.extractor), last=at_the_end
            ):
                self.report.add_counts(skipped=len(some))

    async def _write(self, leased: _LeasedConversation, reconciler: Reconciler, *, last: bool) -> str:
        """Commit what a window gave, with the end of its conversation where it is the `last`; "" when others did."""
        window = reconciler.window

        async def build(write: WriteAttempt) -> Change | None:
            change = await reconciler.build_change(write)
            return change if change is None or not last else await self._mark_consolidated(change, window, write)

        entry = await self.engine.write(
            leased.context.scope, NAME, build, kind="Fact", details={"turns": len(window.turns)}, fence=leased.fence
        )
        return "" if entry is None else entry.operation_id

    async def _mark_consolidated(self, change: Change, window: Window, write: WriteAttempt) -> Change:
        """The change, with which its conversation is noted as consolidated."""
        found = await self.engine.log.read_records("Conversation", [window.conversation_id], self.scope)
        for record in found[:1]:
            if isinstance(record, Conversation) and record.superseded_at is None and record.channel == window.channel:
                done = record.model_copy(update={"consolidated": write.now})
                expects = {**change.expected_versions, record.key: record.seq}
                return replace(change, upserts=(*change.upserts, done), expected_versions=expects)
        return change

    async def _record_failures(self, turns: Sequence[Turn], reasons: Mapping[str, str]) -> None:
        """Count a try for each turn that failed; parked at the third."""
        if not turns:
            return
        before = {item.seq: item.attempts for item in await self.engine.log.dead_letters(self.scope)
                  if item.projection == NAME}  # fmt: skip
        for turn in turns:
            attempts = before.get(turn.seq, 0) + 1
            now = self.engine.clock.now()
            await self.engine.log.write_dead_letter(
                DeadLetter(NAME, self.scope.user_id, turn.seq, reasons[turn.id], attempts, now)
            )
            self.report.failed[turn.id] = reasons[turn.id]
            if attempts >= DEAD_LETTER_ATTEMPTS:
                self.report.parked[turn.id] = reasons[turn.id]

    def _preview(self, turns: Sequence[Turn]) -> None:
        """What a run would do with these turns."""
        for window in split_into_windows(turns):
            worth = any(is_substantive(turn) for turn in window)
            self.report.add_counts(**{"turns" if worth else "skipped": len(window), "windows": int(worth)})

    # -- who works

    def _scope_of(self, pending: PendingConversation) -> Scope:
        """Writes go where the turns are; an agent's private channel is the agent's."""
        own = pending.channel.startswith("_self_")
        agent = pending.channel.removeprefix("_self_") if own else None
        return Scope(self.scope.user_id, pending.channel, agent, pending.conversation_id)

    async def _read_turns(self, ordinals: Sequence[int]) -> list[Turn]:
        found = await self.engine.log.read_by_ordinal(list(ordinals), self.scope) if ordinals else []
        return [record for record in found if isinstance(record, Turn)]


def _lease_name(scope: Scope) -> str:
    return f"{NAME}:{scope.user_id}:{scope.channel}:{scope.conversation_id}"


def _agent_of(turns: Sequence[Turn]) -> str | None:
    """The one agent that speaks in these turns; None for nobody and for several."""
    agents = {turn.agent_id for turn in turns if turn.agent_id}
    return agents.pop() if len(agents) == 1 else None
