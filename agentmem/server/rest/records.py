"""Forgetting, taking back and comparing over HTTP, for records of every kind."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from agentmem.core.jsonable import to_jsonable
from agentmem.memory.context import ErasureReceipt, ForgetReceipt
from agentmem.server.auth import Eraser, Reader, ViewQuery, Writer, open_view, require_erase_permission
from agentmem.server.rest.fields import IdempotencyKey, Moment

router = APIRouter(tags=["records"])


class UndoAnswer(BaseModel):
    """The operation that took another one back."""

    operation_id: str


class ChangedRecord(BaseModel):
    """One record before and after."""

    before: dict[str, Any]
    after: dict[str, Any]


class DiffAnswer(BaseModel):
    """What memory learned, retired and changed between two moments."""

    learned: list[dict[str, Any]]
    retired: list[dict[str, Any]]
    changed: list[ChangedRecord]


@router.get("/records/{record_id}")
async def get_record(request: Request, caller: Reader, view: ViewQuery, record_id: str) -> dict[str, Any]:
    """The current record of this id, of any kind."""
    return dict(to_jsonable(await open_view(request, caller, view).get_record(record_id)))


@router.delete("/records/{record_id}")
async def forget_record(
    request: Request,
    caller: Writer,
    view: ViewQuery,
    record_id: str,
    *,
    hard: Annotated[bool, Query(description="Erase it everywhere; needs the permission to erase.")] = False,
    reason: str = "",
    idempotency_key: IdempotencyKey = None,
) -> ForgetReceipt:
    """Forget a record. Softly it is out of recall and can be restored; `hard` erases it, with a scan in the answer."""
    require_erase_permission(caller, hard)
    memory = open_view(request, caller, view)
    return await memory.forget(record_id, hard, reason=reason, idempotency_key=idempotency_key)


@router.post("/records/{record_id}/restore")
async def restore_record(
    request: Request, caller: Writer, view: ViewQuery, record_id: str, idempotency_key: IdempotencyKey = None
) -> list[dict[str, Any]]:
    """Bring back what was softly forgotten under this id."""
    memory = open_view(request, caller, view)
    return [to_jsonable(record) for record in await memory.restore(record_id, idempotency_key=idempotency_key)]


@router.post("/operations/{operation_id}/undo")
async def undo_operation(
    request: Request, caller: Writer, view: ViewQuery, operation_id: str, idempotency_key: IdempotencyKey = None
) -> UndoAnswer:
    """Take an operation back; 409 when later ones built on it."""
    memory = open_view(request, caller, view)
    return UndoAnswer(operation_id=await memory.undo(operation_id, idempotency_key=idempotency_key))


@router.get("/diff")
async def read_diff(request: Request, caller: Reader, view: ViewQuery, earlier: Moment, later: Moment) -> DiffAnswer:
    """What changed between two moments of the record."""
    found = await open_view(request, caller, view).diff(earlier, later)
    return DiffAnswer(
        learned=to_jsonable(found.learned),
        retired=to_jsonable(found.retired),
        changed=[ChangedRecord(before=to_jsonable(old), after=to_jsonable(new)) for old, new in found.changed],
    )


@router.delete("/user")
async def erase_user(request: Request, caller: Eraser, view: ViewQuery) -> ErasureReceipt:
    """Erase everything of this user, in every channel and store; the answer carries the scan."""
    return await open_view(request, caller, view).erase()
