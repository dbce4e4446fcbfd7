"""Background jobs, usage, the audit log and figures over HTTP."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field

from agentmem.admin.doctor import read_stats
from agentmem.core.jsonable import to_jsonable
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.jobs.job import JobReport
from agentmem.server.auth import Admin, Reader, ViewFields, ViewQuery, open_view, require_whole_user
from agentmem.server.rest.fields import Moment
from agentmem.server.rest.shapes import AuditObject, StatsObject, describe_result
from agentmem.server.rest.streaming import answer_long_work
from agentmem.server.rest.verbs import VerbRouter

router = VerbRouter("upkeep")


class JobRun(ViewFields):
    """Which jobs to run for this user now."""

    job: str | None = Field(None, description="One job; all of them when left out.")
    dry_run: bool = False
    retry_parked: bool = Field(False, description="Take up what was parked.")
    reread: bool = Field(False, description="Read again what only rules read.")
    since: Moment | None = Field(None, description="With `reread`: only what was read at this moment or later.")
    by: str = Field("", description="With `reread`: what this model read.")


class UsageAnswer(BaseModel):
    """How many of them were found."""

    found: int


_REPORTS = {"type": "array", "items": {"$ref": "#/components/schemas/JobReport"}}


@router.post("/jobs/run", response_model=list[JobReport], responses=describe_result(_REPORTS))
async def run_jobs(request: Request, caller: Admin, body: JobRun) -> Response:
    """Run background jobs for this user now; a report of each.

    With `Accept: text/event-stream` the answer tells how far they are.
    """
    require_whole_user(caller)
    memory = open_view(request, caller, body)
    run = partial(
        memory.consolidate,
        body.job,
        body.dry_run,
        retry_parked=body.retry_parked,
        reread=body.reread,
        since=body.since,
        by=body.by,
    )
    return await answer_long_work(request, lambda progress: run(progress=progress))


def build_usage_answer(found: int) -> UsageAnswer:
    """How many were found, as an object."""
    return UsageAnswer(found=found)


router.verb("POST /usage", AsyncAgentMemory.observe_usage, status_code=200, answer=build_usage_answer)


@router.get("/audit")
async def read_audit_rows(
    request: Request,
    caller: Reader,
    view: ViewQuery,
    *,
    operation: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[AuditObject]:
    """Rows of the audit log about this user, newest first."""
    require_whole_user(caller)
    audit = open_view(request, caller, view).audit
    rows = await audit.query(operation=operation, since=since, until=until, limit=limit)
    return [to_jsonable(row) for row in rows]


@router.get("/stats")
async def get_stats(request: Request, caller: Reader, view: ViewQuery) -> StatsObject:
    """How much is stored of this user, and how far each projection lags."""
    require_whole_user(caller)
    memory = open_view(request, caller, view)
    return dict(to_jsonable(await read_stats(memory.engine, memory.scope)))
