"""The job `consolidate`: turns become knowledge; what is pending, and what newer turns made stale.

What a window gives is one Change: facts, entities, relations, questions, and a gloss for each turn that marks it as
read. A turn of which no reply can be used is read by rules only, and its gloss says so. A window that cannot be written
is tried again by later runs, and its turns are parked with the reason at the third time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from agentmem.core.changes import Change, JournalEntry, WriteAttempt
from agentmem.core.clock import Stopwatch, derive_id
from agentmem.core.columns import MAX_TIME, Bools, Ints, RecordColumns
from agentmem.core.lifecycle import DOUBTFUL
from agentmem.core.records import Conversation, Fact, Review, Turn, build_record
from agentmem.core.scope import Scope, channel_scope
from agentmem.core.telemetry import DEBUG, INFO, WARNING, log_event
from agentmem.core.truth_maintenance import StaleReason, covers, find_stale
from agentmem.engine.engine import Engine
from agentmem.errors import BudgetExceeded, Conflict, InvalidRecord, LeaseLost, ModelUnavailable, NotFound
from agentmem.extraction.contradiction import CandidateRetriever, ContradictionClassifier
from agentmem.extraction.drafts import ExtractionDraft, Window
from agentmem.extraction.grounding import MAX_TURN_CHARS
from agentmem.extraction.llm_extractor import ExtractionResult, choose_profile, extract, extractor_name
from agentmem.extraction.plain import extractor
from agentmem.extraction.plain.turn_text import MAX_READ_CHARS
from agentmem.extraction.reconciler import RULES_SOURCE, Reconciler
from agentmem.extraction.wall_clock import restore_moments, to_wall_window
from agentmem.extraction.windows import is_substantive, split_into_windows
from agentmem.jobs.due_records import read_dead_letter_seqs, record_failures
from agentmem.jobs.job import ALL_CONVERSATIONS, Job, JobOptions, JobReport, Reread, read_all
from agentmem.jobs.reread import find_rereadable, release_turns
from agentmem.jobs.runner import hold_lease, publish_lock
from agentmem.memory.context import MemoryContext
from agentmem.memory.evidence import record_confirmation
from agentmem.memory.premises import read_grounds
from agentmem.memory.user_zone import read_local_time
from agentmem.models.structured_llm import Budget

MAX_CONTEXT_TURNS = 6  # turns before

COPIED_FIELDS = ("confidence", "certainty", "source", "subject", "temporal_context", "memory_type", "trust")

NAME = "consolidate"
SKIP_BATCH_SIZE = 500  # turns without content that are marked together
MAX_TURNS_PER_CONVERSATION = 600  # turns of one conversation that are read before the next one is served


@dataclass(frozen=True, slots=True)
class PendingConversation:
    """A conversation in one channel: ordinals of the turns to extract, in order, and of those just before them."""

    conversation_id: str
    channel: str
    ordinals: tuple[int, ...]
    context_ordinals: tuple[int, ...]


def find_pending_conversations(
    columns: RecordColumns, dead_letter_seqs: Collection[int] = ()
) -> list[PendingConversation]:
    """Conversations with turns to extract, the one whose oldest such turn was stored first being first.

    `dead_letter_seqs` are journal positions of turns that were given up.
    """
    waiting = _pending_turns_mask(columns)
    if dead_letter_seqs:
        waiting &= ~np.isin(columns.seqs, list(dead_letter_seqs))
    if not waiting.any():
        return []
    order = columns.conversation_order()
    found = []
    for run in _split_by_conversation(columns, order[_current_turns_mask(columns)[order]]):
        mine = run[waiting[run]]
        if len(mine):
            first = int(np.flatnonzero(waiting[run])[0])
            before = tuple(int(ordinal) for ordinal in run[max(0, first - MAX_CONTEXT_TURNS) : first])
            found.append((int(columns.seqs[mine].min()), mine, before))
    found.sort(key=lambda each: each[0])
    return [
        PendingConversation(
            columns.conversations.values[columns.conversation[mine[0]]],
            columns.channels.values[columns.channel[mine[0]]],
            tuple(int(ordinal) for ordinal in mine),
            before,
        )
        for _, mine, before in found
    ]


def _current_turns_mask(columns: RecordColumns) -> Bools:
    active = columns.statuses.mask_for(("active",))[columns.status]
    turns = columns.kind == columns.kinds.find_code("Turn")
    return np.asarray(turns & active & (columns.superseded_at == MAX_TIME))


def _pending_turns_mask(columns: RecordColumns) -> Bools:
    """Current turns without a current gloss."""
    waiting = _current_turns_mask(columns)
    glosses = (columns.kind == columns.kinds.find_code("Gloss")) & (columns.superseded_at == MAX_TIME)
    explained = columns.turn[glosses]
    waiting[explained[explained >= 0]] = False
    return waiting


def _split_by_conversation(columns: RecordColumns, order: Ints) -> Sequence[Ints]:
    """Ordinals in order, cut where channel or conversation change."""
    if not len(order):
        return []
    same = (columns.channel[order[1:]] == columns.channel[order[:-1]]) & (
        columns.conversation[order[1:]] == columns.conversation[order[:-1]]
    )
    return np.split(order, np.flatnonzero(~same) + 1)


async def request_stale_reviews(engine: Engine, scope: Scope, report: JobReport) -> None:
    """Put a review for each current fact that rests on a fallen premise and was not asked about for that premise.

    Accepted, the fact stands without its premises; rejected, it stays stale and is not asked about again.
    """
    facts = {fact.id: fact for fact in await read_all(engine, scope, Fact)}
    if not any(fact.depends_on for fact in facts.values()):
        return
    now = await engine.now(scope)
    # a premise in the archive or a forgotten one is not among these
    known = await read_grounds(facts.values(), engine.log, scope, None)
    fallen = {name: why for name, why in find_stale(known, now).items() if name in facts and covers(facts[name], now)}
    # a premise in doubt may still hold
    found = {name: why for name, why in fallen.items() if why.premise is None or why.premise.in_doubt_since is None}
    by_channel: dict[str, list[Review]] = {}
    for name, why in found.items():
        by_channel.setdefault(facts[name].channel, []).append(_build_review(scope.user_id, facts[name], why))
    for channel, reviews in by_channel.items():
        try:
            entry = await _write_reviews(engine, channel_scope(scope.user_id, channel), reviews, facts)
        except Conflict as error:  # others write without a pause: the next run asks
            report.notes.append(str(error))
            continue
        if entry is not None:
            report.add_counts(review=len(entry.upserts))


async def _write_reviews(
    engine: Engine, scope: Scope, reviews: Sequence[Review], facts: Mapping[str, Fact]
) -> JournalEntry | None:
    """Put these, but for those that were put before or are about what changed meanwhile: the next run looks at that."""
    ids, log = [review.id for review in reviews], engine.log
    named = list(dict.fromkeys(name for review in reviews for name in review.record_ids))

    async def make(write: WriteAttempt) -> Change | None:
        asked = {record.id for record in await log.read_records("Review", ids, scope)}
        same = {fact.id for fact in await log.read_records("Fact", named, scope) if fact.seq == facts[fact.id].seq}
        fresh = [review for review in reviews if review.id not in asked and same.issuperset(review.record_ids)]
        stand = {facts[name].key: facts[name].seq for review in fresh for name in review.record_ids}
        return (
            write.build_change(*fresh, expected_versions={**stand, **dict.fromkeys(each.key for each in fresh)})
            if fresh
            else None
        )

    return await engine.write(scope, "consolidate", make, kind="Review")


def _build_review(user_id: str, fact: Fact, reason: StaleReason) -> Review:
    fields = {name: getattr(fact, name) for name in COPIED_FIELDS if getattr(fact, name) not in ("", None)}
    rested_on = f"{reason.premise.claim!r}, which no longer holds." if reason.premise else "what was erased or undone."
    return build_record(
        Review,
        id=derive_id(user_id, "stale", fact.id, reason.premise.id if reason.premise else ""),
        channel=fact.channel,
        about="doubtful",
        question=f"Does it still hold that {fact.claim!r}? It rested on {rested_on}",
        proposed={"claim": fact.claim, **fields},
        record_ids=(fact.id, reason.premise.id) if reason.premise else (fact.id,),
        source_turn_ids=fact.source_turn_ids,
    )


async def run(engine: Engine, scope: Scope, options: JobOptions) -> JobReport:
    """Extract the user's unread turns, oldest conversation first.

    Conversations of pleasantries alone cost no call and do not count toward `options.limit`. An unavailable model or a
    spent budget ends the run, and unread turns wait. Finally, facts with fallen premises get a review. Raises
    ConfigError for a model that cannot be used.
    """
    engine.check_open()
    watch = Stopwatch(engine.clock)
    spending = options.open_budget(engine)
    report = JobReport(job=NAME, user_id=scope.user_id, dry_run=options.dry_run)
    if options.retry_parked:
        await engine.admin.requeue_dead_letters(NAME, scope)
    work = _ConsolidateRun(engine, scope, options, report, spending)
    if options.reread is not None:
        await work.release_turns(options.reread)
    try:
        await work.run_all()
    except (BudgetExceeded, ModelUnavailable) as error:
        if isinstance(error, ModelUnavailable):
            log_event(WARNING, "model_away", job=NAME, user_id=scope.user_id, error=str(error))
            report.is_model_away = True
        report.stop_reason, report.abort_others = str(error), True
    if not options.dry_run:
        await request_stale_reviews(engine, scope, report)
    report.set_usage(spending)
    report.pending = len(await work.find_pending())
    report.seconds = watch.milliseconds() / 1000
    log_event(
        INFO if report.conversations else DEBUG,
        "consolidated",
        user_id=scope.user_id,
        conversations=report.conversations,
        calls=report.calls,
        pending=report.pending,
    )
    return report


JOB = Job(NAME, 15.0, "changes", run, watches=("Turn", "Gloss", "Fact"))


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
    # Conversations that this run is done with, and how many of their turns waited when it came to them.
    visited: dict[tuple[str, str], int] = field(default_factory=dict)
    lost: set[tuple[str, str]] = field(default_factory=set)  # those whose lease was lost once

    def __post_init__(self) -> None:
        llms = self.engine.llms
        self.llm = llms.for_purpose("extraction", self.budget)
        verdicts = llms.for_purpose("verdict", self.budget)
        self.classifier = None if verdicts is None else ContradictionClassifier(verdicts)
        self.profile = choose_profile(self.engine.settings.llm_profile, self.engine.settings.llm_context)
        self.extractor = extractor.EXTRACTOR if self.llm is None else extractor_name(llms.model_name("extraction"))

    async def release_turns(self, reread: Reread) -> None:
        """Let turns that a worse reader read wait again."""
        found = await find_rereadable(self.engine, self.scope, reread, self.extractor)
        self.report.add_counts(released=len(found))
        if not self.options.dry_run:
            await release_turns(self.engine, self.scope, found)

    async def run_all(self) -> None:
        """Conversation by conversation, until enough of them needed work or none is left."""
        worked = 0
        while worked < self.options.limit:
            waiting = [each for each in await self.find_pending() if not self._is_done(each)]
            if not waiting:
                return
            self.options.progress(NAME, len(self.visited), len(self.visited) + len(waiting))
            self.visited[self._conversation_key(waiting[0])] = len(waiting[0].ordinals)
            worked += await self._process_conversation(waiting[0])

    def _is_done(self, pending: PendingConversation) -> bool:
        """Whether this run leaves a conversation: visited once, or where it reads all, without getting on."""
        before = self.visited.get(self._conversation_key(pending))
        gets_on = self.options.limit == ALL_CONVERSATIONS and before is not None and len(pending.ordinals) < before
        return before is not None and not gets_on

    async def find_pending(self) -> list[PendingConversation]:
        """The conversations with turns to read, but for those that were parked."""
        return find_pending_conversations(
            await self.engine.read_columns(self.scope), await read_dead_letter_seqs(self.engine, NAME, self.scope)
        )

    @staticmethod
    def _conversation_key(pending: PendingConversation) -> tuple[str, str]:
        return pending.channel, pending.conversation_id

    async def _process_conversation(self, pending: PendingConversation) -> bool:
        """Read what waits in one conversation; whether any of it was worth reading."""
        context = MemoryContext(
            self.engine, channel_scope(self.scope.user_id, pending.channel, pending.conversation_id)
        )
        name = f"conversation {pending.conversation_id!r}"
        lease_name = f"{NAME}:{context.scope.user_id}:{context.scope.channel}:{context.scope.conversation_id}"
        try:
            async with (
                hold_lease(self.engine, lease_name, name) as fence,
                publish_lock(self.engine, context.scope),
            ):
                leased = _LeasedConversation(context, fence)
                # Who had it before may have read some of it since we looked.
                left = [
                    each
                    for each in await self.find_pending()
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
                    await self._process_windows(leased, turns, before)
                else:
                    await self._mark_skipped(leased, turns)
        except LeaseLost as error:
            self.report.notes.append(str(error))
            self._try_once_more(self._conversation_key(pending))
            return False
        self.report.conversations += 1
        return worth

    def _try_once_more(self, conversation: tuple[str, str]) -> None:
        """Visit a conversation again: a machine that slept for longer than a lease lost it without a new holder."""
        if conversation not in self.lost:
            self.lost.add(conversation)
            self.visited.pop(conversation, None)

    async def _process_windows(
        self, leased: _LeasedConversation, turns: Sequence[Turn], context_turns: Sequence[Turn]
    ) -> None:
        windows, failed, said = self._split(turns), False, list(context_turns)
        for number, window in enumerate(windows, 1):
            last = number == len(windows) and not failed
            if any(is_substantive(turn) for turn in window):
                failed |= await self._process_window(leased, window, said[-6:], last=last)
            else:
                await self._mark_skipped(leased, window, last=last)
            said += window

    def _split(self, turns: Sequence[Turn]) -> list[list[Turn]]:
        """The turns in windows, as large as who reads them may have them."""
        if self.llm is None:
            return split_into_windows(turns)
        return split_into_windows(turns, max_turns=self.profile.max_turns, max_tokens=self.profile.max_tokens)

    async def _process_window(
        self, leased: _LeasedConversation, turns: Sequence[Turn], context_turns: Sequence[Turn], *, last: bool
    ) -> bool:
        """Read one window and reconcile it; whether something of it failed."""
        known, people = CandidateRetriever(leased.context), (*context_turns, *turns)
        window = Window(
            conversation_id=turns[0].conversation_id,
            channel=turns[0].channel,
            turns=tuple(turns),
            context_turns=tuple(context_turns),
            known_facts=await self._find_known_facts(known, turns),
            known_entities=await known.find_entities(turns),
            participants=tuple(dict.fromkeys(turn.speaker for turn in people if turn.speaker)),
            agent_id=_agent_of(turns),
            slots=self.engine.settings.slots,
            day_first=self.engine.settings.day_first,
        )
        local = await read_local_time(leased.context)
        read = await self._extract(to_wall_window(window, local))
        draft, failures = restore_moments(read.draft, window, local), list[tuple[Turn, str]]()
        good = tuple(turn for turn in turns if turn.id not in read.failed)
        rest = tuple(turn for turn in turns if turn.id in read.failed)
        self.report.failed |= {turn.id: f"read by rules only: {read.failed[turn.id]}" for turn in rest}
        for some, name in ((good, self.extractor), (rest, extractor.EXTRACTOR)):
            try:
                if some:
                    at_the_end = last and not failures and some == (rest or good)
                    await self._reconcile(leased, replace(window, turns=some), draft, name, last=at_the_end)
            except (Conflict, InvalidRecord, NotFound) as error:  # of these turns alone: the others go on
                failures += [(turn, str(error)) for turn in some]
        self.report.notes += [*draft.notes, *_note_unread_ends(good, rest, self.extractor)]
        await record_failures(self.engine, self.scope, self.report, failures)
        return bool(failures)

    async def _reconcile(
        self, leased: _LeasedConversation, window: Window, draft: ExtractionDraft, name: str, *, last: bool
    ) -> None:
        by_rules = name == extractor.EXTRACTOR
        classifier = None if by_rules else self.classifier
        reconciler = Reconciler(leased.context, window, draft, name, by_rules=by_rules, classifier=classifier)
        operation_id = await self._write(leased, reconciler, last=last)
        if operation_id:
            self.report.operation_ids.append(operation_id)
            count = "by_rules" if by_rules and self.llm is not None else "turns"
            self.report.add_counts(
                **{count: len(window.turns)}, **{kind.lower(): n for kind, n in reconciler.counts.items()}
            )
            await record_confirmation(self.engine, leased.context.scope, reconciler.confirmed, operation_id)

    async def _extract(self, window: Window) -> ExtractionResult:
        if self.llm is None:
            return ExtractionResult(draft=await asyncio.to_thread(extractor.extract, window))
        return await extract(window, self.llm, self.profile)

    async def _find_known_facts(self, retriever: CandidateRetriever, turns: Sequence[Turn]) -> tuple[Fact, ...]:
        by_rules = self.llm is None
        found = await (retriever.find_facts_by_source(RULES_SOURCE) if by_rules else retriever.find_known(turns))
        return tuple(fact for fact in found if fact.certainty != DOUBTFUL)

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

    def _preview(self, turns: Sequence[Turn]) -> None:
        """What a run would do with these turns."""
        for window in self._split(turns):
            worth = any(is_substantive(turn) for turn in window)
            self.report.add_counts(**{"turns" if worth else "skipped": len(window), "windows": int(worth)})

    async def _read_turns(self, ordinals: Sequence[int]) -> list[Turn]:
        found = await self.engine.log.read_by_ordinal(list(ordinals), self.scope) if ordinals else []
        return [record for record in found if isinstance(record, Turn)]


def _agent_of(turns: Sequence[Turn]) -> str | None:
    """The one agent that speaks in these turns; None for none and for several."""
    agents = {turn.agent_id for turn in turns if turn.agent_id}
    return agents.pop() if len(agents) == 1 else None


def _note_unread_ends(good: Sequence[Turn], rest: Sequence[Turn], name: str) -> list[str]:
    """A note for each turn that is longer than what its reader reads of one."""
    limits = [(each, MAX_READ_CHARS if name == extractor.EXTRACTOR else MAX_TURN_CHARS) for each in good]
    limits += [(each, MAX_READ_CHARS) for each in rest]
    return [
        f"turn {turn.id} has {len(turn.content):,} characters: the first {limit:,} were read"
        + (" by rules; a model reads more" if limit == MAX_READ_CHARS else "")
        for turn, limit in limits
        if len(turn.content) > limit
    ]
