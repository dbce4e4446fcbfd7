"""docs/source-behaviour.md has rows for each section of the documents, and what they name exists as it is written."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from operator import attrgetter
from typing import Any, NamedTuple

import click
import pytest

import agentmem
from agentmem import AgentMemory
from agentmem.cli.main import cli_group
from agentmem.cli.verbs import VerbGroup
from agentmem.core.scope import GLOBAL, SWARM
from agentmem.jobs.job import list_scheduled_jobs
from agentmem.recall.options import parse_options
from agentmem.settings.settings import load_settings
from tests.docs.test_docs import NAMED, ROOT

PAGE = ROOT / "docs/source-behaviour.md"
HOW = ("kept", "widened", "replaced", "left out")
NONE = "—"
JOB = re.compile(r"(\w+) = (\d+) minutes?")
SETTING = re.compile(r"([a-z_]+(?:\.[a-z_]+)*)(?: = (.+))?")
CALL = re.compile(r"([\w.]+)(?:\((.*)\))?")
MADE = re.compile(r"CREATE (?:TABLE|VIEW)(?: IF NOT EXISTS)? (\w+)")
IN_SCHEMA = {name for path in (ROOT / "schema/sqlite").glob("*.sql") for name in MADE.findall(path.read_text())}

SECTIONS: dict[str, dict[str, int]] = {
    "000": {
        "Architecture Overview": 1,
        "Buffer: Implementation": 1,
        "Buffer: Behavior": 3,
        "Buffer: Summarization": 2,
        "Working: Vector Store": 1,
        "Working: Indexing": 1,
        "Working: Search": 1,
        "Working: FIFO Cleanup": 2,
        "Persistent: Dynamic Embedding Dimensions": 2,
        "Persistent: Schema": 1,
        "Persistent: Local Embedding Models": 3,
        "Persistent: Migrating Between Embedding Models": 1,
        "Importance Scoring": 3,
        "Synopsis: Two-Tier Cache": 2,
        "Synopsis: Generation": 1,
        "Synopsis: Token Savings": 1,
        "Query Planning": 6,
        "Multi-User Isolation": 2,
        "Performance Characteristics": 1,
        "Configuration Reference": 13,
    },
    "001": {
        "Overview": 1,
        "Architecture": 3,
        "Buffer Management": 6,
        "Hybrid Retrieval": 6,
        "Context Window vs. Total Buffer Size": 1,
        "User-Specific Partitioning": 1,
        "Performance Considerations": 2,
        "Integration with Agents": 1,
        "Configuration Examples": 3,
        "Best Practices": 2,
    },
    "002": {
        "Design Principles": 4,
        "Interface Layer": 2,
        "Episodic Memory": 6,
        "Semantic Memory": 7,
        "Procedural Memory": 6,
        "Working Memory": 7,
        "Retrieval Layer": 8,
        "RecallLayer": 7,
        "Extraction Pipeline": 6,
        "Reinforcement Signals": 3,
        "Background Processing": 7,
        "Audit Layer": 4,
        "Memory Channels": 3,
        "Goal Lifecycle": 2,
        "Data Flow: Storing": 1,
        "Data Flow: Retrieval": 2,
        "Data Flow: Consolidation": 1,
        "Memory Decay": 4,
        "Performance: Vector Search": 3,
        "Performance: Graph Traversal": 3,
        "Performance: Redis": 3,
        "Performance: Postgres": 1,
        "Scaling: Horizontal": 3,
        "Scaling: Vertical": 1,
        "Data Retention": 3,
        "Security": 5,
        "Monitoring": 5,
    },
    "003": {
        "Temporal Decay": 2,
        "Half-Life": 1,
        "Reinforcement": 2,
        "Promotion Criteria": 3,
        "Garbage Collection": 2,
        "Natural Spaced Repetition": 1,
        "Review Priority Calculation": 2,
        "Cross-Domain Usage Detection": 2,
        "Automatic Reinforcement": 3,
        "Blended Search Results": 3,
        "Configuration": 4,
        "Memory Model Extensions": 1,
        "Usage Pattern": 1,
        "Layers": 2,
        "Storage Format": 2,
        "Memory States": 1,
        "Data Flow: Saving": 1,
        "Data Flow: Searching": 2,
        "Data Flow: Touching": 1,
        "Data Flow: Promotion": 1,
        "Data Flow: Garbage Collection": 1,
        "Clustering": 2,
        "Cluster Actions": 3,
        "Basic Memory (Obsidian)": 2,
        "Sentence Transformers": 2,
        "Performance Considerations": 2,
        "Configuration Tuning": 3,
        "Future Enhancements": 6,
    },
    "004": {
        "Overview": 1,
        "STM: Characteristics": 3,
        "STM: Storage": 1,
        "Session Management": 2,
        "current.md": 1,
        "LTM: Characteristics": 2,
        "Vector Embeddings": 1,
        "How It Works": 1,
        "Semantic Retrieval": 1,
        "Swarm: Characteristics": 1,
        "Swarm: How Agents Share": 2,
        "Swarm: Storage": 1,
        "Swarm: Use Cases": 1,
        "Scheduled Jobs": 3,
        "Managing Schedules": 3,
        "Memory API": 6,
        "Memory Configuration": 3,
        "Best Practices": 3,
        "Troubleshooting": 3,
    },
}
"""How many rows each section of a document has at least, in the order of the document."""


class Row(NamedTuple):
    """One row of the page."""

    document: str
    section: str
    asks: str
    here: tuple[str, ...]
    how: str
    reason: str
    guards: tuple[str, ...]


def _rows() -> Iterator[Row]:
    document = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"## Document (\d{3}):", line):
            document = heading[1]
        if not line.startswith("| ") or line.startswith("| section |"):
            continue
        section, asks, here, said, guard = (cell.strip() for cell in line.strip("| ").split(" | "))
        how, _, reason = said.partition(": ")
        guards = () if guard == NONE else tuple(re.findall(r"`(\w+)`", guard))
        yield Row(document, section, asks, tuple(re.findall(r"`([^`]+)`", here)), how, reason, guards)


ROWS = list(_rows())
TOKENS = sorted({token for row in ROWS for token in row.here})


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentMemory]:
    with AgentMemory("alice", home=tmp_path_factory.mktemp("behaviour") / "home", embedder="hash") as opened:
        yield opened


def literal(text: str | ast.expr) -> Any:
    """A value as it is written in Python; a bare word is text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return ast.unparse(text) if isinstance(text, ast.expr) else text


def is_command(token: str) -> bool:
    """`agentmem` with a command that there is, and options that it has."""
    _, name, *options = token.split()
    command = cli_group.get_command(click.Context(cli_group), name)
    if isinstance(command, VerbGroup) and options and not options[0].startswith("-"):
        verb, *options = options
        command = command.commands.get(verb)
    known = {option for each in (command.params if command else ()) for option in each.opts}
    return command is not None and set(options) <= known


def is_call(token: str, start: Any) -> bool:
    """Something that can be reached by attributes and fields, with the defaults that are written behind it."""
    path, arguments = CALL.fullmatch(token).groups()  # type: ignore[union-attr]
    found = start
    for name in path.split(".")[1:]:
        if name in getattr(found, "model_fields", {}):
            return arguments is None
        if not hasattr(found, name):
            return False
        found = attrgetter(name)(found)
    if arguments is None:
        return True
    parameters = inspect.signature(found).parameters
    call = ast.parse(f"f({arguments})", mode="eval").body
    assert isinstance(call, ast.Call)
    stated = {str(keyword.arg): literal(keyword.value) for keyword in call.keywords}
    return bool(stated) and all(name in parameters and parameters[name].default == stated[name] for name in stated)


def setting(path: str) -> Any:
    """The value of a setting when nobody sets it. Raises AttributeError or KeyError where there is none."""
    first, *rest = path.split(".")
    if first != "recall" or not rest:
        return attrgetter(path)(load_settings())
    options = parse_options({})
    techniques = {each.name: each.options for each in options.techniques}
    sections: dict[str, Any] = {"ranking": options.ranking, "context": options.context, "reranker": options.reranker}
    return attrgetter(rest[1])((techniques | sections)[rest[0]])


def is_setting(token: str) -> bool:
    """A setting, with the default that is written behind it."""
    found = SETTING.fullmatch(token)
    if found is None:
        return False
    try:
        value = setting(found[1])
    except (AttributeError, KeyError):
        return False
    return found[2] is None or value == literal(found[2])


def exists(token: str, memory: AgentMemory) -> bool:
    """Whether something of ours is there as the page writes it."""
    if token.startswith("python -m "):
        return find_spec(f"{token.removeprefix('python -m ')}.__main__") is not None
    if token.startswith("agentmem "):
        return is_command(token)
    if token.startswith("memory."):
        return is_call(token, memory)
    if token[:1].isupper():
        name = re.split(r"[.(]", token)[0]
        return name in agentmem.__all__ and is_call(token, getattr(agentmem, name))
    minutes = {name: job.minutes for name, job in list_scheduled_jobs().items()}
    if job := JOB.fullmatch(token):
        return minutes.get(job[1]) == float(job[2])
    return token in {SWARM, GLOBAL, *IN_SCHEMA} or is_setting(token)


def test_every_section_of_the_documents_has_its_rows() -> None:
    for document, sections in SECTIONS.items():
        found = Counter(row.section for row in ROWS if row.document == document)
        assert list(found) == list(sections), document
        assert {name: number for name, number in sections.items() if found[name] < number} == {}, document
    assert {row.document for row in ROWS} == set(SECTIONS)


def test_every_row_says_what_how_and_why() -> None:
    assert [row for row in ROWS if not (row.section and row.asks and row.here and row.how in HOW)] == []
    assert [row for row in ROWS if (row.how == "kept") == bool(row.reason)] == []
    assert len({(row.document, row.section, row.asks) for row in ROWS}) == len(ROWS)


def test_every_row_has_a_guard_but_what_is_left_out() -> None:
    assert [row for row in ROWS if (row.how == "left out") == bool(row.guards)] == []
    assert {name for row in ROWS for name in row.guards} <= set(NAMED), "that these exist is tested with all others"


@pytest.mark.parametrize("token", TOKENS)
def test_what_a_row_names_is_there_as_it_is_written(token: str, memory: AgentMemory) -> None:
    assert exists(token, memory)


@pytest.mark.parametrize(
    "wrong",
    [
        "memory.remember(top_k=5)",
        "memory.working.sing",
        "agentmem sing",
        "agentmem admin rebuild --sing",
        "decay.half_life_days = 4",
        "decay.sing",
        "recall.hyde.enabled = True",
        "recall.sing.enabled",
        "Fact.sing",
        "Sing",
        "patterns = 61 minutes",
        "singing = 60 minutes",
        "memory_sings",
        "memory.remember(sing=None)",
    ],
)
def test_what_is_not_there_or_other_than_written_is_seen(wrong: str, memory: AgentMemory) -> None:
    assert not exists(wrong, memory)
