"""mem0's verbs as coroutines: its arguments, its answers and its errors.

A memory is a fact, or a message that no fact was read from. Users share one open store and see nothing of each other. A
call that names no user is about the one of the memory; ids of other users' memories end with `@` and the user.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from agentmem.adapters import mem0_shapes as shapes
from agentmem.adapters.mem0_desk import MEMORY_KINDS, SEARCH_DEPTH, Desk, forget_selected
from agentmem.adapters.mem0_shapes import Selection
from agentmem.core.plain_values import describe_value
from agentmem.core.scope import Operator, agent_of_channel, check_identifier, self_channel
from agentmem.core.telemetry import log_event
from agentmem.errors import ConfigError, InvalidRecord, NotFound, ScopeError
from agentmem.facade.async_memory import AsyncAgentMemory

BodyT = TypeVar("BodyT", bound=BaseModel)

Answer = dict[str, Any]
Name = str | int | None  # mem0 takes numbers for names, too
LastDay = str | date | None

OPTIONAL_FIELDS = ("user_id", "agent_id", "run_id", "actor_id", "role", "expiration_date")  # left out where empty
USERS_PER_PAGE = 1000


class Mem0Verbs:
    """mem0's verbs, over the memory of the user who is meant where none is named.

    `owns_home` says that no other program keeps anything there.
    """

    def __init__(self, memory: AsyncAgentMemory, *, owns_home: bool) -> None:
        self._memory = memory
        self._owns_home = owns_home

    async def add(
        self,
        messages: str | Mapping[str, Any] | list[Any],
        *,
        user_id: Name = None,
        agent_id: Name = None,
        run_id: Name = None,
        metadata: dict[str, Any] | None = None,
        timestamp: int | None = None,
        expiration_date: LastDay = None,
        infer: bool = True,
        memory_type: str | None = None,
        prompt: str | None = None,
    ) -> Answer:
        """Store messages, and read facts from them; with `infer=False` each message is one memory.

        Returns `{"results": [{"id", "memory", "event"}]}`, and `notices` where that falls short of what was asked.
        """
        for field, value in (("memory_type", memory_type), ("prompt", prompt)):
            if value is not None:
                raise InvalidRecord(f"{field} is not served here; nothing was stored", field=field)
        selection = _select({}, user_id=user_id, agent_id=agent_id, run_id=run_id)
        given = _list_messages(messages)
        day = _read_day(expiration_date)
        more = {"metadata": metadata, "infer": infer, "timestamp": timestamp, "expiration_date": day}
        body = _make_body(shapes.NewMemories, messages=given, **more)
        if not given:
            return {"results": []}
        answer = await self._open_desk(selection).add(body)
        fields = {"id", "memory", "event"} if infer else {"id", "memory", "event", "actor_id", "role"}
        return _add_notices([item.model_dump(include=fields) for item in answer.results], answer.notices)

    async def get(self, memory_id: str) -> Answer | None:
        """The memory of this id; None when there is none."""
        try:
            desk, record_id = await self._find_desk(memory_id)
            item = await desk.describe_as(memory_id, await desk.find(record_id))
        except NotFound:
            return None
        return {**_describe_item(item), "score": None}

    async def get_all(
        self, /, *, filters: dict[str, Any] | None = None, top_k: int = 20, show_expired: bool = False, **other: Any
    ) -> Answer:
        """The memories that match filters, latest first."""
        _check_search(other, top_k)
        selection = _select(filters)
        desk = self._open_desk(selection)
        found = await desk.list_memories(selection, show_expired=show_expired)
        return {"results": [_describe_item(item) for item in await desk.describe(found[:top_k])]}

    async def search(
        self,
        /,
        query: str,
        *,
        top_k: int = 20,
        filters: dict[str, Any] | None = None,
        threshold: float | None = None,
        rerank: bool = False,  # the settings name a reranker, which is always asked
        explain: bool = False,
        reference_date: Any = None,
        show_expired: bool = False,
        **other: Any,
    ) -> Answer:
        """The memories for a query that match filters, best first: the best one scores 1, the others relative to it."""
        _check_search(other, top_k, threshold)
        if reference_date is not None or show_expired:
            field = "show_expired" if show_expired else "reference_date"
            raise InvalidRecord(f"{field} is not served by search", field=field)
        selection = _select(filters)
        body = _make_body(shapes.Mem0Search, query=query, top_k=SEARCH_DEPTH, explain=explain)
        if not body.query.strip():
            raise InvalidRecord("query must not be empty", field="query")
        answer = await self._open_desk(selection).search(body, selection)
        best = max((item.score for item in answer.results), default=0.0) or 1.0
        found = [{**_describe_item(item), "score": item.score / best} for item in answer.results]
        if explain:
            for item, shown in zip(answer.results, found, strict=True):
                shown["score_details"] = item.score_details
        kept = [shown for shown in found if threshold is None or shown["score"] >= threshold]
        return _add_notices(kept[:top_k], answer.notices)

    async def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: dict[str, Any] | None = None,
        expiration_date: LastDay | Literal["unset"] = "unset",
        data: str | None = None,
    ) -> Answer:
        """Correct a memory's text, or its last day (None for none); the id stays. ValueError when there is none.

        `data` is the older name of `text`.
        """
        given: dict[str, Any] = {"text": data if text is None else text, "metadata": metadata}
        if expiration_date != "unset":
            given["expiration_date"] = _read_day(expiration_date)
        body = _make_body(shapes.MemoryUpdate, **given)
        try:
            desk, record_id = await self._find_desk(memory_id)
            await desk.update(record_id, body)
        except NotFound as error:
            raise InvalidRecord(str(error), field="memory_id") from error
        return {"message": "Memory updated successfully!"}

    async def delete(self, memory_id: str) -> Answer:
        """Forget a memory softly. ValueError when there is none."""
        try:
            desk, record_id = await self._find_desk(memory_id)
            await desk.delete(record_id)
        except NotFound as error:
            raise InvalidRecord(str(error), field="memory_id") from error
        return {"message": "Memory deleted successfully!"}

    async def delete_all(self, user_id: Name = None, agent_id: Name = None, run_id: Name = None) -> Answer:
        """Forget softly all memories of a user with his agents, of an agent, or of a run, with their messages."""
        selection = _select({}, user_id=user_id, agent_id=agent_id, run_id=run_id)
        desk = self._open_desk(selection)
        desks = [desk]
        if selection.agent_id is None:
            agents = [agent_of_channel(channel) for channel in await desk.memory.records.channels(MEMORY_KINDS)]
            own = [Selection(user_id=selection.user_id, agent_id=name) for name in agents if name is not None]
            desks += [self._open_desk(each) for each in own]
        for desk in desks:
            await forget_selected(desk, selection)
        return {"message": "Memories deleted successfully!"}

    async def history(self, memory_id: str) -> list[Answer]:
        """What a memory said before, oldest first, also when it is deleted; [] when there is none."""
        try:
            desk, record_id = await self._find_desk(memory_id)
            versions = await desk.read_history(record_id)
        except NotFound:
            return []
        [first] = await desk.describe(versions[:1])
        said = {"actor_id": first.actor_id, "role": first.role}
        items = [item.model_dump(exclude={"user_id"}) for item in shapes.describe_history(memory_id, versions)]
        for item in items:
            item |= {"is_deleted": item["event"] == "DELETE", **said}
            item |= {name: _write_time(item[name]) for name in ("created_at", "updated_at")}
        return items

    async def reset(self) -> None:
        """Erase for good all users in a home of its own. ConfigError for another home and for servers."""
        if not self._owns_home or self._memory.settings.log_url is not None:
            raise ConfigError("reset erases all users; others may use this memory, too: give a folder, Memory(FOLDER)")
        log, last = self._memory.engine.log, ""
        while page := await log.users(Operator("mem0 reset"), USERS_PER_PAGE, last):
            for name in page:
                await self._memory.scoped(user_id=name).erase()
            last = page[-1]

    def _open_desk(self, selection: Selection) -> Desk:
        """Where what is named lies: in the user's shared channels, or in one agent's own, with nothing else."""
        own = self._memory.scope.user_id
        user_id, agent_id = selection.user_id or own, selection.agent_id
        channel = None if agent_id is None else self_channel(agent_id)
        memory = self._memory.scoped(
            user_id=user_id,
            agent_id=agent_id,
            channel=channel,
            conversation_id=selection.run_id,
            channels=None if channel is None else (channel,),
        )
        return Desk(memory, "" if user_id == own else f"@{user_id}")

    async def _find_desk(self, memory_id: str) -> tuple[Desk, str]:
        """Where a memory lies, and the id of its record; NotFound when there is none."""
        for record_id, user_id in _split_memory_id(memory_id):
            try:
                desk = self._open_desk(Selection(user_id=user_id))
                ids = [check_identifier(record_id, "memory_id")]
            except (InvalidRecord, ScopeError):  # no user and no record has such a name
                continue
            for channel in await desk.memory.records.channels(MEMORY_KINDS, ids):
                agent_id = agent_of_channel(channel)
                view = desk.memory.scoped(agent_id=agent_id, channel=channel)
                return Desk(view, desk.suffix), record_id
        raise NotFound(f"no memory {describe_value(memory_id)}")


def _read_name(value: Any, field: str) -> str | None:
    """The name of a user, an agent or a run as mem0 reads it. InvalidRecord for one without text or with spaces."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidRecord(f"{field} must be a string, got {describe_value(value)}", field=field)
    name = str(value).strip()
    if name == shapes.ANYTHING or len(name.split()) != 1:
        raise InvalidRecord(f"{field} must be one word, got {describe_value(value)}", field=field)
    return check_identifier(name, field)


def _select(filters: dict[str, Any] | None, **named: Any) -> Selection:
    """What a call names. InvalidRecord where that is no user, agent or run."""
    if filters is not None and not isinstance(filters, dict):
        raise InvalidRecord(f"filters must be a dict, got {describe_value(filters)}", field="filters")
    given = {**(filters or {}), **named}
    names = {field: _read_name(given.pop(field, None), field) for field in shapes.IDENTIFIERS}
    if not any(names.values()):
        where = "user_id" if named else "filters"
        raise InvalidRecord(f"{where}: name a user_id, an agent_id or a run_id", field=where)
    return shapes.select_memories(given, **names)


def _list_messages(messages: Any) -> list[dict[str, Any]]:
    """Messages in the forms of mem0: a text, a message, or several. Instructions to a model are no memories."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    elif isinstance(messages, Mapping):
        messages = [messages]
    if not isinstance(messages, list) or not all(isinstance(each, Mapping) for each in messages):
        raise InvalidRecord("messages must be a string, a dict or a list of dicts", field="messages")
    return [dict(each) for each in messages if each.get("role") != "system"]


def _read_day(value: Any) -> str | None:
    if isinstance(value, datetime):
        value = value.date()
    return value.isoformat() if isinstance(value, date) else value


def _make_body(model: type[BodyT], **fields: Any) -> BodyT:
    """The body that mem0's server would get. InvalidRecord names the first field that is wrong, without its value."""
    try:
        return model(**fields)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in wrong["loc"])
        problem = InvalidRecord(f"{field}: {wrong['msg']}", field=field)
    raise problem


def _check_search(other: Mapping[str, Any], top_k: Any, threshold: Any = None) -> None:
    """Refuse what mem0 refuses, and name in the log what neither knows."""
    if named := sorted(other.keys() & {*shapes.IDENTIFIERS}):
        raise InvalidRecord(f"{named[0]} goes into filters: filters={{'{named[0]}': …}}", field=named[0])
    for name in other:
        log_event(logging.WARNING, "mem0_argument_ignored", name=name)
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 0:
        raise InvalidRecord(f"top_k must be a whole number of 0 or more, got {describe_value(top_k)}", field="top_k")
    if threshold is not None and (not isinstance(threshold, int | float) or not 0 <= threshold <= 1):
        raise InvalidRecord(f"threshold must be within 0 and 1, got {describe_value(threshold)}", field="threshold")


def _split_memory_id(memory_id: Any) -> Iterator[tuple[str, str | None]]:
    """What an id may mean: a record of the own user, or one of the user who is named behind an `@`."""
    if isinstance(memory_id, str):
        yield memory_id, None
        record_id, _, user_id = memory_id.partition("@")
        if user_id:
            yield record_id, user_id


def _describe_item(item: shapes.MemoryItem) -> Answer:
    """A memory as mem0's classes show it."""
    shown: Answer = {
        "id": item.id,
        "memory": item.memory,
        "hash": hashlib.md5(item.memory.encode(), usedforsecurity=False).hexdigest(),
        "metadata": item.metadata or None,
        "created_at": _write_time(item.created_at),
        "updated_at": _write_time(item.updated_at),
    }
    optional = {name: getattr(item, name) for name in OPTIONAL_FIELDS}
    if item.expiration_date is not None:
        optional["expiration_date"] = item.expiration_date.isoformat()
    return shown | {name: value for name, value in optional.items() if value is not None}


def _write_time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _add_notices(results: list[Answer], notices: list[str]) -> Answer:
    return {"results": results, "notices": notices} if notices else {"results": results}
