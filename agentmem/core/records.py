"""What is remembered: turns, conversations, facts, entities, edges, goals, reviews, users and synopses."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentmem.core.documents import Document
from agentmem.core.graph_records import Community
from agentmem.core.plain_values import JsonObject, check_text, describe_value
from agentmem.core.procedural_records import Outcome, Procedure, Schedule, Strategy, Tool, ToolInvocation
from agentmem.core.record import (
    MAX_TEXT_CHARS,
    GoalStatus,
    Identifier,
    Key,
    MemoryType,
    OwnDatetime,
    Record,
    ReviewStatus,
    Status,
    TemporalContext,
    Text,
    Tier,
    UnitInterval,
    UtcDatetime,
)
from agentmem.core.scope import GLOBAL, MAX_IDENTIFIER_CHARS, SWARM
from agentmem.errors import InvalidRecord

IDENTITY_HEADING, CONTEXT_HEADING = "# About the user", "# What the user is up to"

ANNOUNCEMENT_TAG = "announcement"  # the tag of a fact in `_swarm` that an agent announced

SLOT_KEY_PREFIX = "slot:"  # of the dedup keys of beliefs

PROFILE_ID = "profile"  # the id of the one User record of a user
RELATION_END_FIELDS = ("subject_entity_id", "value_entity_id")  # of a Fact

ROLE_ALIASES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "agent": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
"""The roles of turns: user, assistant, system and tool, by the names that vendors have for them."""

R = TypeVar("R", bound="Record")


class SynopsisSentence(BaseModel):
    """One sentence, and the (kind, id) of the records that it rests on."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    text: str = Field(min_length=1, max_length=500)
    grounds: tuple[Key, ...] = ()


class SynopsisSection(BaseModel):
    """One of the two parts, its most informative sentences first.

    `shown` are all records that it was made from, `basis` a digest of those that were current then, `turns` the journal
    position of the latest turn. `made_by` is the identity of the model that wrote it, or `facts`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    sentences: tuple[SynopsisSentence, ...] = ()
    shown: tuple[Key, ...] = ()
    basis: str = ""
    turns: int = 0
    made_by: str = ""
    made_at: UtcDatetime | None = None

    @property
    def text(self) -> str:
        """Its sentences, a line each; empty for none."""
        return "\n".join(f"- {sentence.text}" for sentence in self.sentences)


class Synopsis(Record):
    """What an agent should know of a user before any question; stored by channel, read by scope.

    `identity` says who the user is, `context` what is current. It depends on other records and is erased with them.
    """

    identity: SynopsisSection = SynopsisSection()
    context: SynopsisSection = SynopsisSection()

    @property
    def text(self) -> str:
        """Both parts under their headings, ready for a prompt; empty when nothing is known."""
        parts = ((IDENTITY_HEADING, self.identity), (CONTEXT_HEADING, self.context))
        return "\n".join(f"{heading}\n{tier.text}" for heading, tier in parts if tier.sentences)

    def __str__(self) -> str:
        """The text."""
        return self.text

    def source_keys(self) -> frozenset[Key]:
        """Every record that it was made from."""
        return frozenset((*self.identity.shown, *self.context.shown))


class Turn(Record):
    """One utterance of a conversation, verbatim. True from its `timestamp`, which keeps its UTC offset."""

    conversation_id: Identifier = ""
    index: int = Field(strict=True, default=-1, ge=-1)
    timestamp: OwnDatetime | None = None
    role: str = Field(default="user", min_length=1, max_length=20)
    content: Text
    speaker: str | None = Field(default=None, max_length=MAX_IDENTIFIER_CHARS)
    agent_id: Identifier | None = None
    session_id: Identifier | None = None
    token_count: int | None = Field(strict=True, default=None, ge=0)
    model: str | None = Field(default=None, max_length=100)
    embedding: tuple[float, ...] | None = Field(default=None, exclude=True, repr=False)
    metadata: JsonObject = Field(default_factory=dict)

    def search_text(self) -> str:
        """The content, with what was shared beside it."""
        caption = self.metadata.get("caption")
        return f"{self.content} [shares {caption}]" if isinstance(caption, str) and caption.strip() else self.content

    def valid_interval(self) -> tuple[datetime | None, datetime | None]:
        """From its timestamp on."""
        return self.timestamp, None

    def position_key(self) -> tuple[str, int]:
        """Its conversation and index."""
        return self.conversation_id, self.index


class Conversation(Record):
    """A run of turns."""

    title: str = ""
    started_at: UtcDatetime | None = None
    consolidated: UtcDatetime | None = None
    patterns_extracted: bool = False
    archived: bool = False
    agent_id: Identifier | None = None

    def valid_interval(self) -> tuple[datetime | None, datetime | None]:
        """From its start on."""
        return self.started_at, None


def slot_prefix(subject: str, slot: str) -> str:
    """What the dedup keys of all beliefs of a slot begin with, so that they are found by an index."""
    return f"{SLOT_KEY_PREFIX}{_digest(subject.casefold(), slot)}:"


def _digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]


class Fact(Record):
    """The unit of knowledge: a claim with its sources and both times. See `semantic` for how it changes.

    A belief fills a slot of its subject: `slot` and `value` say what is so, or with `is_denied` what is not so.
    `said_at` is when it was last said, in world time, `first_said_at` when it was first. At `doubted_at` a later turn
    cast doubt on it, in the words at `doubt_spans`. See `agentmem.beliefs`. `subject_entity_id` and `value_entity_id`
    are those of `entity_ids` that subject and value name; the subject that is the user has the id of the User record.
    """

    claim: Text
    claim_hash: str = ""
    confidence: UnitInterval = 0.8
    certainty: str = ""
    source: str = "user"
    source_turn_ids: tuple[str, ...] = ()
    source_spans: tuple[tuple[str, int, int], ...] = ()
    subject: str = ""
    entity_ids: tuple[str, ...] = ()
    temporal_context: TemporalContext = ""
    valid_from: UtcDatetime | None = None
    valid_to: UtcDatetime | None = None
    superseded_by: str | None = None
    supersedes: str | None = None
    promoted_from: str | None = None
    promoted_to: str | None = None  # its copy in `_global`
    vault_path: str = ""  # path of its note in the vault
    salience: UnitInterval = 0.5
    importance: UnitInterval | None = None
    tier: Tier = "long"
    tags: tuple[str, ...] = ()
    memory_type: MemoryType = "fact"
    trust: UnitInterval = 1.0
    depends_on: tuple[str, ...] = ()
    stale_since: UtcDatetime | None = None
    slot: str = ""
    value: str = ""
    subject_entity_id: str | None = None
    value_entity_id: str | None = None
    is_denied: bool = False
    said_at: UtcDatetime | None = None
    first_said_at: UtcDatetime | None = None
    doubted_at: UtcDatetime | None = None
    doubt_spans: tuple[tuple[str, int, int], ...] = ()
    doubt_words: str = ""  # set by reading: what the turn says that casts doubt on it
    fallen_premise: str = ""  # set by recall: the claim this one rested on, which no longer holds

    def search_text(self) -> str:
        """The claim."""
        return self.claim

    def dedup_key(self) -> str:
        """One current fact per claim, and one per claim and time where an end is known beforehand; announced, one.

        What was archived makes room, so that the claim learned again is a new fact.
        """
        if self.superseded_at is not None or self.status is Status.FORGOTTEN:
            return ""
        if self.slot and self.status is not Status.ARCHIVED:
            return self._belief_key()
        if self.status is Status.SUPERSEDED:
            return ""
        if self.channel == SWARM and ANNOUNCEMENT_TAG in self.tags:
            return self.claim_hash
        if self.status is Status.ARCHIVED:
            return ""
        if self.valid_to is None:
            return self.claim_hash
        return f"{self.claim_hash} {self.valid_from} {self.valid_to}"

    @property
    def in_doubt_since(self) -> datetime | None:
        """When a later turn cast doubt on it; None where none did, or it was said again since."""
        is_open = self.doubt_spans and self.doubted_at and (self.said_at is None or self.said_at < self.doubted_at)
        return self.doubted_at if is_open else None

    def identity(self) -> str:
        """What all records of one belief share, whenever they hold: subject, slot and value, else the words."""
        if not self.slot:
            return self.claim_hash or self.id
        return f"{slot_prefix(self.subject, self.slot)}{_digest(self.value.casefold(), self.is_denied)}"

    def _belief_key(self) -> str:
        """One per value and interval. Facts of a slot share it for the time before the value, ended facts too."""
        state = (self.value.casefold(), self.is_denied, self.temporal_context == "future", *self.valid_interval())
        return f"{slot_prefix(self.subject, self.slot)}{_digest(*state)}"

    def valid_interval(self) -> tuple[datetime | None, datetime | None]:
        """As the fact says."""
        return self.valid_from, self.valid_to


class Gloss(Record):
    """What a turn says, readable without context: made by extraction, joined to the turn in ranking.

    Its id is the turn's: a turn without one is still to be extracted. `standalone` is one sentence with pronouns and
    dates resolved, `keys` are general words that surely hold; both are empty where there was nothing to say.
    `source_turn_ids` are the turns it leans on, its own first. `bare` is its text without the names of who speaks, as
    queries are embedded. `extractor` names what made it.
    """

    conversation_id: Identifier = ""
    standalone: str = Field(default="", max_length=MAX_TEXT_CHARS)
    keys: tuple[str, ...] = ()
    source_turn_ids: tuple[str, ...] = ()
    bare: str = Field(default="", max_length=2 * MAX_TEXT_CHARS)
    extractor: str = ""

    def search_text(self) -> str:
        """The sentence, and each key as one more."""
        return " ".join(part for part in (self.standalone, *(f"{key}." for key in self.keys)) if part)

    def embedding_text(self) -> str:
        """Without the names of who speaks."""
        return self.bare or self.search_text()


class Review(Record):
    """Something doubtful that waits for a person's decision.

    `about` says what kind of doubt, `question` what is to be decided. `proposed` holds the fields of the fact that
    waits, if one does; `record_ids` are the stored records that it concerns.
    """

    about: str = Field(pattern="^(ungrounded|doubtful|contradiction|correction|same_entity|same_fact)$")
    question: Text
    proposed: JsonObject = Field(default_factory=dict)
    record_ids: tuple[str, ...] = ()
    source_turn_ids: tuple[str, ...] = ()
    review_status: ReviewStatus = "open"
    decided_at: UtcDatetime | None = None
    decision: str = ""

    def dedup_key(self) -> str:
        """One open review per question."""
        if self.review_status != "open" or self.superseded_at is not None:
            return ""
        return hashlib.sha256(self.question.encode()).hexdigest()


class Entity(Record):
    """A person, place, organisation or thing, with the names it goes by.

    `extracted` are the names and the description that come from turns only: they are erased with their last turn.
    """

    name: Text
    type: str = Field(default="thing", min_length=1, max_length=50)
    slug: str = ""
    aliases: tuple[str, ...] = ()
    description: str = ""
    salience: UnitInterval = 0.5
    first_seen: UtcDatetime | None = None
    properties: JsonObject = Field(default_factory=dict)
    extracted: tuple[str, ...] = ()

    def search_text(self) -> str:
        """Name, aliases and description."""
        names = ", ".join(dict.fromkeys((self.name, *self.aliases)))
        return f"{names}: {self.description}" if self.description else names

    def dedup_key(self) -> str:
        """One current entity per type and slug."""
        return f"{self.type}:{self.slug}" if self.superseded_at is None and self.slug else ""


class Goal(Record):
    """Something to be reached."""

    description: Text
    goal_status: GoalStatus = "active"
    priority: int = Field(strict=True, default=3, ge=1, le=5)
    created_at: UtcDatetime | None = None
    completed_at: UtcDatetime | None = None
    deadline: UtcDatetime | None = None
    result: str = ""
    progress: UnitInterval = 0.0
    parent_id: Identifier | None = None
    blocked_by: tuple[str, ...] = ()
    conversation_id: Identifier | None = None
    agent_id: Identifier | None = None
    note: str = ""  # the last word on how far it has come
    pursued_in: Identifier = ""  # the conversation in which it is the active goal

    def search_text(self) -> str:
        """The description."""
        return self.description

    def dedup_key(self) -> str:
        """One active goal per conversation."""
        return self.pursued_in if self.superseded_at is None else ""

    @property
    def is_open(self) -> bool:
        """Whether it is still to be reached: active or blocked, and not forgotten."""
        return self.goal_status in ("active", "blocked") and self.superseded_at is None

    def is_overdue(self, now: datetime) -> bool:
        """Whether it is open and its deadline has passed."""
        return self.is_open and self.deadline is not None and self.deadline <= now


class User(Record):
    """The profile of the user."""

    created_at: UtcDatetime | None = None
    updated_at: UtcDatetime | None = None
    preferences: JsonObject = Field(default_factory=dict)
    expertise_areas: tuple[str, ...] = ()
    communication_style: JsonObject = Field(default_factory=dict)
    metadata: JsonObject = Field(default_factory=dict)


def build_profile() -> User:
    """The record of a user of whom a program set nothing, for the graph to tie facts to."""
    return User(id=PROFILE_ID, channel=GLOBAL)


class EdgeKind(StrEnum):
    """Every kind of edge. Kinds never come from callers' text; a caller's own name is a property of RELATED_TO."""

    HAS_TURN = "HAS_TURN"
    FOLLOWED_BY = "FOLLOWED_BY"
    MENTIONS = "MENTIONS"
    DERIVED_FROM = "DERIVED_FROM"
    ABOUT = "ABOUT"
    PROMOTED_FROM = "PROMOTED_FROM"
    SUPERSEDES = "SUPERSEDES"
    DEPENDS_ON = "DEPENDS_ON"
    SUPPORTS = "SUPPORTS"
    HAS_GOAL = "HAS_GOAL"
    SUBGOAL_OF = "SUBGOAL_OF"
    BLOCKED_BY = "BLOCKED_BY"
    USES_TOOL = "USES_TOOL"
    SUCCEEDED_IN = "SUCCEEDED_IN"
    USED_TOOL = "USED_TOOL"
    INVOKED = "INVOKED"
    RELATED_TO = "RELATED_TO"
    PART_OF = "PART_OF"
    LOCATED_IN = "LOCATED_IN"
    WORKS_FOR = "WORKS_FOR"
    KNOWS = "KNOWS"
    CREATED_BY = "CREATED_BY"
    REFERENCES = "REFERENCES"
    LIVES_IN = "LIVES_IN"
    STUDIES_AT = "STUDIES_AT"
    REPORTS_TO = "REPORTS_TO"
    PARTNER_OF = "PARTNER_OF"
    PARENT_OF = "PARENT_OF"
    SIBLING_OF = "SIBLING_OF"
    OWNS = "OWNS"


RELATION_KINDS = frozenset(list(EdgeKind)[list(EdgeKind).index(EdgeKind.RELATED_TO) :])


class Edge(Record):
    """A typed relation between two records of one user, stated by somebody, with both times.

    `source_turn_ids` are the turns from which it was read; none for one that a caller stated.
    """

    edge_kind: EdgeKind
    source: Identifier
    target: Identifier
    properties: JsonObject = Field(default_factory=dict)
    confidence: UnitInterval = 1.0
    fact_id: Identifier | None = None
    valid_from: UtcDatetime | None = None
    valid_to: UtcDatetime | None = None
    source_turn_ids: tuple[str, ...] = ()

    def valid_interval(self) -> tuple[datetime | None, datetime | None]:
        """As stated."""
        return self.valid_from, self.valid_to


KINDS: Mapping[str, type[Record]] = {
    cls.__name__: cls
    for cls in (
        Turn,
        Conversation,
        Gloss,
        Fact,
        Entity,
        Goal,
        User,
        Review,
        Edge,
        Strategy,
        Procedure,
        Tool,
        ToolInvocation,
        Outcome,
        Schedule,
        Synopsis,
        Community,
        Document,
    )
}


def build_record(cls: type[R], **fields: Any) -> R:
    """Make a record, raising InvalidRecord with the first wrong field's name instead of pydantic's own error."""
    for name, value in fields.items():
        _check_field(name, value)
    try:
        return cls(**fields)
    except ValidationError as error:
        raise to_invalid_record(error, cls.__name__) from error


def _check_field(name: str, value: object) -> None:
    """Refuse text that no store can hold, and lists without an order."""
    if isinstance(value, str):
        check_text(value, name)
    elif isinstance(value, (list, tuple)):
        for item in value:
            if isinstance(item, str):
                check_text(item, name)
    elif isinstance(value, (set, frozenset)):
        raise InvalidRecord(f"{name} must be a list, got a {type(value).__name__}, which has no order", field=name)


def parse_role(value: object) -> str:
    """One of user, assistant, system, tool; the names that vendors have for them are translated.

    Raises InvalidRecord, field `role`, for anything else.
    """
    known = ROLE_ALIASES.get(value.strip().lower()) if isinstance(value, str) else None
    if known is None:
        raise InvalidRecord(
            f"role must be user, assistant, system or tool, got {describe_value(value)}; a name goes into `speaker`",
            field="role",
        )
    return known


def extract_fields(cls: type[R], source: R | Mapping[str, Any]) -> dict[str, Any]:
    """What a caller said of a record, as a record or as a mapping of its fields; InvalidRecord for anything else."""
    name = cls.__name__.lower()
    if isinstance(source, cls):
        return source.model_dump(exclude_unset=True)
    if not isinstance(source, Mapping):
        raise InvalidRecord(f"{name} must be a {cls.__name__} or a mapping, got {type(source).__name__}", field=name)
    for field in source:
        if field not in cls.model_fields:
            raise InvalidRecord(f"a {cls.__name__} has no field {field!r}", field=str(field))
    return dict(source)


def replace_validated(record: R, **fields: Any) -> R:
    """The record with some fields changed, validated like a new one."""
    return build_record(
        type(record), **{**{name: getattr(record, name) for name in type(record).model_fields}, **fields}
    )


def to_invalid_record(error: ValidationError, label: str) -> InvalidRecord:
    """The InvalidRecord for pydantic's error: one sentence, the field, what was expected and what came."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or label
    message = first["msg"].removeprefix("Value error, ")
    came = "" if "; got " in message else f", got {describe_value(first['input'])}"
    return InvalidRecord(f"{label}.{field}: {message}{came}", field=field)
