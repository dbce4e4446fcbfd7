"""The whole benchmark as one call, for the command line and for `make bench`: what is measured and where it goes."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentmem.agent_memory import AsyncAgentMemory
from agentmem.bench import datasets, latency, played, recall, report
from agentmem.bench.latency import Load
from agentmem.bench.recall import Configuration
from agentmem.bench.target import Target
from agentmem.errors import ConfigError
from agentmem.model.clock import RandomIds, SystemClock
from agentmem.projections.embedders import embedder_options
from agentmem.providers import open_embedder
from agentmem.settings import load_settings

DEFAULT = Configuration("default")
BEST = Configuration("best", {"recall_profile": "best"})
SIZES = (Load(turns=1_000), Load(turns=10_000), Load(turns=100_000), Load(users=1_000, turns=500))
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What to measure; what is left empty is left out.

    `data`: LoCoMo-shaped files. `configurations`: compared with the first one. `context_tokens`: budget of `context()`.
    `loads`: sizes for time and memory. `scratch`: folder for the databases, removed afterwards. `servers`: measure
    recall on the servers that the settings name, with users that are erased afterwards. `cases`: play those of
    `revision`, `extraction`, `rules` or `multihop`, extraction with `llm` where one is named. `config`: the
    configuration file.
    """

    out: Path
    data: tuple[str, ...] = ()
    embedders: tuple[str, ...] = ("auto",)
    configurations: tuple[Configuration, ...] = (DEFAULT, BEST)
    context_tokens: int = recall.CONTEXT_TOKENS
    loads: tuple[Load, ...] = ()
    startup: bool = False
    scratch: Path | None = None
    servers: bool = False
    cases: str = ""
    llm: str = ""
    config: str | None = None


def run(plan: Plan, say: Say | None = None, progress: recall.Progress | None = None) -> list[Path]:
    """Measure, write what was found as .md and .json into `plan.out`, and return the files written.

    These are `recall-<embedder>`, those of the cases, and `latency`.

    `say` gets one line for each step, `progress` the questions asked and in all. Raises ConfigError when there is
    nothing to measure or the servers cannot measure it, and what the memory raises.
    """
    if not (plan.data or plan.loads or plan.startup or plan.cases):
        raise ConfigError("nothing to measure: give data, sizes or start-up")
    if plan.servers and (plan.loads or plan.startup or plan.cases in played.READ):
        raise ConfigError(
            "on servers only recall, revision and multihop are measured here: agentmem bench recall --servers"
        )
    say = say or _quiet
    dialogues = datasets.load(plan.data)
    written: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="agentmem-bench-", dir=plan.scratch) as scratch:
        mark = f"bench {RandomIds(SystemClock()).new()}" if plan.servers else ""
        for embedder in plan.embedders if dialogues else ():
            say(f"recall with {embedder}: {len(dialogues)} dialogues")
            target = Target(str(Path(scratch) / "recall" / slug(embedder)), embedder, mark=mark, config=plan.config)
            written += _recall(plan, target, dialogues, progress)
        for embedder in _embedders(plan):
            target = Target(str(Path(scratch) / plan.cases / slug(embedder)), embedder, mark=mark, config=plan.config)
            written += _cases(plan, target, progress)
        rows = list(_latency(plan, Path(scratch), say))
    if rows:
        written += report.write(plan.out, "latency", f"## Time and size\n\n{report.table(rows)}\n", rows)
    return written


def _recall(
    plan: Plan, target: Target, dialogues: list[datasets.Dialogue], progress: recall.Progress | None
) -> tuple[Path, Path]:
    if plan.servers:
        asyncio.run(_check_servers(target))
    measured = asyncio.run(
        recall.evaluate(
            target, dialogues, plan.configurations, context_tokens=plan.context_tokens, progress=progress,
            erase=plan.servers,
        )
    )  # fmt: skip
    text = f"# Recall with {target.embedder}\n\n{report.recall_text(measured)}"
    return report.write(plan.out, f"recall-{slug(target.embedder)}", text, report.recall_data(measured))


def _embedders(plan: Plan) -> tuple[str, ...]:
    """The embedders to play the cases with; only one where nothing is embedded."""
    return plan.embedders if plan.cases in played.STORED else plan.embedders[: bool(plan.cases)]


def _cases(plan: Plan, target: Target, progress: recall.Progress | None) -> tuple[Path, Path]:
    if plan.servers:
        asyncio.run(_check_servers(target))
    found = asyncio.run(played.play(plan.cases, target, plan.llm, progress))
    stored = plan.cases in played.STORED
    wrong = [f"- {name}: {what}" for name, whats in found.wrong.items() for what in whats]
    title = f"# {found.title} with {target.embedder}" if stored else f"# {found.title}"
    text = "\n".join([title, "", report.table(found.rows), "", *wrong])
    name = f"{plan.cases}-{slug(target.embedder)}" if stored else plan.cases
    return report.write(plan.out, name, text.rstrip() + "\n", {"rows": found.rows, "wrong": found.wrong})


async def _check_servers(target: Target) -> None:
    """Raises ConfigError where no servers are named, or their store is built with another embedder than is asked."""
    settings = load_settings(home=target.home, embedder=target.embedder, config=target.config)
    if settings.log_server is None:
        raise ConfigError("--servers: none are named; set AGENTMEM_LOG_URL and AGENTMEM_GRAPH_URL to their URLs")
    wanted = settings.embedder
    async with AsyncAgentMemory("nobody", settings=settings) as memory:
        served = memory.resources.vectors[0].embedder.identity
        if wanted != "auto" and open_embedder(wanted, embedder_options(settings)).identity != served:
            raise ConfigError(f"the servers' store is built with {served}; give --embedder auto to measure with that")


def _latency(plan: Plan, scratch: Path, say: Say) -> Iterator[latency.Row]:
    for embedder in plan.embedders if plan.loads else ():
        target = Target(str(scratch / "latency" / slug(embedder)), embedder, config=plan.config)
        yield from latency.measure(target, plan.loads, progress=say)
    if plan.startup:
        say("start-up")
        yield from latency.startup()


def _quiet(_: str) -> None:
    return


def slug(name: str) -> str:
    """A name as a part of a file name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower() or "embedder"


def parse_load(written: str) -> Load:
    """`1000x500` as 1,000 users with 500 turns each, `10000` as one user. Raises ConfigError for anything else."""
    match = re.fullmatch(r"(?:(\d+)x)?(\d+)", written.strip().replace("_", ""))
    users, turns = (int(match[1] or 1), int(match[2])) if match else (0, 0)
    if users < 1 or turns < 1:
        raise ConfigError(f"a size must be turns or users x turns, such as 10000 or 1000x500, got {written!r}")
    return Load(users=users, turns=turns)


def read_configurations(path: Path) -> tuple[Configuration, ...]:
    """Configurations from a JSON object `{name: settings}`, in its order; the others are compared with the first one.

    Raises ConfigError when the file cannot be read or is no such object.
    """
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read configurations from {path}: {error}") from error
    if not isinstance(found, Mapping) or not found or not all(isinstance(v, Mapping) for v in found.values()):
        raise ConfigError(f"{path} must hold an object of configurations, {{name: settings}}")
    return tuple(Configuration(str(name), dict(settings)) for name, settings in found.items())
