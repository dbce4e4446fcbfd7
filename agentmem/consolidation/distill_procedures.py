"""What users ask for again and again, or for good, becomes a procedure: "from now on…", "always…", "please don't…".

Every turn is read once, by rules. Asked for once it is a candidate, which no recall finds; asked for twice, or as a
standing order, it is in force. Nothing is taken from conversations between several people.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agentmem.consolidation import JobOptions, JobReport
from agentmem.consolidation.failures import given_up, note_failure
from agentmem.consolidation.lease import leased
from agentmem.errors import Conflict, InvalidRecord, LeaseLost
from agentmem.events import INFO, tell
from agentmem.extraction.orders import Order, orders
from agentmem.memory import Seat
from agentmem.memory.procedural import Procedural
from agentmem.memory.procedures import Asked
from agentmem.model.changes import Change, Write, fingerprint
from agentmem.model.clock import Stopwatch
from agentmem.model.outline import NEVER, Ints, Outline
from agentmem.model.records import Procedure, Turn
from agentmem.model.scope import Scope
from agentmem.resources import Resources

NAME = "distill_procedures"
MINUTES = 30.0
TRIGGER = "changes"
WATCHES = ("Turn",)
PAGE = 500
MOST_TURNS = 5_000  # read in one run for one user
Found = tuple[Turn, list[Order]]


async def run(resources: Resources, scope: Scope, options: JobOptions) -> JobReport:
    """Read the user's turns that were not read yet, in the order in which they were stored."""
    resources.check_open()
    watch = Stopwatch(resources.clock)
    report = JobReport(job=NAME, user_id=scope.user_id, dry_run=options.dry_run)
    work = _Run(resources, scope, options, report)
    if options.again and not options.dry_run:
        await resources.upkeep.unpark(NAME, scope)
    if options.dry_run:
        await work.all(None)
        return report
    try:
        async with leased(resources, f"{NAME}:{scope.user_id}", "the procedures of this user") as fence:
            await work.all(fence)
    except LeaseLost as error:
        report.stopped = str(error)
    report.seconds = watch.milliseconds() / 1000
    tell(INFO, "procedures_distilled", user_id=scope.user_id, counts=report.counts, pending=report.pending)
    return report


@dataclass
class _Run:
    """One run for one user."""

    resources: Resources
    scope: Scope
    options: JobOptions
    report: JobReport
    crowded: dict[tuple[int, int], bool] = field(default_factory=dict)  # by conversation and channel
    again: list[int] = field(default_factory=list)  # positions of turns that are to be tried again

    async def all(self, fence: int | None) -> None:
        """Page by page; where a run ends, the next one begins."""
        state = await self.resources.jobs.state(NAME, self.scope)
        outline = await self.resources.outline(self.scope)
        slots = _turns_after(outline, state.seq)
        parked = await given_up(self.resources, NAME, self.scope)
        places: set[tuple[int, int]] = set()
        for start in range(0, min(len(slots), MOST_TURNS), PAGE):
            page = slots[start : min(start + PAGE, MOST_TURNS)]
            self.options.progress(NAME, start, len(slots))
            for turn, found in await self._read(page):
                places.add(_place(outline, turn))
                if turn.seq not in parked and await self._alone(outline, turn):
                    await self._take(outline, turn, found, fence)
            if fence is not None:  # what was read so far need not be read again
                reached = min([int(outline.seqs[page[-1]]), *(seq - 1 for seq in self.again)])
                state = replace(state, seq=max(state.seq, reached))
                await self.resources.jobs.note(state)
        self.report.conversations = len(places)
        self.report.pending += max(0, len(slots) - MOST_TURNS)

    async def _read(self, slots: Ints) -> list[Found]:
        """The turns of users that give orders, with these."""
        records = await self.resources.log.by_slot([int(slot) for slot in slots], self.scope)
        turns = [record for record in records if isinstance(record, Turn) and record.role == "user"]
        self.report.count(turns=len(turns))
        return await asyncio.to_thread(_orders_of, turns)

    async def _alone(self, outline: Outline, turn: Turn) -> bool:
        """Whether one person speaks in the turn's conversation: what several say to each other is no order."""
        place = _place(outline, turn)
        if place not in self.crowded:
            here = (outline.kind == outline.kinds.find("Turn")) & (outline.superseded_at == NEVER)
            here &= (outline.conversation == place[0]) & (outline.channel == place[1]) & (outline.speaker >= 0)
            slots = np.flatnonzero(here)
            _, first = np.unique(outline.speaker[slots], return_index=True)
            users = 0
            if len(first) > 1:
                said = await self.resources.log.by_slot([int(slot) for slot in slots[first]], self.scope)
                users = sum(isinstance(one, Turn) and one.role == "user" for one in said)
            self.crowded[place] = users > 1
        return not self.crowded[place]

    async def _take(self, outline: Outline, turn: Turn, found: Sequence[Order], fence: int | None) -> None:
        """Take in what one turn asks for, once however often the turn is read."""
        if fence is None:
            self.report.count(orders=len(found))
            return
        agent = turn.channel.removeprefix("_self_") if turn.channel.startswith("_self_") else None
        seat = Seat(self.resources, Scope(self.scope.user_id, turn.channel, agent, turn.conversation_id))
        procedural, options = Procedural(seat), self.resources.settings.procedural
        alike = await procedural.alike([order.instruction or turn.content for order in found])
        before = _earlier(outline, turn)
        asked = [
            Asked(order.instruction, order.trigger, (turn.id,) if order.instruction else before, order.standing,
                  order.ends, near)
            for order, near in zip(found, alike, strict=True)
        ]  # fmt: skip

        async def make(write: Write) -> Change | None:
            current = await self.resources.log.get("Turn", [turn.id], seat.scope)
            if not current or current[0].superseded_at is not None:
                return None
            expects = {current[0].key: current[0].seq}
            change = await procedural.change_to_ask(write, asked, expects, threshold=options.asked)
            return change if change.puts else None

        try:
            entry = await self.resources.write(
                seat.scope, NAME, make, kind="Procedure", key=turn.id, payload=fingerprint(turn=turn.id), fence=fence
            )
        except (Conflict, InvalidRecord) as error:  # of this turn alone: the others go on
            if await note_failure(self.resources, self.scope, self.report, turn, str(error)):
                self.again.append(turn.seq)
            return
        if entry is not None and not entry.repeated:
            self.report.operation_ids.append(entry.operation_id)
            for stored in entry.puts:
                if isinstance(stored.record, Procedure):
                    self.report.count(**{stored.record.procedure_status: 1})


def _orders_of(turns: Sequence[Turn]) -> list[Found]:
    found = [(turn, orders(turn.content)) for turn in turns]
    return [(turn, given) for turn, given in found if given]


def _turns_after(outline: Outline, seq: int) -> Ints:
    """Slots of the current turns stored beyond a journal position, in this order."""
    mask = (outline.kind == outline.kinds.find("Turn")) & (outline.superseded_at == NEVER) & (outline.seqs > seq)
    slots = np.flatnonzero(mask & outline.statuses.among(("active",))[outline.status])
    return np.asarray(slots[np.argsort(outline.seqs[slots], kind="stable")])


def _place(outline: Outline, turn: Turn) -> tuple[int, int]:
    return outline.conversations.find(turn.conversation_id), outline.channels.find(turn.channel)


def _earlier(outline: Outline, turn: Turn) -> tuple[str, ...]:
    """The turns before this one in its conversation and channel."""
    conversation, channel = _place(outline, turn)
    here = (outline.conversation == conversation) & (outline.channel == channel) & (outline.position < turn.index)
    return tuple(outline.ids[slot] for slot in np.flatnonzero(here & (outline.kind == outline.kinds.find("Turn"))))
