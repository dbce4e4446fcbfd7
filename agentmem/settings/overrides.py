"""The settings as keyword arguments, so that a type checker refuses a wrong name or type.

A test holds the TypedDict equal to the fields of `Settings`. A group of settings is given as its options, whose fields
a type checker knows too, or as a mapping of some of them, which is checked when it is given.
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
    decay: DecayOptions | Mapping[str, Any]
    promotion: PromotionOptions | Mapping[str, Any]
    clusters: ClusterOptions | Mapping[str, Any]
    retention: RetentionOptions | Mapping[str, Any]
    buffer: BufferOptions | Mapping[str, Any]
    synopsis: SynopsisOptions | Mapping[str, Any]
    procedural: ProceduralOptions | Mapping[str, Any]
    worker: WorkerOptions | Mapping[str, Any]
    server: ServerOptions | Mapping[str, Any]
