"""Entities, relations, reviews and the profile over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import Field

from agentmem.core.records import Entity
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.memory.semantic.entities import EntityGraph
from agentmem.memory.semantic.memory import SemanticMemory
from agentmem.server.auth import Reader, ViewFields, ViewQuery, Writer, open_view
from agentmem.server.rest.fields import IdempotencyKey, Limit
from agentmem.server.rest.verbs import VerbRouter

router = VerbRouter("knowledge", "semantic")


class NewEntity(ViewFields):
    """A person, place, organization or thing, and where it goes."""

    name: str
    type: str = "thing"
    aliases: list[str] = Field(default_factory=list)
    description: str = ""
    properties: dict[str, Any] = Field(default_factory=dict)


@router.post("/entities", status_code=201)
async def upsert_entity(
    request: Request, caller: Writer, body: NewEntity, idempotency_key: IdempotencyKey = None
) -> Entity:
    """Store an entity, or add to the one of the same type and name."""
    entity = body.model_dump(exclude=set(ViewFields.model_fields))
    return await open_view(request, caller, body).upsert_entity(entity, idempotency_key=idempotency_key)


router.verb("GET /entities", SemanticMemory.entities, "list_entities", limit=(Limit, 100))


@router.get("/entities/{entity_id}/graph")
async def read_entity_graph(
    request: Request,
    caller: Reader,
    view: ViewQuery,
    entity_id: str,
    depth: Annotated[int, Query(description="1 to 3 steps.")] = 2,
    limit: Annotated[Limit, Query()] = 50,
) -> EntityGraph:
    """Entities, facts and relations around an entity, nearest first."""
    return await open_view(request, caller, view).semantic.get_entity_graph([entity_id], depth, limit=limit)


router.verb("POST /relations", SemanticMemory.relate)
router.verb("GET /reviews", SemanticMemory.reviews, "list_reviews", limit=Limit)
router.verb("POST /reviews/{review_id}/resolve", SemanticMemory.resolve_review)
router.verb("GET /profile", AsyncAgentMemory.profile, "get_profile")
router.verb("PATCH /profile", AsyncAgentMemory.update_profile)
router.verb("GET /synopsis", AsyncAgentMemory.synopsis, "get_synopsis", counter=None)
