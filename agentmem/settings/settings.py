"""All settings of one opened memory, read once: arguments, AGENTMEM_* variables, a configuration file, defaults."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from datetime import tzinfo
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Unpack, get_origin

from pydantic import BaseModel, Field, PrivateAttr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from agentmem.beliefs.slots import Slot
from agentmem.core.clock import Clock
from agentmem.core.local_time import parse_timezone
from agentmem.core.redaction import SecretText, failure_reason, is_command
from agentmem.errors import ConfigError
from agentmem.settings.overrides import AuditLevel, DateOrder, RecallProfile, SettingsOverrides
from agentmem.settings.sections import (
    BufferOptions,
    ClusterOptions,
    DecayOptions,
    ProceduralOptions,
    PromotionOptions,
    RetentionOptions,
    Secret,
    ServerOptions,
    SynopsisOptions,
    WorkerOptions,
)
from agentmem.settings.server_urls import (
    NEO4J_SCHEMES,
    POSTGRES_SCHEMES,
    REDIS_SCHEMES,
    add_password,
    check_server_url,
    check_web_url,
)
from agentmem.settings.sources import (
    ENV_NESTED_DELIMITER,
    ENV_PREFIX,
    MIN_NAME_LIKENESS,
    PATH_SETTINGS,
    SQLITE_URL_PREFIX,
    STORE_URL_SETTINGS,
    SettingsSources,
    default_home,
    expand_path,
    expand_url,
    find_ignored_config,
    merge,
    name_given_models,
    report_ignored,
    value_at,
)

SERVER_RECALLS_PER_SECOND = 50.0  # a second and user, where many share servers
MAX_PASSWORD_FILE_BYTES = 64_000
_SERVER_URL_FORMATS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "log_url": (POSTGRES_SCHEMES, "postgresql://user@host:5432/database"),
    "graph_url": (NEO4J_SCHEMES, "neo4j://user@host:7687"),
    "session_url": (REDIS_SCHEMES, "redis://host:6379/0"),
}


class Settings(BaseSettings):
    """The settings of one memory, checked as a whole.

    Making one reads the environment and the configuration file, too. Raises ConfigError, which names the setting, where
    it is from, what is wrong with it and what it may be, and never shows a value that may be secret.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=ENV_NESTED_DELIMITER,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
    )

    config: Path | None = None  # the file that was read; None for none
    home: Path = Field(default_factory=default_home)
    graph_url: Secret | None = Field(default=None, repr=False)  # URLs may hold passwords
    log_url: Secret | None = Field(default=None, repr=False)
    session_url: Secret | None = Field(default=None, repr=False)
    log_password_file: Path | None = None  # its first line is the password of that URL
    graph_password_file: Path | None = None
    session_password_file: Path | None = None
    graph_vectors: bool = False  # vectors on Neo4j's nodes, too, for people who search in Cypher
    embedder: str = "auto"
    llm: Secret = Field(default="none", repr=False)  # a command line may hold a secret
    extraction_llm: Secret | None = Field(default=None, repr=False)  # None for `llm`, as for the next three
    verdict_llm: Secret | None = Field(default=None, repr=False)
    recall_llm: Secret | None = Field(default=None, repr=False)
    synopsis_llm: Secret | None = Field(default=None, repr=False)
    llm_base_url: Secret | None = Field(default=None, repr=False)
    llm_concurrency: int = Field(default=4, ge=1, le=64)
    llm_profile: Literal["auto", "full", "small"] = "auto"  # how much a model reads at a time
    llm_context: int | None = Field(default=None, ge=2_048)  # tokens
    log_model_errors: bool = False  # log what a failing model says, which may repeat a user's words
    max_calls: int | None = Field(default=None, ge=0)  # of language models in one run, as are the next two
    max_tokens: int | None = Field(default=None, ge=0)
    max_cost: float | None = Field(default=None, ge=0)  # dollars
    reranker: str = "none"
    audit_level: AuditLevel = "writes"
    audit_days: int = Field(default=365, ge=1)
    recall_profile: RecallProfile = "default"
    recall: dict[str, dict[str, Any]] = Field(default_factory=dict)
    clock: Clock | None = Field(default=None, exclude=True, repr=False)
    seed: int | str | None = None
    time_zone: str = ""  # of the users, as Europe/Oslo; "" for that of each turn
    date_order: DateOrder = ""  # of 05/07/2026; "" for the language of the text
    threads: int = Field(default=2, ge=1, le=64)  # texts that a local model reads side by side
    vector_cache_mb: int = Field(default=512, ge=1)
    models: Path | None = None
    base_url: Secret | None = Field(default=None, repr=False)
    dimensions: int | None = Field(default=None, ge=1, le=20_000)
    model_timeout: float = Field(default=60.0, gt=0)  # of embedders
    llm_timeout: float = Field(default=120.0, gt=0)
    working_turns: int = Field(default=50, ge=1)
    working_ttl: float = Field(default=3600.0, gt=0)
    working_mb: float = Field(default=10.0, gt=0, allow_inf_nan=False)  # of a user's context values and thoughts
    background: bool | None = None  # run the jobs of served users beside; None: in `serve` and `mcp` alone
    current_md: bool = False  # keep a readable page of the session under the home's agents/<agent>/
    catch_up_ms: float = Field(default=250.0, ge=0)
    recall_rate: float | None = Field(default=None, ge=0)  # a second and user; 0 is no limit, None 50 on servers
    recall_burst: int = Field(default=100, ge=1)
    vault: Path | None = None  # a folder of Markdown notes, one for each memory that is kept for long
    slots: dict[str, Slot] = Field(default_factory=dict)  # of beliefs, beside the built-in ones
    decay: DecayOptions = DecayOptions()
    promotion: PromotionOptions = PromotionOptions()
    clusters: ClusterOptions = ClusterOptions()
    retention: RetentionOptions = RetentionOptions()
    buffer: BufferOptions = BufferOptions()
    synopsis: SynopsisOptions = SynopsisOptions()
    procedural: ProceduralOptions = ProceduralOptions()
    worker: WorkerOptions = WorkerOptions()
    server: ServerOptions = ServerOptions()
    _given_models: dict[str, Any] = PrivateAttr(default_factory=dict)

    def __init__(self, **overrides: Unpack[SettingsOverrides]) -> None:
        sources = SettingsSources.load(type(self), overrides)
        self._validate_fields(sources.merge_all(), sources)
        if (ignored := find_ignored_config(self.config, self.home)) is not None:
            report_ignored(ignored)

    def _validate_fields(self, values: Mapping[str, Any], sources: SettingsSources) -> None:
        """Fill and check the fields. Raises ConfigError."""
        problem: ConfigError | None = None
        values, given = name_given_models(values)
        try:
            BaseModel.__init__(self, **values)  # not that of BaseSettings, which would read sources by itself
        except ValidationError as error:
            problem = _to_config_error(error, sources)
        if problem is not None:  # raised here, because pydantic's error holds the values
            raise problem
        self._given_models = given

    def with_overrides(self, overrides: SettingsOverrides) -> Settings:
        """These settings with some changed; neither the environment nor the file is read again. Raises ConfigError."""
        if overrides.get("config", self.config) != self.config:
            raise ConfigError("setting config: these settings are made already; give the file to load_settings alone")
        held: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        for name, value in held.items():
            if isinstance(value, BaseModel) and isinstance(overrides.get(name), Mapping):
                held[name] = {option: getattr(value, option) for option in value.model_fields_set}
        made = Settings.__new__(Settings)
        held |= {name: self._given_models[value] for name, value in held.items() if self.is_given(value)}
        made._validate_fields(merge(held, overrides), SettingsSources(overrides, {}, None))
        return made

    def describe_origin(self, *path: str) -> str:
        """Which variable or which line of which file an option of `recall` is from, for messages; "" for neither."""
        place = {"config": self.config} if self.config else {"home": self.home}
        sources = SettingsSources.load(type(self), place)
        is_argument = value_at(sources.merge_all(), path) != value_at({"recall": self.recall}, path)
        return "" if is_argument else sources.describe_origin(path)

    # -- checks

    @field_validator(*PATH_SETTINGS, mode="before")
    @classmethod
    def _expand_paths(cls, value: Any) -> Any:
        return expand_path(value) if isinstance(value, str | Path) else value

    @field_validator("home")
    @classmethod
    def _check_home(cls, value: Path) -> Path:
        if value.is_file():
            raise ValueError(f"home must be a folder, {value} is a file")
        return value

    @field_validator(*STORE_URL_SETTINGS)
    @classmethod
    def _check_store_url(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        if value.startswith(SQLITE_URL_PREFIX):
            return SecretText(expand_url(value))
        schemes, example = _SERVER_URL_FORMATS[str(info.field_name)]
        try:
            check_server_url(value, schemes, f"{SQLITE_URL_PREFIX}path or {example}")
        except ValueError as error:
            secret = f"; or put the password into {str(info.field_name).replace('url', 'password_file')}"
            raise ValueError(f"{error}{secret}") from None
        return value

    @field_validator("time_zone")
    @classmethod
    def _check_time_zone(cls, value: str) -> str:
        if value:
            parse_timezone(value, "time_zone")
        return value

    @field_validator("base_url", "llm_base_url")
    @classmethod
    def _check_web_url(cls, value: str | None) -> str | None:
        if value is not None:
            check_web_url(value)
        return value

    @field_validator("embedder", "reranker")
    @classmethod
    def _expand_model_folder(cls, value: str) -> str:
        prefix, tilde, rest = value.partition("local:~")
        return f"local:{expand_path('~' + rest)}" if tilde and not prefix else value

    @field_validator("embedder")
    @classmethod
    def _normalize_embedder(cls, value: str) -> str:
        vendor = value.replace("/", ":", 1) if ":" not in value else value
        if not vendor.split(":", 1)[0].isidentifier():
            raise ValueError(
                "must be auto, or vendor:model such as hash, local:all-MiniLM-L6-v2, openai:text-embedding-3-small"
            )
        return vendor

    @model_validator(mode="after")
    def _check_one_stack(self) -> Settings:
        log, graph = self.log_url, self.graph_url
        if _is_server(log) != _is_server(graph):
            given, missing = ("graph_url", "log_url") if _is_server(graph) else ("log_url", "graph_url")
            raise ValueError(
                f"{given} names a server, {missing} none: log and graph are both servers or both embedded. "
                f"Set {missing} to one like {_SERVER_URL_FORMATS[missing][1]}, or leave {given} out"
            )
        if log is not None and graph is not None and log != graph and not _is_server(log):
            raise ValueError(
                "graph_url and log_url must name the same SQLite file: the graph is committed with the log"
            )
        if self.graph_vectors and not _is_server(graph):
            raise ValueError("graph_vectors needs a graph on a Neo4j server: set graph_url and log_url")
        return self

    # -- what follows from them

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of all users, None where each has their own."""
        return parse_timezone(self.time_zone) if self.time_zone else None

    @property
    def day_first(self) -> bool | None:
        """How 05/07/2026 is read; None where the language of a text decides."""
        return self.date_order == "day_first" if self.date_order else None

    @property
    def database(self) -> Path:
        """The main file of the embedded stack; where it would be, when the stores are servers."""
        return _sqlite_path(self.log_url or self.graph_url, self.home / "memory.db")

    @property
    def temp_dir(self) -> Path | None:
        """Where to put a large file for a moment: beside the store; None for the system's own place."""
        return None if _is_server(self.log_url) else self.database.parent

    @property
    def session_file(self) -> Path | None:
        """The session cache's file; None when it is a server."""
        return None if _is_server(self.session_url) else _sqlite_path(self.session_url, self.home / "session.db")

    @property
    def log_server_url(self) -> str | None:
        """The URL of the Postgres that is the log, if one is, with its password."""
        return _server_url_with_password(self.log_url, "log_password_file", self.log_password_file)

    @property
    def graph_server_url(self) -> str | None:
        """The URL of the Neo4j that is the graph, if one is, with its password."""
        return _server_url_with_password(self.graph_url, "graph_password_file", self.graph_password_file)

    @property
    def session_server_url(self) -> str | None:
        """The URL of the Redis that is the session cache, if one is, with its password."""
        return _server_url_with_password(self.session_url, "session_password_file", self.session_password_file)

    @property
    def recalls_per_second(self) -> float:
        """How many recalls a second a user may ask for in the long run; 0 for any number."""
        if self.recall_rate is None:
            return SERVER_RECALLS_PER_SECOND if _is_server(self.log_url) else 0.0
        return self.recall_rate

    def is_given(self, spec: object) -> bool:
        """Whether this names a model that was handed over as an object or a function."""
        return isinstance(spec, str) and spec in self._given_models

    @property
    def model_objects(self) -> Mapping[str, Any]:
        """The models that were handed over, by their names in these settings; they are neither shown nor stored."""
        return self._given_models

    @property
    def model_folder(self) -> Path:
        """Where local weights and built graphs lie."""
        return self.models or self.home / "models"

    def public_values(self) -> dict[str, Any]:
        """The settings that change results, without places, addresses and secrets: for audit rows and receipts."""
        hidden = {
            "config",
            "home",
            "graph_url",
            "log_url",
            "session_url",
            "log_password_file",
            "graph_password_file",
            "session_password_file",
            "models",
            "base_url",
            "llm_base_url",
            "llm_concurrency",
            "threads",
            "recall_rate",
            "recall_burst",
            "graph_vectors",
            "background",
            "current_md",
            "vault",
            "worker",
            "server",
            "log_model_errors",
        }
        shown: dict[str, Any] = self.model_dump(mode="json", exclude=hidden)
        return {name: "command" if is_command(str(value)) else value for name, value in shown.items()}

    def fingerprint(self) -> str:
        """A hash of `public_values()`: equal for equal behavior."""
        return hashlib.sha256(json.dumps(self.public_values(), sort_keys=True).encode()).hexdigest()[:16]


def _sqlite_path(url: str | None, default: Path) -> Path:
    return (
        Path(url.removeprefix(SQLITE_URL_PREFIX)) if url is not None and url.startswith(SQLITE_URL_PREFIX) else default
    )


def _is_server(url: str | None) -> bool:
    return url is not None and not url.startswith("sqlite:")


def _server_url_with_password(url: str | None, name: str, file: Path | None) -> str | None:
    """The URL with the password of a file in it; None for an embedded store. Raises ConfigError for a useless file."""
    if url is None or not _is_server(url) or file is None:
        return url if _is_server(url) else None
    try:
        return SecretText(add_password(url, _load_first_line(file)))
    except OSError as error:
        reason = f"{file} cannot be read: {failure_reason(error)}"
    except UnicodeDecodeError:
        reason = f"{file} is not UTF-8 text"
    except ValueError as error:
        reason = str(error)
    raise ConfigError(f"setting {name}: {reason}")


def _load_first_line(file: Path) -> str:
    with file.open("rb") as opened:
        line = opened.readline(MAX_PASSWORD_FILE_BYTES).rstrip(b"\r\n")
    if not line:
        raise ValueError(f"{file} is empty; its first line is the password")
    return line.decode("utf-8")


def load_settings(settings: Settings | None = None, **overrides: Unpack[SettingsOverrides]) -> Settings:
    """Read the settings from all sources, or change some of those given.

    Raises ConfigError naming the setting, where it is from, what is wrong with it and what it may be.
    """
    if settings is None:
        return Settings(**overrides)
    return settings.with_overrides(overrides) if overrides else settings


# -- errors


def _to_config_error(error: ValidationError, sources: SettingsSources) -> ConfigError:
    """The first thing that is wrong, in a message that holds no value."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = _setting_path(first["loc"])
    name, where = ".".join(path), sources.describe_origin(path)
    if first["type"] == "extra_forbidden":
        return ConfigError(_unknown_setting_message(path, _option_names(path[:-1]), where))
    message = first["msg"].removeprefix("Value error, ")
    if not name or message.startswith(f"{name} "):
        return ConfigError(f"{message}{where}")
    return ConfigError(f"setting {name}{where}: {message}")


def _unknown_setting_message(path: Sequence[str], known: Collection[str], origin: str) -> str:
    meant = [f"did you mean {name!r}? " for name in get_close_matches(path[-1], known, 1, MIN_NAME_LIKENESS)]
    return f"unknown setting {'.'.join(path)!r}{origin}; {''.join(meant)}known ones: {', '.join(sorted(known))}"


def _setting_path(location: Sequence[int | str]) -> tuple[str, ...]:
    """The setting at a location of pydantic's, which also goes on into the types that a value may have."""
    kind: Any = Settings
    path: list[str] = []
    for part in map(str, location):
        is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
        if path and not is_model and get_origin(kind) is not dict:
            break
        path.append(part)
        kind = kind.model_fields[part].annotation if is_model and part in kind.model_fields else dict[str, Any]
    return tuple(path)


def _option_names(path: Sequence[str]) -> Collection[str]:
    """The names that stand at a place among the settings."""
    model: Any = Settings
    for name in path:
        model = model.model_fields[name].annotation
    return tuple(model.model_fields)
