"""Forgetting, taking back and comparing over HTTP, for records of every kind."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from agentmem.core.jsonable import to_jsonable
from agentmem.memory.context import ErasureReceipt, ForgetReceipt
from agentmem.server.auth import (
    Eraser,
    Reader,
    ViewQuery,
    Writer,
    open_view,
    require_erase_permission,
    require_whole_user,
)
from agentmem.server.rest.fields import IdempotencyKey, Moment, decode_cursor, encode_cursor
from agentmem.server.rest.shapes import AnyRecord

router = APIRouter(prefix="/v1", tags=["records"])


class UndoAnswer(BaseModel):
    """The operation that took another one back."""

    operation_id: str


class ChangedRecord(BaseModel):
    """One record before and after."""

    before: AnyRecord
    after: AnyRecord


class DiffAnswer(BaseModel):
    """What memory learned, retired and changed between two moments."""

    learned: list[AnyRecord]
    retired: list[AnyRecord]
    changed: list[ChangedRecord]


class RecordPage(BaseModel):
    """Some records in the order in which they were last written, and where the next page begins."""

    items: list[AnyRecord]
    next_cursor: str | None = Field(description="For the next page; null after the last one.")


@router.get("/records")
async def list_records(
    request: Request,
    caller: Reader,
    view: ViewQuery,
    *,
    kinds: Annotated[tuple[str, ...], Query(alias="kind", description="Such as Fact; all when left out.")] = (),
    cursor: Annotated[str | None, Query(description="The next_cursor of the page before.")] = None,
    limit: Annotated[int, Query(description="At most 1,000.")] = 100,
) -> RecordPage:
    """Read all records, page by page. What is written meanwhile comes last; nothing that stands is left out."""
    memory, after = open_view(request, caller, view), None if cursor is None else decode_cursor(cursor)
    found = await memory.list_records(kinds, after=after, limit=limit)
    following = encode_cursor(found[-1]) if len(found) == limit else None
    return RecordPage(items=[dict(to_jsonable(record)) for record in found], next_cursor=following)


@router.get("/records/{record_id}")
async def get_record(request: Request, caller: Reader, view: ViewQuery, record_id: str) -> AnyRecord:
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
) -> list[AnyRecord]:
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
    require_whole_user(caller)
    return await open_view(request, caller, view).erase()
