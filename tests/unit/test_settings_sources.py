"""Where settings come from: the order of the sources, the one file that is read, and files that are not."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner

from agentmem import AgentMemory, ConfigError, Settings
from agentmem.cli.main import cli_group
from agentmem.settings.settings import load_settings
from agentmem.settings.sources import MAX_CONFIG_BYTES, PATH_SETTINGS, report_ignored

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with a home folder, an empty home of the memory, and another working directory."""
    for name in ("user", "home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("AGENTMEM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    report_ignored.cache_clear()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file below the test's folder, which its owner alone can change."""

    def written(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        path.chmod(0o600)
        return path

    return written


def refused(**given: Any) -> str:
    with pytest.raises(ConfigError) as error:
        load_settings(**given)
    assert "\n" not in str(error.value)
    return str(error.value)


# -- the order


def test_arguments_go_before_the_environment_before_the_file_before_defaults(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("home/agentmem.toml", 'audit_level = "off"\ncatch_up_ms = 10\nthreads = 7\n[recall.vector]\ndeadline = 0.2\n')
    monkeypatch.setenv("AGENTMEM_AUDIT_LEVEL", "reads")
    monkeypatch.setenv("AGENTMEM_CATCH_UP_MS", "20")
    settings = load_settings(catch_up_ms=30)
    assert (settings.catch_up_ms, settings.audit_level, settings.threads, settings.audit_days) == (30, "reads", 7, 365)
    assert settings.recall == {"vector": {"deadline": 0.2}}


def test_groups_are_joined_option_by_option(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("home/agentmem.toml", "[decay]\nhalf_life_days = 9\nbeta = 0.1\nforget = 'delete'\n")
    monkeypatch.setenv("AGENTMEM_DECAY__BETA", "0.2")
    decay = load_settings(decay={"forget": "archive"}).decay
    assert (decay.half_life_days, decay.beta, decay.forget) == (9, 0.2, "archive")


def test_one_file_is_read_the_named_one_or_that_of_the_home(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("home/agentmem.toml", "threads = 3\naudit_days = 3\n")
    write("other/agentmem.toml", "threads = 4\n")
    write("one.toml", "threads = 5\n")
    write("two.toml", "threads = 6\n")
    assert load_settings().config == tmp_path / "home/agentmem.toml"
    assert load_settings().threads == 3
    assert load_settings(home=tmp_path / "other").threads == 4
    monkeypatch.setenv("AGENTMEM_CONFIG", str(tmp_path / "one.toml"))
    named = load_settings()
    assert (named.threads, named.audit_days, named.config) == (5, 365, tmp_path / "one.toml")
    assert load_settings(home=tmp_path / "other").threads == 5
    assert load_settings(config=tmp_path / "two.toml").threads == 6
    monkeypatch.setenv("AGENTMEM_CONFIG", "")
    assert load_settings().threads == 3


def test_without_a_file_none_is_named(tmp_path: Path) -> None:
    assert load_settings(home=tmp_path / "new").config is None


def test_a_file_may_name_the_home_but_no_other_file(write: Write, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("AGENTMEM_HOME")
    file = write("etc/agent.toml", 'home = "data"\n')
    assert load_settings(config=file).home == tmp_path / "etc/data"
    file.write_text('config = "other.toml"\n')
    assert "config cannot be set here" in refused(config=file)


def test_changed_settings_read_nothing_again(write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = write("home/agentmem.toml", "threads = 3\n[decay]\nbeta = 0.1\n")
    first = load_settings(decay={"half_life_days": 9}, recall={"vector": {"deadline": 0.1}})
    monkeypatch.setenv("AGENTMEM_AUDIT_DAYS", "7")
    file.write_text("threads = 4\n")
    changed = load_settings(first, audit_level="off", decay={"forget": "delete"}, recall={"vector": {"enabled": False}})
    assert (changed.threads, changed.audit_days, changed.audit_level, changed.config) == (3, 365, "off", file)
    assert (changed.decay.half_life_days, changed.decay.beta, changed.decay.forget) == (9, 0.1, "delete")
    assert changed.recall == {"vector": {"deadline": 0.1, "enabled": False}}
    assert type(changed) is Settings
    assert load_settings(first, home=tmp_path / "other", config=file).threads == 3
    assert "setting config" in refused(settings=first, config=tmp_path / "other.toml")


# -- the working directory


EVIL = 'llm = "command:touch {mark}"\nembedder = "openai:text-embedding-3-small"\nbase_url = "http://evil.example"\n'


def test_a_file_in_the_working_directory_is_not_read(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    path = write("work/agentmem.toml", EVIL)
    write("work/.env", "AGENTMEM_LLM=command:evil\n")
    write("work/.agentmem/agentmem.toml", EVIL)
    write("work/secrets/agentmem_llm", "command:evil")
    for settings in (load_settings(), load_settings(), Settings(), load_settings(audit_level="off")):
        assert (settings.llm, settings.base_url, settings.embedder, settings.config) == ("none", None, "auto", None)
    (event,) = [json.loads(record.getMessage()) for record in caplog.records if record.name == "agentmem"]
    assert (event["event"], event["level"], event["path"]) == ("config_ignored", "warning", str(path))
    assert caplog.records[0].levelno == logging.WARNING
    assert "AGENTMEM_CONFIG" in event["fix"]


def test_pydantics_own_ways_to_name_files_and_arguments_are_closed(write: Write) -> None:
    write("work/.env", "AGENTMEM_LLM=command:evil\n")
    for name in ("_env_file", "_secrets_dir", "_cli_parse_args", "_build_sources"):
        assert f"unknown setting '{name}'" in refused(**{name: ".env"})


def test_a_file_that_is_read_or_is_the_homes_is_not_reported(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = write("work/agentmem.toml", "threads = 5\n")
    monkeypatch.setenv("AGENTMEM_CONFIG", "agentmem.toml")
    assert load_settings().threads == 5
    assert load_settings().config == path
    monkeypatch.delenv("AGENTMEM_CONFIG")
    assert load_settings(home=tmp_path / "work").threads == 5
    other = write("one.toml", "threads = 6\n")
    assert load_settings(home=tmp_path / "work", config=other).threads == 6
    (tmp_path / "link").symlink_to(tmp_path / "work")
    assert load_settings(home=tmp_path / "link").threads == 5
    assert caplog.records == []


def test_an_empty_variable_does_not_make_the_working_directory_the_home(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("work/agentmem.toml", EVIL)
    monkeypatch.setenv("AGENTMEM_HOME", "")
    settings = load_settings()
    assert (settings.home, settings.llm) == (tmp_path / "user/.agentmem", "none")
    for name in PATH_SETTINGS:
        assert f"setting {name}" in refused(**{name: ""})


def test_a_working_directory_that_was_removed_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert load_settings().home == tmp_path / "home"


# -- places in a file


def test_every_setting_with_a_path_is_known_as_one() -> None:
    paths = {
        name for name, field in Settings.model_fields.items() if Path in (field.annotation, *get_args(field.annotation))
    }
    assert paths == set(PATH_SETTINGS)


def test_relative_places_in_a_file_start_at_its_folder(write: Write, tmp_path: Path) -> None:
    names = [name for name in PATH_SETTINGS if name != "config"]
    lines = [f'{name} = "x/{name}"' for name in names]
    lines += ['log_url = "sqlite:///a.db"', 'session_url = "sqlite:///../s.db"', 'embedder = "local:./model"']
    lines += ['reranker = "local:../ranker"', """llm = "command:./bin/an 'a b' ./c" """, 'recall_llm = "command:bin/x"']
    lines += ['verdict_llm = "command:x ./y"', "extraction_llm = \"command:'my dir/x' y\""]
    settings = load_settings(config=write("etc/agent.toml", "\n".join(lines)), home=tmp_path / "home")
    etc = tmp_path / "etc"
    found = {name: getattr(settings, name) for name in names}
    assert found == {**{name: etc / "x" / name for name in names}, "home": tmp_path / "home"}
    assert (settings.database, settings.session_file) == (etc / "a.db", etc / "../s.db")
    assert (settings.embedder, settings.reranker) == (f"local:{etc / 'model'}", f"local:{etc / '../ranker'}")
    assert settings.llm == f"command:{etc / 'bin/an'} 'a b' ./c"
    assert settings.recall_llm == f"command:{etc / 'bin/x'}"
    assert settings.verdict_llm == "command:x ./y"
    assert settings.extraction_llm == f"command:'{etc / 'my dir/x'}' y"


# -- home folders

GIVEN = {name: f"~/{name}" for name in PATH_SETTINGS if name != "config"}
URLS = {"log_url": "sqlite:///~/x.db", "session_url": "sqlite:///~/s.db"}


@pytest.mark.parametrize("source", ["argument", "path", "environment", "file"])
def test_a_tilde_is_the_users_home_in_every_path_from_every_source(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    given: dict[str, Any] = {}
    if source == "argument":
        given = {**GIVEN, **URLS}
    elif source == "path":
        given = {**{name: Path(value) for name, value in GIVEN.items()}, **URLS}
    elif source == "environment":
        for name, value in {**GIVEN, **URLS}.items():
            monkeypatch.setenv(f"AGENTMEM_{name.upper()}", value)
    else:
        monkeypatch.delenv("AGENTMEM_HOME")
        write("user/named.toml", "\n".join(f'{name} = "{value}"' for name, value in {**GIVEN, **URLS}.items()))
        given = {"config": "~/named.toml"}
    settings = load_settings(**given)
    user = tmp_path / "user"
    assert {name: getattr(settings, name) for name in GIVEN} == {name: user / name for name in GIVEN}
    assert (settings.database, settings.session_file) == (user / "x.db", user / "s.db")
    assert list((tmp_path / "work").iterdir()) == []


def test_a_named_users_home_is_found_and_an_unknown_one_is_refused() -> None:
    assert load_settings(home="~root/memory").home == Path("/root/memory")
    for name in ("home", "models", "vault", "config"):
        assert f"setting {name}" in (said := refused(**{name: "~nobody-of-this-name/x"}))
        assert "begins with ~" in said
    assert "setting log_url" in refused(log_url="sqlite:///~nobody-of-this-name/x.db")
    assert "setting embedder" in refused(embedder="local:~nobody-of-this-name/model")
    assert load_settings(reranker="local:~root/model").reranker == "local:/root/model"


def test_the_memory_is_made_where_a_tilde_says(tmp_path: Path) -> None:
    with AgentMemory("ann", home="~/memory", embedder="hash") as memory:
        memory.store_turn("I eat no meat.")
    assert (tmp_path / "user/memory/memory.db").exists()
    assert not (tmp_path / "work/~").exists()


def test_a_tilde_that_the_shell_leaves_is_replaced_on_the_command_line(tmp_path: Path, write: Write) -> None:
    def run(*words: str) -> str:
        result = CliRunner().invoke(cli_group, [*words])
        assert result.exit_code == 0, result.output
        return result.stdout

    user = tmp_path / "user"
    write("user/named.toml", 'embedder = "hash"\nhome = "memory"\n')
    write("user/turns.jsonl", '{"role": "user", "content": "I eat no meat."}\n')
    run("import", "~/turns.jsonl", "--config", "~/named.toml", "--home=~/other")
    run("export", "~/out.jsonl", "--home", "~/other")
    assert "I eat no meat." in (user / "out.jsonl").read_text()
    assert (user / "other/memory.db").exists()
    assert list((tmp_path / "work").iterdir()) == []
    refused = CliRunner().invoke(cli_group, ["stats", "--home", "~nobody-of-this-name/x"])
    assert refused.exit_code == 2
    assert "begins with ~" in refused.stderr


def test_a_user_without_a_home_folder_is_told_to_name_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda _: (_ for _ in ()).throw(KeyError("no such user")))
    assert load_settings().home == tmp_path / "home"
    assert "setting models" in refused(models="~/models")
    monkeypatch.delenv("AGENTMEM_HOME")
    assert "set AGENTMEM_HOME or give --home" in refused()
    monkeypatch.setenv("HOME", "relative")
    assert "set AGENTMEM_HOME or give --home" in refused()
    assert "setting home" in refused(home="~/memory")


# -- files that are refused

BROKEN: dict[str, tuple[bytes, str]] = {
    "no value": (b'threads = 2\nllm = "x\n', "line 2"),
    "no table": (b"threads = 2\n\n[decay\n", "line 3"),
    "twice": (b"threads = 2\nthreads = 3\n", "line 2"),
    "not UTF-8": (b"threads = 2\nllm = '\xff\xfe'\n", "line 2"),
    "deep": (b"a = " + b"[" * 100_000, "not valid TOML"),
    "long number": (b"threads = " + b"9" * 10_000, "not valid TOML"),
    "too large": (b"#" * (MAX_CONFIG_BYTES + 1), "larger than"),
    "wrong type": (b"audit_days = 3\nthreads = 'many'\n", "line 2"),
    "wrong type in a table": (b"threads = 2\n[worker]\nport = 1\nhost = 3\n", "line 4"),
    "wrong type in a table of a table": (b"[worker.minutes]\nconsolidate = 'x'\n", "line 2"),
    "dotted key": (b"decay.beta = 'much'\n", "line 1"),
    "a table for a value": (b"\n[threads]\nx = 1\n", "line 2"),
    "a value for a table": (b"\ndecay = 5\n", "line 2"),
    "unknown": (b"\n\nembeder = 'hash'\n", "line 3"),
    "unknown in a table": (b"[decay]\nbeat = 1\n", "line 2"),
    "impossible together": (b"graph_url = 'neo4j://h'\n", "log_url"),
}
NAMES_THE_FILE = [case for case in BROKEN if case != "impossible together"]


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_cannot_be_used_is_named_with_the_line(write: Write, case: str) -> None:
    data, words = BROKEN[case]
    path = write("home/agentmem.toml", data)
    said = refused()
    assert words in said
    assert str(path) in said or case not in NAMES_THE_FILE
    shown = CliRunner().invoke(cli_group, ["stats"])
    assert (shown.exit_code, shown.stdout, shown.stderr) == (2, "", f"agentmem: error: {said}\n")


def test_an_option_of_recall_is_named_with_its_line_when_the_memory_is_opened(write: Write) -> None:
    path = write("home/agentmem.toml", "[recall.vector]\nenabled = true\ndeadline = 'x'\n")
    with pytest.raises(ConfigError, match=rf"recall\.vector\.deadline \({path}, line 3\)"):
        AgentMemory("ann", embedder="hash")
    with pytest.raises(ConfigError, match=r"recall\.vector\.deadline: "):
        AgentMemory("ann", embedder="hash", recall={"vector": {"deadline": "y"}})
    for text in ("[recall.dreams]\n", "[recall.vector]\ndreams = 1\n", "[recall.ranking.kinds]\nDream = 1\n"):
        path.write_text(text)
        with pytest.raises(ConfigError, match=rf"\({path}, line \d\)"):
            AgentMemory("ann", embedder="hash")


def test_what_is_no_readable_file_is_named(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    write("file", "")
    for name in ("missing.toml", "folder", "pipe", "loop", "file/below.toml"):
        assert str(tmp_path / name) in refused(config=tmp_path / name)
        monkeypatch.setenv("AGENTMEM_CONFIG", str(tmp_path / name))
        assert str(tmp_path / name) in (said := refused())
        assert "config" in said
    monkeypatch.delenv("AGENTMEM_CONFIG")
    (tmp_path / "home/agentmem.toml").mkdir()
    assert "home/agentmem.toml" in refused()
    assert "setting config" in refused(config=5)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_change_is_refused(write: Write, tmp_path: Path, mode: int) -> None:
    path = write("home/agentmem.toml", "threads = 3\n")
    path.chmod(mode)
    assert f"chmod go-w {path}" in refused()
    assert "chmod go-w" in refused(home=tmp_path / "other", config=path)
    path.chmod(0o644)
    assert load_settings().threads == 3


def test_a_file_of_somebody_else_is_read_only_where_it_is_named(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("home/agentmem.toml", "threads = 3\n")
    if os.geteuid() == 0:
        os.chown(path, 65_534, 65_534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 1_000_000)
    assert "belongs to another user" in refused()
    assert load_settings(config=path).threads == 3


# -- variables that are refused

DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "variable, text, words",
    [
        ("RECALL", "{", "not valid JSON"),
        ("RECALL", DEEP, "not valid JSON"),
        ("RECALL", "[1]", "dictionary"),
        ("RECALL__VECTOR", "{", "dictionary"),
        ("WORKER", "{'a': 1}", "not valid JSON"),
        ("WORKER__MINUTES", "{", "not valid JSON"),
        ("WORKER__MINUTES", '{"consolidate": "x"}', "number"),
        ("WORKER__PORT", "x", "integer"),
        ("DECAY", "1", ""),
        ("THREADS", "two", "integer"),
        ("AUDIT_LEVEL", "loud", ""),
        ("LOG_URL", "mysql://h", "sqlite:///"),
        ("HOME", "~nobody-of-this-name", "begins with ~"),
        ("DECAY__HALF", "1", "known ones"),
        ("SEED", "", None),
        ("MAX_COST", "nan", ""),
        ("CLOCK", "now", "Clock"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, words: str | None
) -> None:
    monkeypatch.setenv(f"AGENTMEM_{variable}", text)
    if words is None:
        assert load_settings().seed is None
        return
    said = refused()
    assert f"environment variable AGENTMEM_{variable}" in said
    assert words in said
    shown = CliRunner().invoke(cli_group, ["admin", "doctor"])
    assert (shown.exit_code, shown.stdout, shown.stderr) == (2, "", f"agentmem: error: {said}\n")


def test_a_variable_with_an_option_of_recall_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTMEM_RECALL__VECTOR__DEADLINE", "near by")
    with pytest.raises(
        ConfigError, match=r"recall\.vector\.deadline \(environment variable AGENTMEM_RECALL__VECTOR__DEADLINE\)"
    ):
        AgentMemory("ann", embedder="hash")
