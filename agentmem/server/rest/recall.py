"""Recall, contexts and receipts over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from pydantic import BaseModel, Field

from agentmem.core.jsonable import to_jsonable
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.memory.semantic.standing import STANDING_HELP
from agentmem.recall.bundle import MemoryBundle
from agentmem.recall.context import Context
from agentmem.server.auth import Reader, ViewQuery, open_view
from agentmem.server.rest.shapes import AnyRecord, ReceiptObject, UserContextObject
from agentmem.server.rest.verbs import VerbRouter

router = VerbRouter("recall")


class RecallItem(BaseModel):
    """One place of the ranking: the record with its kind, and what spoke for it."""

    score: float
    why: str
    standing: str = Field(description=STANDING_HELP)
    standing_by: str | None = Field(None, description="The turn that said so, for what is outdated.")
    record: AnyRecord


class RecallAnswer(BaseModel):
    """What was found, best first. `notices` say in what the answer falls short; `receipt` is for `/v1/receipts`."""

    query: str
    relevant: bool | None = Field(
        description="False when nothing was found that the query is about, null when that was not measured."
    )
    items: list[RecallItem]
    user_context: UserContextObject
    notices: list[str]
    receipt: str


class RecordReference(BaseModel):
    """A record by its kind and id."""

    kind: str
    id: str


class ContextPartAnswer(BaseModel):
    """Lines of one section of a context."""

    section: str
    title: str
    lines: list[str]
    records: list[RecordReference]


class ContextAnswer(BaseModel):
    """Text for a prompt, and the records that it holds whole; the other fields are those of `Context`."""

    text: str
    tokens: int
    records: list[RecordReference]
    left_out: int
    omitted: dict[str, int]
    full_tokens: int
    notices: list[str]
    parts: list[ContextPartAnswer]


class WhyNotAnswer(BaseModel):
    """Why a record was not delivered."""

    record_id: str
    reason: str


def build_recall_answer(bundle: MemoryBundle) -> RecallAnswer:
    """The bundle without the depths of its receipt."""
    items = [
        RecallItem(
            score=item.score,
            why=item.why,
            standing=str(item.standing),
            standing_by=item.standing.by or None,
            record=to_jsonable(item.record),
        )
        for item in bundle.items
    ]
    return RecallAnswer(
        query=bundle.query,
        relevant=bundle.relevant,
        items=items,
        user_context=to_jsonable(bundle.user_context),
        notices=list(bundle.notices),
        receipt=bundle.receipt.id,
    )


def build_context_answer(context: Context) -> ContextAnswer:
    """The context without the records themselves."""
    return ContextAnswer.model_validate(context.to_dict())


router.verb(
    "POST /recall",
    AsyncAgentMemory.remember,
    "recall",
    status_code=200,
    caller=Reader,
    answer=build_recall_answer,
    include=list[str],
    exclude=list[str] | None,
)
router.verb(
    "POST /context",
    AsyncAgentMemory.context,
    "build_context",
    status_code=200,
    caller=Reader,
    answer=build_context_answer,
    counter=None,
    ids=None,
    reinforce=None,
)


@router.get("/receipts/{receipt_id}")
async def get_receipt(request: Request, caller: Reader, view: ViewQuery, receipt_id: str) -> ReceiptObject:
    """How a recall came to its answer: techniques, thresholds, candidates."""
    receipt = await open_view(request, caller, view).audit.receipt(receipt_id)
    return dict(to_jsonable(receipt.as_dict()))


@router.get("/receipts/{receipt_id}/why_not")
async def explain_exclusion(
    request: Request, caller: Reader, view: ViewQuery, receipt_id: str, record_id: Annotated[str, Query()]
) -> WhyNotAnswer:
    """Why a record was not in an answer."""
    found = await open_view(request, caller, view).audit.why_not(receipt_id, record_id)
    return WhyNotAnswer(record_id=record_id, reason=str(found))


@router.post("/receipts/{receipt_id}/replay")
async def replay_recall(request: Request, caller: Reader, view: ViewQuery, receipt_id: str) -> RecallAnswer:
    """The same recall once more, over what was stored then."""
    return build_recall_answer(await open_view(request, caller, view).audit.replay(receipt_id))
