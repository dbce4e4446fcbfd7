"""No secret of the settings, and no word that a failing model says, is seen anywhere, whatever fails."""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentmem import AgentMemError, AgentMemory, AsyncAgentMemory, ConfigError
from agentmem.admin.doctor import diagnose
from agentmem.cli.main import cli_group
from agentmem.core.telemetry import WARNING, log_event
from agentmem.jobs.monitoring import Monitor
from agentmem.jobs.worker import ConsolidationWorker
from agentmem.settings.settings import load_settings
from tests.flows.given import ManualClock, engine_of, open_memory, run
from tests.flows.overheard import SECRET_LETTERS, OutputCapture, capture_output, find_files_with_secret
from tests.scale import scaled
from tests.servers.stack import Stack

CLOSED = "127.0.0.1:9"  # nobody listens there
WORDS = "peanuts"
FAILING = 'cat >&2; echo "$@" >&2; exit 3'
HYDE = {"recall": {"hyde": {"enabled": True}}}
OPENAI = {"embedder": "openai"}

Place = Callable[[str], dict[str, Any]]


def coded(secret: str) -> str:
    return quote(secret, safe="")


def command(*words: str) -> str:
    return f"command:{shlex.join(['sh', '-c', FAILING, 'sh', *words])}"


def server(name: str, url: str) -> dict[str, Any]:
    """A stack in which one server has this URL."""
    others = {"log_url": f"postgresql://{CLOSED}/d", "graph_url": f"neo4j://{CLOSED}"}
    return {**(others if name != "session_url" else {}), name: url}


PLACES: dict[str, Place] = {
    "password of Postgres": lambda secret: server("log_url", f"postgresql://ann:{secret}@{CLOSED}/d"),
    "the same, encoded": lambda secret: server("log_url", f"postgresql://ann:{coded(secret)}@{CLOSED}/d"),
    "option of Postgres": lambda secret: server("log_url", f"postgresql://ann@{CLOSED}/d?password={coded(secret)}"),
    "unknown option of Postgres": lambda secret: server("log_url", f"postgresql://{CLOSED}/d?{coded(secret)}=1"),
    "password of Neo4j": lambda secret: server("graph_url", f"neo4j://ann:{secret}@{CLOSED}"),
    "the same, encoded ": lambda secret: server("graph_url", f"neo4j://ann:{coded(secret)}@{CLOSED}"),
    "Neo4j alone": lambda secret: {"graph_url": f"neo4j://ann:{coded(secret)}@{CLOSED}"},
    "password of Redis": lambda secret: server("session_url", f"redis://ann:{secret}@{CLOSED}/0"),
    "the same, encoded  ": lambda secret: server("session_url", f"redis://:{coded(secret)}@{CLOSED}/0"),
    "option of Redis": lambda secret: server("session_url", f"redis://{CLOSED}/0?password={coded(secret)}"),
    "option that Redis has not": lambda secret: server("session_url", f"redis://{CLOSED}/0?sing={coded(secret)}"),
    "another scheme": lambda secret: {"log_url": f"mysql://ann:{secret}@h/d"},
    "no scheme": lambda secret: {"session_url": f"ann:{secret}@h/0"},
    "a scheme of its own": lambda secret: {"session_url": f"{secret}://h"},
    "login of an embedder": lambda secret: {**OPENAI, "base_url": f"http://ann:{secret}@{CLOSED}/v1"},
    "the same, encoded   ": lambda secret: {**OPENAI, "base_url": f"http://ann:{coded(secret)}@{CLOSED}/v1"},
    "path of an embedder": lambda secret: {**OPENAI, "base_url": f"http://{CLOSED}/{coded(secret)}/v1"},
    "query of an embedder": lambda secret: {**OPENAI, "base_url": f"http://{CLOSED}/v1?key={coded(secret)}"},
    "login of a model": lambda secret: {"llm": "openai:m", "llm_base_url": f"http://a:{coded(secret)}@{CLOSED}"},
    "path of a model": lambda secret: {"llm": "anthropic:m", "llm_base_url": f"http://{CLOSED}/{coded(secret)}"},
    "webhook": lambda secret: {"worker": {"webhook": f"http://{CLOSED}/{secret}"}},
    "webhook elsewhere": lambda secret: {"worker": {"webhook": f"https://hooks.example/{secret}"}},
    "argument of a program": lambda secret: {"llm": command("--key", secret)},
    "of one for extraction": lambda secret: {"extraction_llm": command(secret)},
    "of one for verdicts": lambda secret: {"verdict_llm": command(secret)},
    "of one for recall": lambda secret: {"recall_llm": command(secret)},
    "of one for synopses": lambda secret: {"synopsis_llm": command(secret)},
    "of one that is not there": lambda secret: {"llm": f"command:/no/{coded(secret)} {shlex.quote(secret)}"},
    "variable before a program": lambda secret: {"llm": f"command:KEY={shlex.quote(secret)} cat"},
    "quotes that do not match": lambda secret: {"llm": f"command:cat 'x {secret}"},
    "a misspelled vendor": lambda secret: {"llm": f"comand:cat {secret}"},
    "no vendor": lambda secret: {"llm": f"cat {secret}"},
    "with a slash": lambda secret: {"llm": command(secret).replace(":", "/", 1)},
}


def spelled(given: Mapping[str, Any], source: str, folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Say settings by one of the three sources; what is left to be given as arguments."""
    if source == "argument":
        return dict(given)
    if source == "environment":
        for name, value in given.items():
            patch.setenv(f"AGENTMEM_{name.upper()}", json.dumps(value) if isinstance(value, dict) else value)
        return {}
    tables = [f"[{name}]\n{lines(value)}" for name, value in given.items() if isinstance(value, dict)]
    plain = lines({name: value for name, value in given.items() if not isinstance(value, dict)})
    path = folder / "settings.toml"
    path.write_text("\n".join([plain, *tables]), encoding="utf-8")
    path.chmod(0o600)
    return {"config": path}


def lines(values: Mapping[str, Any]) -> str:
    return "\n".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())


def live(overheard: OutputCapture, home: Path, given: Mapping[str, Any]) -> None:
    """Load, open, store, recall, consolidate, audit and examine, as far as it goes, and look at all on the way."""
    chosen = overheard.capture_failure(lambda: load_settings(**{"home": home, "embedder": "hash", **given}))
    if chosen is None:
        return
    overheard.capture_failure(lambda: asyncio.run(diagnose(chosen)))
    memory = overheard.capture_failure(lambda: AgentMemory("ann", settings=chosen, audit_level="verbose", **HYDE))
    if memory is None:
        return
    with memory:
        overheard.capture_failure(lambda: memory.store_turn(f"I live in Rome and never eat {WORDS}."))
        overheard.capture_failure(lambda: memory.remember("where do I live?"))
        overheard.capture_failure(lambda: memory.working.set("city", "Rome"))
        for _ in range(3):  # then what fails is parked
            overheard.capture_failure(memory.consolidate)
        overheard.capture_failure(memory.audit.query)
        overheard.capture_failure(lambda: run(engine_of(memory).log.dead_letters(memory._inner.scope)))
        overheard.capture_failure(memory.flush)
        overheard.capture_object(memory._inner)
        overheard.capture_object(memory)


def commands(overheard: OutputCapture, home: Path, given: Mapping[str, Any]) -> None:
    """The same from the command line."""
    options = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    for words in (["admin", "doctor"], ["remember", "where?"], ["consolidate"], ["jobs"], ["stats"], ["audit"]):
        result = CliRunner().invoke(cli_group, [*words, "--home", str(home), *options], prog_name="agentmem")
        overheard.texts += [result.stdout, result.stderr]
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert "Traceback" not in result.stderr


def told(place: Place, secret: str, source: str) -> list[str]:
    """What of a secret is seen when it stands in one place and all is tried."""
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch, capture_output() as overheard:
        folder = Path(name)
        for vendor in ("OPENAI", "ANTHROPIC"):
            patch.setenv(f"{vendor}_API_KEY", f"{secret.encode('ascii', 'replace').decode()}")
        given = spelled(place(secret), source, folder, patch)
        live(overheard, folder / "home", given)
        if source != "argument":
            patch.setenv("AGENTMEM_RECALL__HYDE__ENABLED", "true")
            commands(overheard, folder / "home", given)
        untyped = [error for error in overheard.failures if not isinstance(error, AgentMemError)]
        assert untyped == []
        return overheard.find_secret(secret) + find_files_with_secret(folder / "home", secret)


SPECIAL = "/#@?%:[]&=+ '\"\\é!$;,~^{}|<>`*()"
SECRETS = st.tuples(
    st.text(SECRET_LETTERS, min_size=5, max_size=8),
    st.text(SPECIAL, max_size=4),
    st.text(SECRET_LETTERS, min_size=5, max_size=8),
).map("".join)


SOURCES = ("argument", "environment", "file")
SPELLINGS = ("ZQXJKWVZQX", "ZQXJK/@#?%: WVZQX")
CASES = [  # each place has one of the spellings in `make test`, both in `make nightly`
    pytest.param(place, spelling, SOURCES[turn % 3], marks=[pytest.mark.nightly] * (turn % 2), id=f"{place}-{spelling}")
    for number, place in enumerate(PLACES)
    for turn, spelling in enumerate(SPELLINGS, number)
]


@pytest.mark.parametrize("place, secret, source", CASES)
def test_no_part_of_a_secret_is_seen_wherever_it_stands_and_whatever_fails(
    place: str, secret: str, source: str
) -> None:
    assert told(PLACES[place], secret, source) == []


@pytest.mark.long
@settings(max_examples=scaled(80))
@given(st.sampled_from(sorted(PLACES)), SECRETS, st.sampled_from(SOURCES))
@example("password of Postgres", "ZQXJK1/WVZQX", "argument")
def test_no_random_secret_is_seen(place: str, secret: str, source: str) -> None:
    assert told(PLACES[place], secret, source) == []


def test_what_is_told_anywhere_is_heard(tmp_path: Path) -> None:
    """The tests above would see a leak: in an error, its cause, a log of any library, an object, a file, a command."""
    secret = "ZQXJK/WVZQX"

    @dataclass
    class Held:
        inner: Any

    def chained() -> None:
        try:
            raise ValueError(secret)
        except ValueError as error:
            raise ConfigError("wrong") from error

    shows: list[Callable[[OutputCapture], Any]] = [
        lambda heard: heard.capture_failure(chained),
        lambda heard: logging.getLogger("some.library").info("POST %s", secret),
        lambda heard: log_event(WARNING, "told", url=secret),
        lambda heard: heard.capture_object(Held({"one": [coded(secret)]})),
        lambda heard: heard.capture_object(load_settings(embedder="openai:" + secret.partition("/")[0])),
    ]
    for show in shows:
        with capture_output() as heard:
            show(heard)
        assert heard.find_secret(secret)
    (tmp_path / "memory.db").write_bytes(b"\0" + secret.encode())
    assert find_files_with_secret(tmp_path, secret) == ["memory.db"]


def test_a_failing_program_leaves_its_exit_code_and_nothing_of_what_it_said(home: Path) -> None:
    """In reports, parked reasons, notices, audit rows, job states and files; and it was really asked."""
    secret = "ZQXJKWVZQX"
    with (
        capture_output() as heard,
        AgentMemory("ann", home=home, embedder="hash", llm=command(secret), **HYDE) as memory,
    ):
        turn = memory.store_turn(f"I never eat {WORDS}.")
        notices = heard.capture_failure(lambda: memory.remember("what do I never eat?").notices)
        assert any("ended with code 3" in notice for notice in notices or ())
        (report,) = [each for each in heard.capture_failure(memory.consolidate) or () if each.job == "consolidate"]
        assert "command:sh ended with code 3" in report.stop_reason
        logged = [text for text in heard.texts if '"model_away"' in text]
        assert "ended with code 3" in logged[0]
        assert [text for text in logged if WORDS in text] == []
        assert heard.find_secret(secret) == []
        assert memory.remember("never eat", reinforce=False).turns[0].id == turn.id
    assert find_files_with_secret(home, secret) == []


def test_a_worker_tells_nothing_of_it_to_those_who_watch(home: Path) -> None:
    """Neither in its reports, nor under /health and /metrics, nor in what `agentmem jobs` shows."""
    secret = "ZQXJKWVZQX"

    async def watched(heard: OutputCapture) -> None:
        async with AsyncAgentMemory("ann", home=home, embedder="hash", llm=command(secret)) as memory:
            await memory.store_turn(f"I never eat {WORDS}.")
            monitor = Monitor()
            heard.capture_object(
                await (worker := ConsolidationWorker(memory.engine, on_report=monitor.record_run)).run_once()
            )
            port = monitor.open(worker, "127.0.0.1", 0)
            try:
                for page in ("health", "metrics"):
                    heard.texts.append(await asyncio.to_thread(fetched, f"http://127.0.0.1:{port}/{page}"))
            finally:
                await asyncio.to_thread(monitor.close)

    with capture_output() as heard:
        asyncio.run(watched(heard))
        heard.texts.append(CliRunner().invoke(cli_group, ["jobs", "--all-users", "--json", "--home", str(home)]).stdout)
    said = "\n".join(heard.texts)
    assert "ended with code 3" in said
    assert 'agentmem_job_runs_total{job="consolidate"}' in said
    assert (heard.find_secret(secret), WORDS in said) == ([], False)


def fetched(url: str) -> str:
    try:
        with urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())
    except HTTPError as error:
        return error.read().decode()


def test_a_model_is_recorded_without_its_command_line(home: Path) -> None:
    """What a program read and wrote is marked as made by a program, in records, exports and the database."""
    secret, reply = "ZQXJKWVZQX", json.dumps({"turns": [], "facts": [], "entities": [], "relations": []})
    line = f"command:{shlex.join(['sh', '-c', f'cat > /dev/null; echo {shlex.quote(reply)}', 'sh', secret])}"
    with AgentMemory("ann", home=home, embedder="hash", llm=line, audit_level="verbose") as memory:
        memory.store_turn("I live in Rome and work as a cook.")
        memory.consolidate()
    assert find_files_with_secret(home, secret) == []


# -- servers that refuse


def with_login(url: str, login: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{login}@{rest.rpartition('@')[2]}"


@pytest.mark.parametrize("name", ["log_url", "graph_url", "session_url"])
@pytest.mark.parametrize("by", ["url", "file"])
def test_a_wrong_password_is_not_seen_when_a_server_refuses_it(
    stack: Stack, home: Path, tmp_path: Path, name: str, by: str
) -> None:
    secret, user = "ZQXJK/#@?%: WVZQX", {"log_url": "postgres", "graph_url": "neo4j", "session_url": "ann"}[name]
    given = {**stack.urls, name: with_login(stack.urls[name], f"{user}:{coded(secret)}")}
    if by == "file":
        (tmp_path / "password").write_text(f"{secret}\n")
        given = {**stack.urls, name: with_login(stack.urls[name], user)}
        given[name.replace("url", "password_file")] = tmp_path / "password"
    with capture_output() as heard:
        live(heard, home, given)
    said = "\n".join(heard.texts)
    assert "authentication failed" in said or "refused the user or the password" in said
    assert heard.find_secret(secret) == []
    assert find_files_with_secret(home, secret) == []


def test_a_webhook_that_is_away_is_not_told_with_its_path(home: Path) -> None:
    secret, clock = "ZQXJKWVZQX", ManualClock()
    webhook = {"webhook": f"http://{CLOSED}/{secret}"}
    with capture_output() as heard, open_memory(home, clock=clock, worker=webhook, audit_level="verbose") as memory:
        memory.schedules.add("walk", prompt="Take a walk", every=60)
        clock.advance(seconds=60)
        reports = heard.capture_failure(lambda: memory.consolidate("schedules"))
        assert reports is not None
        assert reports[0].failed == {"walk": "ConnectionRefusedError: Connection refused"}
        heard.capture_failure(memory.audit.query)
        assert heard.find_secret(secret) == []
    assert find_files_with_secret(home, secret) == []


# -- what objects show


async def test_no_object_of_the_engine_shows_settings_or_queries(home: Path) -> None:
    """Neither of the asynchronous API, as `repr(memory.goals)` once did, nor of the other one."""
    query, place = "what did the ZQXJKW say", "postgresql://ann:ZQXJKW@h/d"
    parts = ("episodic", "semantic", "procedural", "goals", "schedules", "working", "curation", "audit", "engine")
    async with AsyncAgentMemory("ann", home=home, embedder="hash", llm=f"command:cat {place}") as memory:
        await memory.remember(query)
        shown = [repr(getattr(memory, part)) for part in parts] + [
            repr(memory),
            repr(memory._context),
            str(memory.goals),
        ]
        shown += [repr(memory.engine.llms), repr(memory.engine.settings), repr(memory._opening)]
        assert [text for text in shown if "ZQXJKW" in text or len(text) > 3_000] == []
    with open_memory(tmp := home / "other") as blocking:
        blocking.remember(query)
        shown = [repr(getattr(blocking, part)) for part in parts if part != "engine"] + [repr(blocking)]
        assert [text for text in shown if "ZQXJKW" in text or str(tmp) in text] == []
