"""What every record is: frozen, typed, with an identity, a channel and both times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from agentmem.core.clock import to_own_offset, to_utc
from agentmem.core.plain_values import has_visible, replace_surrogates
from agentmem.core.scope import GLOBAL, check_identifier, check_stored_identifier

UnitInterval = Annotated[float, Field(strict=True, ge=0.0, le=1.0, allow_inf_nan=False)]
Key = tuple[str, str]  # (kind, id); unique within a user
MAX_TEXT_CHARS = 1_000_000
TemporalContext = Literal["", "current", "past", "future"]
Tier = Literal["short", "long"]
MemoryType = Literal["fact", "preference", "context"]
ReviewStatus = Literal["open", "accepted", "rejected"]
GoalStatus = Literal["active", "blocked", "completed", "abandoned"]
FinalGoalStatus = Literal["completed", "abandoned"]
ProcedureStatus = Literal["candidate", "active", "retired"]
ReviewTopic = Literal["ungrounded", "doubtful", "contradiction", "correction", "same_entity", "same_fact"]
ReviewDecision = Literal["accept", "reject", "prefer_new", "prefer_old", "keep_both", "merge", "keep_apart"]
PromotionTarget = Literal["long", "global"]
MissedRuns = Literal["once", "skip"]  # of several missed runs: one now, or none
LOG_FIELDS = frozenset({"id", "user_id", "recorded_at", "seq", "operation_id"})  # not shown in a `repr`, but for the id


# In JSON mode records are read from a store or an export: what older versions took must still load.
def _check_id(value: str, info: ValidationInfo) -> str:
    check = check_stored_identifier if info.mode == "json" else check_identifier
    return check(value, "id") if value else value


def _check_text(value: str, info: ValidationInfo) -> str:
    if not (value.strip() if info.mode == "json" else has_visible(value)):
        raise ValueError("must not be empty or invisible")
    if len(value) > MAX_TEXT_CHARS:
        raise ValueError(f"must have at most {MAX_TEXT_CHARS:,} characters, got {len(value):,}")
    return value if info.mode == "json" else replace_surrogates(value)


def _read_moment(value: object, info: ValidationInfo) -> object:
    """A moment as a datetime, a date or in ISO 8601: a bare number would silently count as seconds since 1970."""
    if isinstance(value, datetime) or info.mode == "json":
        return value
    if isinstance(value, date):
        return datetime.combine(value, time())
    if isinstance(value, str):
        return datetime.fromisoformat(value.strip())
    raise ValueError("must be a datetime, a date, or text in ISO 8601 such as 2025-03-08T18:05:00+01:00")


UtcDatetime = Annotated[datetime, BeforeValidator(_read_moment), AfterValidator(to_utc)]
OwnDatetime = Annotated[datetime, BeforeValidator(_read_moment), AfterValidator(to_own_offset)]
Identifier = Annotated[str, AfterValidator(_check_id)]
Text = Annotated[str, AfterValidator(_check_text)]


class Status(StrEnum):
    """The state of a record. `superseded` and `forgotten` are retired; `archived` is kept out of recall."""

    ACTIVE = "active"
    PROMOTED = "promoted"
    ARCHIVED = "archived"
    SUPERSEDED = "superseded"
    FORGOTTEN = "forgotten"


class Record(BaseModel):
    """What every record carries. `recorded_at`, `seq` and `operation_id` are set by the log when it is stored."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null", hide_input_in_errors=True)

    user_id: str = ""
    id: Identifier = ""
    channel: Identifier = GLOBAL
    status: Status = Status.ACTIVE
    recorded_at: UtcDatetime | None = None
    superseded_at: UtcDatetime | None = None
    seq: int = 0
    operation_id: str = ""
    reason: str = ""
    given_id: str = ""  # the id that the caller gave, where the record is stored under another one

    # Set by the log or at reading, not part of the stored payload.
    NON_PAYLOAD_FIELDS: ClassVar[frozenset[str]] = frozenset(
        {"user_id", "id", "channel", "recorded_at", "seq", "operation_id", "fallen_premise", "doubt_words"}
    )
    IS_IN_GRAPH: ClassVar[bool] = True  # whether Neo4j has it: what programs keep for themselves is not knowledge

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """The id, and what differs from the defaults; not what the log has set."""
        fields = type(self).model_fields
        yield "id", self.id
        for name, value in super().__repr_args__():
            if name not in LOG_FIELDS and (
                name not in fields or value != fields[name].get_default(call_default_factory=True)
            ):
                yield name, value

    @property
    def kind(self) -> str:
        """The label: the class name."""
        return type(self).__name__

    @property
    def key(self) -> Key:
        """(kind, id), unique within the user."""
        return self.kind, self.id

    def search_text(self) -> str:
        """The text that recall searches; empty for records that are not searched."""
        return ""

    def embedding_text(self) -> str:
        """The text that is embedded; what is searched, unless a kind says otherwise."""
        return self.search_text()

    def dedup_key(self) -> str:
        """What no other current record of this kind and channel may share; empty when nothing."""
        return ""

    def valid_interval(self) -> tuple[datetime | None, datetime | None]:
        """World time: true from (inclusive) and until (exclusive); None is unbounded."""
        return None, None

    def position_key(self) -> tuple[str, int]:
        """Conversation and position in it; ("", -1) for records outside of conversations."""
        return "", -1
