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

from agentmem.core.clock import RandomIds, SystemClock
from agentmem.engine.opening import build_embedder_options
from agentmem.errors import ConfigError
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.models.registry import open_embedder
from agentmem.settings.settings import load_settings
from tests.benchmarks import datasets, latency, played, recall, report
from tests.benchmarks.latency import Workload
from tests.benchmarks.recall import Configuration
from tests.benchmarks.target import MemoryFactory

DEFAULT_CONFIGURATION = Configuration("default")
BEST_CONFIGURATION = Configuration("best", {"recall_profile": "best"})
DEFAULT_WORKLOADS = (
    Workload(turns=1_000),
    Workload(turns=10_000),
    Workload(turns=100_000),
    Workload(users=1_000, turns=500),
)
OnStep = Callable[[str], None]


@dataclass(frozen=True)
class BenchmarkPlan:
    """What to measure; what is left empty is left out.

    `data`: LoCoMo-shaped files. `configurations`: compared with the first one. `context_tokens`: budget of `context()`.
    `workloads`: sizes for time and memory. `scratch`: folder for the databases, removed afterwards. `servers`: measure
    recall on the servers that the settings name, with users that are erased afterwards. `cases`: play those of
    `revision`, `extraction`, `rules` or `multihop`, extraction with `llm` where one is named. `config`: the
    configuration file.
    """

    out: Path
    data: tuple[str, ...] = ()
    embedders: tuple[str, ...] = ("auto",)
    configurations: tuple[Configuration, ...] = (DEFAULT_CONFIGURATION, BEST_CONFIGURATION)
    context_tokens: int = recall.DEFAULT_CONTEXT_TOKENS
    workloads: tuple[Workload, ...] = ()
    startup: bool = False
    scratch: Path | None = None
    servers: bool = False
    cases: str = ""
    llm: str = ""
    config: str | None = None


def run(
    plan: BenchmarkPlan, on_step: OnStep | None = None, progress: recall.ProgressCallback | None = None
) -> list[Path]:
    """Measure, write what was found as .md and .json into `plan.out`, and return the files written.

    These are `recall-<embedder>`, those of the cases, and `latency`.

    `on_step` gets one line for each step, `progress` the questions asked and in all. Raises ConfigError when there is
    nothing to measure or the servers cannot measure it, and what the memory raises.
    """
    if not (plan.data or plan.workloads or plan.startup or plan.cases):
        raise ConfigError("nothing to measure: give data, sizes or start-up")
    if plan.servers and (plan.workloads or plan.startup or plan.cases in played.READING_BENCHMARKS):
        raise ConfigError(
            "on servers only recall, revision and multihop are measured here: python -m tests.benchmarks recall "
            "--servers"
        )
    on_step = on_step or _ignore_step
    dialogues = datasets.load_dialogues(plan.data)
    written: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="agentmem-bench-", dir=plan.scratch) as scratch:
        mark = f"bench {RandomIds(SystemClock()).new_id()}" if plan.servers else ""
        for embedder in plan.embedders if dialogues else ():
            on_step(f"recall with {embedder}: {len(dialogues)} dialogues")
            target = MemoryFactory(
                str(Path(scratch) / "recall" / slugify(embedder)), embedder, user_suffix=mark, config=plan.config
            )
            written += _run_recall(plan, target, dialogues, progress)
        for embedder in _case_embedders(plan):
            target = MemoryFactory(
                str(Path(scratch) / plan.cases / slugify(embedder)), embedder, user_suffix=mark, config=plan.config
            )
            written += _run_cases(plan, target, progress)
        rows = list(_run_latency(plan, Path(scratch), on_step))
    if rows:
        written += report.write_report(plan.out, "latency", f"## Time and size\n\n{report.render_table(rows)}\n", rows)
    return written


def _run_recall(
    plan: BenchmarkPlan,
    factory: MemoryFactory,
    dialogues: list[datasets.BenchmarkDialogue],
    progress: recall.ProgressCallback | None,
) -> tuple[Path, Path]:
    if plan.servers:
        asyncio.run(_check_servers(factory))
    measured = asyncio.run(
        recall.evaluate(
            factory,
            dialogues,
            plan.configurations,
            context_tokens=plan.context_tokens,
            progress=progress,
            erase=plan.servers,
        )
    )
    text = f"# Recall with {factory.embedder}\n\n{report.render_recall(measured)}"
    return report.write_report(plan.out, f"recall-{slugify(factory.embedder)}", text, report.recall_to_data(measured))


def _case_embedders(plan: BenchmarkPlan) -> tuple[str, ...]:
    """The embedders to play the cases with; only one where nothing is embedded."""
    return plan.embedders if plan.cases in played.STORING_BENCHMARKS else plan.embedders[: bool(plan.cases)]


def _run_cases(
    plan: BenchmarkPlan, factory: MemoryFactory, progress: recall.ProgressCallback | None
) -> tuple[Path, Path]:
    if plan.servers:
        asyncio.run(_check_servers(factory))
    found = asyncio.run(played.run_cases(plan.cases, factory, plan.llm, progress))
    stored = plan.cases in played.STORING_BENCHMARKS
    wrong = [f"- {name}: {what}" for name, whats in found.failures.items() for what in whats]
    title = f"# {found.title} with {factory.embedder}" if stored else f"# {found.title}"
    text = "\n".join([title, "", report.render_table(found.rows), "", *wrong])
    name = f"{plan.cases}-{slugify(factory.embedder)}" if stored else plan.cases
    return report.write_report(plan.out, name, text.rstrip() + "\n", {"rows": found.rows, "wrong": found.failures})


async def _check_servers(factory: MemoryFactory) -> None:
    """Raises ConfigError where no servers are named, or their store is built with another embedder than is asked."""
    settings = load_settings(home=factory.home, embedder=factory.embedder, config=factory.config)
    if settings.log_server_url is None:
        raise ConfigError("--servers: none are named; set AGENTMEM_LOG_URL and AGENTMEM_GRAPH_URL to their URLs")
    wanted = settings.embedder
    async with AsyncAgentMemory("nobody", settings=settings) as memory:
        served = memory.engine.vector_projections[0].embedder.identity
        if wanted != "auto" and open_embedder(wanted, build_embedder_options(settings)).identity != served:
            raise ConfigError(f"the servers' store is built with {served}; give --embedder auto to measure with that")


def _run_latency(plan: BenchmarkPlan, scratch: Path, on_step: OnStep) -> Iterator[latency.Row]:
    for embedder in plan.embedders if plan.workloads else ():
        target = MemoryFactory(str(scratch / "latency" / slugify(embedder)), embedder, config=plan.config)
        yield from latency.measure(target, plan.workloads, progress=on_step)
    if plan.startup:
        on_step("start-up")
        yield from latency.measure_startup()


def _ignore_step(_: str) -> None:
    return


def slugify(name: str) -> str:
    """A name as a part of a file name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower() or "embedder"


def parse_workload(text: str) -> Workload:
    """`1000x500` as 1,000 users with 500 turns each, `10000` as one user. Raises ConfigError for anything else."""
    match = re.fullmatch(r"(?:(\d+)x)?(\d+)", text.strip().replace("_", ""))
    users, turns = (int(match[1] or 1), int(match[2])) if match else (0, 0)
    if users < 1 or turns < 1:
        raise ConfigError(f"a size must be turns or users x turns, such as 10000 or 1000x500, got {text!r}")
    return Workload(users=users, turns=turns)


def load_configurations(path: Path) -> tuple[Configuration, ...]:
    """Configurations from a JSON object `{name: settings}`, in its order; the others are compared with the first one.
    Beside settings, `constants` may stand there: see `Configuration`.

    Raises ConfigError when the file cannot be read or is no such object.
    """
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read configurations from {path}: {error}") from error
    if not isinstance(found, Mapping) or not found or not all(isinstance(v, Mapping) for v in found.values()):
        raise ConfigError(f"{path} must hold an object of configurations, {{name: settings}}")
    read = [(str(name), settings.pop("constants", {}), settings) for name, settings in found.items()]
    return tuple(Configuration(name, settings, constants) for name, constants, settings in read)
