"""Entities, relations, reviews and the profile over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field

from agentmem.core.record import ReviewDecision, ReviewTopic
from agentmem.core.records import Edge, Entity, Review, Synopsis, User
from agentmem.memory.semantic.entities import EntityGraph
from agentmem.memory.semantic.user_profile import UserProfile
from agentmem.server.auth import Reader, RequestBody, ViewFields, ViewQuery, Writer, open_view
from agentmem.server.rest.fields import IdempotencyKey, Moment

router = APIRouter(prefix="/v1", tags=["knowledge"])


class EntityFields(RequestBody):
    """A person, place, organization or thing."""

    name: str
    type: str = "thing"
    aliases: list[str] = Field(default_factory=list)
    description: str = ""
    properties: dict[str, Any] = Field(default_factory=dict)


class NewEntity(ViewFields, EntityFields):
    """An entity, and where it goes."""


class NewRelation(ViewFields):
    """What one entity is to another one."""

    source: str
    kind: str = Field(description="KNOWS, WORKS_FOR, …; another name is kept as the name of a RELATED_TO.")
    target: str
    properties: dict[str, Any] | None = None
    confidence: float = Field(1.0, description="0 to 1.")
    fact_id: str | None = None
    valid_from: Moment | None = None
    valid_to: Moment | None = None


class Decision(ViewFields):
    """What a person decided."""

    decision: ReviewDecision


class ProfileUpdate(ViewFields):
    """What to merge into the profile; null inside an object removes that entry."""

    preferences: dict[str, Any] | None = None
    expertise_areas: list[str] | None = None
    communication_style: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


@router.post("/entities", status_code=201)
async def upsert_entity(
    request: Request, caller: Writer, body: NewEntity, idempotency_key: IdempotencyKey = None
) -> Entity:
    """Store an entity, or add to the one of the same type and name."""
    entity = body.model_dump(include=set(EntityFields.model_fields))
    return await open_view(request, caller, body).upsert_entity(entity, idempotency_key=idempotency_key)


@router.get("/entities")
async def list_entities(
    request: Request,
    caller: Reader,
    view: ViewQuery,
    name: Annotated[str | None, Query(description="A name or an alias.")] = None,
    type: str | None = None,
    limit: Annotated[int, Query(ge=0, le=1000)] = 100,
) -> list[Entity]:
    """Entities, oldest first."""
    return await open_view(request, caller, view).semantic.entities(name, type=type, limit=limit)


@router.get("/entities/{entity_id}/graph")
async def read_entity_graph(
    request: Request,
    caller: Reader,
    view: ViewQuery,
    entity_id: str,
    depth: Annotated[int, Query(description="1 to 3 steps.")] = 2,
    limit: Annotated[int, Query(ge=0, le=1000)] = 50,
) -> EntityGraph:
    """Entities, facts and relations around an entity, nearest first."""
    return await open_view(request, caller, view).semantic.get_entity_graph([entity_id], depth, limit=limit)


@router.post("/relations", status_code=201)
async def relate(request: Request, caller: Writer, body: NewRelation, idempotency_key: IdempotencyKey = None) -> Edge:
    """State a relation between two stored entities."""
    given = body.model_dump(exclude=set(ViewFields.model_fields))
    return await open_view(request, caller, body).semantic.relate(**given, idempotency_key=idempotency_key)


@router.get("/reviews")
async def list_reviews(
    request: Request,
    caller: Reader,
    view: ViewQuery,
    about: Annotated[ReviewTopic | None, Query(description="One kind of doubt.")] = None,
    limit: Annotated[int, Query(ge=0, le=1000)] = 100,
) -> list[Review]:
    """What is doubtful and waits for a person, oldest first."""
    return await open_view(request, caller, view).semantic.reviews(about, limit=limit)


@router.post("/reviews/{review_id}/resolve")
async def resolve_review(
    request: Request, caller: Writer, review_id: str, body: Decision, idempotency_key: IdempotencyKey = None
) -> Review:
    """Decide a review, and do what was decided."""
    semantic = open_view(request, caller, body).semantic
    return await semantic.resolve_review(review_id, body.decision, idempotency_key=idempotency_key)


@router.get("/profile")
async def get_profile(request: Request, caller: Reader, view: ViewQuery) -> UserProfile:
    """What is believed of the user, slot by slot with its sources, and what a program set."""
    return await open_view(request, caller, view).profile()


@router.patch("/profile")
async def update_profile(
    request: Request, caller: Writer, body: ProfileUpdate, idempotency_key: IdempotencyKey = None
) -> User:
    """Merge what is given into the profile."""
    given = body.model_dump(exclude=set(ViewFields.model_fields), exclude_unset=True)
    return await open_view(request, caller, body).update_profile(**given, idempotency_key=idempotency_key)


@router.get("/synopsis")
async def get_synopsis(
    request: Request, caller: Reader, view: ViewQuery, max_tokens: Annotated[int | None, Query()] = None
) -> Synopsis:
    """Who the user is, and what goes on lately; no model is asked."""
    return await open_view(request, caller, view).synopsis(max_tokens=max_tokens)
