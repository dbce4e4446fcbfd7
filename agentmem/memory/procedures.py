"""Procedures: what the user wants an agent always to do, or never. Asked for, strengthened, replaced, retired."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agentmem.errors import InvalidRecord, ModelError
from agentmem.memory import Seat, first_of
from agentmem.model.changes import Change, JournalEntry, Write, fingerprint
from agentmem.model.procedures import MOST_NAMED
from agentmem.model.records import Key, Procedure, Status, build
from agentmem.stores import WHOLE, Where
from agentmem.text.instructions import instruction_hash, read_instruction

LONGEST = 2_000  # characters of an instruction or a trigger
STATES = ("candidate", "active", "retired")


@dataclass(frozen=True, slots=True)
class Asked:
    """One thing that somebody asked for. `standing`: for good, in so many words.

    `ends`: it is asked no longer; with an empty instruction what was asked for last in these turns is meant. `alike`
    are cosines with known procedures by id.
    """

    instruction: str
    trigger: str = ""
    turn_ids: tuple[str, ...] = ()
    standing: bool = False
    ends: bool = False
    alike: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Procedures:
    """The verbs over procedures."""

    seat: Seat

    async def procedures(self, status: str | None = None, *, limit: int = 1000) -> list[Procedure]:
        """The procedures of the readable channels, oldest first: active ones and candidates, or those of one status.

        `status` is candidate, active or retired.
        """
        if status not in (None, *STATES):
            raise InvalidRecord(f"status must be one of {', '.join(STATES)}, got {status!r}", field="status")
        if limit < 0:
            raise InvalidRecord(f"limit must be 0 or more, got {limit}", field="limit")
        wanted = ("active", "candidate") if status is None else (status,)
        found = [record for record in await self.seat.all("Procedure") if isinstance(record, Procedure)]
        kept = [record for record in found if record.status is not Status.FORGOTTEN]
        return [record for record in kept if record.procedure_status in wanted][:limit]

    async def stage_candidate(
        self, instruction: str, *, trigger: str = "", source_turn_ids: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Procedure:  # fmt: skip
        """Propose an instruction. It is in force, and found by recall, once it is accepted; see `accept_procedure`.

        The same instruction again (whatever words of politeness stand around it) makes the known one stronger.
        Raises InvalidRecord naming the field, also for a turn that is not stored.
        """
        for name, text in (("instruction", instruction), ("trigger", trigger)):
            said: object = text
            if not isinstance(said, str) or len(said) > LONGEST:
                raise InvalidRecord(f"{name} must be text of at most {LONGEST:,} characters", field=name)
        if isinstance(source_turn_ids, str):
            raise InvalidRecord("source_turn_ids must be a list of strings, got a string", field="source_turn_ids")
        build(Procedure, instruction=instruction, trigger=trigger)
        asked = Asked(instruction.strip(), trigger.strip(), tuple(source_turn_ids))

        async def make(write: Write) -> Change:
            turns, expects = await self.seat.locate("source_turn_ids", "Turn", asked.turn_ids)
            return await self.change_to_ask(write, [replace(asked, turn_ids=tuple(turns))], expects, threshold=0)

        entry = await self.seat.resources.write(
            self.seat.scope, "stage_candidate", make, kind="Procedure", key=idempotency_key,
            payload=fingerprint(instruction=instruction, trigger=trigger, turns=list(source_turn_ids)),
        )  # fmt: skip
        return _last(entry)

    async def change_to_ask(
        self, write: Write, asked: Iterable[Asked], expects: Mapping[Key, int], *, threshold: int
    ) -> Change:
        """The Change that takes in what was asked for, in this order, in the channel of the seat.

        What was asked for `threshold` times, or as a standing order, is in force; with 0 nobody's word is enough.
        """
        records = await self.seat.all("Procedure", channels=[write.scope.channel])
        known = [record for record in records if isinstance(record, Procedure) and record.superseded_at is None]
        shelf = Shelf(write, {record.id: record for record in known}, threshold)
        for one in asked:
            shelf.take(one, self.seat.resources.ids.new(), self.seat.resources.settings.procedural.same)
        before = {record.key: record.seq for record in known}
        return write.change(*shelf.puts(), expects={
            **expects, **{record.key: before.get(record.key) for record in shelf.puts()}
        })  # fmt: skip

    async def accept_procedure(self, procedure_id: str, *, idempotency_key: str | None = None) -> Procedure:
        """Put a candidate in force; one that is stays as it is. InvalidRecord for a retired one."""
        return await self._decided(procedure_id, "accept_procedure", "active", "", idempotency_key)

    async def retire_procedure(
        self, procedure_id: str, reason: str = "", *, idempotency_key: str | None = None
    ) -> Procedure:  # fmt: skip
        """Take a procedure or a candidate out of force; a retired one stays as it is."""
        return await self._decided(procedure_id, "retire_procedure", "retired", reason, idempotency_key)

    async def _decided(self, procedure_id: str, verb: str, status: str, reason: str, key: str | None) -> Procedure:
        async def make(write: Write) -> Change | None:
            known = await self.seat.one("Procedure", procedure_id)
            assert isinstance(known, Procedure)
            if known.status is Status.FORGOTTEN:
                raise InvalidRecord(f"procedure {procedure_id!r} was forgotten; restore it first", field="procedure_id")
            if known.procedure_status == status:
                found.append(known)
                return write.change(known, expects={known.key: known.seq}) if key is not None else None
            if known.procedure_status == "retired":
                raise InvalidRecord(f"procedure {procedure_id!r} is retired; stage it anew", field="procedure_id")
            new = retired(known, write, reason) if status == "retired" else in_force(known)
            return write.change(new, expects={known.key: known.seq})

        found: list[Procedure] = []
        entry = await self.seat.resources.write(
            self.seat.scope, verb, make, kind="Procedure", key=key,
            payload=fingerprint(id=procedure_id, reason=reason),
        )  # fmt: skip
        return first_of(entry, Procedure) if entry is not None else found[-1]

    async def alike(self, instructions: Sequence[str]) -> list[dict[str, float]]:
        """Cosines of each instruction with the procedures of the seat's channel, by id; empty without a model."""
        resources, scope = self.seat.resources, self.seat.scope.reading([self.seat.scope.channel])
        if not instructions or not resources.vectors:
            return [{} for _ in instructions]
        try:
            vectors = await resources.vectors[0].embedder.embed(list(instructions))
        except ModelError:  # the words alone tell most of it
            return [{} for _ in instructions]
        outline, out = await resources.outline(scope), []
        for vector in vectors:
            query = np.asarray(vector.astype(np.float16), dtype=np.float32)
            found = await resources.vectors[0].index.nearest(query, scope, Where(kinds=("Procedure",)), WHOLE)
            pairs = zip(found.slots.tolist(), found.scores.tolist(), strict=True)
            out.append({outline.ids[slot]: score for slot, score in pairs if slot < outline.size})
        return out


@dataclass
class Shelf:
    """The current procedures of one channel, and what becomes of them as things are asked for."""

    write: Write
    known: dict[str, Procedure]
    threshold: int
    changed: dict[str, Procedure] = field(default_factory=dict)

    def puts(self) -> list[Procedure]:
        """What changed, in the order in which it last did."""
        return list(self.changed.values())

    def take(self, asked: Asked, new_id: str, same: float) -> None:
        """Take in one thing that was asked for, or asked no longer."""
        if asked.ends:
            for record in self._ended(asked):
                self._put(retired(record, self.write, "asked no longer"))
            return
        digest = instruction_hash(asked.instruction, asked.trigger)
        known = self._same(asked, digest, same)
        if known is None:
            for old in self._replaced(asked):
                self._put(retired(old, self.write, "asked otherwise"))
            record = build(
                Procedure, id=new_id, channel=self.write.scope.channel, instruction=asked.instruction,
                trigger=asked.trigger, instruction_hash=digest, created_at=self.write.now, last_asked=self.write.now,
                source_turn_ids=asked.turn_ids, status=Status.ARCHIVED,  # kept out of recall until it is in force
            )  # fmt: skip
        else:
            sources = tuple(dict.fromkeys((*known.source_turn_ids, *asked.turn_ids)))[-MOST_NAMED:]
            more = {"strength": known.strength + 1, "last_asked": self.write.now, "source_turn_ids": sources}
            record = known.model_copy(update=more)
        if self.threshold and (asked.standing or record.strength >= self.threshold):
            record = in_force(record)
        self._put(record)

    def _put(self, record: Procedure) -> None:
        self.changed.pop(record.id, None)
        self.changed[record.id] = record
        self.known.pop(record.id, None)
        if record.superseded_at is None:
            self.known[record.id] = record

    def _same(self, asked: Asked, digest: str, same: float) -> Procedure | None:
        """The procedure that says the same: the same words, or alike in polarity, trigger and numbers."""
        for record in self.known.values():
            if record.instruction_hash == digest:
                return record
        read, when = read_instruction(asked.instruction), asked.trigger.casefold()
        near = [
            (asked.alike[record.id], record.id) for record in self.known.values()
            if asked.alike.get(record.id, 0.0) >= same and record.trigger.casefold() == when
            and read_instruction(record.instruction).negative == read.negative
            and _numbers(record.instruction) == _numbers(asked.instruction)
        ]  # fmt: skip
        return self.known[max(near)[1]] if near else None

    def _replaced(self, asked: Asked) -> list[Procedure]:
        """What cannot hold beside it: the same with another number or polarity; what it forbids may be narrower."""
        read, when, out = read_instruction(asked.instruction), asked.trigger.casefold(), []
        for record in self.known.values():
            other = read_instruction(record.instruction)
            opposite = other.negative != read.negative and (
                read.content <= other.content if read.negative else read.content == other.content
            )
            renumbered = other.negative == read.negative and other.shape == read.shape and other.words != read.words
            if record.trigger.casefold() == when and (opposite or renumbered):
                out.append(record)
        return out

    def _ended(self, asked: Asked) -> list[Procedure]:
        """What is meant by something that is asked no longer."""
        if not asked.instruction:
            return self._latest_of(asked.turn_ids)
        read = read_instruction(asked.instruction)
        meant = []
        for record in self.known.values():
            other = read_instruction(record.instruction)
            if other.negative == read.negative and read.content <= other.content:
                meant.append(record)
        return meant

    def _latest_of(self, turn_ids: Sequence[str]) -> list[Procedure]:
        """The one asked for last in these turns."""
        asked = [record for record in self.known.values() if set(record.source_turn_ids) & set(turn_ids)]
        return sorted(asked, key=lambda record: (record.last_asked or self.write.now, record.seq))[-1:]


def in_force(record: Procedure) -> Procedure:
    """The procedure, found by recall from now on."""
    return record.model_copy(update={"procedure_status": "active", "status": Status.ACTIVE})


def retired(record: Procedure, write: Write, reason: str) -> Procedure:
    """The procedure, out of force and out of recall, but kept."""
    gone = {"procedure_status": "retired", "status": Status.SUPERSEDED, "superseded_at": write.now, "reason": reason}
    return record.model_copy(update=gone)


def _numbers(text: str) -> list[str]:
    read = read_instruction(text)
    return [word for word, plain in zip(read.words, read.shape, strict=True) if plain == "#"]


def _last(entry: JournalEntry | None) -> Procedure:
    """The procedure that was asked for: the last of those put, after what it replaced."""
    for stored in reversed(() if entry is None else entry.puts):
        if isinstance(stored.record, Procedure):
            return stored.record
    return first_of(entry, Procedure)
