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

    salience_rate: float = Field(default=0.95, gt=0, le=1, description="What an entity's salience is multiplied by.")
    salience_after_days: float = Field(
        default=1.0, ge=0, allow_inf_nan=False, description="Days without an access before that begins."
    )
    confidence_rate: float = Field(
        default=0.95, gt=0, le=1, description="What the confidence of an inferred fact is multiplied by."
    )
    confidence_after_days: float = Field(
        default=7.0, ge=0, allow_inf_nan=False, description="Days without an access before that begins."
    )
    half_life_days: float = Field(
        default=3.0, gt=0, le=100_000, description="Time in which the score of a short-lived fact halves. In days."
    )
    beta: float = Field(default=0.6, ge=0, le=10, description="How much uses count in that score.")
    forget_threshold: float = Field(
        default=0.05, gt=0, lt=1, description="Below this score a short-lived fact is put away."
    )
    forget: Literal["archive", "delete"] = Field(
        default="archive", description="How: so that `undo` brings it back, or for good."
    )
    spare_importance: float = Field(
        default=0.8, ge=0, description="Facts as important as this, or more, are never put away by themselves."
    )
    danger_low: float = Field(
        default=0.15,
        gt=0,
        lt=1,
        description="Lower end of the danger zone: facts with such a score come up for review.",
    )
    danger_high: float = Field(default=0.35, gt=0, lt=1, description="Its upper end.")
    cross_domain: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="Tags of fact and talk with less in common (Jaccard) are of different fields.",
    )
    cross_domain_boost: float = Field(
        default=0.1, ge=0, le=1, description="What use in another field adds to a fact's strength."
    )
    strongest: float = Field(default=2.0, ge=1, le=100, description="The greatest strength.")
    importance_half_life_days: float = Field(
        default=30.0,
        gt=0,
        allow_inf_nan=False,
        description="Time in which the recency in a fact's importance halves. In days.",
    )

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

    score: float = Field(
        default=0.65,
        gt=0,
        allow_inf_nan=False,
        description="A short-lived fact with this score at the age of a half-life is kept for long.",
    )
    use_count: int = Field(default=5, ge=1, description="One that was used so often within `within_days` is kept, too.")
    within_days: float = Field(
        default=14.0, ge=0, le=100_000, description="The time for these uses, from its creation on. In days."
    )
    confidence: float = Field(
        default=0.85, ge=0, le=1, description="A fact of a project needs this confidence to be copied to `_global`,"
    )
    access_count: int = Field(default=5, ge=1, description="and so many of these,")
    conversations: int = Field(
        default=2,
        ge=1,
        description="in so many of these. It must also fill a portable slot of the user, or be said in two projects.",
    )
    portable_only: bool = Field(
        default=False, description="Only portable slots of the user are copied, not what was said in two projects."
    )


class ClusterOptions(_Section):
    """Which facts are looked at together: those whose cosine is above `link`. Their mean cosine proposes.

    From `merge` on the proposal is to merge them, from `ask` on to ask. Only equal content merges by itself. Right
    values depend on the embedder. See docs/curation.md.
    """

    link: float = Field(default=0.83, gt=0, le=1, description="Above it two facts are linked into a group.")
    merge: float = Field(
        default=0.9, gt=0, le=1, description="From this mean cosine on it is proposed to merge a group,"
    )
    ask: float = Field(
        default=0.75, gt=0, le=1, description="and from this one on to ask. Below, a group is kept apart."
    )


class RetentionOptions(_Section):
    """What is put away, and after how many days. None switches off.

    Conversations without a turn for so many days are marked as archived; entities with less salience than that, unused
    for so many days and without facts are put away; long-lived facts neither recorded nor used for
    `ltm_retention_days` are, too. How long audit rows are kept is `audit_days`.
    """

    conversation_days: float | None = Field(
        default=90.0,
        gt=0,
        le=1_000_000,
        description="A conversation without a turn for so long is marked as archived; `None`: never. In days.",
    )
    entity_salience: float = Field(
        default=0.1, ge=0, le=1, description="Entities with less are put away, when no fact and no relation names them"
    )
    entity_days: float = Field(
        default=30.0, ge=0, le=1_000_000, description="and they were not used for so long. In days."
    )
    ltm_retention_days: float | None = Field(
        default=None,
        gt=0,
        le=1_000_000,
        description="Long-lived facts that were neither recorded nor used for so long are archived. Not set: never.",
    )


class BufferOptions(_Section):
    """What an agent has at hand: conversation buffer and outputs of tools. See docs/working.md.

    A buffer keeps `size` messages; one more, and its oldest `batch` become a summary, of which it keeps at most
    `size` × `multiplier`. `recency_bias` weighs new against near in a search. Outputs of tools take at most
    `outputs_mb` megabytes of a user; every `outputs_sweep_minutes` those of users who fell silent are dropped.
    """

    size: int = Field(default=50, ge=1, description="How many are kept verbatim.")
    multiplier: int = Field(default=10, ge=1, description="`size` × `multiplier` summaries are kept.")
    batch: int = Field(
        default=10, ge=1, description="How many of the oldest become one summary, when there are too many."
    )
    recency_bias: float = Field(
        default=0.3, ge=0, le=1, description="Share of newness in a search; the rest is nearness in meaning."
    )
    outputs_mb: float = Field(
        default=10.0,
        gt=0,
        allow_inf_nan=False,
        description="What the outputs of a user's tools take at most. In megabytes.",
    )
    outputs_sweep_minutes: float = Field(
        default=5.0,
        gt=0,
        allow_inf_nan=False,
        description="How often those of users who fell silent are dropped. In minutes.",
    )


class SynopsisOptions(_Section):
    """The summary of a user in two tiers. See docs/context.md.

    It has at most `max_tokens`, of which who the user is takes at most the share `identity_share`. Both parts are kept
    in the session store for so many seconds, anew with each access when `refresh_on_access` is set. It is made from at
    most `facts` facts with this confidence, beside beliefs and goals. A model has `deadline` seconds.
    """

    identity_ttl: float = Field(
        default=7 * 24 * 3600.0,
        gt=0,
        allow_inf_nan=False,
        description="How long the part on who the user is is kept: 7 days. In seconds.",
    )
    context_ttl: float = Field(
        default=3600.0,
        gt=0,
        allow_inf_nan=False,
        description="How long the part on what goes on is kept: an hour. In seconds.",
    )
    refresh_on_access: bool = Field(default=True, description="Whether an access begins the time anew.")
    max_tokens: int = Field(default=1000, ge=1, description="The longest synopsis.")
    identity_share: float = Field(default=0.6, gt=0, le=1, description="Share of it that the first part takes at most.")
    facts: int = Field(default=300, ge=1, le=5000, description="From how many it is made at most.")
    least_confidence: float = Field(
        default=0.7, ge=0, le=1, description="Facts that are known less surely are left out."
    )
    deadline: float = Field(
        default=30.0,
        gt=0,
        allow_inf_nan=False,
        description="For a model that words it; then facts are put together. In seconds.",
    )


class ProceduralOptions(_Section):
    """How strategies and procedures are learned and ranked. See docs/procedural.md.

    Of a tool's input and output at most `payload_characters` of JSON are kept. A strategy is found for a task from a
    relevance of `least_relevance` on. What was asked for `asked` times, or once as a standing order, is a procedure in
    force; two instructions are one from a cosine of `same` on, which depends on the embedder.
    """

    payload_characters: int = Field(
        default=20_000, ge=100, le=1_000_000, description="What is kept of a tool's input, and of its output, as JSON."
    )
    least_relevance: float = Field(
        default=0.1, ge=0, le=1, description="Less relevant strategies are not found for a task."
    )
    asked: int = Field(
        default=2, ge=1, description="So often asked for, and it is a procedure in force; a standing order is at once."
    )
    same: float = Field(
        default=0.92, gt=0, le=1, description="From this cosine on two instructions are one; depends on the embedder."
    )


class WorkerOptions(_Section):
    """How the worker runs its jobs. `minutes` between two runs by job; a job left out has the default of its file.
    `conversations` are read in one run of `consolidate`.

    With a `port` (0 for any) it answers /health and /metrics on `host`. Due schedules are posted to `webhook`, an
    address on this machine, where no function of the program takes them.
    """

    minutes: dict[str, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict, description="Minutes between two runs of a job; a job left out has its own interval."
    )
    conversations: int = Field(default=10, ge=1, description="How many one run of `consolidate` reads.")
    port: int | None = Field(
        default=None, ge=0, le=65_535, description="Where it answers `/health` and `/metrics`. Not set: nowhere."
    )
    host: str = Field(default="127.0.0.1", description="The address that `port` is opened at.")
    webhook: Secret | None = Field(
        default=None,
        repr=False,
        description="Where due schedules are posted to, when no function of the program takes them.",
    )

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

    body_bytes: int = Field(
        default=1 << 20, ge=1_000, description="The largest body of a request; more is 413. In bytes."
    )
    import_bytes: int = Field(
        default=1 << 30, ge=1_000, description="The largest file that `POST /v1/import` takes. In bytes."
    )
    request_seconds: float = Field(
        default=30.0,
        gt=0,
        allow_inf_nan=False,
        description=(
            "How long a request may take; then it is given up with 503. Of an answer that comes in pieces, "
            "each may take that long. In seconds."
        ),
    )
    body_seconds: float = Field(
        default=30.0,
        gt=0,
        allow_inf_nan=False,
        description=(
            "How long its body may take to arrive; then it is 408. Of an import, each 16 KiB may take that "
            "long. In seconds."
        ),
    )
    concurrency: int = Field(
        default=100,
        ge=1,
        description=(
            "How many may work at once, and one key four fifths of that; one more is 503 with `Retry-After`. "
            "As many may wait for their client."
        ),
    )
    requests_per_minute: int = Field(
        default=600,
        ge=1,
        description="How many a key may ask in a minute in the long run, and at once after a pause; one more is 429.",
    )
    drain_seconds: int = Field(
        default=10, ge=0, description="How long requests under way may go on after SIGTERM. In seconds."
    )
    hosts: tuple[str, ...] = Field(
        default=(),
        description=(
            "The names and addresses by which the server is reached, beside loopback and `--host`; another "
            "`Host` is 421."
        ),
    )
    origins: tuple[str, ...] = Field(
        default=(), description="Web pages that may ask the server from a browser; of others it is 403."
    )
    jwt_keys: str | None = Field(
        default=None,
        description=(
            "The JSON Web Key Set of an identity provider, whose tokens are taken beside the server's own keys."
        ),
    )
    jwt_issuer: str | None = Field(default=None, description="The `iss` that its tokens must have.")
    jwt_audience: str | None = Field(default=None, description="The `aud` that its tokens must have.")
    jwt_user_claim: str = Field(default="sub", min_length=1, description="The claim that names the user.")

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
