"""What works is learned from what went well: each outcome is looked at once, and leaves a strategy stronger or weaker.

A strategy is what the user wanted, in the user's own words, and the tools that were called until it was reached. The
counts of the tools are brought up in the same run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from agentmem.consolidation import JobOptions, JobReport
from agentmem.consolidation.failures import given_up, note_failure
from agentmem.consolidation.lease import leased
from agentmem.consolidation.tool_counts import count_tools
from agentmem.errors import Conflict, InvalidRecord, LeaseLost, NotFound
from agentmem.events import INFO, tell
from agentmem.extraction.windows import worth_reading
from agentmem.memory import Seat
from agentmem.memory.procedural import Procedural
from agentmem.memory.strategies import MOST_TOOLS, credited, strategy_hash
from agentmem.model.changes import Change, Write
from agentmem.model.clock import Stopwatch
from agentmem.model.outline import NEVER, Bools, Ints, Outline
from agentmem.model.records import Conversation, Outcome, Strategy, ToolInvocation, Turn, build
from agentmem.model.scope import Scope
from agentmem.resources import Resources
from agentmem.text.passages import passages
from agentmem.text.words import terms

NAME = "patterns"
MINUTES = 60.0
TRIGGER = "changes"
WATCHES = ("Outcome", "ToolInvocation", "Tool")
PAGE = 500
FIRST_TURNS = 10  # among which the task is looked for
LONGEST_TASK = 200  # characters
ALIKE = 0.5  # share of the words of two tasks that both have, from which they are one


async def run(resources: Resources, scope: Scope, options: JobOptions) -> JobReport:
    """Learn from the user's outcomes that were not looked at yet, oldest first, at most `options.most` of them."""
    resources.check_open()
    watch = Stopwatch(resources.clock)
    report = JobReport(job=NAME, user_id=scope.user_id, dry_run=options.dry_run)
    work = _Run(resources, scope, options, report)
    if options.again and not options.dry_run:
        await resources.upkeep.unpark(NAME, scope)
    if options.dry_run:
        report.pending = report.conversations = len(await work.waiting())
        return report
    try:
        async with leased(resources, f"{NAME}:{scope.user_id}", "the patterns of this user") as fence:
            await work.all(fence)
            await count_tools(resources, scope, report, fence)
    except LeaseLost as error:
        report.stopped = str(error)
    report.seconds = watch.milliseconds() / 1000
    tell(INFO, "patterns_learned", user_id=scope.user_id, outcomes=report.conversations, pending=report.pending)
    return report


@dataclass
class _Run:
    """One run for one user."""

    resources: Resources
    scope: Scope
    options: JobOptions
    report: JobReport

    async def waiting(self) -> list[Outcome]:
        """The outcomes to look at, oldest first."""
        after = (await self.resources.jobs.state(NAME, self.scope)).seq
        parked = await given_up(self.resources, NAME, self.scope)
        outline = await self.resources.outline(self.scope)
        slots = np.flatnonzero(_current(outline, "Outcome") & (outline.seqs > after))
        found: list[Outcome] = []
        for start in range(0, len(slots), PAGE):
            page = [int(slot) for slot in slots[start : start + PAGE]]
            records = await self.resources.log.by_slot(page, self.scope)
            found += [record for record in records if isinstance(record, Outcome) and not record.learned]
        return [outcome for outcome in found if outcome.seq not in parked]

    async def all(self, fence: int) -> None:
        """Outcome by outcome, until enough of them were looked at or none is left."""
        waiting = await self.waiting()
        for number, outcome in enumerate(waiting[: self.options.most]):
            self.options.progress(NAME, number, len(waiting))
            try:
                await self._one(outcome, fence)
            except (Conflict, InvalidRecord, NotFound) as error:  # of this outcome alone: the others go on
                await note_failure(self.resources, self.scope, self.report, outcome, str(error))
            self.report.conversations += 1
        self.report.pending += max(0, len(waiting) - self.options.most)

    async def _one(self, outcome: Outcome, fence: int) -> None:
        own = outcome.channel.startswith("_self_")
        agent = outcome.channel.removeprefix("_self_") if own else None
        scope = Scope(self.scope.user_id, outcome.channel, agent, outcome.conversation_id or None)
        seat, proposal = Seat(self.resources, scope), await self._proposal(outcome, scope)
        said: list[str] = []

        async def make(write: Write) -> Change | None:
            said.clear()
            found = await self.resources.log.get("Outcome", [outcome.id], scope)
            if not found or not isinstance(found[0], Outcome) or found[0].learned or found[0].superseded_at:
                return None
            change = await self._settled(write, seat, found[0], proposal, said)
            return await self._marked(change, found[0])

        entry = await self.resources.write(scope, NAME, make, kind="Strategy", fence=fence)
        if entry is not None:
            self.report.operation_ids.append(entry.operation_id)
            self.report.count(outcomes=1, **dict.fromkeys(said, 1))

    async def _settled(
        self, write: Write, seat: Seat, outcome: Outcome, proposal: Strategy | None, said: list[str]
    ) -> Change:
        """The Change that counts the outcome for the strategy that was followed, or makes one of it."""
        if proposal is None:
            return write.change()
        procedural = Procedural(seat)
        known = await self._matching(seat, proposal)
        if known is None and not outcome.success:
            return write.change()
        found = await self.resources.log.get("Turn", proposal.source_turn_ids, seat.scope)
        sources = [turn for turn in found if turn.superseded_at is None]
        if len(sources) < len(proposal.source_turn_ids):  # forgotten meanwhile, and its words with it
            return write.change()
        if known is None:
            said.append("strategies_learned")
            expects = {record.key: record.seq for record in sources}
            return await procedural.change_to_learn(
                write, proposal, expects, success=True, conversation_id=outcome.conversation_id
            )
        if known.id in outcome.strategy_ids:  # `reflect` has counted it
            return write.change()
        said.append("strategies_strengthened" if outcome.success else "strategies_weakened")
        return write.change(
            credited(known, outcome.success, write, outcome.conversation_id), expects={known.key: known.seq}
        )

    async def _marked(self, change: Change, outcome: Outcome) -> Change:
        """The change, with which the outcome counts as looked at, and its conversation, too."""
        puts = [*change.puts, outcome.model_copy(update={"learned": True})]
        expects = {**change.expects, outcome.key: outcome.seq}
        for record in await self.resources.log.get("Conversation", [outcome.conversation_id], self.scope):
            current = isinstance(record, Conversation) and record.superseded_at is None
            if current and record.channel == outcome.channel:
                puts.append(record.model_copy(update={"patterns_extracted": True}))
                expects[record.key] = record.seq
        return replace(change, puts=tuple(puts), expects=expects)

    async def _matching(self, seat: Seat, proposal: Strategy) -> Strategy | None:
        """The strategy of this channel with the same tools for the same task, by its type or by its words."""
        digest = strategy_hash(proposal.description, proposal.tool_sequence)
        found = []
        for record in await seat.all("Strategy", channels=[seat.scope.channel]):
            if not isinstance(record, Strategy) or record.superseded_at is not None:
                continue
            if record.tool_sequence == proposal.tool_sequence:
                same_type = bool(proposal.task_type) and record.task_type == proposal.task_type
                alike = 1.0 if record.strategy_hash == digest else _shared(record.description, proposal.description)
                if same_type or alike >= ALIKE:
                    found.append((alike, record.success_count, record.id, record))
        return max(found)[3] if found else None

    async def _proposal(self, outcome: Outcome, scope: Scope) -> Strategy | None:
        """What was done for what, in the stretch of the conversation that this outcome ends; None without either."""
        if not outcome.conversation_id:
            return None
        outline = await self.resources.outline(scope)
        here = self._stretch(outline, outcome, scope)
        calls = await self._calls(np.flatnonzero(here & (outline.kind == outline.kinds.find("ToolInvocation"))))
        task = await self._task(outline, here) if calls else None
        if task is None:
            return None
        names = [call.tool_name for call in calls]
        sequence = [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]
        types = {kind for kind in (outcome.task_type, *(call.task_type for call in calls)) if kind}
        return build(
            Strategy, description=_worded(task.content), channel=outcome.channel, source_turn_ids=(task.id,),
            tool_sequence=tuple(sequence[-MOST_TOOLS:]),
            task_type=outcome.task_type or (types.pop() if len(types) == 1 else ""),
        )  # fmt: skip

    def _stretch(self, outline: Outline, outcome: Outcome, scope: Scope) -> Bools:
        """What was stored in the conversation after the outcome before this one, and before this one itself."""
        conversation = outline.conversations.find(outcome.conversation_id)
        here = (outline.conversation == conversation) & outline.channels.among(scope.readable())[outline.channel]
        ends = outline.slots.get(outcome.key, outline.size)
        numbers = np.arange(outline.size)
        earlier = np.flatnonzero(here & (outline.kind == outline.kinds.find("Outcome")) & (numbers < ends))
        begins = int(earlier[-1]) if len(earlier) else -1
        current = (outline.superseded_at == NEVER) & outline.statuses.among(("active",))[outline.status]
        return np.asarray(here & current & (numbers > begins) & (numbers < ends))

    async def _calls(self, slots: Ints) -> list[ToolInvocation]:
        """The calls that did not fail, in the order in which they were made."""
        found: list[ToolInvocation] = []
        for start in range(0, len(slots), PAGE):
            page = await self.resources.log.by_slot([int(slot) for slot in slots[start : start + PAGE]], self.scope)
            found += [call for call in page if isinstance(call, ToolInvocation) and call.success is not False]
        return sorted(found, key=lambda call: (str(call.timestamp), call.seq))

    async def _task(self, outline: Outline, here: Bools) -> Turn | None:
        """The first turn of the user that says anything."""
        slots = np.flatnonzero(here & (outline.kind == outline.kinds.find("Turn")))
        first = [int(slot) for slot in slots[np.argsort(outline.position[slots], kind="stable")][:FIRST_TURNS]]
        for turn in await self.resources.log.by_slot(first, self.scope) if first else []:
            if isinstance(turn, Turn) and turn.role == "user" and worth_reading(turn):
                return turn
        return None


def _current(outline: Outline, kind: str) -> Bools:
    active = outline.statuses.among(("active",))[outline.status]
    return np.asarray((outline.kind == outline.kinds.find(kind)) & active & (outline.superseded_at == NEVER))


def _worded(text: str) -> str:
    """The first sentences of a task, as far as they fit; a long one is cut at a word."""
    plain = " ".join(text.split())
    ends = [piece.end for piece in passages(plain) if piece.grain == "sentence" and piece.end <= LONGEST_TASK]
    if len(plain) <= LONGEST_TASK:
        return plain
    return plain[: ends[-1]].strip() if ends else plain[:LONGEST_TASK].rsplit(" ", 1)[0] + "…"


def _shared(first: str, second: str) -> float:
    """The share of the words of both that both have."""
    left, right = set(terms(first)), set(terms(second))
    return len(left & right) / len(left | right) if left | right else 0.0
