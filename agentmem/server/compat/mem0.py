"""The routes of mem0's server, for programs that speak to one. Off unless `agentmem serve --mem0` turns them on.

A memory is a fact, or a message that no fact was read from. Its id stays when it is updated. Programs of mem0 know one
key and many users, but send no user with an id: an id of another user than the key's own ends with `@` and his name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from agentmem.adapters import mem0_shapes as shapes
from agentmem.adapters.mem0_desk import MEMORY_KINDS, Desk, forget_selected
from agentmem.adapters.mem0_shapes import MemoryRecord, Selection
from agentmem.core.scope import agent_of_channel, check_identifier
from agentmem.errors import InvalidRecord, NotFound
from agentmem.server.auth import Eraser, Reader, ViewFields, Writer, open_view
from agentmem.server.errors import NOT_FOUND_DETAIL, RequestError
from agentmem.server.rest.turns import place_turn

router = APIRouter(prefix="/mem0", tags=["mem0"])

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
    await desk.delete(record_id)
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
