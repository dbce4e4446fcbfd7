"""Every setting, read once at the door: arguments, AGENTMEM_* variables, agentmem.toml, then these defaults."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from agentmem.errors import ConfigError
from agentmem.model.clock import Clock

REDIS = ("redis://", "rediss://")
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
    embedder: str = "auto"
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
    catch_up_ms: float = Field(default=250.0, ge=0)

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
        log, graph, session = self.log_url, self.graph_url, self.session_url
        for name, url, servers in (
            ("log_url", log, ("postgresql", "postgres")),
            ("graph_url", graph, ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")),
            ("session_url", session, ()),
        ):
            if url is None or url.startswith("sqlite:///") or (name == "session_url" and url.startswith(REDIS)):
                continue
            scheme = url.split("://", 1)[0]
            if scheme in servers:
                raise ValueError(f"{name}: this version has no {scheme} store yet; use sqlite:///path or leave it out")
            others = " or redis://host:6379/0" if name == "session_url" else ""
            raise ValueError(f"{name} must be sqlite:///path{others}, got {scheme}://…")
        if log is not None and graph is not None and log != graph:
            raise ValueError(
                "graph_url and log_url must name the same SQLite file: the graph is committed with the log"
            )
        if self.home.is_file():
            raise ValueError(f"home must be a folder, {self.home} is a file")
        return self

    @property
    def database(self) -> Path:
        """The main file of the embedded stack."""
        return _file(self.log_url or self.graph_url, self.home / "memory.db")

    @property
    def session_file(self) -> Path | None:
        """The session cache's file; None when it is a server."""
        if self.session_server is not None:
            return None
        return _file(self.session_url, self.home / "session.db")

    @property
    def session_server(self) -> str | None:
        """The URL of the Redis that is the session cache, if one is."""
        return self.session_url if (self.session_url or "").startswith(REDIS) else None

    @property
    def model_folder(self) -> Path:
        """Where local weights and built graphs lie."""
        return self.models or self.home / "models"

    def active(self) -> dict[str, Any]:
        """What steers results, without places, addresses and secrets: for audit rows and receipts."""
        hidden = {"home", "graph_url", "log_url", "session_url", "models", "base_url", "threads"}
        return self.model_dump(mode="json", exclude=hidden)

    def digest(self) -> str:
        """A hash of `active()`: equal for equal behaviour."""
        return hashlib.sha256(json.dumps(self.active(), sort_keys=True).encode()).hexdigest()[:16]


def _file(url: str | None, default: Path) -> Path:
    return Path(url.removeprefix("sqlite:///")) if url else default


def load_settings(settings: Settings | None = None, **overrides: Any) -> Settings:
    """Read the settings, or change some of those given.

    Raises ConfigError naming the setting, what is wrong with it and what it may be.
    """
    try:
        if settings is None:
            return Settings(**overrides)
        given = {name: getattr(settings, name) for name in settings.model_fields_set}
        return Settings(**{**given, **overrides}) if overrides else settings
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = ", ".join(sorted(Settings.model_fields))
            raise ConfigError(f"unknown setting {name!r}; known ones: {known}") from error
        message = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"setting {name}: {message}" if name else message) from error
