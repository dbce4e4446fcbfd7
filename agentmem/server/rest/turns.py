"""Turns and conversations over HTTP."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from pydantic import ConfigDict, Field

from agentmem.core.records import Turn
from agentmem.core.scope import self_channel
from agentmem.memory.context import ForgetReceipt
from agentmem.memory.episodic import EpisodicMemory, OnError
from agentmem.server.auth import RequestBody, ViewFields, ViewQuery, Writer, open_view, require_erase_permission
from agentmem.server.rest.fields import IdempotencyKey, Moment, PageSize
from agentmem.server.rest.verbs import VerbRouter

router = VerbRouter("turns", "episodic")


class TurnFields(RequestBody):
    """One utterance, or a message as OpenAI, Anthropic, Gemini or LangChain have it, with the fields that it has there.

    What is no text leaves a mark such as `[image]`.
    """

    model_config = ConfigDict(extra="allow")

    content: str | list[Any] | None = Field(None, description="Text, or parts such as {type: text, text: …}.")
    role: str = Field("user", description="Who says it: user, assistant, system or tool, or a vendor's name for them.")
    speaker: str | None = None
    timestamp: Moment | None = Field(None, description="When it was said; now when left out, UTC without offset.")
    turn_id: str | None = Field(None, description="An id of your own: a retry under it is stored once.")
    conversation_title: str | None = Field(
        None, description="Names the conversation, where the turn begins it: one line of at most 200 characters."
    )
    metadata: dict[str, Any] | None = None
    tool_calls: list[Any] | None = Field(None, description="Of an assistant: the tools that it calls.")
    tool_call_id: str | None = Field(None, description="Of a tool: the call that it answers.")


class NewTurn(ViewFields, TurnFields):
    """A turn, and where it goes."""


class NewTurns(ViewFields):
    """Up to 1,000 turns, stored together or not at all; with `on_error: skip` those that are right."""

    turns: list[TurnFields]
    on_error: OnError = Field("raise", description="What to do about a turn that is wrong: raise or skip.")


def place_turn(fields: ViewFields) -> ViewFields:
    """Where a turn goes: without a channel, one of an agent goes into the agent's own."""
    if fields.channel is not None or fields.agent_id is None:
        return fields
    return fields.model_copy(update={"channel": self_channel(fields.agent_id)})


@router.post("/turns", status_code=201)
async def store_turn(request: Request, caller: Writer, body: NewTurn, idempotency_key: IdempotencyKey = None) -> Turn:
    """Store one turn. The answer comes when it is committed; without a `conversation_id` a conversation begins."""
    turn = body.model_dump(exclude=set(ViewFields.model_fields), exclude_none=True)
    return await open_view(request, caller, place_turn(body)).store_turn(turn, idempotency_key=idempotency_key)


@router.post("/turns/batch", status_code=201)
async def store_turns(
    request: Request, caller: Writer, body: NewTurns, response: Response, idempotency_key: IdempotencyKey = None
) -> list[Turn]:
    """Store turns in one transaction, in order. `Agentmem-Skipped` names the positions of those left out, from 0."""
    turns = [turn.model_dump(exclude_none=True) for turn in body.turns]
    memory = open_view(request, caller, place_turn(body))
    stored = await memory.store_turns(turns, idempotency_key=idempotency_key, on_error=body.on_error)
    if stored.skipped:
        response.headers["Agentmem-Skipped"] = ",".join(str(each.index) for each in stored.skipped)
    return stored


router.verb("GET /turns", EpisodicMemory.recent_turns, "list_recent_turns", limit=PageSize)
router.verb("GET /conversations", EpisodicMemory.conversations, "list_conversations", limit=PageSize)
router.verb("GET /conversations/{conversation}", EpisodicMemory.get_conversation, limit=None)


@router.delete("/conversations/{conversation}")
async def delete_conversation(
    request: Request, caller: Writer, view: ViewQuery, conversation: str, hard: bool = False
) -> ForgetReceipt:
    """Forget a conversation with its turns; `hard` erases it everywhere, and needs the permission to erase."""
    require_erase_permission(caller, hard)
    return await open_view(request, caller, view).episodic.delete_conversation(conversation, hard=hard)
