"""Settings that belong together, one model per area: each number of the lifecycle, with its default."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    field_validator,
    model_validator,
)

from agentmem.core.lifecycle import BETAS, HALF_LIVES, resolve_preset
from agentmem.core.redaction import SecretText, redact

Secret = Annotated[str, AfterValidator(SecretText), PlainSerializer(redact, when_used="json")]
"""The type of a setting that may hold a secret: not shown by `repr`, nor in JSON made of the settings."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def is_loopback(url: str) -> bool:
    """Whether a web address is one of this machine, by its number or as `localhost`."""
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
        local = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and local and port != 0 and not parts.username


class DecayOptions(_Section):
    """How memories fade; the formulas are in docs/lifecycle.md, where each number has its place.

    `half_life_days` is a number or fast (1), default (3) or slow (7); `beta` a number or low (.3), default (.6) or high
    (1). `forget` says what becomes of a short-lived memory below `forget_threshold`.
    """

    salience_rate: float = Field(default=0.95, gt=0, le=1)  # a day, of entities
    salience_after_days: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    confidence_rate: float = Field(default=0.95, gt=0, le=1)  # a week, of inferred facts
    confidence_after_days: float = Field(default=7.0, ge=0, allow_inf_nan=False)
    half_life_days: float = Field(default=3.0, gt=0, le=100_000)
    beta: float = Field(default=0.6, ge=0, le=10)
    forget_threshold: float = Field(default=0.05, gt=0, lt=1)
    forget: Literal["archive", "delete"] = "archive"
    spare_importance: float = Field(default=0.8, ge=0)  # as important, or more: never forgotten by itself
    danger_low: float = Field(default=0.15, gt=0, lt=1)
    danger_high: float = Field(default=0.35, gt=0, lt=1)
    cross_domain: float = Field(default=0.3, ge=0, le=1)
    cross_domain_boost: float = Field(default=0.1, ge=0, le=1)
    strongest: float = Field(default=2.0, ge=1, le=100)
    importance_half_life_days: float = Field(default=30.0, gt=0, allow_inf_nan=False)

    @field_validator("half_life_days", "beta", mode="before")
    @classmethod
    def _resolve_preset(cls, value: Any, info: ValidationInfo) -> Any:
        return resolve_preset(value, HALF_LIVES if info.field_name == "half_life_days" else BETAS)

    @model_validator(mode="after")
    def _check_order(self) -> DecayOptions:
        if not self.forget_threshold <= self.danger_low < self.danger_high:
            raise ValueError("forget_threshold, danger_low and danger_high must rise in this order")
        return self


class PromotionOptions(_Section):
    """When a memory is kept for long, or for every channel.

    A short-lived one with this `score` at the age of a half-life, or used `use_count` times within so many days of its
    creation; one of a project with this `confidence`, delivered `access_count` times in so many `conversations`, if it
    fills a portable slot of the user or was said in two projects. `portable_only`: said in two projects is not enough.
    """

    score: float = Field(default=0.65, gt=0, allow_inf_nan=False)
    use_count: int = Field(default=5, ge=1)
    within_days: float = Field(default=14.0, ge=0, le=100_000)
    confidence: float = Field(default=0.85, ge=0, le=1)
    access_count: int = Field(default=5, ge=1)
    conversations: int = Field(default=2, ge=1)
    portable_only: bool = False


class ClusterOptions(_Section):
    """Which facts are looked at together: those whose cosine is above `link`. Their mean cosine proposes.

    From `merge` on the proposal is to merge them, from `ask` on to ask. Only equal content merges by itself. Right
    values depend on the embedder. See docs/curation.md.
    """

    link: float = Field(default=0.83, gt=0, le=1)
    merge: float = Field(default=0.9, gt=0, le=1)
    ask: float = Field(default=0.75, gt=0, le=1)


class RetentionOptions(_Section):
    """What is put away, and after how many days. None switches off.

    Conversations without a turn for so many days are marked as archived; entities with less salience than that, unused
    for so many days and without facts are put away; long-lived facts neither recorded nor used for
    `ltm_retention_days` are, too. How long audit rows are kept is `audit_days`.
    """

    conversation_days: float | None = Field(default=90.0, gt=0, le=1_000_000)
    entity_salience: float = Field(default=0.1, ge=0, le=1)
    entity_days: float = Field(default=30.0, ge=0, le=1_000_000)
    ltm_retention_days: float | None = Field(default=None, gt=0, le=1_000_000)


class BufferOptions(_Section):
    """What an agent has at hand: conversation buffer and outputs of tools. See docs/working.md.

    A buffer keeps `size` messages; one more, and its oldest `batch` become a summary, of which it keeps at most
    `size` × `multiplier`. `recency_bias` weighs new against near in a search. Outputs of tools take at most
    `outputs_mb` megabytes of a user; every `outputs_sweep_minutes` those of users who fell silent are dropped.
    """

    size: int = Field(default=50, ge=1)
    multiplier: int = Field(default=10, ge=1)
    batch: int = Field(default=10, ge=1)
    recency_bias: float = Field(default=0.3, ge=0, le=1)
    outputs_mb: float = Field(default=10.0, gt=0, allow_inf_nan=False)
    outputs_sweep_minutes: float = Field(default=5.0, gt=0, allow_inf_nan=False)


class SynopsisOptions(_Section):
    """The summary of a user in two tiers. See docs/context.md.

    It has at most `max_tokens`, of which who the user is takes at most the share `identity_share`. Both parts are kept
    in the session store for so many seconds, anew with each access when `refresh_on_access` is set. It is made from at
    most `facts` facts with this confidence, beside beliefs and goals. A model has `deadline` seconds.
    """

    identity_ttl: float = Field(default=7 * 24 * 3600.0, gt=0, allow_inf_nan=False)
    context_ttl: float = Field(default=3600.0, gt=0, allow_inf_nan=False)
    refresh_on_access: bool = True
    max_tokens: int = Field(default=1000, ge=1)
    identity_share: float = Field(default=0.6, gt=0, le=1)
    facts: int = Field(default=300, ge=1, le=5000)
    least_confidence: float = Field(default=0.7, ge=0, le=1)
    deadline: float = Field(default=30.0, gt=0, allow_inf_nan=False)


class ProceduralOptions(_Section):
    """How strategies and procedures are learned and ranked. See docs/procedural.md.

    Of a tool's input and output at most `payload_characters` of JSON are kept. A strategy is found for a task from a
    relevance of `least_relevance` on. What was asked for `asked` times, or once as a standing order, is a procedure in
    force; two instructions are one from a cosine of `same` on, which depends on the embedder.
    """

    payload_characters: int = Field(default=20_000, ge=100, le=1_000_000)
    least_relevance: float = Field(default=0.1, ge=0, le=1)
    asked: int = Field(default=2, ge=1)
    same: float = Field(default=0.92, gt=0, le=1)


class WorkerOptions(_Section):
    """How the worker runs its jobs. `minutes` between two runs by job; a job left out has the default of its file.
    `conversations` are read in one run of `consolidate`.

    With a `port` (0 for any) it answers /health and /metrics on `host`. Due schedules are posted to `webhook`, an
    address on this machine, where no function of the program takes them.
    """

    minutes: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    conversations: int = Field(default=10, ge=1)
    port: int | None = Field(default=None, ge=0, le=65_535)
    host: str = "127.0.0.1"
    webhook: Secret | None = Field(default=None, repr=False)

    @field_validator("webhook")
    @classmethod
    def _check_webhook(cls, value: str | None) -> str | None:
        if value is not None and not is_loopback(value):
            raise ValueError(
                "must be http:// or https:// with localhost, 127.0.0.1 or [::1]; nothing leaves the machine"
            )
        return value


class ServerOptions(_Section):
    """What `agentmem serve` takes on, and from whom.

    The largest body, how long a request and its body may take, how many requests there may be at once and of one key in
    a minute, and how long those under way may go on when the server is told to end; by which host names the server is
    reached, and web pages of which origins may ask it; whose tokens it takes beside its own keys.
    """

    body_bytes: int = Field(default=1 << 20, ge=1_000)
    import_bytes: int = Field(default=1 << 30, ge=1_000)
    request_seconds: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    body_seconds: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    concurrency: int = Field(default=100, ge=1)
    requests_per_minute: int = Field(default=600, ge=1)
    drain_seconds: int = Field(default=10, ge=0)
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    jwt_keys: str | None = None
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    jwt_user_claim: str = Field(default="sub", min_length=1)

    @model_validator(mode="after")
    def _check_tokens(self) -> Self:
        """A token is worth nothing without its issuer and the audience it was made for, nor over an open line."""
        if self.jwt_keys is not None:
            if not self.jwt_issuer or not self.jwt_audience:
                raise ValueError("jwt_keys needs jwt_issuer and jwt_audience")
            if self.jwt_keys.startswith("http://") and not is_loopback(self.jwt_keys):
                raise ValueError("jwt_keys must be https://, or a file")
        return self


class LifecycleSettings(_Section):
    """How records fade and how long they last: three parts of the settings, as stores need them together."""

    decay: DecayOptions = DecayOptions()
    promotion: PromotionOptions = PromotionOptions()
    retention: RetentionOptions = RetentionOptions()
