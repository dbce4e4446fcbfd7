"""The routes of mem0's server, for programs that speak to one. Off unless `agentmem serve --mem0` turns them on.

A memory is a fact, or a message that no fact was read from. Its id stays when it is updated. Programs of mem0 know one
key and many users, but send no user with an id: an id of another user than the key's own ends with `@` and his name.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from agentmem.core.record import Status
from agentmem.core.records import Fact, Turn
from agentmem.core.scope import agent_of_channel, check_identifier
from agentmem.errors import AgentMemError, InvalidRecord, NotFound
from agentmem.extraction.windows import is_substantive
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.memory.semantic.facts import is_current
from agentmem.server.auth import Eraser, Reader, ViewFields, Writer, open_view
from agentmem.server.compat import mem0_shapes as shapes
from agentmem.server.compat.mem0_shapes import MemoryRecord, Selection
from agentmem.server.errors import NOT_FOUND_DETAIL, RequestError
from agentmem.server.rest.turns import place_turn

router = APIRouter(prefix="/mem0", tags=["mem0"])

MEMORY_KINDS = ("Fact", "Turn")
SEARCH_DEPTH = 100  # places of the ranking that filters choose from
DEFAULT_LIST_SIZE = 20
DEFAULT_PAGE_SIZE = 100

EntityType = Literal["user", "agent", "run", "app"]
Page = Annotated[int | None, Query(ge=1)]
PageSize = Annotated[int | None, Query(ge=1, le=1000)]


def choose_user(request: Request, caller: Reader, user_id: str | None) -> Reader:
    """The caller, acting for the user that a request names: any one for a key for all users, else its own.

    RequestError 404 for another one. This is the one place that decides it.
    """
    if user_id in (None, caller.user_id):
        return caller
    key = getattr(request.state, "caller", None)
    is_free = "admin" in caller.permissions and getattr(key, "user_id", None) is None
    if not is_free or user_id == shapes.ANYTHING:  # which is no user's name
        raise RequestError(404, NOT_FOUND_DETAIL)
    check_identifier(user_id, "user_id")
    return replace(caller, user_id=user_id)


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

    async def list_memories(self, selection: Selection, *, all_messages: bool = False) -> Sequence[MemoryRecord]:
        """Memories, latest first; with `all_messages` also those that facts were read from."""
        facts, now = await self.read_facts(), self.memory.engine.clock.now()
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
            notices = [*notices, f"Nothing was read from {len(kept)} message(s); kept as they are, kind 'message'."]
        if len(messages) > len(kept):
            notices = [*notices, f"{len(messages) - len(kept)} message(s) say nothing to remember."]
        return shapes.AddAnswer(results=await self._report([*facts, *kept], turns), notices=notices)

    async def _report(self, records: Sequence[MemoryRecord], turns: Sequence[Turn]) -> list[shapes.AddedItem]:
        new, out = {turn.id for turn in turns}, []
        for record in records:
            known = isinstance(record, Fact) and not {*record.source_turn_ids} <= new
            event = "NONE" if known else "UPDATE" if isinstance(record, Fact) and record.supersedes else "ADD"
            named, text, kind = await self.name(record), shapes.get_text(record), shapes.get_kind(record)
            out.append(shapes.AddedItem(id=named, memory=text, event=event, kind=kind))
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


def open_desk(request: Request, caller: Reader, selection: Selection) -> Desk:
    """The desk of what a request names. An agent's lies in the agent's own channel, and holds nothing else."""
    acting = choose_user(request, caller, selection.user_id)
    fields = place_turn(ViewFields(agent_id=selection.agent_id, conversation_id=selection.run_id))
    memory = open_view(request, acting, fields)
    if fields.channel is not None:
        memory = memory.scoped(channels=(fields.channel,))
    return Desk(memory, "" if acting is caller else f"@{acting.user_id}")


async def find_desk(request: Request, caller: Reader, memory_id: str) -> tuple[Desk, str]:
    """The desk where a memory lies, and the id of its record; NotFound when this caller has no such memory."""
    record_id, _, user_id = memory_id.partition("@")
    own = [(memory_id, caller)] if caller.user_id is not None else []
    others = [(record_id, choose_user(request, caller, user_id))] if user_id else []
    for named, acting in own + others:
        view = open_view(request, acting, ViewFields())
        for channel in await view.records.channels(MEMORY_KINDS, [check_identifier(named, "memory_id")]):
            try:
                memory = open_view(request, acting, ViewFields(agent_id=agent_of_channel(channel), channel=channel))
            except RequestError:  # a key of another channel: nothing is told of what lies here
                break
            return Desk(memory, "" if acting is caller else f"@{acting.user_id}"), named
    raise NotFound(f"no memory {memory_id!r}")


async def open_all_desks(request: Request, caller: Reader) -> list[Desk]:
    """The desk of the shared channels and one for each agent with memories, as far as the caller's key reaches."""
    shared = open_desk(request, caller, Selection())
    if caller.channel is not None or caller.agent_id is not None:
        return [shared]
    agents = [agent_of_channel(channel) for channel in await shared.memory.records.channels(MEMORY_KINDS)]
    return [shared, *(open_desk(request, caller, Selection(agent_id=name)) for name in agents if name is not None)]


async def forget_selected(desk: Desk, selection: Selection) -> int:
    """Forget what a selection names, the messages, too; returns how many records that were."""
    records, forgotten = await desk.list_memories(selection, all_messages=True), 0
    for record in records:
        with suppress(NotFound):  # another program was faster
            await desk.memory.forget(record.id, reason="deleted")
            forgotten += 1
    return forgotten


def read_delete_query(request: Request) -> Selection:
    """The selection of a URL that deletes. InvalidRecord for one that names nothing, or anything not served here."""
    query = dict(request.query_params)
    for name in ("org_id", "project_id"):
        query.pop(name, None)
    filters = {name: shapes.parse_filter_text(query.pop(name, None)) for name in ("filters", "metadata")}
    named = {name: query.pop(name, None) for name in shapes.IDENTIFIERS}
    parts = [filters["filters"] or {}, {"metadata": filters["metadata"] or {}, "app_id": query.pop("app_id", None)}]
    if query:
        raise InvalidRecord(f"{min(query)[:50]!r} is not served; nothing was deleted", field=min(query)[:50])
    if not any(name is not None for name in named.values()) and not filters["filters"]:
        raise InvalidRecord("user_id: give a user_id, an agent_id or a run_id", field="user_id")
    return shapes.select_memories({"AND": parts}, **named)


@router.get("/v1/ping/")
async def ping(caller: Reader) -> shapes.PingAnswer:
    """What mem0's client asks first: whose key this is. It needs names of an organization and a project."""
    return shapes.PingAnswer(user_email=caller.user_id or "")


@router.post("/memories")
@router.post("/v3/memories/add/")
async def add_memories(request: Request, caller: Writer, body: shapes.NewMemories) -> shapes.AddAnswer:
    """Store messages, and read facts from them; with infer=false each message is one memory."""
    return await open_desk(request, caller, shapes.read_selection(body)).add(body)


@router.get("/memories")
async def list_memories(
    request: Request,
    caller: Reader,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    top_k: Annotated[int, Query(ge=0, le=1000)] = DEFAULT_LIST_SIZE,
) -> shapes.ListAnswer:
    """Memories, latest first."""
    selection = shapes.select_memories(user_id=user_id, agent_id=agent_id, run_id=run_id)
    desk = open_desk(request, caller, selection)
    return shapes.ListAnswer(results=await desk.describe((await desk.list_memories(selection))[:top_k]))


@router.post("/v3/memories/")
async def page_memories(
    request: Request, caller: Reader, body: shapes.ListQuery, page: Page = None, page_size: PageSize = None
) -> shapes.PageAnswer:
    """One page of memories, latest first; a page after the last one is empty."""
    number, size = page or body.page or 1, page_size or body.page_size or DEFAULT_PAGE_SIZE
    selection = shapes.read_selection(body)
    desk = open_desk(request, caller, selection)
    found = await desk.list_memories(selection)

    def link(other: int) -> str:
        return str(request.url.include_query_params(page=other, page_size=size))

    return shapes.PageAnswer(
        count=len(found),
        next=link(number + 1) if number * size < len(found) else None,
        previous=link(number - 1) if number > 1 else None,
        results=await desk.describe(found[(number - 1) * size : number * size]),
        notices=body.list_notices(),
    )


@router.post("/search")
@router.post("/v3/memories/search/")
async def search_memories(request: Request, caller: Reader, body: shapes.Mem0Search) -> shapes.SearchAnswer:
    """Memories for a query, best first; filters choose from the 100 best."""
    selection = shapes.read_selection(body)
    return await open_desk(request, caller, selection).search(body, selection)


@router.get("/memories/{memory_id}")
@router.get("/v1/memories/{memory_id}/")
async def get_memory(request: Request, caller: Reader, memory_id: str) -> shapes.MemoryItem:
    """One memory as it is now."""
    desk, record_id = await find_desk(request, caller, memory_id)
    return await desk.describe_as(memory_id, await desk.find(record_id))


@router.put("/memories/{memory_id}")
@router.put("/v1/memories/{memory_id}/")
async def update_memory(
    request: Request, caller: Writer, memory_id: str, body: shapes.MemoryUpdate
) -> shapes.MemoryItem:
    """Correct a memory's text or its last day; the id stays."""
    desk, record_id = await find_desk(request, caller, memory_id)
    return await desk.describe_as(memory_id, await desk.update(record_id, body))


@router.delete("/memories/{memory_id}")
@router.delete("/v1/memories/{memory_id}/")
async def delete_memory(request: Request, caller: Writer, memory_id: str) -> shapes.MessageAnswer:
    """Forget a memory softly."""
    desk, record_id = await find_desk(request, caller, memory_id)
    await desk.memory.forget((await desk.find(record_id)).id, reason="deleted")
    return shapes.MessageAnswer(message="The memory is deleted.")


@router.get("/memories/{memory_id}/history")
@router.get("/v1/memories/{memory_id}/history/")
async def read_memory_history(request: Request, caller: Reader, memory_id: str) -> list[shapes.HistoryItem]:
    """What a memory said before, oldest first, also when it is deleted."""
    desk, record_id = await find_desk(request, caller, memory_id)
    return shapes.describe_history(memory_id, await desk.read_history(record_id))


@router.delete("/memories")
@router.delete("/v1/memories/")
async def delete_memories(
    request: Request,
    caller: Writer,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
) -> shapes.MessageAnswer:
    """Forget softly all memories of a user, an agent or a run, with their messages."""
    selection = read_delete_query(request)
    count = await forget_selected(open_desk(request, caller, selection), selection)
    return shapes.MessageAnswer(message=f"{count} records are deleted.")


@router.put("/v1/batch/")
async def update_batch(request: Request, caller: Writer, body: shapes.BatchUpdate) -> shapes.MessageAnswer:
    """Correct several memories, one after the other; the first that fails ends it."""
    for item in body.memories:
        desk, record_id = await find_desk(request, caller, item.memory_id)
        await desk.update(record_id, item)
    return shapes.MessageAnswer(message=f"{len(body.memories)} memories are updated.")


@router.delete("/v1/batch/")
async def delete_batch(request: Request, caller: Writer, body: shapes.BatchDelete) -> shapes.MessageAnswer:
    """Forget several memories softly, one after the other; the first that fails ends it."""
    for item in body.memories:
        await delete_memory(request, caller, item.memory_id)
    return shapes.MessageAnswer(message=f"{len(body.memories)} memories are deleted.")


@router.get("/v1/entities/")
async def list_entities(request: Request, caller: Reader) -> shapes.EntitiesAnswer:
    """The user, his agents and his runs, as far as they have memories."""
    found: dict[tuple[str, str], list[MemoryRecord]] = {}
    for desk in await open_all_desks(request, caller):
        records = await desk.list_memories(Selection())
        for record, item in zip(records, await desk.describe(records), strict=True):
            for kind, name in (("user", item.user_id), ("agent", item.agent_id), ("run", item.run_id)):
                if name is not None:
                    found.setdefault((kind, name), []).append(record)
    order = ["user", "agent", "run"]
    entities = sorted(found.items(), key=lambda each: (order.index(each[0][0]), each[0][1]))
    results = [shapes.describe_entity(kind, name, records) for (kind, name), records in entities]
    return shapes.EntitiesAnswer(count=len(results), results=results)


@router.delete("/v2/entities/{entity_type}/{entity_id}/")
async def delete_entity(
    request: Request, caller: Writer, entity_type: EntityType, entity_id: str
) -> shapes.MessageAnswer:
    """Forget softly all memories of a user with his agents, of an agent, or of a run."""
    selections = {
        "user": Selection(user_id=entity_id),
        "agent": Selection(agent_id=entity_id),
        "run": Selection(run_id=entity_id),
        "app": Selection(metadata={"app_id": entity_id}),
    }
    selection = selections[entity_type]
    acting = choose_user(request, caller, selection.user_id)
    if entity_type == "agent":
        desks = [open_desk(request, acting, selection)]
    else:
        desks = await open_all_desks(request, acting)
    count = sum([await forget_selected(desk, selection) for desk in desks])
    return shapes.MessageAnswer(message=f"{count} records are deleted.")


@router.post("/reset")
async def reset(request: Request, caller: Eraser) -> shapes.MessageAnswer:
    """Erase everything of the caller's user for good; needs the permissions to erase and to administer."""
    if "admin" not in caller.permissions:
        raise RequestError(403, "This key has no permission to admin.")
    await open_view(request, caller, ViewFields()).erase()
    return shapes.MessageAnswer(message="All memories are erased.")


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
