"""`python -m tests.benchmarks`: how well it recalls, and how quickly."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.context import EXIT_NEEDS_ATTENTION, CliContext, UserPath, memory_options
from agentmem.cli.main import ExitingCommand
from agentmem.cli.render import Progress, echo, echo_stderr, show_json
from agentmem.errors import ConfigError

if TYPE_CHECKING:
    from tests.benchmarks.suite import BenchmarkPlan

_FILE_TYPE = UserPath(exists=True, dir_okay=False, path_type=Path)


BENCHMARKS = ("recall", "extraction", "rules", "revision", "multihop", "latency")
LIFECYCLE = "lifecycle"
BELIEFS = "beliefs"
DEFAULT_EMBEDDERS = ("auto", "hash")


@click.command(cls=ExitingCommand, short_help="Measure recall, extraction, belief revision, latency and memory.")
@click.argument(
    "what",
    required=False,
    metavar="[recall|extraction|rules|revision|multihop|latency|beliefs|lifecycle]",
    type=click.Choice((*BENCHMARKS, BELIEFS, LIFECYCLE)),
)
@click.option("--data", multiple=True, type=_FILE_TYPE, metavar="PATH", help="A LoCoMo-shaped file; may be repeated.")
@click.option(
    "--out",
    type=UserPath(file_okay=False, path_type=Path),
    default=Path("bench-results"),
    show_default=True,
    metavar="FOLDER",
    help="Where the tables and figures go.",
)
@click.option(
    "--embedder",
    "embedders",
    multiple=True,
    metavar="NAME",
    help="Measure with this one; may be repeated.  [default: auto, hash; of lifecycle hash]",
)
@click.option(
    "--configurations", type=_FILE_TYPE, metavar="PATH", help="JSON object {name: settings}; compared with the first."
)
@click.option(
    "--servers",
    is_flag=True,
    help="Measure recall, revision or multihop on the servers that the settings name, with users erased afterwards.",
)
@click.option("--llm", default="", metavar="SPEC", help="Extraction: ask this model in place of the recorded replies.")
@click.option("--sizes", metavar="SIZE,…", help="Turns, or users x turns. [default: 1000,10000,100000,1000x500]")
@click.option("--users", default=200, show_default=True, metavar="N", help="Lifecycle: how many people.")
@click.option("--days", default=365, show_default=True, metavar="N", help="Lifecycle: for how many days.")
@click.option(
    "--processes",
    type=int,
    metavar="N",
    help="Lifecycle: how many processes share the people. [default: one a core; one for up to 20 people]",
)
@click.option(
    "--plots",
    type=UserPath(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Lifecycle: draw pictures there; needs matplotlib.",
)
@memory_options()
def command(cli: CliContext, *, what: str | None, data: tuple[Path, ...], out: Path, **options: Any) -> int:
    """Measure evidence recall on the files of --data, and latency, memory and start-up at several sizes.

    The others play cases that ship with the package and say what was wrong: `extraction` reads turns with the model of
    --llm, or as recorded; `rules` without one; `revision` lets premises of facts fall; `multihop` asks for what lies
    two or three links away.

    `beliefs` reads a thousand numbered statements of which later ones replace earlier ones, and with --data the
    `life.jsonl` of a scripted life, whose `truth.json` lies beside it; without a model.

    `lifecycle` lets a year pass for 200 people who talk, fall silent and change their minds, with the real jobs at
    night. It has to be asked for, because it takes minutes, and exits with 3 when a target is missed.

    Works on databases of its own, in a temporary folder or below --home, and removes them. --servers takes the URLs of
    the settings instead.

    \b
    Examples:
      python -m tests.benchmarks recall --data locomo.json
      python -m tests.benchmarks recall --data a.json --data b.json --configurations compare.json --embedder local
      python -m tests.benchmarks recall --data locomo.json --servers
      python -m tests.benchmarks revision
      python -m tests.benchmarks extraction --llm anthropic
      python -m tests.benchmarks latency --sizes 1000,10000 --embedder hash
      python -m tests.benchmarks beliefs --data life.jsonl
      python -m tests.benchmarks lifecycle --users 20 --days 60 --plots pictures
      python -m tests.benchmarks lifecycle --processes 8
    """
    from tests.benchmarks import suite

    if what == LIFECYCLE:
        return _run_lifecycle(cli, out, **options)
    if what == BELIEFS:
        return _run_beliefs(data)
    with Progress() as progress:
        written = suite.run(
            build_plan(cli, what, data, out, **options),
            on_step=echo_stderr,
            progress=lambda done, total: progress("questions", done, total),
        )
    _show_files(cli, written)
    return 0


def _run_beliefs(data: tuple[Path, ...]) -> int:
    from tests.benchmarks import belief_life, updates

    with tempfile.TemporaryDirectory() as home:
        for line in updates.render(asyncio.run(updates.play_updates(Path(home)))):
            echo(f"updates: {line}\n")
    for life in data:
        with tempfile.TemporaryDirectory() as home:
            for line in belief_life.render(asyncio.run(belief_life.play_life(life.parent, Path(home), show=False))):
                echo(f"{life.parent.name}: {line}\n")
    return 0


def _run_lifecycle(cli: CliContext, out: Path, **options: Any) -> int:
    from tests.benchmarks import lifecycle, lifecycle_processes, lifecycle_report

    seed = cli.overrides.get("seed", "1")
    if not str(seed).isdigit():
        raise ConfigError(f"--seed of a simulation must be a whole number, got {seed!r}")
    plan = lifecycle.SimulationPlan(options["users"], options["days"], int(seed))
    processes = lifecycle_processes.choose_processes(plan.users, options["processes"], servers=options["servers"])
    embedder = (options["embedders"] or ("hash",))[0]
    order = lifecycle_report.SimulationRequest(
        plan, out, embedder, options["plots"], _make_scratch_dir(cli), processes, _config_path(cli)
    )
    with Progress() as progress:
        written, passed = lifecycle_report.run(order, lambda done, total: progress("days", done, total))
    _show_files(cli, written)
    return 0 if passed else EXIT_NEEDS_ATTENTION


def _show_files(cli: CliContext, written: list[Path]) -> None:
    if cli.json:
        show_json({"written": [str(path) for path in written]})
        return
    for path in written:
        echo(path.read_text(encoding="utf-8") if path.suffix == ".md" else f"figures: {path}\n")


def _make_scratch_dir(cli: CliContext) -> Path | None:
    """The folder of --home, made when missing."""
    found: Path | None = cli.overrides.get("home")
    if found is not None:
        found.mkdir(parents=True, exist_ok=True)
    return found


def _config_path(cli: CliContext) -> str | None:
    """The configuration file that other commands would read: the measured memories have homes of their own."""
    found = cli.load_settings().config
    return None if found is None else str(found)


def build_plan(
    cli: CliContext, benchmark: str | None, data: tuple[Path, ...], out: Path, **options: Any
) -> BenchmarkPlan:
    """What the options ask to measure. Raises ConfigError for sizes and configurations that cannot be read."""
    from tests.benchmarks import suite

    sizes, configurations = options["sizes"], options["configurations"]
    latency = benchmark in (None, "latency")
    loads = suite.DEFAULT_WORKLOADS if sizes is None else tuple(suite.parse_workload(size) for size in sizes.split(","))
    return suite.BenchmarkPlan(
        out=out,
        data=tuple(map(str, data)) if benchmark in (None, "recall") else (),
        embedders=options["embedders"] or DEFAULT_EMBEDDERS,
        configurations=suite.load_configurations(configurations)
        if configurations
        else (suite.DEFAULT_CONFIGURATION, suite.BEST_CONFIGURATION),
        workloads=loads if latency else (),
        startup=latency,
        scratch=_make_scratch_dir(cli),
        servers=options["servers"],
        cases=benchmark if benchmark in BENCHMARKS[1:-1] else "",
        llm=options["llm"],
        config=_config_path(cli),
    )


if __name__ == "__main__":
    command(prog_name="python -m tests.benchmarks")
