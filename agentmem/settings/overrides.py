"""The settings as keyword arguments, so that a type checker refuses a wrong name or type.

One TypedDict for `Settings` and one for each group of settings; a test holds each equal to the fields of its model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from agentmem.beliefs.slots import Slot, SlotKind
from agentmem.core.clock import Clock
from agentmem.settings.sections import (
    BufferOptions,
    ClusterOptions,
    DecayOptions,
    ProceduralOptions,
    PromotionOptions,
    RetentionOptions,
    ServerOptions,
    SynopsisOptions,
    WorkerOptions,
)

PathText: TypeAlias = str | PathLike[str]
DateOrder: TypeAlias = Literal["", "day_first", "month_first"]
AuditLevel: TypeAlias = Literal["off", "writes", "reads", "verbose"]
RecallProfile: TypeAlias = Literal["default", "best"]


class GivenModel(Protocol):
    """A model as an object, of `LLM`, `Embedder` or `Reranker`."""

    @property
    def identity(self) -> str:
        """Which model this is."""
        ...


ModelSpec: TypeAlias = str | GivenModel | Callable[..., Awaitable[Any]]
"""A model by its name, as an object, or as an async function."""


class DecayOverrides(TypedDict, total=False):
    """Options of `decay`; see `DecayOptions`."""

    salience_rate: float
    salience_after_days: float
    confidence_rate: float
    confidence_after_days: float
    half_life_days: float | Literal["fast", "default", "slow"]
    beta: float | Literal["low", "default", "high"]
    forget_threshold: float
    forget: Literal["archive", "delete"]
    spare_importance: float
    danger_low: float
    danger_high: float
    cross_domain: float
    cross_domain_boost: float
    strongest: float
    importance_half_life_days: float


class PromotionOverrides(TypedDict, total=False):
    """Options of `promotion`; see `PromotionOptions`."""

    score: float
    use_count: int
    within_days: float
    confidence: float
    access_count: int
    conversations: int
    portable_only: bool


class ClusterOverrides(TypedDict, total=False):
    """Options of `clusters`; see `ClusterOptions`."""

    link: float
    merge: float
    ask: float


class RetentionOverrides(TypedDict, total=False):
    """Options of `retention`; see `RetentionOptions`."""

    conversation_days: float | None
    entity_salience: float
    entity_days: float
    ltm_retention_days: float | None


class BufferOverrides(TypedDict, total=False):
    """Options of `buffer`; see `BufferOptions`."""

    size: int
    multiplier: int
    batch: int
    recency_bias: float
    outputs_mb: float
    outputs_sweep_minutes: float


class SynopsisOverrides(TypedDict, total=False):
    """Options of `synopsis`; see `SynopsisOptions`."""

    identity_ttl: float
    context_ttl: float
    refresh_on_access: bool
    max_tokens: int
    identity_share: float
    facts: int
    least_confidence: float
    deadline: float


class ProceduralOverrides(TypedDict, total=False):
    """Options of `procedural`; see `ProceduralOptions`."""

    payload_characters: int
    least_relevance: float
    asked: int
    same: float


class WorkerOverrides(TypedDict, total=False):
    """Options of `worker`; see `WorkerOptions`."""

    minutes: Mapping[str, float]
    conversations: int
    port: int | None
    host: str
    webhook: str | None


class ServerOverrides(TypedDict, total=False):
    """Options of `server`; see `ServerOptions`."""

    body_bytes: int
    import_bytes: int
    request_seconds: float
    body_seconds: float
    concurrency: int
    requests_per_minute: int
    drain_seconds: int
    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    jwt_keys: str | None
    jwt_issuer: str | None
    jwt_audience: str | None
    jwt_user_claim: str


class SlotFields(TypedDict, total=False):
    """A slot of an application's own as a mapping; see `agentmem.beliefs.slots.Slot`."""

    kind: SlotKind
    value_type: Literal["", "age", "place", "dose"]
    rests_on: tuple[str, ...]
    opposite: str
    is_portable: bool
    is_private: bool
    is_instruction: bool


class SettingsOverrides(TypedDict, total=False):
    """Every setting as a keyword argument; see `Settings`."""

    config: PathText | None
    home: PathText
    graph_url: str | None
    log_url: str | None
    session_url: str | None
    log_password_file: PathText | None
    graph_password_file: PathText | None
    session_password_file: PathText | None
    graph_vectors: bool
    embedder: ModelSpec
    llm: ModelSpec
    extraction_llm: ModelSpec | None
    verdict_llm: ModelSpec | None
    recall_llm: ModelSpec | None
    synopsis_llm: ModelSpec | None
    llm_base_url: str | None
    llm_concurrency: int
    llm_profile: Literal["auto", "full", "small"]
    llm_context: int | None
    log_model_errors: bool
    max_calls: int | None
    max_tokens: int | None
    max_cost: float | None
    reranker: ModelSpec
    audit_level: AuditLevel
    audit_days: int
    recall_profile: RecallProfile
    recall: Mapping[str, Mapping[str, Any]]
    clock: Clock | None
    time_zone: str
    date_order: DateOrder
    seed: int | str | None
    threads: int
    vector_cache_mb: int
    models: PathText | None
    base_url: str | None
    dimensions: int | None
    model_timeout: float
    llm_timeout: float
    working_turns: int
    working_ttl: float
    working_mb: float
    background: bool | None
    current_md: bool
    catch_up_ms: float
    recall_rate: float | None
    recall_burst: int
    vault: PathText | None
    slots: Mapping[str, Slot | SlotFields]
    decay: DecayOptions | DecayOverrides
    promotion: PromotionOptions | PromotionOverrides
    clusters: ClusterOptions | ClusterOverrides
    retention: RetentionOptions | RetentionOverrides
    buffer: BufferOptions | BufferOverrides
    synopsis: SynopsisOptions | SynopsisOverrides
    procedural: ProceduralOptions | ProceduralOverrides
    worker: WorkerOptions | WorkerOverrides
    server: ServerOptions | ServerOverrides
