"""LlamaIndex: a block of memory for its `Memory`, and the store of its messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from agentmem.adapters.bridge import MemoryBridge
from agentmem.core.documents import Document
from agentmem.core.plain_values import has_visible
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.facade.memory import AgentMemory
from agentmem.memory.documents import DocumentDraft, Documents

CHATS = "llama_index_chat"  # the namespace of messages, a label for each chat below it
ARCHIVED = "archived"  # the document that says how many messages of a chat, from its first one on, are archived
SPEAKERS = ("user", "assistant")
BATCH_SIZE = 1_000  # messages that one transaction stores
CHARS_PER_TOKEN = 4
Positions = dict[str, tuple[MessageStatus, ChatMessage]]  # the status and the message of each document, by name
Choice = Callable[[Positions], Sequence[str]]


class AgentMemBlock(BaseMemoryBlock[list[ChatMessage]]):
    """A block for `Memory.from_defaults(memory_blocks=[AgentMemBlock(memory)])`.

    What memory holds about the user's last message is given as a message of the user, marked as data, never as a part
    of the system prompt. Messages that leave the short-term memory are stored as turns of the session's conversation.
    """

    name: str = "agentmem"
    max_tokens: int = 1_500
    _bridge: MemoryBridge = PrivateAttr()

    def __init__(self, memory: AgentMemory | AsyncAgentMemory, **fields: Any) -> None:
        super().__init__(**fields)
        self._bridge = MemoryBridge(memory)

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> list[ChatMessage]:
        asked = [each for each in messages or () if each.role.value == "user" and has_visible(each.content or "")]
        if not asked:
            return []
        question = asked[-1].content or ""
        found = await self._bridge.run_async(self._bridge.memory.context(question, max_tokens=self.max_tokens))
        return [ChatMessage(found.text)] if found.text else []

    async def _aput(self, messages: list[ChatMessage]) -> None:
        turns = [
            _build_turn(each, str(each.additional_kwargs.get("session_id") or ""))
            for each in messages
            if _is_said(each)
        ]
        await self._bridge.finish(self._store(turns))

    async def _store(self, turns: Sequence[Mapping[str, Any]]) -> None:
        for start in range(0, len(turns), BATCH_SIZE):
            await self._bridge.memory.store_turns(turns[start : start + BATCH_SIZE])

    async def atruncate(self, content: list[ChatMessage], tokens_to_truncate: int) -> list[ChatMessage] | None:
        """Take out lines from the end, between the markers; None when no line is left."""
        lines, removed = (content[0].content or "").split("\n") if content else [], 0
        while len(lines) > 3 and removed < tokens_to_truncate * CHARS_PER_TOKEN:
            removed += len(lines.pop(-2)) + 1
        return [ChatMessage("\n".join(lines))] if len(lines) > 3 else None


class AgentMemChatStore(AsyncDBChatStore):
    """A store for `Memory.from_defaults(chat_store=AgentMemChatStore(memory))`.

    Messages are kept as LlamaIndex writes them in JSON. What the user and the agent say is stored as turns of the
    conversation `key`, in the same transaction, and forgotten when the message is deleted. Archived messages stay.
    """

    _bridge: MemoryBridge = PrivateAttr()

    def __init__(self, memory: AgentMemory | AsyncAgentMemory) -> None:
        super().__init__()
        self._bridge = MemoryBridge(memory)

    @property
    def _documents(self) -> Documents:
        return self._bridge.memory.documents

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """The messages of a chat, oldest first; all of them for no status."""
        values = await self._bridge.run_async(self._documents.read_values((CHATS, key)))
        messages = [message for at, message in _read_chat(values) if status in (None, at)][offset or 0 :]
        return messages if limit is None else messages[:limit]

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        """How many messages a chat has."""
        return len(await self.get_messages(key, status))

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        """Add a message at the end."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add messages at the end."""
        await self._bridge.finish(self._append(key, messages, status))

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Put messages in place of those of a chat."""
        await self._bridge.finish(self._replace(key, messages, status))

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Delete the message at a position, counted from 0 over all of the chat, and return it; None for none."""
        gone = await self._bridge.finish(
            self._remove(key, lambda there: list(there)[idx : idx + 1] if idx >= 0 else [])
        )
        return gone[0] if gone else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Delete the messages of a chat, or those of a status."""
        await self._bridge.finish(
            self._remove(key, lambda there: [name for name, (at, _) in there.items() if status in (None, at)])
        )

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Delete the oldest `n` active messages, and return them."""
        return await self._bridge.finish(self._remove(key, lambda there: _find_active(there)[:n]))

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the oldest `n` active messages, and return them."""
        return await self._bridge.finish(self._archive(key, n))

    async def get_keys(self) -> list[str]:
        """The keys of all chats."""
        found = await self._bridge.run_async(self._documents.list_namespaces((CHATS,)))
        return [each[1] for each in found if len(each) > 1]

    async def _append(self, key: str, messages: Sequence[ChatMessage], status: MessageStatus) -> None:
        for start in range(0, len(messages), BATCH_SIZE):
            batch = messages[start : start + BATCH_SIZE]
            turns = {place: _build_turn(each, key) for place, each in enumerate(batch) if _is_said(each)}
            values = [{"status": status.value, "message": each.model_dump(mode="json")} for each in batch]
            await self._documents.append((CHATS, key), values, turns=turns)

    async def _replace(self, key: str, messages: Sequence[ChatMessage], status: MessageStatus) -> None:
        old = [each.name for each in await self._documents.find((CHATS, key), limit=None)]
        await self._append(key, messages, status)
        await self._remove(key, lambda there: [name for name in old if name in there])

    async def _remove(self, key: str, choose: Choice) -> list[ChatMessage]:
        """Delete the messages that are chosen; those that are archived stay so."""
        gone = list[ChatMessage]()

        def plan(documents: Mapping[str, Document]) -> tuple[list[DocumentDraft], list[str]]:
            there = _read_positions(documents)
            names = list(choose(there))
            gone[:] = [there[name][1] for name in names]
            if len(names) == len(there):
                return [], list(documents)
            archived = list(there)[: documents[ARCHIVED].load()] if ARCHIVED in documents else []
            return [_draft_archived(key, len(set(archived) - set(names)))] if archived else [], names

        await self._documents.edit((CHATS, key), plan)
        return gone

    async def _archive(self, key: str, n: int) -> list[ChatMessage]:
        archived = list[ChatMessage]()

        def plan(documents: Mapping[str, Document]) -> tuple[list[DocumentDraft], list[str]]:
            there = _read_positions(documents)
            names = _find_active(there)[:n]
            archived[:] = [there[name][1] for name in names]
            return ([_draft_archived(key, list(there).index(names[-1]) + 1)] if names else []), []

        await self._documents.edit((CHATS, key), plan)
        return archived


def _is_said(message: ChatMessage) -> bool:
    return message.role.value in SPEAKERS and has_visible(message.content or "")


def _build_turn(message: ChatMessage, conversation_id: str) -> dict[str, Any]:
    conversation = {"conversation_id": conversation_id} if conversation_id else {}
    return {"role": message.role.value, "content": message.content, **conversation}


def _draft_archived(key: str, number: int) -> DocumentDraft:
    return DocumentDraft((CHATS, key), ARCHIVED, number)


def _read_positions(documents: Mapping[str, Document]) -> Positions:
    """The messages of documents that are given newest first, oldest first."""
    names = [name for name in documents if name != ARCHIVED][::-1]
    values = [each.load() for each in documents.values()][::-1]
    return dict(zip(names, _read_chat(values), strict=True))


def _read_chat(values: Sequence[Any]) -> list[tuple[MessageStatus, ChatMessage]]:
    """The statuses and messages of a chat, oldest first. One of the values may be the number of archived ones."""
    archived = sum(value for value in values if isinstance(value, int))
    kept = [value for value in values if not isinstance(value, int)]
    return [
        (
            MessageStatus.ARCHIVED if place < archived else MessageStatus(value["status"]),
            ChatMessage.model_validate(value["message"]),
        )
        for place, value in enumerate(kept)
    ]


def _find_active(there: Positions) -> list[str]:
    return [name for name, (status, _) in there.items() if status is MessageStatus.ACTIVE]
