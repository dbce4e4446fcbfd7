"""Facts over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request

from agentmem.core.records import Fact
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.memory.semantic.memory import SemanticMemory
from agentmem.server.auth import Reader, ViewQuery, open_view
from agentmem.server.rest.fields import Limit, Moment
from agentmem.server.rest.verbs import VerbRouter

router = VerbRouter("facts", "semantic")

# The verb names the choices in its error; what programs know of a claim's origin is not for clients to say.
_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("temporal_context", "tier", "memory_type"), str),
    **dict.fromkeys(("certainty", "trust", "said_at")),
}

router.verb("POST /facts", SemanticMemory.learn_fact, drop_null=True, **_FIELDS)


@router.get("/facts")
async def list_facts(
    request: Request,
    caller: Reader,
    view: ViewQuery,
    *,
    limit: Annotated[Limit, Query()] = 100,
    as_of: Annotated[Moment | None, Query(description="What was true at this moment.")] = None,
    tag: Annotated[str | None, Query(description="Only facts with this tag.")] = None,
    retired: Annotated[bool, Query(description="Also what is no longer true or known.")] = False,
) -> list[Fact]:
    """Facts, oldest first: the current ones, or those that the query asks for."""
    asked = {"as_of": as_of, "tags": tag, "retired": retired or None}
    where = {name: value for name, value in asked.items() if value is not None}
    return await open_view(request, caller, view).semantic.facts(where, limit=limit)


router.verb("GET /beliefs", AsyncAgentMemory.beliefs, "list_beliefs")
router.verb("GET /facts/{fact_id}", SemanticMemory.get_fact)
router.verb("PATCH /facts/{fact_id}", SemanticMemory.update_fact, drop_null=True, **_FIELDS)
router.verb(
    "POST /facts/{fact_id}/supersede", SemanticMemory.supersede_fact, status_code=201, drop_null=True, **_FIELDS
)
router.verb("GET /facts/{fact_id}/history", SemanticMemory.history, "read_fact_history")
router.verb("GET /facts/{fact_id}/provenance", SemanticMemory.provenance, "read_fact_provenance")
