"""Facts over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from agentmem.core.records import Fact, Turn
from agentmem.memory.semantic.belief_view import SlotBeliefs
from agentmem.server.auth import Reader, RequestBody, ViewFields, ViewQuery, Writer, open_view
from agentmem.server.rest.fields import IdempotencyKey, Moment

router = APIRouter(prefix="/v1", tags=["facts"])


class FactDetails(RequestBody):
    """What may be said of a claim; what is left out keeps the library's value."""

    confidence: float | None = Field(None, description="0 to 1.")
    source: str | None = None
    entity_ids: list[str] | None = None
    source_turn_ids: list[str] | None = None
    subject: str | None = Field(None, description="Whom a belief is about: user, or a name.")
    slot: str | None = Field(None, description="The slot that it fills, such as home; goes with a value.")
    value: str | None = None
    valid_from: Moment | None = None
    valid_to: Moment | None = None
    temporal_context: str | None = Field(None, description="current, past or future.")
    tags: list[str] | None = None
    depends_on: list[str] | None = Field(None, description="Ids of facts that this one rests on.")
    tier: str | None = Field(None, description="long (only ranks lower with time) or short (fades).")
    salience: float | None = Field(None, description="0 to 1.")
    importance: float | None = Field(
        None, description="0 to 1. From `decay.spare_importance` (.8) on the fact is never put away by itself."
    )
    memory_type: str | None = Field(None, description="fact, preference or context.")


class NewFact(ViewFields, FactDetails):
    """A claim, and where it goes."""

    claim: str


class FactUpdate(ViewFields, FactDetails):
    """What was wrong about a fact."""

    claim: str | None = None


class FactSuccessor(ViewFields, FactDetails):
    """The claim that takes a fact's place."""

    claim: str
    is_correction: bool = Field(False, description="The old claim was never true, rather than true until now.")


@router.post("/facts", status_code=201)
async def learn_fact(request: Request, caller: Writer, body: NewFact, idempotency_key: IdempotencyKey = None) -> Fact:
    """Store what is known. The same claim again, while current, gains the new sources."""
    given = body.model_dump(include=set(FactDetails.model_fields), exclude_none=True)
    memory = open_view(request, caller, body)
    return await memory.learn_fact(body.claim, idempotency_key=idempotency_key, **given)


@router.get("/facts")
async def list_facts(
    request: Request,
    caller: Reader,
    view: ViewQuery,
    *,
    limit: Annotated[int, Query(ge=0, le=1000)] = 100,
    as_of: Annotated[Moment | None, Query(description="What was true at this moment.")] = None,
    tag: Annotated[str | None, Query(description="Only facts with this tag.")] = None,
    retired: Annotated[bool, Query(description="Also what is no longer true or known.")] = False,
) -> list[Fact]:
    """Facts, oldest first: the current ones, or those that the query asks for."""
    asked = {"as_of": as_of, "tags": tag, "retired": retired or None}
    where = {name: value for name, value in asked.items() if value is not None}
    return await open_view(request, caller, view).semantic.facts(where, limit=limit)


@router.get("/beliefs")
async def list_beliefs(
    request: Request,
    caller: Reader,
    view: ViewQuery,
    *,
    subject: Annotated[str | None, Query(description="user, or a name; everybody if left out.")] = None,
    slot: Annotated[str | None, Query(description="Only this slot.")] = None,
    as_of: Annotated[Moment | None, Query(description="What was true at this moment.")] = None,
    known_at: Annotated[Moment | None, Query(description="What memory held at this moment.")] = None,
) -> list[SlotBeliefs]:
    """What is believed by subject and slot: current, planned, former, doubtful and unsure values as facts."""
    return await open_view(request, caller, view).beliefs(subject, slot, as_of=as_of, known_at=known_at)


@router.get("/facts/{fact_id}")
async def get_fact(request: Request, caller: Reader, view: ViewQuery, fact_id: str) -> Fact:
    """One fact, retired or not."""
    return await open_view(request, caller, view).semantic.get_fact(fact_id)


@router.patch("/facts/{fact_id}")
async def update_fact(
    request: Request, caller: Writer, fact_id: str, body: FactUpdate, idempotency_key: IdempotencyKey = None
) -> Fact:
    """Correct a fact. Another claim or world time makes a new fact, which supersedes the wrong one."""
    given = body.model_dump(include={"claim", *FactDetails.model_fields}, exclude_none=True)
    semantic = open_view(request, caller, body).semantic
    return await semantic.update_fact(fact_id, idempotency_key=idempotency_key, **given)


@router.post("/facts/{fact_id}/supersede", status_code=201)
async def supersede_fact(
    request: Request, caller: Writer, fact_id: str, body: FactSuccessor, idempotency_key: IdempotencyKey = None
) -> Fact:
    """Replace a fact by another claim: the world changed, or the fact was wrong."""
    given = body.model_dump(include={"claim", "is_correction", *FactDetails.model_fields}, exclude_none=True)
    semantic = open_view(request, caller, body).semantic
    return await semantic.supersede_fact(fact_id, idempotency_key=idempotency_key, **given)


@router.get("/facts/{fact_id}/history")
async def read_fact_history(request: Request, caller: Reader, view: ViewQuery, fact_id: str) -> list[Fact]:
    """What a fact was before, and what took its place, oldest first."""
    return await open_view(request, caller, view).semantic.history(fact_id)


@router.get("/facts/{fact_id}/provenance")
async def read_fact_provenance(request: Request, caller: Reader, view: ViewQuery, fact_id: str) -> list[Turn]:
    """The turns that a fact was read from."""
    return await open_view(request, caller, view).semantic.provenance(fact_id)
