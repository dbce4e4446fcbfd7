"""The group of commands: found by folder, helpful, quick to start, and exact about what went wrong."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from agentmem import errors
from agentmem.cli import commands
from agentmem.cli.context import memory_options
from agentmem.cli.main import cli_group
from agentmem.cli.verbs import VerbGroup

ROOT = Path(__file__).parents[2]
HEAVY = {"apsw", "numpy", "pydantic", "asyncio", "agentmem.facade.async_memory", "agentmem.settings.settings"}


CONTEXT = click.Context(cli_group)


def find_commands() -> dict[str, click.Command]:
    """Every command that can be typed, by its words, such as `goals add`."""
    found: dict[str, click.Command] = {}
    for name in cli_group.list_commands(CONTEXT):
        command = cli_group.get_command(CONTEXT, name)
        assert command is not None
        if isinstance(command, VerbGroup):
            found |= {f"{name} {verb}": each for verb, each in command.commands.items()}
        else:
            found[name] = command
    return found


COMMANDS = find_commands()
NEEDED = {"learn", "correct", "turns", "users", "show", "forget", "restore", "undo", "erase", "serve", "worker"}
NEEDED |= {f"admin {verb}" for verb in ("sync", "compact", "rebuild", "migrate", "doctor", "verify")}
NEEDED |= {f"curate {verb}" for verb in ("queue", "touch", "clusters", "merge", "promote", "gc")}


def examples(name: str) -> list[str]:
    _, _, found = (COMMANDS[name].help or "").partition("Examples:\n")
    return [line.strip() for line in found.splitlines() if line.strip()]


def test_every_verb_that_a_person_needs_is_there() -> None:
    assert set(COMMANDS) >= NEEDED


def test_help_fits_a_screen_names_every_command_and_loads_nothing_heavy() -> None:
    script = (
        "import sys; from agentmem.cli.main import main\n"
        "sys.argv = ['agentmem', '--help']\n"
        "try: main()\n"
        "finally: print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert all(
        re.search(rf"^(.*  )?{name} .*\.", done.stdout, re.MULTILINE) for name in cli_group.list_commands(CONTEXT)
    )
    assert len(done.stdout.splitlines()) <= 24
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert HEAVY & set(done.stderr.split()) == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_explains_itself(cli: Any, name: str) -> None:
    shown = cli(*name.split(), "--help")
    assert COMMANDS[name].get_short_help_str(limit=100).endswith(".")
    assert "Examples:" in shown
    assert all(option in shown for option in ("--user", "--channel", "--home", "--config", "--json"))
    assert "--seed" not in shown
    silent = [param.name for param in COMMANDS[name].params if isinstance(param, click.Option) and not param.help]
    assert silent == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_the_help_can_be_typed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ours = [part for line in examples(name) for part in re.split(r" \| | -- ", line) if part.startswith("agentmem ")]
    assert ours
    for line in ours:
        words = [word for word in shlex.split(line) if word != ">"][1:]
        for word in words:
            if word.endswith((".db", ".json", ".jsonl", ".zip")) and "/" not in word and "*" not in word:
                Path(word).write_text("{}", encoding="utf-8")
            if word.endswith("/"):
                Path(word).mkdir()
        Path("conversation.jsonl").touch()
        check_typed([word.replace("chats/*.json", "conversation.jsonl") for word in words])


def check_typed(words: list[str]) -> None:
    """Fails with a UsageError when the words after `agentmem` are no command with its arguments."""
    name, command, rest = cli_group.resolve_command(CONTEXT, words)
    assert command is not None
    if isinstance(command, VerbGroup):
        with command.make_context(name, list(rest)) as context:
            name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
    with command.make_context(name, list(rest)) as context:
        assert context.params


def test_commands_that_texts_name_exist() -> None:
    """In help texts, errors and documents alike."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "agentmem").rglob("*.py")]
    groups = {name.split()[0] for name in COMMANDS}
    missing = set()
    for page in pages:
        text = page.read_text(encoding="utf-8")
        blocks = "\n".join(re.findall(r"^```(?:sh|bash)\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        typed = re.findall(r"^(?:\$ )?agentmem ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", blocks, re.MULTILINE)
        for first, second in [
            *typed,
            *re.findall(r"(?:`|run: |with: |change: )agentmem ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", text),
        ]:
            verbs = {name.split()[1] for name in COMMANDS if " " in name and name.split()[0] == first}
            if first not in groups or (verbs and second and second not in verbs):
                missing.add(f"{page.relative_to(ROOT)}: agentmem {first} {second}")
    assert missing == set()


def test_who_types_it_wrong_or_as_before_is_told(cli: Any) -> None:
    for typed, meant in (("remeber", "remember"), ("docter", "admin doctor"), ("rebiuld", "admin rebuild")):
        assert f"Did you mean: agentmem {meant}?" in cli.run(typed).stderr
    assert "Did you mean" not in cli.run("xyzzy").stderr
    moved = cli.run("doctor")
    assert moved.exit_code == 0
    assert "agentmem doctor is now agentmem admin doctor" in moved.stderr


def test_words_that_newcomers_try_do_what_is_meant(cli: Any) -> None:
    cli("store", "Biscuit is a beagle.")
    assert "beagle" in cli("search", "Biscuit")
    assert cli("help", "goals", "add") == cli("goals", "add", "--help")
    assert (cli("help"), cli("version")) == (cli("--help"), cli("--version"))


def test_a_file_in_the_folder_is_a_command(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "greetings.py").write_text(
        "import click\n@click.command('say-hello', short_help='Greet.')\n"
        "def hello():\n    click.echo('hello')\nCOMMANDS = (hello,)\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(folder)])
    assert re.search(r"  say-hello +Greet\.( |$)", str(cli("--help")), re.MULTILINE)
    assert cli("say-hello") == "hello\n"


def test_without_a_command_it_helps(cli: Any) -> None:
    assert cli() == cli("--help")
    assert cli("--version").startswith("agentmem, version ")


@pytest.mark.parametrize(
    "typed, told",
    [
        (["add"], "Missing argument 'TEXT|-'"),
        (["add", "hello", "world"], "Quote text"),
        (["facts", "--nonsense"], "--nonsense"),
        (["nonsense"], "No such command 'nonsense'"),
        (["remember", "q", "--as-of", "yesterday"], "is not a time"),
        (["remember", "q", "--channels", "a,,b"], "names with commas"),
        (["remember", "q", "--include", "dreams"], "dreams"),
        (["import", "not-there.jsonl"], "not-there.jsonl"),
    ],
)
def test_usage_errors_are_told_in_one_way(cli: Any, typed: list[str], told: str) -> None:
    result = cli.run(*typed)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "agentmem: error: " in result.stderr
    assert told in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "error, code",
    [
        (errors.InvalidRecord("wrong", field="x"), 2),
        (errors.ConfigError("wrong"), 2),
        (errors.NotFound("wrong"), 2),
        (errors.Conflict("wrong"), 2),
        (errors.ScopeError("wrong"), 2),
        (errors.StoreUnavailable("wrong"), 1),
        (errors.CorruptStore("wrong"), 1),
        (errors.SchemaMismatch("wrong"), 1),
        (errors.ModelUnavailable("wrong"), 1),
        (OSError("wrong"), 1),
        (click.Abort(), 130),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else type(value).__name__,
)
def test_errors_become_a_message_and_a_code(
    cli: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    @click.command("breaks")
    def breaks() -> None:
        raise error

    monkeypatch.setattr(type(cli_group), "get_command", lambda *_: breaks)
    result = cli.run("breaks")
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.strip() == ("agentmem: stopped" if code == 130 else "agentmem: error: wrong")


def test_a_message_cannot_play_with_the_terminal(cli: Any) -> None:
    result = cli.run("facts", "--history", "\x1b[31mred\x9b")
    assert result.exit_code == 2
    assert "\x1b" not in result.stderr
    assert "\x9b" not in result.stderr


def test_common_options_reach_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    @click.command()
    @memory_options(with_embedder=True)
    def look(door: Any) -> None:
        seen.append(door)

    def door(*args: str) -> Any:
        look.main(list(args), standalone_mode=False)
        return seen.pop()

    assert (door().user, door().channel, door().json, door().overrides) == ("default", "_global", False, {})
    monkeypatch.setenv("AGENTMEM_USER", "alice")
    assert door().user == "alice"
    given = door("--user", "bob", "--channel", "work", "--json", "--home", "h", "--embedder", "hash", "--seed", "7")
    assert (given.user, given.channel, given.json) == ("bob", "work", True)
    assert given.overrides == {"home": Path("h"), "embedder": "hash", "seed": "7"}
    assert door("--now", "2025-03-08").overrides["clock"].now().isoformat() == "2025-03-08T00:00:00+00:00"


def test_colours_need_a_terminal_and_consent(cli: Any) -> None:
    cli("add", "I'm allergic to peanuts.", "--embedder", "hash")
    assert "\x1b[1m" in cli.run("remember", "peanuts", color=True).stdout
    assert "\x1b" not in cli.run("remember", "peanuts").stdout
    cli.env["NO_COLOR"] = "yes please"
    assert "\x1b" not in cli.run("remember", "peanuts", color=True).stdout


def test_the_installed_program_runs_the_same(home: Path) -> None:
    """As the entry point calls it, in a process of its own."""
    env = {**os.environ, "AGENTMEM_HOME": str(home), "AGENTMEM_EMBEDDER": "hash"}

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        script = "import sys; from agentmem.cli.main import main; sys.exit(main())"
        return subprocess.run([sys.executable, "-c", script, *args], capture_output=True, text=True, env=env)

    assert run("add", "Biscuit is a beagle.", "--turn-id", "t1").returncode == 0
    found = run("remember", "what is Biscuit?")
    assert "Biscuit is a beagle." in found.stdout
    assert found.stderr == ""
    refused = run("add", "Biscuit is a poodle.", "--turn-id", "t1")
    assert refused.returncode == 2
    assert refused.stderr.startswith("agentmem: error: ")
    assert "Traceback" not in refused.stderr


def test_every_command_is_loaded_from_the_module_that_lists_it() -> None:
    context = click.Context(cli_group)
    listed = [
        command
        for module in sorted(Path(commands.__file__).parent.glob("[a-z]*.py"))
        for command in importlib.import_module(f"{commands.__name__}.{module.stem}").COMMANDS
    ]
    assert sorted(str(command.name) for command in listed) == cli_group.list_commands(context)
    assert [cli_group.get_command(context, str(command.name)) for command in listed] == listed


@pytest.mark.parametrize("group, verb", [("admin", "doctor"), ("curate", "gc")])
def test_a_group_without_a_verb_lists_its_verbs(cli: Any, group: str, verb: str) -> None:
    result = cli.run(group)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Usage: agentmem {group}")
    assert f"\n  {verb} " in result.stderr
    assert "error" not in result.stderr
