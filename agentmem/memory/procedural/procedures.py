"""Procedures: what the user wants an agent always to do, or never. Asked for, strengthened, replaced, retired."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from agentmem.core.arguments import check_arguments
from agentmem.core.changes import Change, JournalEntry, WriteAttempt
from agentmem.core.clock import EPOCH
from agentmem.core.plain_values import describe_value
from agentmem.core.procedural_records import MAX_REFERENCES, Procedure
from agentmem.core.record import Key, ProcedureStatus, Status
from agentmem.core.records import build_record
from agentmem.errors import InvalidRecord, ModelError
from agentmem.memory.context import MemoryContext, get_written_record
from agentmem.memory.read_audit import audit_read
from agentmem.stores.values import WHOLE, Where
from agentmem.text.claim_content import find_contrasts
from agentmem.text.normalization import hash_instruction, normalize_instruction

MAX_INSTRUCTION_CHARS = 2_000  # characters of an instruction or a trigger
STATUSES = ("candidate", "active", "retired")


@dataclass(frozen=True, slots=True)
class InstructionRequest:
    """One thing that somebody asked for. `is_standing`: for good, in so many words.

    `is_revocation`: it is asked no longer; with an empty instruction what was asked for last in these turns is meant.
    `similarities` are cosines with known procedures by id. `asked_at` is when, None for now.
    """

    instruction: str
    trigger: str = ""
    turn_ids: tuple[str, ...] = ()
    is_standing: bool = False
    is_revocation: bool = False
    similarities: Mapping[str, float] = field(default_factory=dict)
    asked_at: datetime | None = None


@check_arguments
@dataclass
class Procedures:
    """The verbs over procedures."""

    _context: MemoryContext

    @audit_read
    async def procedures(self, status: ProcedureStatus | None = None, *, limit: int = 1000) -> list[Procedure]:
        """The procedures of the readable channels, oldest first: active ones and candidates, or those of one status.

        `status` is candidate, active or retired.
        """
        if status not in (None, *STATUSES):
            raise InvalidRecord(
                f"status must be one of {', '.join(STATUSES)}, got {describe_value(status)}", field="status"
            )
        if limit < 0:
            raise InvalidRecord(f"limit must be 0 or more, got {limit}", field="limit")
        wanted = ("active", "candidate") if status is None else (status,)
        found = [record for record in await self._context.list_readable("Procedure") if isinstance(record, Procedure)]
        kept = [record for record in found if record.status is not Status.FORGOTTEN]
        return [record for record in kept if record.procedure_status in wanted][:limit]

    async def stage_candidate(
        self,
        instruction: str,
        *,
        trigger: str = "",
        source_turn_ids: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Procedure:
        """Propose an instruction. It is in force, and found by recall, once it is accepted; see `accept_procedure`.

        The same instruction again, apart from polite words, makes the known one stronger. Raises InvalidRecord naming
        the field, also for a turn that is not stored.
        """
        for name, text in (("instruction", instruction), ("trigger", trigger)):
            said: object = text
            if not isinstance(said, str) or len(said) > MAX_INSTRUCTION_CHARS:
                raise InvalidRecord(f"{name} must be text of at most {MAX_INSTRUCTION_CHARS:,} characters", field=name)
        if isinstance(source_turn_ids, str):
            raise InvalidRecord("source_turn_ids must be a list of strings, got a string", field="source_turn_ids")
        build_record(Procedure, instruction=instruction, trigger=trigger)
        asked = InstructionRequest(instruction.strip(), trigger.strip(), tuple(source_turn_ids))

        async def make(write: WriteAttempt) -> Change:
            turns, expects = await self._context.resolve_existing_ids("source_turn_ids", "Turn", asked.turn_ids)
            return await self.build_request_change(write, [replace(asked, turn_ids=tuple(turns))], expects, threshold=0)

        entry = await self._context.write_entry(
            "Procedure",
            "stage_candidate",
            make,
            idempotency_key,
            {"instruction": instruction, "trigger": trigger, "turns": list(source_turn_ids)},
        )
        return _get_last_procedure(entry)

    async def build_request_change(
        self,
        write: WriteAttempt,
        requests: Iterable[InstructionRequest],
        expected_versions: Mapping[Key, int],
        *,
        threshold: int,
    ) -> Change:
        """The Change that stores requests, in this order, in the channel of the context.

        A request made `threshold` times, or as a standing order, is in force; with 0 no number is enough.
        """
        records = await self._context.list_readable("Procedure", channels=[write.scope.channel])
        known = [record for record in records if isinstance(record, Procedure) and record.superseded_at is None]
        shelf = ProcedureIndex(write, {record.id: record for record in known}, threshold)
        for one in requests:
            shelf.apply_request(one, self._context.engine.ids.new_id(), self._context.engine.settings.procedural.same)
        before = {record.key: record.seq for record in known}
        return write.build_change(
            *shelf.upserts(),
            expected_versions={
                **expected_versions,
                **{record.key: before.get(record.key) for record in shelf.upserts()},
            },
        )

    async def accept_procedure(self, procedure_id: str, *, idempotency_key: str | None = None) -> Procedure:
        """Put a candidate in force; one that is stays as it is. InvalidRecord for a retired one."""
        return await self._set_status(procedure_id, "accept_procedure", "active", "", idempotency_key)

    async def retire_procedure(
        self, procedure_id: str, reason: str = "", *, idempotency_key: str | None = None
    ) -> Procedure:
        """Take a procedure or a candidate out of force; a retired one stays as it is."""
        return await self._set_status(procedure_id, "retire_procedure", "retired", reason, idempotency_key)

    async def _set_status(
        self, procedure_id: str, operation: str, status: str, reason: str, idempotency_key: str | None
    ) -> Procedure:
        async def make(write: WriteAttempt) -> Change | Procedure:
            known = await self._context.get_one(Procedure, procedure_id)
            if known.status is Status.FORGOTTEN:
                raise InvalidRecord(f"procedure {procedure_id!r} was forgotten; restore it first", field="procedure_id")
            if known.procedure_status == status:
                return known
            if known.procedure_status == "retired":
                raise InvalidRecord(f"procedure {procedure_id!r} is retired; stage it again", field="procedure_id")
            new = retire(known, write, reason) if status == "retired" else activate(known)
            return write.build_change(new, expected_versions={known.key: known.seq})

        return await self._context.write(
            Procedure, operation, make, idempotency_key=idempotency_key, given={"id": procedure_id, "reason": reason}
        )

    async def find_similar(self, instructions: Sequence[str]) -> list[dict[str, float]]:
        """Cosines of each instruction with the procedures of the context's channel, by id; empty without a model."""
        engine, scope = self._context.engine, self._context.scope.with_channels([self._context.scope.channel])
        if not instructions or not engine.vector_projections:
            return [{} for _ in instructions]
        try:
            vectors = await engine.vector_projections[0].embedder.embed(list(instructions))
        except ModelError:  # the words alone are nearly enough
            return [{} for _ in instructions]
        columns, out = await engine.read_columns(scope), []
        for vector in vectors:
            query = np.asarray(vector.astype(np.float16), dtype=np.float32)
            found = await engine.vector_projections[0].index.search(query, scope, Where(kinds=("Procedure",)), WHOLE)
            pairs = zip(found.ordinals.tolist(), found.scores.tolist(), strict=True)
            out.append({columns.ids[ordinal]: score for ordinal, score in pairs if ordinal < columns.size})
        return out


@dataclass
class ProcedureIndex:
    """The current procedures of one channel, and what becomes of them as things are asked for."""

    write: WriteAttempt
    known: dict[str, Procedure]
    threshold: int
    changed: dict[str, Procedure] = field(default_factory=dict)

    def upserts(self) -> list[Procedure]:
        """What changed, in the order in which it last did."""
        return list(self.changed.values())

    def apply_request(self, request: InstructionRequest, new_id: str, same_threshold: float) -> None:
        """Take in one thing that was asked for, or asked no longer."""
        if request.is_revocation:
            for record in self._find_revoked(request):
                self._record_change(retire(record, self.write, "asked no longer"))
            return
        digest = hash_instruction(request.instruction, request.trigger)
        known = self._find_equivalent(request, digest, same_threshold)
        if known is None:
            for old in self._find_conflicting(request):
                self._record_change(retire(old, self.write, "asked otherwise"))
            record = build_record(
                Procedure,
                id=new_id,
                channel=self.write.scope.channel,
                instruction=request.instruction,
                trigger=request.trigger,
                instruction_hash=digest,
                created_at=self.write.now,
                last_asked=request.asked_at or self.write.now,
                source_turn_ids=request.turn_ids,
                status=Status.ARCHIVED,  # kept out of recall until it is in force
            )
        else:
            sources = tuple(dict.fromkeys((*known.source_turn_ids, *request.turn_ids)))[-MAX_REFERENCES:]
            asked = max(request.asked_at or self.write.now, known.last_asked or EPOCH)
            more = {"strength": known.strength + 1, "last_asked": asked, "source_turn_ids": sources}
            record = known.model_copy(update=more)
        if self.threshold and (request.is_standing or record.strength >= self.threshold):
            record = activate(record)
        self._record_change(record)

    def _record_change(self, record: Procedure) -> None:
        self.changed.pop(record.id, None)
        self.changed[record.id] = record
        self.known.pop(record.id, None)
        if record.superseded_at is None:
            self.known[record.id] = record

    def _find_equivalent(self, request: InstructionRequest, digest: str, same_threshold: float) -> Procedure | None:
        """The procedure that says the same: the same words, or near by cosine, with one trigger and no contrast."""
        for record in self.known.values():
            if record.instruction_hash == digest:
                return record
        read, when = normalize_instruction(request.instruction), request.trigger.casefold()
        near = [
            (request.similarities[record.id], record.id)
            for record in self.known.values()
            if request.similarities.get(record.id, 0.0) >= same_threshold
            and record.trigger.casefold() == when
            and normalize_instruction(record.instruction).is_prohibition == read.is_prohibition
            and find_contrasts(record.instruction) == find_contrasts(request.instruction)
        ]
        return self.known[max(near)[1]] if near else None

    def _find_conflicting(self, request: InstructionRequest) -> list[Procedure]:
        """What cannot hold beside it: the same with another number or polarity; what it forbids may be narrower."""
        read, when, out = normalize_instruction(request.instruction), request.trigger.casefold(), []
        for record in self.known.values():
            other = normalize_instruction(record.instruction)
            opposite = other.is_prohibition != read.is_prohibition and (
                read.content_terms <= other.content_terms
                if read.is_prohibition
                else read.content_terms == other.content_terms
            )
            renumbered = (
                other.is_prohibition == read.is_prohibition
                and other.number_masked_terms == read.number_masked_terms
                and other.terms != read.terms
            )
            if record.trigger.casefold() == when and (opposite or renumbered):
                out.append(record)
        return out

    def _find_revoked(self, request: InstructionRequest) -> list[Procedure]:
        """What is meant by something that is asked no longer."""
        if not request.instruction:
            return self._find_latest_requested(request.turn_ids)
        read = normalize_instruction(request.instruction)
        meant = []
        for record in self.known.values():
            other = normalize_instruction(record.instruction)
            if other.is_prohibition == read.is_prohibition and read.content_terms <= other.content_terms:
                meant.append(record)
        return meant

    def _find_latest_requested(self, turn_ids: Sequence[str]) -> list[Procedure]:
        """The one asked for last in these turns."""
        asked = [record for record in self.known.values() if set(record.source_turn_ids) & set(turn_ids)]
        return sorted(asked, key=lambda record: (record.last_asked or self.write.now, record.seq))[-1:]


def activate(record: Procedure) -> Procedure:
    """The procedure, found by recall from now on."""
    return record.model_copy(update={"procedure_status": "active", "status": Status.ACTIVE})


def retire(record: Procedure, write: WriteAttempt, reason: str) -> Procedure:
    """The procedure, out of force and out of recall, but kept."""
    gone = {"procedure_status": "retired", "status": Status.SUPERSEDED, "superseded_at": write.now, "reason": reason}
    return record.model_copy(update=gone)


def _get_last_procedure(entry: JournalEntry | None) -> Procedure:
    """The procedure that was asked for: the last of those put, after what it replaced."""
    for stored in reversed(() if entry is None else entry.upserts):
        if isinstance(stored.record, Procedure):
            return stored.record
    return get_written_record(entry, Procedure)
