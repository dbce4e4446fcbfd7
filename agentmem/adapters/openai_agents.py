"""OpenAI Agents SDK: the session of an agent, and memory before each call of its model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from agents import SessionSettings, TResponseInputItem
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
from agents.run import CallModelData, ModelInputData

from agentmem.adapters.bridge import MemoryBridge
from agentmem.errors import ConfigError
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.facade.memory import AgentMemory

SESSIONS = "openai_agents_session"  # the namespace of sessions
SPEAKERS = ("user", "assistant")


class AgentMemSession:
    """A `Session`: the items of one conversation, exactly as given, calls of tools, reasoning and images too.

    What the user and the agent say in them is stored as turns of the conversation `session_id`, in the same
    transaction. `pop_item` and `clear_session` forget the turns with their items.
    """

    def __init__(
        self,
        session_id: str,
        memory: AgentMemory | AsyncAgentMemory,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        if not session_id:
            raise ConfigError("session_id must not be empty")
        self.session_id, self._path, self._bridge = session_id, (SESSIONS, session_id), MemoryBridge(memory)
        self.session_settings: SessionSettings | None = coerce_session_settings(session_settings or SessionSettings())

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The latest `limit` items, or those that the settings ask for, oldest first; [] for a limit of 0."""
        wanted = resolve_session_limit(limit, self.session_settings)
        size = None if wanted is None or wanted < 0 else wanted
        values = await self._bridge.run_async(self._bridge.memory.documents.read_values(self._path, size))
        return cast(list[TResponseInputItem], values)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end, in one transaction."""
        values = cast(list[dict[str, Any]], items)
        turns = {
            place: {"role": value["role"], "content": text, "conversation_id": self.session_id}
            for place, value in enumerate(values)
            if value.get("role") in SPEAKERS and (text := read_text(value)).strip()
        }
        await self._bridge.finish(self._bridge.memory.documents.append(self._path, values, turns=turns))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the last item out and return it; None when there is none."""
        popped = await self._bridge.finish(self._bridge.memory.documents.pop(self._path))
        return None if popped is None else cast(TResponseInputItem, popped.load())

    async def clear_session(self) -> None:
        """Delete all items."""
        await self._bridge.finish(self._bridge.memory.documents.clear(self._path))


def recall_before_model(
    memory: AgentMemory | AsyncAgentMemory, *, max_tokens: int = 1_500
) -> Callable[[CallModelData[Any]], Awaitable[ModelInputData]]:
    """A `call_model_input_filter` that puts what memory holds about the last message of the user before it.

    It stands as a message of the user, marked as data, never among the instructions, and is in no session.
    """
    bridge = MemoryBridge(memory)

    async def add_context(data: CallModelData[Any]) -> ModelInputData:
        items = list(data.model_data.input)
        place, asked = _find_question(items)
        if not asked:
            return data.model_data
        found = await bridge.run_async(bridge.memory.context(asked, max_tokens=max_tokens))
        if found.text:
            items.insert(place, cast(TResponseInputItem, {"role": "user", "content": found.text}))
        return ModelInputData(input=items, instructions=data.model_data.instructions)

    return add_context


def _find_question(items: Sequence[Any]) -> tuple[int, str]:
    """Where the last message of the user stands, and its text; (0, "") for none."""
    for place in range(len(items) - 1, -1, -1):
        item = items[place]
        if isinstance(item, Mapping) and item.get("role") == "user" and (text := read_text(item)).strip():
            return place, text
    return 0, ""


def read_text(item: Mapping[str, Any]) -> str:
    """The text of a message: its content, or the texts of its parts, a line each; "" for none."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))
