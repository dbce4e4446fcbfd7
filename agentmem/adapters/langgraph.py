"""LangGraph's long-term memory: a store of documents, and the history of a chat.

A document is kept exactly as given; `remember` finds the texts in it, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
)
from langgraph.store.base.embed import tokenize_path

from agentmem.adapters.bridge import MemoryBridge
from agentmem.core.documents import Document
from agentmem.errors import ConfigError, InvalidRecord
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.facade.memory import AgentMemory
from agentmem.memory.documents import DocumentDraft, Documents

WHOLE_VALUE = "$"  # the path of all texts in a value
HISTORY = "langchain_history"  # the namespace of chat histories
SPEAKERS = {"human": "user", "ai": "assistant"}
_FILTER_KEY = re.compile(r"[\w .\-]+")
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": lambda one, other: bool(one > other),
    "$gte": lambda one, other: bool(one >= other),
    "$lt": lambda one, other: bool(one < other),
    "$lte": lambda one, other: bool(one <= other),
}


class AgentMemStore(BaseStore):
    """A `BaseStore` in one memory.

    `fields` are the paths of the texts that are searched, as LangGraph writes them; `$` is every text in a value, and
    () searches none. With `in_recall` (the default), `remember` finds them, too. `ttl` is LangGraph's TTLConfig, in
    minutes; reads refresh only with its `refresh_on_read`, and what has expired is never given out.

    With `user_label`, the label at that place of each namespace names the user whose memory holds it, so that one store
    serves many users and each can be erased; without it all belongs to the memory's own user.
    """

    supports_ttl = True
    __slots__ = ("_bridge", "_fields", "_in_recall", "_refreshes", "_user_label", "ttl_config")

    def __init__(
        self,
        memory: AgentMemory | AsyncAgentMemory,
        *,
        fields: Sequence[str] = (WHOLE_VALUE,),
        in_recall: bool = True,
        ttl: TTLConfig | None = None,
        user_label: int | None = None,
    ) -> None:
        self._bridge = MemoryBridge(memory)
        self._fields, self._in_recall, self._user_label = tuple(fields), in_recall, user_label
        self.ttl_config = ttl
        self._refreshes = bool(ttl and ttl.get("refresh_on_read", False))  # their SQLite store's default

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The results of operations, in their order. All of them read what was there before any of them writes."""
        return self._bridge.run(self._run_ops(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same, awaited."""
        return await self._bridge.finish(self._run_ops(list(ops)))

    def sweep_ttl(self) -> int:
        """Delete what has expired in the memory's own user; returns how many. The job `cleanup` does it for all."""
        return len(self._bridge.run(self._bridge.memory.documents.remove_expired()))

    async def asweep_ttl(self) -> int:
        """The same, awaited."""
        return len(await self._bridge.finish(self._bridge.memory.documents.remove_expired()))

    async def _run_ops(self, ops: Sequence[Op]) -> list[Result]:
        results: list[Result] = [None] * len(ops)
        for place, op in enumerate(ops):
            if isinstance(op, SearchOp):
                results[place] = await self._search(op)
            elif isinstance(op, ListNamespacesOp):
                results[place] = await self._list_namespaces(op)
        await self._get({place: op for place, op in enumerate(ops) if isinstance(op, GetOp)}, results)
        await self._put([op for op in ops if isinstance(op, PutOp)])
        return results

    def _documents(self, namespace: Sequence[str]) -> Documents:
        """The documents of the user that a namespace belongs to."""
        memory, label = self._bridge.memory, self._user_label
        if label is None:
            return memory.documents
        if len(namespace) <= label:
            message = f"namespace {tuple(namespace)!r} has no label at place {label}, which names the user"
            raise InvalidRecord(message, field="namespace")
        return memory.scoped(user_id=namespace[label]).documents

    async def _get(self, ops: Mapping[int, GetOp], results: list[Result]) -> None:
        for namespaces, documents in self._by_user({op.namespace for op in ops.values()}):
            places = [place for place, op in ops.items() if op.namespace in namespaces]
            found = await documents.read_many([(ops[place].namespace, ops[place].key) for place in places])
            for place, document in zip(places, found, strict=True):
                results[place] = None if document is None else Item(**_item_fields(document))
            if self._refreshes:
                read = zip(places, found, strict=True)
                await documents.refresh([each for place, each in read if each and ops[place].refresh_ttl])

    async def _put(self, ops: Sequence[PutOp]) -> None:
        last = {(op.namespace, op.key): op for op in ops}
        for namespaces, documents in self._by_user({op.namespace for op in ops}):
            mine = [op for op in last.values() if op.namespace in namespaces]
            puts = [self._draft(op) for op in mine if op.value is not None]
            await documents.write(puts, [(op.namespace, op.key) for op in mine if op.value is None])

    def _by_user(self, namespaces: Iterable[tuple[str, ...]]) -> Iterator[tuple[set[tuple[str, ...]], Documents]]:
        """The namespaces of each user, with the user's documents."""
        users: dict[str, set[tuple[str, ...]]] = {}
        for namespace in namespaces:
            label = self._user_label
            self._documents(namespace)  # refuses one that names no user
            users.setdefault("" if label is None else namespace[label], set()).add(namespace)
        for mine in users.values():
            yield mine, self._documents(next(iter(mine)))

    def _draft(self, op: PutOp) -> DocumentDraft:
        paths = () if op.index is False else self._fields if op.index is None else tuple(op.index)
        texts = list(dict.fromkeys(text for path in paths for text in _texts_at(op.value, path)))
        return DocumentDraft(op.namespace, op.key, op.value, texts, op.ttl, self._in_recall)

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        documents, wanted = self._documents(op.namespace_prefix), dict(op.filter or {})
        _check_filter(wanted)

        def matches(value: Any) -> bool:
            return all(_compare(_look_up(value, key), condition) for key, condition in wanted.items())

        found, reach = list[tuple[Document, float | None]](), op.offset + op.limit
        filtered = matches if wanted else None
        if op.query and op.query.strip():
            near = await documents.search(op.query, op.namespace_prefix, matches=filtered, limit=reach)
            found += [(each.document, each.score) for each in near]
        if len(found) < reach:  # what has no vectors comes last, as in LangGraph's store in memory
            seen = {document.id for document, _ in found}
            rest = await documents.find(op.namespace_prefix, matches=filtered, limit=reach + len(seen))
            found += [(each, None) for each in rest if each.id not in seen]
        found = found[op.offset : reach]
        if op.refresh_ttl and self._refreshes:
            await documents.refresh([document for document, _ in found])
        return [SearchItem(**_item_fields(document), score=score) for document, score in found]

    async def _list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        fixed = next((each.path for each in conditions if each.match_type == "prefix" and "*" not in each.path), ())
        found = await self._documents(fixed).list_namespaces(fixed)
        kept = [each for each in found if all(_fits(each, condition) for condition in conditions)]
        cut = sorted({each[: op.max_depth] if op.max_depth else each for each in kept})
        return cut[op.offset : op.offset + op.limit]


class AgentMemChatHistory(BaseChatMessageHistory):
    """The messages of one session, exactly as given. What people and models say in them is stored as turns, too.

    `clear` deletes the messages and forgets their turns.
    """

    def __init__(self, memory: AgentMemory | AsyncAgentMemory, session_id: str) -> None:
        if not session_id:
            raise ConfigError("session_id must not be empty")
        self._bridge, self._session_id, self._path = MemoryBridge(memory), session_id, (HISTORY, session_id)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """All messages, oldest first."""
        return self._bridge.run(self._read())

    async def aget_messages(self) -> list[BaseMessage]:
        """The same, awaited."""
        return await self._bridge.run_async(self._read())

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages in one transaction."""
        self._bridge.run(self._add(messages))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """The same, awaited."""
        await self._bridge.finish(self._add(messages))

    def clear(self) -> None:
        """Delete all messages."""
        self._bridge.run(self._bridge.memory.documents.clear(self._path))

    async def aclear(self) -> None:
        """The same, awaited."""
        await self._bridge.finish(self._bridge.memory.documents.clear(self._path))

    async def _read(self) -> list[BaseMessage]:
        return messages_from_dict(await self._bridge.memory.documents.read_values(self._path))

    async def _add(self, messages: Sequence[BaseMessage]) -> None:
        turns = {
            place: {"role": SPEAKERS[message.type], "content": text, "conversation_id": self._session_id}
            for place, message in enumerate(messages)
            if message.type in SPEAKERS and (text := str(message.text)).strip()
        }
        await self._bridge.memory.documents.append(
            self._path, [message_to_dict(each) for each in messages], turns=turns
        )


def _item_fields(document: Document) -> dict[str, Any]:
    return {
        "namespace": document.namespace,
        "key": document.name,
        "value": document.load(),
        "created_at": document.created_at,
        "updated_at": document.updated_at,
    }


def _texts_at(value: Any, path: str) -> Iterator[str]:
    """The texts at a path of a value; at `$` all of them, as one."""
    if path == WHOLE_VALUE:
        yield "\n".join(_iter_texts(value))
    else:
        yield from get_text_at_path(value, tokenize_path(path))


def _iter_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _iter_texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _iter_texts(each)


def _fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    """Whether a namespace begins or ends with a path, in which `*` stands for any label."""
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def _check_filter(wanted: Mapping[str, Any]) -> None:
    for key, condition in wanted.items():
        if not _FILTER_KEY.fullmatch(key):
            raise ValueError(f"Invalid filter key {key!r}: letters, digits, spaces, `_`, `-` and `.` are allowed")
        for name in condition if isinstance(condition, Mapping) else ():
            if str(name).startswith("$") and name not in ("$eq", "$ne", *_OPERATORS):
                raise ValueError(f"Unsupported operator: {name}")


def _look_up(value: Any, key: str) -> Any:
    """What a key names: a key of the value itself, else a path of keys with dots; None for nothing."""
    if isinstance(value, Mapping) and key in value:
        return value[key]
    head, dot, rest = key.partition(".")
    return _look_up(value[head], rest) if dot and isinstance(value, Mapping) and head in value else None


def _compare(found: Any, condition: Any) -> bool:
    """Whether what was found meets a condition: operators, the keys of an object, or an equal value."""
    if isinstance(condition, Mapping) and any(str(name).startswith("$") for name in condition):
        return all(_apply(found, name, wanted) for name, wanted in condition.items())
    if isinstance(condition, Mapping):
        return isinstance(found, Mapping) and all(_compare(found.get(key), each) for key, each in condition.items())
    if isinstance(condition, list | tuple):
        same = isinstance(found, list) and len(found) == len(condition)
        return same and all(_compare(one, other) for one, other in zip(found, condition, strict=True))
    return isinstance(found, bool) == isinstance(condition, bool) and bool(found == condition)


def _apply(found: Any, operator: str, wanted: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return _compare(found, wanted) == (operator == "$eq")
    kinds = (int | float, str)
    comparable = any(isinstance(found, kind) and isinstance(wanted, kind) for kind in kinds)
    return comparable and operator in _OPERATORS and _OPERATORS[operator](found, wanted)
