"""docs/reference/settings.md has every setting with its default and bounds, and every key of the source documents."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import agentmem
from agentmem.jobs.job import list_scheduled_jobs
from agentmem.recall.options import parse_options
from agentmem.settings.settings import Settings, load_settings
from tests.docs.test_docs import PYTHON, ROOT
from tests.docs.test_source_behaviour import CALL, is_call, is_command, literal

PAGE = ROOT / "docs/reference/settings.md"
NOT_SET, NONE = "not set", "—"
LIMITS = ("ge", "gt", "le", "lt")
BOUNDED = re.compile(r"whole,|above |\d")
WRITTEN = re.compile(rf"`[^`]+`|{NOT_SET}|{NONE}")
STATED = re.compile(rf"((?:(?:{WRITTEN.pattern})(?:, )?)+)(?:: (.+))?")

KEYS = {
    "000": [
        "memory.buffer.size",
        "memory.buffer.multiplier",
        "memory.buffer.vector_search",
        "memory.buffer.embedding_model",
        "memory.working.max_memory_mb",
        "memory.working.fifo_interval_min",
        "memory.persistent.enabled",
        "memory.persistent.provider",
        "memory.persistent.connection_string",
        "memory.persistent.user_isolation",
        "memory.synopsis.identity_ttl",
        "memory.synopsis.context_ttl",
        "memory.synopsis.refresh_on_access",
        "llm.models.embedding",
        "WorkingMemory(dimension)",
        "LRUCache(1000)",
        "get_context(max_tokens)",
        "buffer.get_recent(10)",
        "working.search(k)",
        "persistent.search(k)",
        "--from-dim",
        "--to-dim",
        "--to-model",
        "--connection-string",
    ],
    "001": [
        "max_size",
        "buffer_multiplier",
        "model",
        "vector_dimension",
        "recency_bias",
        "rebuild_every",
        "summarizer",
        "search(limit)",
        "search(filter_metadata)",
        "search(query_vector)",
        "search(recency_bias)",
    ],
    "002": [
        "extraction_model",
        "interval_minutes of consolidate",
        "interval_minutes of patterns",
        "interval_minutes of decay",
        "interval_minutes of cleanup",
        "interval_minutes of promote",
        "interval_minutes of audit_partitions",
        "recall settings",
        "retrieval weights",
        "temporal boost",
        "over-fetch of top_k",
        "depth of the graph",
        "off, writes, reads, verbose",
        "retention_days",
        "promotion: confidence",
        "promotion: access_count",
        "promotion: conversations",
        "decay_rate",
        "24h without access",
        "weekly decay of inferred facts",
        "expiration of working memory",
        "archiving of conversations",
        "salience of entities to delete",
        "days of entities to delete",
        "channel",
        "rate limiting",
        "connection pooling",
        "vector.dimensions",
        "vector.similarity_function",
        "maxmemory-policy",
        "heap and page cache, shared_buffers and others, Redis memory",
    ],
    "003": [
        "MNEMEX_REVIEW_BLEND_RATIO",
        "MNEMEX_REVIEW_DANGER_ZONE_MIN",
        "MNEMEX_REVIEW_DANGER_ZONE_MAX",
        "MNEMEX_AUTO_REINFORCE",
        "halflife_seconds",
        "λ",
        "β",
        "strength",
        "promote_threshold",
        "promote_use_count",
        "time window of uses",
        "forget_threshold",
        "archive_instead",
        "dry_run",
        "cross-domain similarity",
        "boost",
        "threshold of links",
        "auto-merge",
        "LLM-review",
        "vault",
        "embedding model",
        "top_k",
    ],
    "004": [
        "stm_window_size",
        "embedding_model",
        "ltm_retention_days",
        "~/.moxxy",
        "swarm.db",
        "current.md",
        "limit of a search",
        "port 17890",
    ],
}
"""What can be configured, by document: keys and arguments by their names, what has none by what it says."""


class Row(NamedTuple):
    """A setting as the page has it."""

    name: str
    default: str
    allowed: str
    does: str


class Mapped(NamedTuple):
    """A key of a document as the page has it."""

    document: str
    key: str
    here: tuple[str, ...]
    there: str
    default: str


def _cells(head: str, text: str) -> Iterator[tuple[str, list[str]]]:
    """The rows of all tables that begin like this, each with the heading it stands under."""
    heading, inside = "", False
    for line in text.splitlines():
        heading = line.lstrip("# ") if line.startswith("#") else heading
        inside = line.startswith("|") and (inside or line.startswith(head))
        if inside and not line.startswith((head, "|---")):
            yield heading, [cell.strip() for cell in line.strip("| ").split(" | ")]


TEXT = PAGE.read_text(encoding="utf-8")
ROWS = [Row(*cells) for _, cells in _cells("| setting |", TEXT)]
MAPPED = [
    Mapped(heading[:3], key.replace("`", ""), tuple(re.findall(r"`([^`]+)`", here)), there, default)
    for heading, (key, here, there, default) in _cells("| key of the document |", TEXT)
]


def fields_of_settings() -> dict[str, FieldInfo]:
    """Every setting that there is, by its path."""
    found: dict[str, FieldInfo] = {}
    options = parse_options({}, "best")
    parts = {each.name: getattr(options, each.name) for each in fields(options)}
    parts |= {each.name: each.options for each in options.techniques}
    for name, field in Settings.model_fields.items():
        if name == "recall":
            inner = {f"recall.{part}": value for part, value in parts.items() if isinstance(value, BaseModel)}
        else:
            inner = {name: field.default} if isinstance(field.default, BaseModel) else {}
            found |= {} if inner else {name: field}
        for path, part in inner.items():
            found |= {f"{path}.{option}": each for option, each in type(part).model_fields.items()}
    return found


FIELDS = fields_of_settings()


def value(cell: str) -> Any:
    """What a cell says: nothing, or what stands first in backticks, as JSON or as a word."""
    written = re.match(r"`([^`]+)`", cell)
    if written is None:
        return None if cell.startswith(NOT_SET) else NONE
    try:
        return json.loads(written[1])
    except ValueError:
        return written[1]


def same(stated: Any, default: Any) -> bool:
    """Whether a value of the page is this default. True is not 1 here, and `~` is the user's folder."""
    if isinstance(default, Path):
        return isinstance(stated, str) and Path(stated).expanduser() == default
    if isinstance(default, tuple):  # JSON has lists alone
        return stated == list(default)
    return stated == default and isinstance(stated, bool) == isinstance(default, bool)


def bounds(field: FieldInfo) -> str:
    """What a setting may be, as far as its type says so; empty where it does not."""
    choices = [each for each in get_args(field.annotation) if each is not NoneType]
    kind = choices[0] if NoneType in get_args(field.annotation) else field.annotation
    if get_origin(kind) is Literal:
        return ", ".join(f"`{json.dumps(each)}`" for each in choices)
    if kind is bool:
        return "`true`, `false`"
    limits = {name: f"{getattr(each, name):,}" for each in field.metadata for name in LIMITS if hasattr(each, name)}
    said = {
        ("ge",): "{ge} or more",
        ("ge", "le"): "{ge} to {le}",
        ("gt",): "above {gt}",
        ("gt", "le"): "above {gt}, at most {le}",
        ("gt", "lt"): "above {gt}, below {lt}",
        (): "",
    }[tuple(sorted(limits))].format(**limits)
    return f"whole, {said}" if said and kind is int else said


def test_every_setting_stands_on_the_page_once_and_nothing_else() -> None:
    named = [row.name.strip("`") for row in ROWS]
    assert (set(FIELDS) - set(named), set(named) - set(FIELDS)) == (set(), set())
    assert len(named) == len(set(named))
    assert [row for row in ROWS if not (row.name == f"`{row.name.strip('`')}`" and row.allowed and row.does)] == []


def test_defaults_and_bounds_are_those_of_the_code() -> None:
    for row in ROWS:
        field = FIELDS[row.name.strip("`")]
        assert same(value(row.default), default := field.get_default(call_default_factory=True)), (row, default)
        said = row.allowed.split("; ")[0]
        assert said == bounds(field) if bounds(field) else not BOUNDED.match(said), (row, bounds(field))


def test_every_setting_is_described_and_the_page_says_the_same() -> None:
    said = {row.name.strip("`"): re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", row.does) for row in ROWS}
    described = {name: field.description for name, field in FIELDS.items()}
    described["recall.ranking.by_time"] = said["recall.ranking.by_time"]  # the page adds where to read on
    assert said == described


@pytest.mark.parametrize(
    "name,default,stated",
    [
        ("decay.half_life_days", "`4` days", False),
        ("decay.half_life_days", "`3` days", True),
        ("max_calls", "`0`", False),
        ("max_calls", NOT_SET, True),
        ("current_md", "`0`", False),
        ("synopsis.facts", NONE, False),
        ("home", "`/root`", False),
        ("llm", NOT_SET, False),
        ("llm", '`"none"`', True),
    ],
)
def test_another_default_is_seen(name: str, default: str, stated: bool) -> None:
    assert same(value(default), FIELDS[name].get_default(call_default_factory=True)) == stated


def test_bounds_are_said_in_words() -> None:
    said = {name: bounds(FIELDS[name]) for name in ("threads", "decay.beta", "decay.danger_low", "max_cost", "llm")}
    assert said == {
        "threads": "whole, 1 to 64",
        "decay.beta": "0 to 10",
        "decay.danger_low": "above 0, below 1",
        "max_cost": "0 or more",
        "llm": "",
    }
    assert bounds(FIELDS["retention.ltm_retention_days"]) == "above 0, at most 1,000,000"


def test_every_key_of_the_documents_is_there_once() -> None:
    for document, keys in KEYS.items():
        assert [row.key for row in MAPPED if row.document == document] == keys, document
    assert {row.document for row in MAPPED} == set(KEYS)


def ours(token: str) -> Any:
    """The default of a setting, of an argument or of a job's interval; the token itself for a command that is there."""
    if token.startswith("agentmem "):
        assert is_command(token), token
        return token
    if token.startswith("worker.minutes."):
        return list_scheduled_jobs()[token.rpartition(".")[2]].minutes
    if token[0].isupper():
        name, given = CALL.fullmatch(token).groups()  # type: ignore[union-attr]
        assert is_call(token, getattr(agentmem, name.split(".")[0])), token
        return literal(given.partition("=")[2])
    return FIELDS[token].get_default(call_default_factory=True)


@pytest.mark.parametrize("row", MAPPED, ids=[f"{row.document} {row.key}" for row in MAPPED])
def test_a_key_became_what_is_there_with_its_default_and_a_reason_where_it_differs(row: Mapped) -> None:
    here, reason = STATED.fullmatch(row.default).groups()  # type: ignore[union-attr]
    stated = [value(each) for each in WRITTEN.findall(here)]
    found = [ours(token) for token in row.here]
    assert found or reason, "a key without a counterpart says why"
    if stated != [NONE]:
        assert len(stated) <= len(found)
        assert [pair for pair in zip(stated, found, strict=False) if not same(*pair)] == []
    if (there := [value(each) for each in WRITTEN.findall(row.there)]) not in ([], [NONE]):
        assert there == stated[: len(there)] or reason, "where defaults differ the reason is said"


@pytest.mark.parametrize("wrong", ["decay.sing", "recall.hyde.sing", "worker.minutes.sing", "agentmem sing"])
def test_what_is_not_there_is_seen(wrong: str) -> None:
    with pytest.raises((KeyError, AssertionError)):
        ours(wrong)


def test_the_example_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = {kind: re.findall(rf"^```{kind}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)[0] for kind in ("toml", "sh")}
    monkeypatch.setenv("AGENTMEM_HOME", str(tmp_path / "home"))  # other documents' examples store in the shared one
    (tmp_path / "home").mkdir()
    (tmp_path / "home/agentmem.toml").write_text(block["toml"], encoding="utf-8")
    for word in shlex.split(block["sh"], comments=True):
        if (name := word.partition("="))[1]:
            monkeypatch.setenv(name[0], name[2])
    code, shown = PYTHON.findall(TEXT)[0][0], re.findall(r"^```text\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)[0]
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.returncode) == (shown, 0), run.stderr


def test_what_has_no_name_of_its_own_in_the_environment_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTMEM_RETENTION", '{"conversation_days": null}')
    monkeypatch.setenv("AGENTMEM_RECALL", '{"ranking": {"kinds": {"Turn": 1.0}}}')
    settings = load_settings()
    assert settings.retention.conversation_days is None
    assert parse_options(settings.recall).ranking.kinds["Turn"] == 1.0
