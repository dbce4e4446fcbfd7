"""What some routes send as plain objects, as models for the description of the routes alone.

The models neither check nor filter answers: `MARK` in the schema of a field names one, and `complete_description` puts
its schema there.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, WithJsonSchema

from agentmem.core.record import Key

MARK = "x-shape"


class TraceAnswer(BaseModel):
    """What one technique of a recall did."""

    technique: str
    milliseconds: float
    lists: dict[str, int] = Field(description="How many records each of its lists scored.")
    error: str
    late: bool
    note: str
    contributed: int


class CandidateAnswer(BaseModel):
    """One record that a recall weighed."""

    kind: str
    id: str
    rank: int
    score: float | None
    fused: float | None
    lists: dict[str, tuple[int | None, float | None, bool]] = Field(
        description="By list: rank, value, whether it is a bonus."
    )
    factors: dict[str, float | None]


class ReceiptAnswer(BaseModel):
    """How a recall came to its answer; records are told by kind and id."""

    id: str
    user_id: str
    channel: str
    at: str
    channels: list[str]
    request: dict[str, Any] = Field(description="What was asked, as in `POST /v1/recall`.")
    profile: str
    settings: str
    embedder: str
    seq: int
    milliseconds: float
    notices: list[str]
    relevant: bool | None
    trace: list[TraceAnswer]
    candidates: list[CandidateAnswer]
    delivered: list[Key]
    items: list[tuple[str, str, float | None]] = Field(description="With the score.")
    fitting: list[Key]
    elsewhere: list[tuple[str, str, str]] = Field(description="With the channel.")


class UserContextAnswer(BaseModel):
    """The profile and the synopsis of the user; what is empty is left out."""

    preferences: dict[str, Any] = {}
    expertise_areas: list[str] = []
    communication_style: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    synopsis: Annotated[dict[str, Any], WithJsonSchema({MARK: "SynopsisRecord"})] = {}


class AuditRow(BaseModel):
    """One row of the audit log."""

    id: str
    timestamp: str
    operation: str
    memory_type: str
    user_id: str | None
    session_id: str | None
    conversation_id: str | None
    agent_id: str | None
    operation_id: str | None
    source_channel: str | None
    target_channels: list[str]
    query_text: str | None
    result_count: int | None
    latency_ms: float | None
    success: bool
    error_message: str | None
    promoted_from_channel: str | None
    promotion_confidence: float | None
    promotion_access_count: int | None
    promotion_conversation_count: int | None
    config_snapshot: dict[str, Any]
    metadata: dict[str, Any]
    actor: str | None = Field(description="The id of the key.")


class StatsAnswer(BaseModel):
    """How much is stored of a user."""

    user_id: str
    records: dict[str, int] = Field(description="By kind.")
    status: dict[str, int]
    channels: dict[str, int]
    conversations: int
    journal: dict[str, int]
    words: dict[str, int]
    vectors: dict[str, int]
    bytes: dict[str, int]
    lag: dict[str, int] = Field(description="Changes that each projection has still to apply.")
    embedder: str
    embedder_next: str | None
    store_id: str
    last_activity: str | None


class ProgressEvent(BaseModel):
    """How far long work is: the data of the event `progress`."""

    stage: str
    done: int
    total: int


DESCRIBED = (ReceiptAnswer, UserContextAnswer, AuditRow, StatsAnswer, ProgressEvent)

AnyRecord = Annotated[dict[str, Any], WithJsonSchema({MARK: "AnyRecord"})]
ReceiptObject = Annotated[dict[str, Any], WithJsonSchema({MARK: ReceiptAnswer.__name__})]
UserContextObject = Annotated[dict[str, Any], WithJsonSchema({MARK: UserContextAnswer.__name__})]
AuditObject = Annotated[dict[str, Any], WithJsonSchema({MARK: AuditRow.__name__})]
StatsObject = Annotated[dict[str, Any], WithJsonSchema({MARK: StatsAnswer.__name__})]


def describe_result(schema: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    """The 200 of long work for OpenAPI: its result as JSON, or a stream of events."""
    kinds = {"progress": _refer_to(ProgressEvent.__name__), "result": schema, "error": _refer_to("Problem")}
    events = [
        {
            "type": "object",
            "required": ["event", "data"],
            "properties": {
                "event": {"type": "string", "const": name},
                "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data},
            },
        }
        for name, data in kinds.items()
    ]
    stream = {"schema": {"type": "string"}, "itemSchema": {"oneOf": events}}
    text = "The result, or with `Accept: text/event-stream` events: any `progress`, then one `result` or `error`."
    return {200: {"description": text, "content": {"text/event-stream": stream}}}


def _refer_to(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
