"""What users ask for again and again, or for good, becomes a procedure: "from now on…", "always…", "please don't…".

Every turn is read once, by rules. Asked for once it is a candidate, which no recall finds; asked for twice, or as a
standing order, it is in force. Only the user's own direct words count: nothing is taken from pasted text, from another
speaker, or from conversations between several people.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from agentmem.beliefs.slots import USER_SUBJECT
from agentmem.core.changes import Change, WriteAttempt, hash_request
from agentmem.core.columns import MAX_TIME, Ints, RecordColumns
from agentmem.core.procedural_records import Procedure
from agentmem.core.records import Turn
from agentmem.core.scope import channel_scope
from agentmem.core.telemetry import DEBUG, INFO, log_event
from agentmem.errors import Conflict, InvalidRecord
from agentmem.extraction.standing_instructions import ExtractedInstruction, extract_instructions
from agentmem.jobs.due_records import read_dead_letter_seqs, record_failure
from agentmem.jobs.job import Job
from agentmem.jobs.runner import LeasedRun, build_leased_run
from agentmem.memory.context import MemoryContext
from agentmem.memory.procedural.memory import ProceduralMemory
from agentmem.memory.procedural.procedures import InstructionRequest
from agentmem.memory.semantic.belief_view import BeliefView

NAME = "distill_procedures"
PAGE_SIZE = 500
MAX_TURNS = 5_000  # read in one run for one user
MAX_SAMPLED_TURNS = 20  # of one speaker, to see whether he has the role of the user
TurnInstructions = tuple[Turn, list[ExtractedInstruction]]


@dataclass
class _DistillProceduresRun(LeasedRun):
    has_several_users: dict[tuple[int, int], bool] = field(default_factory=dict)  # by conversation and channel
    own_names: frozenset[str] | None = None
    speakers: frozenset[str] | None = None  # who speaks in the role `user`; "" for turns without a speaker
    retry_seqs: list[int] = field(default_factory=list)  # positions of turns that are to be tried again

    async def preview(self) -> bool:
        """Read without writing."""
        await self.run_all()
        return True

    def log_end(self) -> None:
        """Tell what came of it."""
        user, counts, pending = self.scope.user_id, self.report.counts, self.report.pending
        log_event(INFO if counts else DEBUG, "procedures_distilled", user_id=user, counts=counts, pending=pending)

    async def run_all(self) -> None:
        """Read the turns that were not read yet, as they were stored; where a run ends, the next one begins."""
        state = await self.engine.job_queue.state(NAME, self.scope)
        columns = await self.engine.read_columns(self.scope)
        ordinals = _turn_ordinals_after(columns, state.seq)
        parked = await read_dead_letter_seqs(self.engine, NAME, self.scope)
        places: set[tuple[int, int]] = set()
        for start in range(0, min(len(ordinals), MAX_TURNS), PAGE_SIZE):
            page = ordinals[start : min(start + PAGE_SIZE, MAX_TURNS)]
            self.options.progress(NAME, start, len(ordinals))
            for turn, found in await self._extract_instructions(page):
                places.add(_conversation_codes(columns, turn))
                if turn.seq not in parked and await self._is_users_word(columns, turn):
                    await self._add_instructions(columns, turn, found)
            if not self.report.dry_run:  # what was read so far need not be read again
                reached = min([int(columns.seqs[page[-1]]), *(seq - 1 for seq in self.retry_seqs)])
                state = replace(state, seq=max(state.seq, reached))
                await self.engine.job_queue.write_state(state)
        self.report.conversations = len(places)
        self.report.pending += max(0, len(ordinals) - MAX_TURNS)

    async def _extract_instructions(self, ordinals: Ints) -> list[TurnInstructions]:
        """The turns of users that give orders, with these."""
        records = await self.engine.log.read_by_ordinal([int(ordinal) for ordinal in ordinals], self.scope)
        turns = [record for record in records if isinstance(record, Turn) and record.role == "user"]
        self.report.add_counts(turns=len(turns))
        return await asyncio.to_thread(_extract_all, turns)

    async def _is_users_word(self, columns: RecordColumns, turn: Turn) -> bool:
        """Whether the user says this turn: it names no speaker, or the user, or the only one who ever speaks."""
        if not await self._is_single_user(columns, turn):
            return False
        if not turn.speaker or turn.speaker.casefold() in await self._read_own_names():
            return True
        return await self._read_speakers(columns) == {turn.speaker}

    async def _read_own_names(self) -> frozenset[str]:
        """How the user is called: by id, and by what is believed."""
        if self.own_names is None:
            view = BeliefView(MemoryContext(self.engine, self.scope))
            states = [state for slot in ("name", "call_me") for state in await view.beliefs(USER_SUBJECT, slot)]
            said = {fact.value.casefold() for state in states for fact in state.current}
            self.own_names = frozenset(
                {self.scope.user_id.casefold(), *said, *(name.split()[0] for name in said if name)}
            )
        return self.own_names

    async def _read_speakers(self, columns: RecordColumns) -> frozenset[str]:
        """Who speaks in the role `user`, by the first turns of each speaker."""
        if self.speakers is None:
            turns = np.flatnonzero(
                (columns.kind == columns.kinds.find_code("Turn")) & (columns.superseded_at == MAX_TIME)
            )
            found: set[str] = set()
            for code in np.unique(columns.speaker[turns]):
                some = turns[columns.speaker[turns] == code][:MAX_SAMPLED_TURNS]
                said = await self.engine.log.read_by_ordinal([int(ordinal) for ordinal in some], self.scope)
                found |= {one.speaker or "" for one in said if isinstance(one, Turn) and one.role == "user"}
            self.speakers = frozenset(found)
        return self.speakers

    async def _is_single_user(self, columns: RecordColumns, turn: Turn) -> bool:
        """Whether one person speaks in the turn's conversation: what several say to each other is no order."""
        place = _conversation_codes(columns, turn)
        if place not in self.has_several_users:
            here = (columns.kind == columns.kinds.find_code("Turn")) & (columns.superseded_at == MAX_TIME)
            here &= (columns.conversation == place[0]) & (columns.channel == place[1]) & (columns.speaker >= 0)
            ordinals = np.flatnonzero(here)
            _, first = np.unique(columns.speaker[ordinals], return_index=True)
            users = 0
            if len(first) > 1:
                said = await self.engine.log.read_by_ordinal([int(ordinal) for ordinal in ordinals[first]], self.scope)
                users = sum(isinstance(one, Turn) and one.role == "user" for one in said)
            self.has_several_users[place] = users > 1
        return not self.has_several_users[place]

    async def _add_instructions(
        self, columns: RecordColumns, turn: Turn, instructions: Sequence[ExtractedInstruction]
    ) -> None:
        """Take in what one turn asks for, once however often the turn is read."""
        if self.report.dry_run:
            self.report.add_counts(orders=len(instructions))
            return
        scope = channel_scope(self.scope.user_id, turn.channel, turn.conversation_id)
        context = MemoryContext(self.engine, scope)
        procedural, options = ProceduralMemory(context), self.engine.settings.procedural
        alike = await procedural.find_similar([order.instruction or turn.content for order in instructions])
        before = _earlier_turn_ids(columns, turn)
        asked = [
            _to_request(order, near, (turn.id,) if order.instruction else before, turn.timestamp or turn.recorded_at)
            for order, near in zip(instructions, alike, strict=True)
        ]

        async def make(write: WriteAttempt) -> Change | None:
            current = await self.engine.log.read_records("Turn", [turn.id], context.scope)
            if not current or current[0].superseded_at is not None:
                return None
            expects = {current[0].key: current[0].seq}
            change = await procedural.build_request_change(write, asked, expects, threshold=options.asked)
            return change if change.upserts else None

        try:
            entry = await self.engine.write(
                context.scope,
                NAME,
                make,
                kind="Procedure",
                idempotency_key=turn.id,
                request_hash=hash_request(turn=turn.id),
                fence=self.fence,
            )
        except (Conflict, InvalidRecord) as error:  # of this turn alone: the others go on
            if await record_failure(self.engine, self.scope, self.report, turn, str(error)):
                self.retry_seqs.append(turn.seq)
            return
        if entry is not None and not entry.already_applied:
            self.report.operation_ids.append(entry.operation_id)
            for stored in entry.upserts:
                if isinstance(stored.record, Procedure):
                    self.report.add_counts(**{stored.record.procedure_status: 1})


JOB = Job(
    NAME,
    30.0,
    "changes",
    build_leased_run(NAME, _DistillProceduresRun, "the procedures of this user"),
    watches=("Turn",),
)


def _to_request(
    instruction: ExtractedInstruction,
    similar: Mapping[str, float],
    turn_ids: tuple[str, ...],
    asked_at: datetime | None,
) -> InstructionRequest:
    return InstructionRequest(
        instruction.instruction,
        instruction.trigger,
        turn_ids,
        instruction.is_standing,
        instruction.is_revocation,
        similar,
        asked_at,
    )


def _extract_all(turns: Sequence[Turn]) -> list[TurnInstructions]:
    found = [(turn, extract_instructions(turn.content)) for turn in turns]
    return [(turn, given) for turn, given in found if given]


def _turn_ordinals_after(columns: RecordColumns, seq: int) -> Ints:
    """Ordinals of the current turns stored beyond a journal position, in this order."""
    mask = (
        (columns.kind == columns.kinds.find_code("Turn")) & (columns.superseded_at == MAX_TIME) & (columns.seqs > seq)
    )
    ordinals = np.flatnonzero(mask & columns.statuses.mask_for(("active",))[columns.status])
    return np.asarray(ordinals[np.argsort(columns.seqs[ordinals], kind="stable")])


def _conversation_codes(columns: RecordColumns, turn: Turn) -> tuple[int, int]:
    return columns.conversations.find_code(turn.conversation_id), columns.channels.find_code(turn.channel)


def _earlier_turn_ids(columns: RecordColumns, turn: Turn) -> tuple[str, ...]:
    """The turns before this one in its conversation and channel."""
    conversation, channel = _conversation_codes(columns, turn)
    here = (columns.conversation == conversation) & (columns.channel == channel) & (columns.position < turn.index)
    return tuple(
        columns.ids[ordinal] for ordinal in np.flatnonzero(here & (columns.kind == columns.kinds.find_code("Turn")))
    )
