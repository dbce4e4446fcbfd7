"""Recall, contexts and receipts over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from agentmem.core.jsonable import to_jsonable
from agentmem.memory.semantic.standing import STANDING_HELP
from agentmem.recall.bundle import MemoryBundle
from agentmem.recall.context import DEFAULT_CONTEXT_TOKENS
from agentmem.server.auth import Reader, ViewFields, ViewQuery, open_view
from agentmem.server.rest.fields import Moment
from agentmem.server.rest.shapes import AnyRecord, ReceiptObject, UserContextObject

router = APIRouter(prefix="/v1", tags=["recall"])


class RecallBody(ViewFields):
    """What to look for; see `AsyncAgentMemory.remember`."""

    query: str
    top_k: int = Field(10, description="How many of each kind, and in all: 1 to 100.")
    channels: list[str] | None = Field(None, description="Read exactly these channels.")
    as_of: Moment | None = Field(None, description="What was true at this moment.")
    known_at: Moment | None = Field(None, description="What memory held at this moment.")
    since: Moment | None = Field(None, description="Only what began at this moment or later.")
    until: Moment | None = Field(None, description="Only what began before this moment.")
    time_window_hours: float | None = None
    min_confidence: float | None = None
    include: list[str] = Field(["episodic", "semantic", "procedural"], description="The parts of memory to search.")
    techniques: list[str] | None = None
    exclude: list[str] | None = Field(None, description="Records to leave out; by default the turn that asks.")
    reinforce: bool = Field(True, description="Whether what is found counts as used.")


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


class ContextBody(ViewFields):
    """What a prompt is about, and the room in it."""

    query: str
    max_tokens: int = Field(DEFAULT_CONTEXT_TOKENS, description="The most it may take; 4 characters count as one.")
    as_of: Moment | None = Field(None, description="What was true at this moment.")
    known_at: Moment | None = Field(None, description="What memory held at this moment.")


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


@router.post("/recall")
async def recall(request: Request, caller: Reader, body: RecallBody) -> RecallAnswer:
    """What matters for a query, of all kinds, ranked and explained."""
    asked = body.model_dump(exclude=set(ViewFields.model_fields))
    return build_recall_answer(await open_view(request, caller, body).remember(**asked))


@router.post("/context")
async def build_context(request: Request, caller: Reader, body: ContextBody) -> ContextAnswer:
    """Text for the prompt of a model that is to answer a query. Give it to the model as data, not as instructions."""
    view = open_view(request, caller, body)
    built = await view.context(body.query, body.max_tokens, as_of=body.as_of, known_at=body.known_at)
    return ContextAnswer.model_validate(built.to_dict())


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
