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

    config: Path | None = Field(
        default=None,
        description="The configuration file. When settings are read, the file that was read; `None` for none.",
    )
    home: Path = Field(
        default_factory=default_home,
        description="Where the store, local models and the agents' pages are, as far as nothing else is said below.",
    )
    graph_url: Secret | None = Field(
        default=None,
        repr=False,
        description=(
            "A Neo4j server that follows the log, for people and jobs that query it; it needs a log on a server. Not "
            "set: none. What recall asks of the graph is in the log."
        ),
    )
    log_url: Secret | None = Field(
        default=None, repr=False, description="The log, which is the truth. Not set: `memory.db` in `home`."
    )
    session_url: Secret | None = Field(
        default=None, repr=False, description="The session's short-lived values. Not set: `session.db` in `home`."
    )
    log_password_file: Path | None = Field(default=None, description="Its first line is the password of `log_url`.")
    graph_password_file: Path | None = Field(default=None, description="The same for `graph_url`.")
    session_password_file: Path | None = Field(default=None, description="The same for `session_url`.")
    graph_vectors: bool = Field(
        default=False,
        description="Keep vectors on Neo4j's nodes, too, for people who search in Cypher: vectors in the graph.",
    )
    embedder: str = Field(
        default="auto",
        description=(
            "What turns text into vectors. `auto` is the local model where it is installed, else `hash`, "
            "which knows words only; it never sends text away. A store keeps the one it began with: `agentmem "
            "admin rebuild --embedder`."
        ),
    )
    llm: Secret = Field(
        default="none", repr=False, description="The model for every purpose that names none of its own."
    )
    extraction_llm: Secret | None = Field(
        default=None, repr=False, description="The one that reads turns. Not set: `llm`, as in the next three."
    )
    verdict_llm: Secret | None = Field(default=None, repr=False, description="The one that judges contradictions.")
    recall_llm: Secret | None = Field(
        default=None, repr=False, description="The one that techniques and the reranker `llm:` ask."
    )
    synopsis_llm: Secret | None = Field(default=None, repr=False, description="The one that words the synopsis.")
    llm_base_url: Secret | None = Field(
        default=None,
        repr=False,
        description="Where models are asked instead of at the vendor or the default address of the server.",
    )
    llm_concurrency: int = Field(default=4, ge=1, le=64, description="How many are under way at a time.")
    llm_profile: Literal["auto", "full", "small"] = Field(
        default="auto",
        description=(
            "How a model reads turns: `small` is two turns and six fields a call, within 4,096 tokens. `auto` "
            "is `small` up to an `llm_context` of 8,192."
        ),
    )
    llm_context: int | None = Field(
        default=None,
        ge=2_048,
        description="What the model reads at a time, prompt and reply together, where you know it.",
    )
    log_model_errors: bool = Field(
        default=False,
        description=(
            "For debugging: log what a failing model service or program says, as the event "
            "`model_error_text`. It may repeat the user's words and keys, so they are then in your logs."
        ),
    )
    max_calls: int | None = Field(
        default=None,
        ge=0,
        description="Calls of language models in one run of a job. Not set: no bound, as in the next two.",
    )
    max_tokens: int | None = Field(default=None, ge=0, description="Tokens in one run, in and out.")
    max_cost: float | None = Field(default=None, ge=0, description="Dollars in one run.")
    reranker: str = Field(default="none", description="A second look at the best turns: rerankers.")
    audit_level: AuditLevel = Field(
        default="writes",
        description=(
            "What leaves a row: nothing; what is written; what is recalled, too; all of it with its content. "
            "See queries for auditors."
        ),
    )
    audit_days: int = Field(default=365, ge=1, description="How long rows are kept. In days.")
    recall_profile: RecallProfile = Field(
        default="default",
        description=(
            "`best` keeps vectors of word pieces and looks at the best turns again with them, and adds .1 to "
            "the turns of a conversation with good matches: mostly better, larger and slower (figures)."
        ),
    )
    recall: dict[str, dict[str, Any]] = Field(default_factory=dict)
    clock: Clock | None = Field(
        default=None, exclude=True, repr=False, description="What says how late it is. Not set: the system."
    )
    seed: int | str | None = Field(
        default=None,
        description=(
            "Ids are made from it, so that two runs give the same; recall has no deadlines then. Not set: random ids."
        ),
    )
    time_zone: str = Field(
        default="", description="Where all users are: when their days begin. Empty: by the turn, see time."
    )
    date_order: DateOrder = Field(
        default="",
        description=(
            "How 05/07/2026 is read. Empty: by the language of the text, and in English, where both are "
            "usual, not at all: it stays words."
        ),
    )
    threads: int = Field(default=2, ge=1, le=64, description="How many a local model reads side by side.")
    vector_cache_mb: int = Field(
        default=512,
        ge=1,
        description="Vectors of the users seen last that are kept in the process, for each embedder. In megabytes.",
    )
    models: Path | None = Field(
        default=None, description="Where local weights and what is built from them are. Not set: `models` in `home`."
    )
    base_url: Secret | None = Field(
        default=None, repr=False, description="Where a remote embedder is asked, when it is not the vendor."
    )
    dimensions: int | None = Field(
        default=None,
        ge=1,
        le=20_000,
        description="Length of the vectors, where the model leaves a choice. Not set: the model's own.",
    )
    model_timeout: float = Field(default=60.0, gt=0, description="For one request of an embedder. In seconds.")
    llm_timeout: float = Field(default=120.0, gt=0, description="For one request of a language model. In seconds.")
    working_turns: int = Field(default=50, ge=1, description="The window of working memory.")
    working_ttl: float = Field(
        default=3600.0,
        gt=0,
        description=(
            "How long context values and thoughts last once written, and outputs of tools while their user is "
            "silent. In seconds."
        ),
    )
    working_mb: float = Field(
        default=10.0,
        gt=0,
        allow_inf_nan=False,
        description=(
            "What the context values and thoughts of a user take at most; those written longest ago go first. "
            "In megabytes."
        ),
    )
    background: bool | None = Field(
        default=None,
        description=(
            "Run the jobs of the users who store turns here, beside the program. Not set: in `agentmem serve` "
            "and `agentmem mcp` alone."
        ),
    )
    current_md: bool = Field(
        default=False,
        description="Keep a readable page of the session under `agents/<agent>/` in `home`: working memory.",
    )
    catch_up_ms: float = Field(
        default=250.0,
        ge=0,
        description=(
            "How long a recall waits for what its own user has just written to reach vectors and graph. In "
            "milliseconds."
        ),
    )
    recall_rate: float | None = Field(
        default=None,
        ge=0,
        description=(
            "Recalls a second that a user may ask for in the long run; 0 for any number. Not set: 50 where "
            "the log is a server, else any number."
        ),
    )
    recall_burst: int = Field(default=100, ge=1, description="How many may come at once before that holds.")
    vault: Path | None = Field(
        default=None,
        description="Where each fact that is kept for long gets a Markdown note: curation. Not set: no notes.",
    )
    slots: dict[str, Slot] = Field(
        default_factory=dict, description="Slots of beliefs beside the built-in ones: beliefs."
    )
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
        if _is_server(graph) and not _is_server(log):
            raise ValueError(
                "graph_url names a server, log_url none: a graph on a server follows a log on one. Set log_url to one "
                f"like {_SERVER_URL_FORMATS['log_url'][1]}, or leave graph_url out"
            )
        if log is not None and graph is not None and log != graph and not _is_server(graph):
            raise ValueError(
                "graph_url and log_url must name the same SQLite file: the graph is committed with the log. Leave "
                "graph_url out, or set it to a Neo4j server"
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
