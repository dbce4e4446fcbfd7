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
from agentmem.consolidation.lease import displayed, leased
from agentmem.consolidation.pending import Pending, pending
from agentmem.consolidation.stale import ask_about_stale
from agentmem.errors import BudgetSpent, Conflict, InvalidRecord, LeaseLost, ModelUnavailable, NotFound
from agentmem.events import INFO, WARNING, tell
from agentmem.extraction import Draft, Window, rules
from agentmem.extraction.judge import Judge
from agentmem.extraction.known import Known
from agentmem.extraction.llm import Read, extract, extractor_name
from agentmem.extraction.settle import RULES, Settling
from agentmem.extraction.windows import cut, worth_reading
from agentmem.memory import Seat
from agentmem.model.changes import Change, Write
from agentmem.model.clock import Stopwatch
from agentmem.model.records import Conversation, Fact, Turn
from agentmem.model.scope import Scope
from agentmem.providers.asking import Spending
from agentmem.resources import Resources
from agentmem.stores import Parked
from agentmem.stores.upkeep import GIVEN_UP

NAME = "consolidate"
MINUTES = 15.0
TRIGGER = "changes"
WATCHES = ("Turn", "Gloss", "Fact")
AT_ONCE = 500  # turns without content that are marked together
READ_AT_ONCE = 600  # turns of one conversation that are read before the next one is served


async def run(resources: Resources, scope: Scope, options: JobOptions) -> JobReport:
    """Extract what the user's turns say that nobody extracted, oldest conversation first.

    Conversations of pleasantries alone cost no call and do not count among `options.most`. A model that is away or a
    budget that is spent ends the run, and what was not read waits. In the end facts whose premises fell are put to a
    person. Raises ConfigError for a model that cannot be used.
    """
    resources.check_open()
    watch = Stopwatch(resources.clock)
    spending = resources.llms.spending() if options.spending is None else options.spending.part()
    report = JobReport(job=NAME, user_id=scope.user_id, dry_run=options.dry_run)
    if options.again:
        await resources.upkeep.unpark(NAME, scope)
    work = _Run(resources, scope, options, report, spending)
    try:
        await work.all()
    except (BudgetSpent, ModelUnavailable) as error:
        if isinstance(error, ModelUnavailable):
            tell(WARNING, "model_away", job=NAME, user_id=scope.user_id, error=str(error))
        report.stopped, report.halted = str(error), True
    if not options.dry_run:
        await ask_about_stale(resources, scope, report)
    used = spending.total
    report.calls, report.tokens, report.cost = used.calls, used.tokens, used.cost
    report.spent = dict(spending.by_purpose)
    report.pending = len(pending(await resources.outline(scope), await work.parked()))
    report.seconds = watch.milliseconds() / 1000
    tell(INFO, "consolidated", user_id=scope.user_id, conversations=report.conversations, calls=report.calls,
         pending=report.pending)  # fmt: skip
    return report


class _Desk(NamedTuple):
    """Where one conversation is worked on: what it is seen through, and the token of its lease."""

    seat: Seat
    fence: int


@dataclass
class _Run:
    """One run for one user."""

    resources: Resources
    scope: Scope
    options: JobOptions
    report: JobReport
    spending: Spending
    passed: set[tuple[str, str]] = field(default_factory=set)  # conversations that this run is done with

    def __post_init__(self) -> None:
        llms = self.resources.llms
        self.asker = llms.asker("extraction", self.spending)
        verdicts = llms.asker("verdict", self.spending)
        self.judge = None if verdicts is None else Judge(verdicts)
        self.extractor = rules.EXTRACTOR if self.asker is None else extractor_name(llms.model_name("extraction"))

    async def all(self) -> None:
        """Conversation by conversation, until enough of them needed work or none is left."""
        worked = 0
        while worked < self.options.most:
            waiting = [each for each in await self._pending() if self._key(each) not in self.passed]
            if not waiting:
                return
            self.options.progress(NAME, len(self.passed), len(self.passed) + len(waiting))
            self.passed.add(self._key(waiting[0]))
            worked += await self._conversation(waiting[0])

    async def _pending(self) -> list[Pending]:
        return pending(await self.resources.outline(self.scope), await self.parked())

    async def parked(self) -> set[int]:
        """Journal positions of turns that were given up."""
        found = await self.resources.log.parked(self.scope)
        return {item.seq for item in found if item.projection == NAME and item.attempts >= GIVEN_UP}

    @staticmethod
    def _key(waiting: Pending) -> tuple[str, str]:
        return waiting.channel, waiting.conversation_id

    async def _conversation(self, waiting: Pending) -> bool:
        """Read what waits in one conversation; whether any of it was worth reading."""
        seat, name = Seat(self.resources, self._scope_of(waiting)), f"conversation {waiting.conversation_id!r}"
        try:
            async with leased(self.resources, _lease(seat.scope), name) as fence, displayed(self.resources, seat.scope):
                desk = _Desk(seat, fence)
                # Who had it before may have read some of it since we looked.
                left = [each for each in await self._pending() if self._key(each) == self._key(waiting)]
                if not left:
                    return False
                waiting = left[0]
                turns = await self._turns(waiting.slots[:READ_AT_ONCE])
                before = await self._turns(waiting.before)
                worth = any(worth_reading(turn) for turn in turns)
                if self.options.dry_run:
                    self._foresee(turns)
                elif worth:
                    await self._windows(desk, turns, before)
                else:
                    await self._skip(desk, turns)
        except LeaseLost as error:
            self.report.notes.append(str(error))
            return False
        self.report.conversations += 1
        return worth

    async def _windows(self, desk: _Desk, turns: Sequence[Turn], before: Sequence[Turn]) -> None:
        windows, failed, said = cut(turns), False, list(before)
        for number, window in enumerate(windows, 1):
            last = number == len(windows) and not failed
            if any(worth_reading(turn) for turn in window):
                failed |= await self._window(desk, window, said[-6:], last=last)
            else:
                await self._skip(desk, window, last=last)
            said += window

    async def _window(self, desk: _Desk, turns: Sequence[Turn], before: Sequence[Turn], *, last: bool) -> bool:
        """Read one window and settle it; whether something of it failed."""
        known, people = Known(desk.seat), (*before, *turns)
        window = Window(
            conversation_id=turns[0].conversation_id, channel=turns[0].channel, turns=tuple(turns),
            before=tuple(before), facts=await self._facts(known, turns), entities=await known.entities(turns),
            participants=tuple(dict.fromkeys(turn.speaker for turn in people if turn.speaker)),
            agent_id=_agent_of(turns),
        )  # fmt: skip
        read = await self._read(window)
        failed = dict(read.failed)
        good = replace(window, turns=tuple(turn for turn in turns if turn.id not in failed))
        if good.turns:
            try:
                await self._settle(desk, good, read.draft, last=last and not failed)
            except (Conflict, InvalidRecord, NotFound) as error:  # of these turns alone: the others go on
                failed |= {turn.id: str(error) for turn in good.turns}
        await self._note_failures([turn for turn in turns if turn.id in failed], failed)
        return bool(failed)

    async def _settle(self, desk: _Desk, window: Window, draft: Draft, *, last: bool) -> None:
        settling = Settling(desk.seat, window, draft, self.extractor, rules=self.asker is None, judge=self.judge)
        operation_id = await self._write(desk, settling, last=last)
        if operation_id:
            self.report.operation_ids.append(operation_id)
            self.report.count(turns=len(window.turns), **{kind.lower(): n for kind, n in settling.counts.items()})
        self.report.notes += draft.notes

    async def _read(self, window: Window) -> Read:
        if self.asker is None:
            return Read(draft=await asyncio.to_thread(rules.extract, window))
        return await extract(window, self.asker)

    async def _facts(self, known: Known, turns: Sequence[Turn]) -> tuple[Fact, ...]:
        return await (known.facts_of(RULES) if self.asker is None else known.facts(turns))

    async def _skip(self, desk: _Desk, turns: Sequence[Turn], *, last: bool = True) -> None:
        """Mark turns that say nothing, without a call."""
        for start in range(0, len(turns), AT_ONCE):
            some = tuple(turns[start : start + AT_ONCE])
            window = Window(conversation_id=some[0].conversation_id, channel=some[0].channel, turns=some)
            at_the_end = last and start + AT_ONCE >= len(turns)
            if await self._write(desk, Settling(desk.seat, window, Draft(), self.extractor), last=at_the_end):
                self.report.count(skipped=len(some))

    async def _write(self, desk: _Desk, settling: Settling, *, last: bool) -> str:
        """Commit what a window gave, with the end of its conversation where it is the `last`; "" when others did."""
        window = settling.window

        async def build(write: Write) -> Change | None:
            change = await settling.change(write)
            return change if change is None or not last else await self._finished(change, window, write)

        entry = await self.resources.write(
            desk.seat.scope, NAME, build, kind="Fact", details={"turns": len(window.turns)}, fence=desk.fence
        )
        return "" if entry is None else entry.operation_id

    async def _finished(self, change: Change, window: Window, write: Write) -> Change:
        """The change, with which its conversation is noted as consolidated."""
        found = await self.resources.log.get("Conversation", [window.conversation_id], self.scope)
        for record in found[:1]:
            if isinstance(record, Conversation) and record.superseded_at is None and record.channel == window.channel:
                done = record.model_copy(update={"consolidated": write.now})
                expects = {**change.expects, record.key: record.seq}
                return replace(change, puts=(*change.puts, done), expects=expects)
        return change

    async def _note_failures(self, turns: Sequence[Turn], reasons: Mapping[str, str]) -> None:
        """Count a try for each turn that failed; parked at the third."""
        if not turns:
            return
        before = {item.seq: item.attempts for item in await self.resources.log.parked(self.scope)
                  if item.projection == NAME}  # fmt: skip
        for turn in turns:
            attempts = before.get(turn.seq, 0) + 1
            now = self.resources.clock.now()
            await self.resources.log.park(Parked(NAME, self.scope.user_id, turn.seq, reasons[turn.id], attempts, now))
            self.report.failed[turn.id] = reasons[turn.id]
            if attempts >= GIVEN_UP:
                self.report.parked[turn.id] = reasons[turn.id]

    def _foresee(self, turns: Sequence[Turn]) -> None:
        """What a run would do with these turns."""
        for window in cut(turns):
            worth = any(worth_reading(turn) for turn in window)
            self.report.count(**{"turns" if worth else "skipped": len(window), "windows": int(worth)})

    # -- who works

    def _scope_of(self, waiting: Pending) -> Scope:
        """Writes go where the turns are; an agent's private channel is the agent's."""
        own = waiting.channel.startswith("_self_")
        agent = waiting.channel.removeprefix("_self_") if own else None
        return Scope(self.scope.user_id, waiting.channel, agent, waiting.conversation_id)

    async def _turns(self, slots: Sequence[int]) -> list[Turn]:
        found = await self.resources.log.by_slot(list(slots), self.scope) if slots else []
        return [record for record in found if isinstance(record, Turn)]


def _lease(scope: Scope) -> str:
    return f"{NAME}:{scope.user_id}:{scope.channel}:{scope.conversation_id}"


def _agent_of(turns: Sequence[Turn]) -> str | None:
    """The one agent that speaks in these turns; None for nobody and for several."""
    agents = {turn.agent_id for turn in turns if turn.agent_id}
    return agents.pop() if len(agents) == 1 else None
