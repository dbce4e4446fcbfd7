"""The memories of one place, as mem0's verbs see them: for its server's routes and for its Python classes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from agentmem.adapters import mem0_shapes as shapes
from agentmem.adapters.mem0_shapes import MemoryRecord, Selection
from agentmem.core.clock import FIRST_MOMENT
from agentmem.core.record import Status
from agentmem.core.records import Fact, Turn
from agentmem.errors import AgentMemError, InvalidRecord, NotFound
from agentmem.extraction.windows import is_substantive
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.memory.semantic.facts import is_current

MEMORY_KINDS = ("Fact", "Turn")
SEARCH_DEPTH = 100  # places of the ranking that filters choose from


@dataclass(frozen=True, slots=True)
class Desk:
    """The memories of one place: the user's shared channels, or one agent's own. `suffix` ends the ids given out."""

    memory: AsyncAgentMemory
    suffix: str = ""

    async def read_facts(self) -> list[Fact]:
        """All facts here, the retired ones, too."""
        return await self.memory.semantic.facts({"retired": True}, limit=sys.maxsize)

    async def find(self, record_id: str) -> MemoryRecord:
        """What the memory of this id is now; NotFound when there is none, or it was deleted."""
        record = await self._read_record(record_id)
        if isinstance(record, Turn):
            if record.status is not Status.FORGOTTEN:
                return record
            record = await self._find_replacement(record_id)
        if record is not None:
            try:
                record = await self.memory.semantic.get_current_successor(record.id)
            except InvalidRecord:  # it was forgotten
                record = None
        if record is None or record.superseded_at is not None:
            raise NotFound(f"no memory {record_id!r}")
        return record

    async def _read_record(self, record_id: str) -> MemoryRecord | None:
        for fact in await self.memory.records.find(Fact, [record_id]):
            return fact
        return next(iter(await self.memory.records.find(Turn, [record_id])), None)

    async def _find_replacement(self, turn_id: str) -> Fact | None:
        """The first fact that took a turn's place."""
        asked = {"source": shapes.REPLACEMENT_SOURCE + turn_id, "retired": True}
        return next(iter(await self.memory.semantic.facts(asked, limit=1)), None)

    async def name(self, record: MemoryRecord) -> str:
        """The id of a memory: that of its first version, whatever became of it."""
        seen = {record.id}
        while isinstance(record, Fact) and record.supersedes and record.supersedes not in seen:
            seen.add(record.supersedes)
            try:
                record = await self.memory.semantic.get_fact(record.supersedes)
            except NotFound:
                break
        if isinstance(record, Fact) and record.source.startswith(shapes.REPLACEMENT_SOURCE):
            return record.source.removeprefix(shapes.REPLACEMENT_SOURCE) + self.suffix
        return record.id + self.suffix

    async def describe(self, records: Sequence[MemoryRecord]) -> list[shapes.MemoryItem]:
        """Memories as mem0 shows them, in this order."""
        messages = await self._read_messages(records)
        return [shapes.describe_memory(each, await self.name(each), _get_message(each, messages)) for each in records]

    async def describe_as(self, memory_id: str, record: MemoryRecord) -> shapes.MemoryItem:
        """One memory under the id that the caller knows it by."""
        message = _get_message(record, await self._read_messages([record]))
        return shapes.describe_memory(record, memory_id, message)

    async def _read_messages(self, records: Sequence[MemoryRecord]) -> dict[str, Turn]:
        messages = {record.id: record for record in records if isinstance(record, Turn)}
        asked = [name for record in records if isinstance(record, Fact) for name in record.source_turn_ids]
        return messages | {turn.id: turn for turn in await self.memory.records.find(Turn, asked)}

    async def select(self, records: Sequence[MemoryRecord], selection: Selection) -> list[MemoryRecord]:
        """Those of the selection's run and metadata, in this order."""
        if selection.run_id is None and not selection.metadata:
            return list(records)
        messages = await self._read_messages(records)
        return [each for each in records if _matches(_get_messages(each, messages), selection)]

    async def list_memories(
        self, selection: Selection, *, all_messages: bool = False, show_expired: bool = False
    ) -> Sequence[MemoryRecord]:
        """Memories, latest first; with `all_messages` also those that facts were read from."""
        facts = await self.read_facts()
        now = FIRST_MOMENT if show_expired else self.memory.engine.clock.now()
        turns = await self.memory.records.find(Turn, status=Status.ACTIVE, conversation_id=selection.run_id)
        used = {name for fact in facts for name in fact.source_turn_ids}
        messages = [turn for turn in turns if all_messages or (turn.id not in used and is_substantive(turn))]
        echoes = set() if all_messages else shapes.find_echoes(facts)
        current = [fact for fact in facts if is_current(fact, now) and fact.id not in echoes]
        records: list[MemoryRecord] = [*current, *messages]
        return await self.select(sorted(records, key=lambda record: record.seq, reverse=True), selection)

    async def add(self, body: shapes.NewMemories) -> shapes.AddAnswer:
        """Store messages, and read what they say or keep each as it is."""
        metadata = {**(body.metadata or {}), **({"app_id": body.app_id} if body.app_id is not None else {})}
        said = shapes.parse_timestamp(body.timestamp)
        shared = {name: value for name, value in (("timestamp", said), ("metadata", metadata)) if value}
        given = [{**each.model_dump(exclude_none=True), **shared} for each in body.messages]
        ends = shapes.end_of_day(body.expiration_date)
        if body.infer is not False and ends is not None:
            raise InvalidRecord("expiration_date needs infer=false", field="expiration_date")
        turns = await self.memory.store_turns(given, on_error="skip")
        left_out = [f"Message {each.index + 1} is left out: {each.reason}" for each in turns.skipped]
        if len(left_out) == len(given) and given:
            raise InvalidRecord(left_out[0], field=turns.skipped[0].field or "messages")
        if body.infer is False:
            kept = [
                await self.memory.learn_fact(
                    turn.content, source=shapes.VERBATIM_SOURCE, source_turn_ids=[turn.id], valid_to=ends, slot=""
                )
                for turn in turns
            ]
            notices = [*body.list_notices(), *left_out]
            return shapes.AddAnswer(results=await self._report(kept, turns), notices=notices)
        notices = [*body.list_notices(), *left_out, *await self._extract()]
        return await self._report_extracted(turns, notices)

    async def _extract(self) -> list[str]:
        """Read what was stored, as the background job does; a notice where that is not done."""
        later = "what the messages say is read later"
        try:
            async with asyncio.timeout(self.memory.settings.server.request_seconds / 2):
                reports = await self.memory.consolidate("consolidate")
        except TimeoutError:
            return [f"Reading takes long: {later}."]
        except AgentMemError as error:  # the messages are stored all the same
            return [f"{type(error).__name__}: {later}."]
        stopped = [report.stop_reason or "there is more to read" for report in reports if report.pending]
        return [f"{reason}: {later}." for reason in stopped]

    async def _report_extracted(self, turns: Sequence[Turn], notices: list[str]) -> shapes.AddAnswer:
        new = {turn.id for turn in turns}
        facts = [fact for fact in await self.memory.semantic.facts(limit=sys.maxsize) if new & {*fact.source_turn_ids}]
        used = {name for fact in facts for name in fact.source_turn_ids}
        messages = [turn for turn in turns if turn.id not in used]
        kept = [turn for turn in messages if is_substantive(turn)]
        if kept:
            notices = [*notices, f"Nothing was read from {len(kept)} message(s); kept as they are."]
        if len(messages) > len(kept):
            notices = [*notices, f"{len(messages) - len(kept)} message(s) say nothing to remember."]
        return shapes.AddAnswer(results=await self._report([*facts, *kept], turns), notices=notices)

    async def _report(self, records: Sequence[MemoryRecord], turns: Sequence[Turn]) -> list[shapes.AddedItem]:
        new, out = {turn.id: turn for turn in turns}, []
        for record in records:
            known = isinstance(record, Fact) and not {*record.source_turn_ids} <= new.keys()
            event = "NONE" if known else "UPDATE" if isinstance(record, Fact) and record.supersedes else "ADD"
            named, text, kind = await self.name(record), shapes.get_text(record), shapes.get_kind(record)
            speaker = shapes.describe_speaker(_get_message(record, new))
            out.append(shapes.AddedItem(id=named, memory=text, event=event, kind=kind, **speaker))
        return out

    async def search(self, body: shapes.Mem0Search, selection: Selection) -> shapes.SearchAnswer:
        """Memories for a query. A message is left out where a fact of it is given, or one was taken back."""
        bundle = await self.memory.remember(
            body.query, top_k=SEARCH_DEPTH, include=("episodic", "semantic"), reinforce=False
        )
        scored = {item.record.id: item for item in bundle.items if isinstance(item.record, Fact | Turn)}
        records = [item.record for item in scored.values() if isinstance(item.record, Fact | Turn)]
        facts, now = await self.read_facts(), self.memory.engine.clock.now()
        gone = [fact for fact in facts if not is_current(fact, now)]
        left_out = shapes.find_echoes(facts) | {name for fact in gone for name in fact.source_turn_ids}
        left_out |= {name for each in records if isinstance(each, Fact) for name in each.source_turn_ids}
        chosen = await self.select([each for each in records if each.id not in left_out], selection)
        chosen = [each for each in chosen if body.threshold is None or scored[each.id].score >= body.threshold]
        chosen = chosen[: body.top_k]
        results = [
            shapes.FoundItem(
                **item.model_dump(),
                score=scored[each.id].score,
                score_details={"why": scored[each.id].why} if body.explain else None,
            )
            for each, item in zip(chosen, await self.describe(chosen), strict=True)
        ]
        return shapes.SearchAnswer(results=results, notices=[*bundle.notices, *body.list_notices()])

    async def update(self, record_id: str, body: shapes.MemoryUpdate) -> MemoryRecord:
        """Correct a memory. A message stays as it was said: a fact takes its place."""
        for field in ("metadata", "timestamp"):
            if getattr(body, field) is not None:
                raise InvalidRecord(f"{field} is that of the message and stays as it is", field=field)
        if body.text is None and "expiration_date" not in body.model_fields_set:
            raise InvalidRecord("text: give the text or the expiration_date", field="text")
        record, ends = await self.find(record_id), shapes.end_of_day(body.expiration_date)
        text = shapes.get_text(record) if body.text is None else body.text
        if isinstance(record, Turn):
            source = shapes.REPLACEMENT_SOURCE + record.id
            fact = await self.memory.learn_fact(
                text, source=source, source_turn_ids=[record.id], valid_to=ends, slot=""
            )
            await self.memory.forget(record.id, reason="updated")
            return fact
        if "expiration_date" not in body.model_fields_set:
            ends = record.valid_to
        return await self.memory.semantic.update_fact(record.id, claim=text, valid_to=ends)

    async def delete(self, record_id: str) -> None:
        """Forget a memory softly."""
        await self.memory.forget((await self.find(record_id)).id, reason="deleted")

    async def read_history(self, record_id: str) -> list[MemoryRecord]:
        """All versions of a memory, also of a deleted one, in order of time; NotFound when there was none."""
        record = await self._read_record(record_id)
        versions: list[MemoryRecord] = []
        if isinstance(record, Turn):
            versions += await self.memory.records.versions(record)
            replacement = await self._find_replacement(record_id)
            if replacement is not None:
                versions = [each for each in versions if each.status is not Status.FORGOTTEN]
            record = replacement
        elif record is None:
            raise NotFound(f"no memory {record_id!r}")
        return versions if record is None else [*versions, *await self.memory.semantic.history(record.id)]


async def forget_selected(desk: Desk, selection: Selection) -> int:
    """Forget what a selection names, the messages, too; returns how many records that were."""
    records, forgotten = await desk.list_memories(selection, all_messages=True), 0
    for record in records:
        with suppress(NotFound):  # another program was faster
            await desk.memory.forget(record.id, reason="deleted")
            forgotten += 1
    return forgotten


def _get_messages(record: MemoryRecord, messages: dict[str, Turn]) -> list[Turn]:
    ids = record.source_turn_ids if isinstance(record, Fact) else (record.id,)
    return [messages[name] for name in ids if name in messages]


def _get_message(record: MemoryRecord, messages: dict[str, Turn]) -> Turn | None:
    found = _get_messages(record, messages)
    return found[0] if found else None


def _matches(messages: Collection[Turn], selection: Selection) -> bool:
    return any(
        selection.run_id in (None, turn.conversation_id)
        and all(name in turn.metadata and turn.metadata[name] == each for name, each in selection.metadata.items())
        for turn in messages
    )
