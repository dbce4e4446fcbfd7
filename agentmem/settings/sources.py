"""Where settings come from: arguments, then AGENTMEM_* variables, then one configuration file.

The file is the one that `config` names, else `agentmem.toml` in the home. One in the working directory is never read,
because a folder that somebody else made must not choose programs and addresses; that it was ignored is reported.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsError

from agentmem.core.redaction import failure_reason, is_command
from agentmem.core.telemetry import WARNING, log_event
from agentmem.errors import ConfigError

CONFIG_NAME = "agentmem.toml"
ENV_PREFIX = "AGENTMEM_"
ENV_NESTED_DELIMITER = "__"
SQLITE_URL_PREFIX = "sqlite:///"
MAX_CONFIG_BYTES = 1_000_000
MIN_NAME_LIKENESS = 0.8  # by difflib, from which one name counts as another misspelled
PATH_SETTINGS = (
    "config",
    "home",
    "log_password_file",
    "graph_password_file",
    "session_password_file",
    "models",
    "vault",
)
STORE_URL_SETTINGS = ("log_url", "graph_url", "session_url")
LLM_SETTINGS = ("llm", "extraction_llm", "verdict_llm", "recall_llm", "synopsis_llm")
MODEL_SETTINGS = (*LLM_SETTINGS, "embedder", "reranker")
GIVEN_PREFIX = "given:"
_OTHERS_CAN_WRITE = stat.S_IWGRP | stat.S_IWOTH
_KEY = re.compile(r"""[ \t]*((?:[\w.-]|"[^"\n]*"|'[^'\n]*'|[ \t])+?)[ \t]*=""")
_TABLE = re.compile(r"[ \t]*\[{1,2}([^\[\]]+)\]{1,2}")

SettingPath = Sequence[int | str]


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file as it was read; its relative paths start at its own folder."""

    path: Path
    text: str = field(repr=False)
    table: Mapping[str, Any] = field(repr=False)

    def find_line(self, path: SettingPath) -> int:
        """The line in which a setting, or the innermost table around it that is found, stands."""
        wanted, table, best = [str(part) for part in path], list[str](), (0, 1)
        for number, line in enumerate(self.text.splitlines(), 1):
            if header := _TABLE.match(line):
                table = _split_key(header[1])
                keys = table
            elif key := _KEY.match(line):
                keys = [*table, *_split_key(key[1])]
            else:
                continue
            if keys == wanted[: len(keys)] and len(keys) > best[0]:
                best = (len(keys), number)
        return best[1]


@dataclass(frozen=True, slots=True)
class SettingsSources:
    """What each source says, the first one before the others."""

    arguments: Mapping[str, Any] = field(repr=False)
    environment: Mapping[str, Any] = field(repr=False)
    file: ConfigFile | None

    @classmethod
    def load(cls, settings: type[BaseSettings], arguments: Mapping[str, Any]) -> SettingsSources:
        """Read the environment and the configuration file. Raises ConfigError naming the variable or the file."""
        environment = read_environment(settings)
        return cls(arguments, environment, _find_config(arguments, environment))

    def merge_all(self) -> dict[str, Any]:
        """The values of all sources, groups joined option by option; `config` is the file that was read."""
        found = merge(merge(self.file.table if self.file else {}, self.environment), self.arguments)
        return found | ({"config": self.file.path} if self.file else {})

    def describe_origin(self, path: SettingPath) -> str:
        """Where a setting is from: ` (environment variable X)`, ` (FILE, line N)`, "" for an argument or a default."""
        if _has_value(self.arguments, path):
            return ""
        if _has_value(self.environment, path):
            return f" (environment variable {_variable_name(path)})"
        if self.file is not None and _has_value(self.file.table, path):
            return f" ({self.file.path}, line {self.file.find_line(path)})"
        return ""


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """The values of both; where both have one, that of `high`, mappings joined key by key."""
    found = dict(low)
    for name, value in high.items():
        both = isinstance(value, Mapping) and isinstance(found.get(name), Mapping)
        found[name] = merge(found[name], value) if both else value
    return found


# -- paths


def expand_path(path: str | os.PathLike[str]) -> Path:
    """The path with `~` or `~user` at its beginning replaced. Raises ValueError for an empty or impossible one."""
    text = os.fspath(path)
    if not text or "\0" in text:
        raise ValueError("must be a path, got an empty text or one with a NUL character")
    expanded = os.path.expanduser(text)
    if text.startswith("~") and not os.path.isabs(expanded):
        raise ValueError("begins with ~, but no home folder is known for that user; write the whole path")
    return Path(expanded)


def expand_url(url: str) -> str:
    """The URL of a file with `~` replaced; another one as it is. Raises ValueError where it names no file."""
    return (
        f"{SQLITE_URL_PREFIX}{expand_path(url.removeprefix(SQLITE_URL_PREFIX))}"
        if url.startswith(SQLITE_URL_PREFIX)
        else url
    )


def default_home() -> Path:
    """`~/.agentmem`. Raises ConfigError where the user has no home folder."""
    with suppress(ValueError):
        return expand_path("~/.agentmem")
    raise ConfigError("setting home: no home folder is known for this user; set AGENTMEM_HOME or give --home")


def _resolve_relative_paths(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The values of a file, relative paths in them made absolute from its folder."""

    def place(path: str) -> str:
        return path if not path or path.startswith("~") else str(folder / path)

    def program(spec: str) -> str:
        line = re.split(r"[:/]", spec, maxsplit=1)[1]
        try:
            words = shlex.split(line)
        except ValueError:  # the provider says so
            return spec
        relative = words and "/" in words[0] and not words[0].startswith(("/", "~"))
        return f"command:{shlex.join([place(words[0]), *words[1:]])}" if relative else spec

    changes: list[tuple[tuple[str, ...], Callable[[str], bool], Callable[[str], str]]] = [
        (PATH_SETTINGS, lambda _: True, place),
        (
            STORE_URL_SETTINGS,
            lambda url: url.startswith(SQLITE_URL_PREFIX) and url != SQLITE_URL_PREFIX,
            lambda url: SQLITE_URL_PREFIX + place(url[10:]),
        ),
        (LLM_SETTINGS, is_command, program),
        (("embedder", "reranker"), lambda spec: spec.startswith("local:."), lambda spec: "local:" + place(spec[6:])),
    ]
    found = dict(table)
    for names, concerned, change in changes:
        for name in names:
            value = found.get(name)
            if isinstance(value, str) and concerned(value):
                found[name] = change(value)
    return found


def name_given_models(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values with names in the place of models that are objects, and these by their names."""
    named, given = dict(values), dict[str, Any]()
    for setting in MODEL_SETTINGS:
        model = named.get(setting)
        if model is None or isinstance(model, str | bool | int | float | bytes | Mapping | list | tuple):
            continue
        word = getattr(model, "identity", None) or getattr(model, "__name__", None) or type(model).__name__
        name, number = f"{GIVEN_PREFIX}{word}", 1
        while given.setdefault(name, model) is not model:
            number += 1
            name = f"{GIVEN_PREFIX}{word}#{number}"
        named[setting] = name
    return named, given


# -- the environment


def read_environment(settings: type[BaseSettings]) -> dict[str, Any]:
    """What the AGENTMEM_* variables say. Raises ConfigError for a misspelled name and for malformed JSON."""
    for variable in sorted(os.environ):
        name = variable.removeprefix(ENV_PREFIX).split(ENV_NESTED_DELIMITER)[0].lower()
        if variable.startswith(ENV_PREFIX) and name not in settings.model_fields:
            for meant in get_close_matches(name, settings.model_fields, 1, MIN_NAME_LIKENESS):
                raise ConfigError(f"environment variable {variable}: no setting {name!r}; {meant!r} is one")
    with suppress(SettingsError, RecursionError):  # reported below: an error raised here would carry the value
        return EnvSettingsSource(settings)()
    raise ConfigError(f"environment variable {_find_malformed_variable(settings)}: the value is not valid JSON")


def _find_malformed_variable(settings: type[BaseSettings]) -> str:
    """The variable for a group of settings whose value is not JSON."""
    for variable, value in sorted(os.environ.items()):
        kind: Any = settings
        if not variable.upper().startswith(ENV_PREFIX):
            continue
        for part in variable[len(ENV_PREFIX) :].lower().split(ENV_NESTED_DELIMITER):
            fields = kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {}
            kind = fields[part].annotation if part in fields else None
        is_group = get_origin(kind) is dict or (isinstance(kind, type) and issubclass(kind, BaseModel))
        if is_group and not _is_json(value):
            return variable
    return f"{ENV_PREFIX}*"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _variable_name(path: SettingPath) -> str:
    """The variable that says this, with the longest name."""
    variables = {name.upper(): name for name in os.environ}
    for length in range(len(path), 0, -1):
        name = ENV_PREFIX + ENV_NESTED_DELIMITER.join(str(part) for part in path[:length]).upper()
        if name in variables:
            return variables[name]
    return f"{ENV_PREFIX}{str(path[0]).upper()}"


def value_at(values: Mapping[str, Any], path: SettingPath) -> Any:
    """What stands at a path, or where a value that is no mapping ends it; `...` for nothing."""
    found: Any = values
    for part in path:
        if not isinstance(found, Mapping):
            break
        found = found.get(str(part), ...)
    return found


def _has_value(values: Mapping[str, Any], path: SettingPath) -> bool:
    return bool(path) and value_at(values, path) is not ...


# -- the file


def _find_config(arguments: Mapping[str, Any], environment: Mapping[str, Any]) -> ConfigFile | None:
    """The file that `config` names, else the one in the home, if there is one."""
    named = environment.get("config") if arguments.get("config") is None else arguments["config"]
    if named is not None:
        try:
            path = expand_path(named).absolute()
        except (TypeError, ValueError) as error:
            reason = "must be a path" if isinstance(error, TypeError) else str(error)
            raise ConfigError(f"setting config (--config or {ENV_PREFIX}CONFIG): {reason}") from None
        return load_config(path)
    home = arguments.get("home", environment.get("home"))
    try:
        path = (default_home() if home is None else expand_path(home)).absolute() / CONFIG_NAME
    except (TypeError, ValueError):
        return None  # the check of `home` says what is wrong with it
    return load_config(path, in_home=True) if os.path.lexists(path) else None


def load_config(path: Path, *, in_home: bool = False) -> ConfigFile:
    """Read a configuration file. Raises ConfigError, which names it, for one that is missing, malformed or not safe."""
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            raise ConfigError(f"configuration file {path}: this is no file; config must name one")
        with path.open("rb") as file:
            _check_trusted(path, os.fstat(file.fileno()), in_home=in_home)
            data = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"configuration file {path} cannot be read ({failure_reason(error)}); "
            f"it is named by --config or {ENV_PREFIX}CONFIG, else {CONFIG_NAME} in the home"
        ) from None
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError(f"configuration file {path} is larger than {MAX_CONFIG_BYTES:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"configuration file {path}, line {line}: this is not UTF-8 text") from None
    table = _parse_toml(path, text)
    if "config" in table:
        raise ConfigError(f"configuration file {path}: config cannot be set here; use --config or {ENV_PREFIX}CONFIG")
    return ConfigFile(path, text, _resolve_relative_paths(table, path.parent))


def _parse_toml(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # its own words may quote what stands there
        place = re.search(r"at line (\d+), column (\d+)", str(error))
    lines = text.count("\n") + 1
    at = f"line {place[1]}, column {place[2]}" if place else f"line {lines}"
    raise ConfigError(f"configuration file {path}, {at}: this is not valid TOML")


def _check_trusted(path: Path, state: os.stat_result, *, in_home: bool) -> None:
    """Refuse a file that somebody else can change, because it may name programs to run and addresses to write to."""
    if state.st_mode & _OTHERS_CAN_WRITE:
        raise ConfigError(
            f"configuration file {path} can be changed by others; run: chmod go-w {shlex.quote(str(path))}"
        )
    trusted = (0, os.geteuid())
    if in_home and not (state.st_uid in trusted and path.lstat().st_uid in trusted):
        raise ConfigError(f"configuration file {path} belongs to another user; take it over, or name it with --config")


def _split_key(text: str) -> list[str]:
    """The parts of a dotted key, without quotes."""
    return [part.strip().strip("\"'") for part in text.split(".")]


# -- a file that is ignored


def find_ignored_config(config: Path | None, home: Path) -> Path | None:
    """`agentmem.toml` of the working directory when it is not the file that was read and not the home's."""
    try:
        folder = Path.cwd()
        found = folder / CONFIG_NAME
        if not found.is_file() or (home.is_dir() and home.samefile(folder)):
            return None
        return None if config is not None and config.samefile(found) else found
    except OSError:  # a working directory that was removed, or that cannot be entered
        return None


@cache
def report_ignored(path: Path) -> None:
    """Note once per process in the log that a file of the working directory was ignored."""
    log_event(
        WARNING, "config_ignored", path=str(path), fix=f"name it with --config or {ENV_PREFIX}CONFIG, if it is yours"
    )
