"""What every test shares: a home of its own, an environment without settings, repeatable examples, the tracer."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import pkgutil
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import coverage
import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

import agentmem
from tests.scale import NIGHTLY
from tests.servers.local import memory_folder

# The same examples on every run, more of them in `make nightly`. `--hypothesis-profile=search` looks for new ones.
settings.register_profile(
    "repeatable",
    max_examples=100 if NIGHTLY else 25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("repeatable")

# An embedded file waits for the disk at each write, which takes more time than the tests. `make nightly` lets it wait.
if not NIGHTLY and (in_memory := memory_folder()):
    tempfile.tempdir = str(in_memory)

pytest_plugins = ["tests.servers.plugin", "tests.servers.stack"]

TESTS = Path(__file__).parent
TRACER = coverage.Coverage.current()
_QUICK_FIRST = ("unit", "conformance", "surfaces", "docs", "flows", "faults")

# The tracer takes half as long again as the tests, so it watches only these, and the first case of each test function
# that does not repeat itself, as properties do.
TRACED_FOLDERS = ("conformance", "models", "surfaces", "unit")
IS_FIRST_CASE = pytest.StashKey[bool]()
REPEATING = {
    f"test_{name}.py"
    for name in (
        *("cli_demo", "congruence", "extraction_hostile", "graph_vectors", "hostile_client", "neo4j_checks"),
        *("postgres_beside", "postgres_server"),
    )
}
TRACED_FLOWS = {
    f"test_{name}.py"
    for name in (
        *("beliefs", "clusters", "consolidate", "distill_procedures", "entity_linking", "evidence", "fading_cleanup"),
        *("goals", "hostile_text", "job_collisions", "monitoring", "procedural", "procedural_erasure", "projector"),
        *("redis_session", "restored_backup", "schedules", "swarm", "synopsis_model"),
        *("upkeep_rebuild", "working_page"),
    )
}
APART = ("agentmem.adapters.crewai",)  # whose package is not installed here: it cannot stand beside ours


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark every property as `long`: `make nightly` tries more examples of it."""
    if is_hypothesis_test(getattr(item, "obj", None)):
        item.add_marker("long")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the quick folders first, so that a plain mistake shows within seconds."""
    seen: set[str] = set()
    for item in items:
        function = item.nodeid.partition("[")[0]
        item.stash[IS_FIRST_CASE] = function not in seen
        seen.add(function)

    def rank(item: pytest.Item) -> int:
        folder = item.path.parent.name
        return _QUICK_FIRST.index(folder) if folder in _QUICK_FIRST else len(_QUICK_FIRST)

    items.sort(key=rank)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Do not trace the process that only hands out the tests."""
    if TRACER:
        TRACER.stop()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Trace the import of every module of the package, in one worker, and not what else is done to collect the tests.

    The garbage collector would visit all that is imported again and again, which takes a sixth of the time.
    """
    gc.disable()
    if TRACER:
        if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
            for found in pkgutil.walk_packages(agentmem.__path__, "agentmem."):
                if found.name not in APART:
                    importlib.import_module(found.name)
        TRACER.stop()
    if "PYTEST_XDIST_WORKER" in os.environ:
        _import_own_share(session.config)
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Trace the tests that are measured, and the child processes of none."""
    is_measured = item.path.relative_to(TESTS).parts[0] in TRACED_FOLDERS or item.path.name in TRACED_FLOWS
    is_repeated = not item.stash[IS_FIRST_CASE] or item.path.name in REPEATING or item.get_closest_marker("long")
    is_traced = TRACER is not None and is_measured and not is_repeated
    with pytest.MonkeyPatch.context() as patch:
        if is_traced:
            TRACER.start()  # sets the variable by which child processes are traced
        patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        try:
            return (yield)
        finally:
            if is_traced:
                TRACER.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Show where the tasks of a test stand shortly before its time is over, which threads alone do not tell."""
    marker = item.get_closest_marker("timeout")
    seconds = float(marker.args[0] if marker and marker.args else item.config.getini("timeout"))
    watch = threading.Timer(seconds * 0.9, _print_tasks)
    watch.daemon = True
    watch.start()
    try:
        return (yield)
    finally:
        watch.cancel()


def _import_own_share(config: pytest.Config) -> None:
    """Import the tests, each worker from another place on: what is not compiled yet is compiled once and not by all."""
    paths = [path for folder in config.args for path in sorted(Path(folder).rglob("test_*.py"))]
    start = len(paths) * int(os.environ["PYTEST_XDIST_WORKER"][2:]) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for path in [*paths[start:], *paths[:start]]:
        with suppress(Exception):  # the collection tells of it
            importlib.import_module(".".join(path.absolute().relative_to(TESTS.parent).with_suffix("").parts))


def _print_tasks() -> None:
    for task in list(asyncio.tasks._all_tasks):  # type: ignore[attr-defined]  # of all loops
        step: Any = task.get_coro()
        while step is not None and not task.done():
            frame = getattr(step, "cr_frame", None)
            print(getattr(step, "__qualname__", step), frame and frame.f_lineno, sep=":", file=sys.stderr)
            step = getattr(step, "cr_await", None)
        print("--", file=sys.stderr)


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the settings, keys and memory of whoever runs the tests out of them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            ours = name.startswith("AGENTMEM_") and not name.startswith("AGENTMEM_TEST_")
            if ours or name.endswith("_API_KEY"):
                patch.delenv(name)
        patch.setenv("AGENTMEM_HOME", str(tmp_path_factory.mktemp("default-home")))
        yield


@pytest.fixture(autouse=True)
def _patient_recalls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine costs no technique its answer, but where a test sets a deadline or time is virtual."""
    if request.path.parent.name == "faults":
        return
    from agentmem.recall import options
    from agentmem.recall.technique import TechniqueOptions

    parse = options._parse_section

    def parse_patiently(*arguments: Any) -> Any:
        found = parse(*arguments)
        if isinstance(found, TechniqueOptions | options.RankingOptions) and "deadline" not in found.model_fields_set:
            return found.model_copy(update={"deadline": found.deadline * 100})
        return found

    monkeypatch.setattr(options, "_parse_section", parse_patiently)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of its own for the memory of one test; it does not exist yet."""
    return tmp_path / "home"
