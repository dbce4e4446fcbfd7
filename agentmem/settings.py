"""Every setting, read once at the door: arguments, AGENTMEM_* variables, agentmem.toml, then these defaults."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from agentmem.errors import ConfigError
from agentmem.model.clock import Clock
from agentmem.settings_parts import (
    BufferOptions,
    ClusterOptions,
    DecayOptions,
    ProceduralOptions,
    PromotionOptions,
    RetentionOptions,
    SynopsisOptions,
    WorkerOptions,
)

POSTGRES = ("postgresql", "postgres")
NEO4J = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
REDIS = ("redis", "rediss")
CLOSE = 0.8  # likeness of names, by difflib, from which one is a slip of the pen for the other
RECALLS = 50.0  # a second and user, where many share servers
AuditLevel = Literal["off", "writes", "reads", "verbose"]


class Settings(BaseSettings):
    """What one opened memory is made of. Unknown keys, bad URLs and half set-ups are refused, with the fix."""

    model_config = SettingsConfigDict(
        env_prefix="AGENTMEM_", env_nested_delimiter="__", toml_file="agentmem.toml", extra="forbid", frozen=True,
        arbitrary_types_allowed=True,
    )  # fmt: skip

    home: Path = Field(default_factory=lambda: Path.home() / ".agentmem")
    graph_url: str | None = Field(default=None, repr=False)  # URLs may hold passwords
    log_url: str | None = Field(default=None, repr=False)
    session_url: str | None = Field(default=None, repr=False)
    log_password_file: Path | None = None  # its first line is the password of that URL
    graph_password_file: Path | None = None
    session_password_file: Path | None = None
    graph_vectors: bool = False  # vectors on Neo4j's nodes, too, for people who search in Cypher
    embedder: str = "auto"
    llm: str = Field(default="none", repr=False)  # a command line may hold a secret
    extraction_llm: str | None = Field(default=None, repr=False)  # None for `llm`, as for the next three
    verdict_llm: str | None = Field(default=None, repr=False)
    recall_llm: str | None = Field(default=None, repr=False)
    synopsis_llm: str | None = Field(default=None, repr=False)
    llm_base_url: str | None = None
    llm_concurrency: int = Field(default=4, ge=1, le=64)
    max_calls: int | None = Field(default=None, ge=0)  # of language models in one run, as are the next two
    max_tokens: int | None = Field(default=None, ge=0)
    max_cost: float | None = Field(default=None, ge=0)  # dollars
    reranker: str = "none"
    audit_level: AuditLevel = "writes"
    audit_days: int = Field(default=365, ge=1)
    recall_profile: Literal["default", "best"] = "default"
    recall: dict[str, dict[str, Any]] = Field(default_factory=dict)
    clock: Clock | None = Field(default=None, exclude=True, repr=False)
    seed: int | str | None = None
    threads: int = Field(default=2, ge=1, le=64)  # texts that a local model reads side by side
    vector_cache_mb: int = Field(default=512, ge=1)
    models: Path | None = None
    base_url: str | None = None
    dimensions: int | None = Field(default=None, ge=1, le=20_000)
    model_timeout: float = Field(default=60.0, gt=0)
    working_turns: int = Field(default=50, ge=1)
    working_ttl: float = Field(default=3600.0, gt=0)
    current_md: bool = False  # keep a readable page of the session under the home's agents/<agent>/
    catch_up_ms: float = Field(default=250.0, ge=0)
    recall_rate: float | None = Field(default=None, ge=0)  # a second and user; 0 is no limit, None 50 on servers
    recall_burst: int = Field(default=100, ge=1)
    vault: Path | None = None  # a folder of Markdown notes, one for each memory that is kept for long
    decay: DecayOptions = DecayOptions()
    promotion: PromotionOptions = PromotionOptions()
    clusters: ClusterOptions = ClusterOptions()
    retention: RetentionOptions = RetentionOptions()
    buffer: BufferOptions = BufferOptions()
    synopsis: SynopsisOptions = SynopsisOptions()
    procedural: ProceduralOptions = ProceduralOptions()
    worker: WorkerOptions = WorkerOptions()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then agentmem.toml in the working directory."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @field_validator("embedder")
    @classmethod
    def _vendor_and_model(cls, value: str) -> str:
        vendor = value.replace("/", ":", 1) if ":" not in value else value
        if not vendor.split(":", 1)[0].isidentifier():
            raise ValueError(
                "must be auto, or vendor:model such as hash, local:all-MiniLM-L6-v2, openai:text-embedding-3-small"
            )
        return vendor

    @model_validator(mode="after")
    def _one_stack(self) -> Settings:
        _check_url("log_url", self.log_url, POSTGRES, "postgresql://user@host:5432/database")
        _check_url("graph_url", self.graph_url, NEO4J, "neo4j://user@host:7687")
        _check_url("session_url", self.session_url, REDIS, "redis://host:6379/0")
        log, graph = self.log_url, self.graph_url
        if _is_server(log) != _is_server(graph):
            given, missing, example = "log_url", "graph_url", "neo4j://user@host:7687"
            if _is_server(graph):
                given, missing, example = "graph_url", "log_url", "postgresql://user@host:5432/database"
            raise ValueError(
                f"{given} names a server, {missing} none: log and graph are both servers or both embedded. "
                f"Set {missing} to one like {example}, or leave {given} out"
            )
        if log is not None and graph is not None and log != graph and not _is_server(log):
            raise ValueError(
                "graph_url and log_url must name the same SQLite file: the graph is committed with the log"
            )
        if self.graph_vectors and not _is_server(graph):
            raise ValueError("graph_vectors needs a graph on a Neo4j server: set graph_url and log_url")
        if self.home.is_file():
            raise ValueError(f"home must be a folder, {self.home} is a file")
        return self

    @property
    def database(self) -> Path:
        """The main file of the embedded stack."""
        return _file(self.log_url or self.graph_url, self.home / "memory.db")

    @property
    def spool(self) -> Path | None:
        """Where to put a large file for a moment: beside the store; None for the system's own place."""
        return None if _is_server(self.log_url) else self.database.parent

    @property
    def session_file(self) -> Path | None:
        """The session cache's file; None when it is a server."""
        return None if _is_server(self.session_url) else _file(self.session_url, self.home / "session.db")

    @property
    def log_server(self) -> str | None:
        """The URL of the Postgres that is the log, if one is, with its password."""
        return _server(self.log_url, "log_password_file", self.log_password_file)

    @property
    def graph_server(self) -> str | None:
        """The URL of the Neo4j that is the graph, if one is, with its password."""
        return _server(self.graph_url, "graph_password_file", self.graph_password_file)

    @property
    def session_server(self) -> str | None:
        """The URL of the Redis that is the session cache, if one is, with its password."""
        return _server(self.session_url, "session_password_file", self.session_password_file)

    @property
    def recalls_per_second(self) -> float:
        """How many recalls a second a user may ask for in the long run; 0 for any number."""
        if self.recall_rate is None:
            return RECALLS if _is_server(self.log_url) else 0.0
        return self.recall_rate

    @property
    def model_folder(self) -> Path:
        """Where local weights and built graphs lie."""
        return self.models or self.home / "models"

    def active(self) -> dict[str, Any]:
        """What steers results, without places, addresses and secrets: for audit rows and receipts."""
        hidden = {
            "home", "graph_url", "log_url", "session_url", "log_password_file", "graph_password_file",
            "session_password_file", "models", "base_url", "llm_base_url", "llm_concurrency", "threads", "recall_rate",
            "recall_burst", "graph_vectors", "current_md", "vault", "worker",
        }  # fmt: skip
        told: dict[str, Any] = self.model_dump(mode="json", exclude=hidden)
        # A command line may hold a secret.
        return {name: "command" if str(value).startswith("command:") else value for name, value in told.items()}

    def digest(self) -> str:
        """A hash of `active()`: equal for equal behaviour."""
        return hashlib.sha256(json.dumps(self.active(), sort_keys=True).encode()).hexdigest()[:16]


def _file(url: str | None, default: Path) -> Path:
    return Path(url.removeprefix("sqlite:///")) if url else default


def _is_server(url: str | None) -> bool:
    return url is not None and not url.startswith("sqlite:")


def _check_url(name: str, url: str | None, servers: tuple[str, ...], example: str) -> None:
    if url is None or url.startswith("sqlite:///"):
        return
    scheme, there, _ = url.partition("://")
    if not there or scheme not in servers:
        shown = f"{scheme}://…" if there else "no URL"  # what is behind the scheme may be a password
        raise ValueError(f"{name} must be sqlite:///path or like {example}, got {shown}")


def _server(url: str | None, name: str, password: Path | None) -> str | None:
    """The URL with the password of a file in it; None for a file of ours."""
    if url is None or not _is_server(url) or password is None:
        return url if _is_server(url) else None
    try:
        first = password.read_text(encoding="utf-8").splitlines()[:1]
    except OSError as error:
        raise ConfigError(f"setting {name}: {password} cannot be read: {error.strerror}") from error
    if not first or not first[0]:
        raise ConfigError(f"setting {name}: {password} is empty; its first line is the password")
    scheme, rest = url.split("://", 1)
    place, slash, path = rest.partition("/")
    user, at, host = place.rpartition("@")
    if ":" in user:
        raise ConfigError(f"setting {name}: the URL has a password already; leave it out there")
    return f"{scheme}://{user}:{quote(first[0], safe='')}@{host if at else place}{slash}{path}"


def load_settings(settings: Settings | None = None, **overrides: Any) -> Settings:
    """Read the settings, or change some of those given.

    Raises ConfigError naming the setting, what is wrong with it and what it may be.
    """
    try:
        if settings is None:
            _check_environment()
            return Settings(**overrides)
        given = {name: getattr(settings, name) for name in settings.model_fields_set}
        return Settings(**{**given, **overrides}) if overrides else settings
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = ", ".join(sorted(_fields(first["loc"][:-1])))
            raise ConfigError(f"unknown setting {name!r}; known ones: {known}") from error
        message = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"setting {name}: {message}" if name else message) from error


def _fields(path: Sequence[int | str]) -> Collection[str]:
    """The names that stand at a place among the settings."""
    model: Any = Settings
    for name in path:
        model = model.model_fields[name].annotation
    return tuple(model.model_fields)


def _check_environment() -> None:
    """Refuse a variable whose name is nearly that of a setting; others may be somebody else's."""
    prefix = str(Settings.model_config["env_prefix"])
    for variable in sorted(os.environ):
        name = variable.removeprefix(prefix).split("__")[0].lower()
        if variable.startswith(prefix) and name not in Settings.model_fields:
            for meant in get_close_matches(name, Settings.model_fields, 1, CLOSE):
                raise ConfigError(f"environment variable {variable}: no setting {name!r}; {meant!r} is one")
