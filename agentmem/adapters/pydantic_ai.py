"""Pydantic AI: tools of memory, memory before each call of a model, and a store of conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import ModelMessagesTypeAdapter, ModelRetry, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessage, ModelRequest, TextContent, TextPart, UserPromptPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.toolsets import FunctionToolset

from agentmem.adapters.bridge import MemoryBridge
from agentmem.core.documents import Document
from agentmem.core.plain_values import has_visible
from agentmem.errors import InvalidRecord
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.facade.memory import AgentMemory
from agentmem.memory.documents import DocumentDraft, Documents

RECORDS = "pydantic_ai_conversation"  # the namespace of records, a label for each conversation below it
MESSAGES = "pydantic_ai_message"  # of messages, a label for each conversation below it
PLACES = ("pydantic_ai_place",)  # of the conversation in which each entry lies
BATCH_SIZE = 1_000  # messages that one transaction stores
_RECORD = TypeAdapter(ConversationRecord)


def build_memory_toolset(memory: AgentMemory | AsyncAgentMemory, *, max_tokens: int = 1_500) -> FunctionToolset[Any]:
    """A toolset with the tools `remember` and `store_fact`. What they return is data, in the result of a tool."""
    bridge = MemoryBridge(memory)

    async def remember(query: str) -> str:
        """Look up what is known from earlier conversations.

        Args:
            query: A question, or a few words.
        """
        text = ""
        if has_visible(query):
            text = (await bridge.run_async(bridge.memory.context(query, max_tokens=max_tokens))).text
        return text or "Nothing is known."

    async def store_fact(text: str) -> str:
        """Keep a fact for later conversations.

        Args:
            text: One sentence that can be understood alone.
        """
        try:
            await bridge.finish(bridge.memory.learn_fact(text, source="pydantic_ai"))
        except InvalidRecord as error:
            raise ModelRetry(str(error)) from None
        return "Stored."

    return FunctionToolset([remember, store_fact], id="agentmem")


def recall_before_model(memory: AgentMemory | AsyncAgentMemory, *, max_tokens: int = 1_500) -> AbstractCapability[Any]:
    """A capability that puts what memory holds about the last prompt of the user before it.

    It stands in a part of the user, marked as data, never among the instructions, and in no history of messages.
    """
    return RecallCapability(MemoryBridge(memory), max_tokens=max_tokens)


@dataclass
class RecallCapability(AbstractCapability[Any]):
    """See `recall_before_model`."""

    _bridge: MemoryBridge = field(repr=False)
    _: KW_ONLY
    max_tokens: int

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Give the model one message with more parts; the messages of the run stay as they are."""
        messages = list(request_context.messages)
        place = _find_prompt(messages)
        if place < 0:
            return request_context
        asked = messages[place]
        found = await self._bridge.run_async(self._bridge.memory.context(read_text(asked), max_tokens=self.max_tokens))
        if found.text and isinstance(asked, ModelRequest):
            first = next(at for at, part in enumerate(asked.parts) if isinstance(part, UserPromptPart))
            parts = [*asked.parts[:first], UserPromptPart(found.text), *asked.parts[first:]]
            messages[place] = replace(asked, parts=parts)
            request_context.messages = messages
        return request_context


class AgentMemConversationStore(ConversationStore):
    """A `ConversationStore`: each message as Pydantic AI writes it in JSON.

    What the user and the model say is stored as turns of the conversation, in the same transaction as the messages.
    `delete` deletes the messages and forgets their turns, unless there are forks, which may share them.
    """

    def __init__(self, memory: AgentMemory | AsyncAgentMemory) -> None:
        self._bridge = MemoryBridge(memory)

    @property
    def _documents(self) -> Documents:
        return self._bridge.memory.documents

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation; None when there is none."""
        found = await self._bridge.run_async(self._documents.get((RECORDS, conversation_id), conversation_id))
        return None if found is None else _RECORD.validate_python(found.load())

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """The records, or those of a scope, the last saved ones first."""
        found = await self._bridge.run_async(self._documents.find((RECORDS,), limit=None))
        records = [_RECORD.validate_python(each.load()) for each in found]
        wanted = [record for record in records if scope is None or record.scope == scope]
        return sorted(wanted, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store the entries, then the record. Raises ConversationConflict when another save came first."""
        await self._bridge.finish(self._write(record, new_entries, expected_revision))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation. Raises ConversationConflict when another save came first."""
        await self._bridge.finish(self._delete(conversation_id, expected_revision))

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry with this id. Raises LookupError."""
        return (await self.read_history(entry_id, limit=1))[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries up to `head_id`, oldest first, or the last `limit` of them. Raises LookupError."""
        return await self._bridge.run_async(self._read_line(head_id, limit))

    async def _read_line(self, head_id: str | None, limit: int | None) -> list[ConversationEntry]:
        """Follow the entries back, also into the conversations that this one was forked from."""
        known, line, wanted = dict[str, dict[str, Any]](), list[dict[str, Any]](), head_id
        while wanted is not None and (limit is None or len(line) < limit):
            if wanted not in known:
                place = await self._documents.get(PLACES, wanted)
                path = (MESSAGES, place.load()) if place is not None else None
                values = await self._documents.read_values(path) if path else []
                known.update({value["id"]: value for value in values})
            line.append(known[wanted])
            wanted = known[wanted]["parent_id"]
        messages = ModelMessagesTypeAdapter.validate_python([value["message"] for value in reversed(line)])
        return [
            ConversationEntry(id=value["id"], parent_id=value["parent_id"], message=message)
            for value, message in zip(reversed(line), messages, strict=True)
        ]

    async def _write(
        self, record: ConversationRecord, entries: Sequence[ConversationEntry], revision: str | None
    ) -> None:
        name, documents = record.conversation_id, self._documents
        before, ids = await documents.get((RECORDS, name), name), [entry.id for entry in entries]
        _check_revision(before, name, revision)
        head = record.head_id
        if head is not None and head not in ids and await documents.get(PLACES, head) is None:
            raise ConversationConflict(name)
        kept = list[Document]()
        for start in range(0, len(entries), BATCH_SIZE):
            batch = entries[start : start + BATCH_SIZE]
            kept += await documents.append((MESSAGES, name), _dump(batch), turns=_build_turns(name, batch))
            await documents.write([DocumentDraft(PLACES, entry.id, name) for entry in batch])

        def plan(there: Mapping[str, Document]) -> tuple[list[DocumentDraft], list[str]]:
            _check_revision(there.get(name), name, revision)
            return [DocumentDraft((RECORDS, name), name, _RECORD.dump_python(record, mode="json"))], []

        try:
            await documents.edit((RECORDS, name), plan)
        except ConversationConflict:
            await self._remove(name, kept)
            raise

    async def _delete(self, name: str, revision: str) -> None:
        messages = await self._documents.find((MESSAGES, name), limit=None)

        def plan(there: Mapping[str, Document]) -> tuple[list[DocumentDraft], list[str]]:
            if name not in there:
                raise ConversationConflict(name)
            _check_revision(there[name], name, revision)
            return [], [name]

        await self._documents.edit((RECORDS, name), plan)
        left = await self._documents.find((RECORDS,), limit=None)
        if not any(each.load()["forked_from"] is not None for each in left):
            await self._remove(name, messages)

    async def _remove(self, name: str, messages: Sequence[Document]) -> None:
        """Delete messages of a conversation and where they lie, and forget their turns."""
        gone, ids = [each.name for each in messages], [each.load()["id"] for each in messages]
        await self._documents.edit((MESSAGES, name), lambda there: ([], [each for each in gone if each in there]))
        for start in range(0, len(ids), BATCH_SIZE):
            await self._documents.write([], [(PLACES, each) for each in ids[start : start + BATCH_SIZE]])


def _check_revision(stored: Document | None, conversation_id: str, revision: str | None) -> None:
    if (None if stored is None else stored.load()["revision"]) != revision:
        raise ConversationConflict(conversation_id)


def _dump(entries: Sequence[ConversationEntry]) -> list[dict[str, Any]]:
    messages = ModelMessagesTypeAdapter.dump_python([entry.message for entry in entries], mode="json")
    return [
        {"id": entry.id, "parent_id": entry.parent_id, "message": message}
        for entry, message in zip(entries, messages, strict=True)
    ]


def _build_turns(conversation_id: str, entries: Sequence[ConversationEntry]) -> dict[int, dict[str, Any]]:
    return {
        place: {
            "role": "user" if isinstance(entry.message, ModelRequest) else "assistant",
            "content": text,
            "conversation_id": conversation_id,
        }
        for place, entry in enumerate(entries)
        if has_visible(text := read_text(entry.message))
    }


def _find_prompt(messages: Sequence[ModelMessage]) -> int:
    """Where the last message with words of the user stands; -1 for none."""
    asked = (
        place
        for place in range(len(messages) - 1, -1, -1)
        if isinstance(messages[place], ModelRequest) and has_visible(read_text(messages[place]))
    )
    return next(asked, -1)


def read_text(message: ModelMessage) -> str:
    """What the user or the model says in a message, a part each line; "" for nothing."""
    texts = list[str]()
    for part in message.parts:
        if isinstance(part, TextPart):
            texts.append(part.content)
        elif isinstance(part, UserPromptPart):
            contents = [part.content] if isinstance(part.content, str) else part.content
            texts += [
                each.content if isinstance(each, TextContent) else each
                for each in contents
                if isinstance(each, str | TextContent)
            ]
    return "\n".join(filter(has_visible, texts))
