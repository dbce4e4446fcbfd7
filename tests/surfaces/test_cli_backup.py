"""Backups of the embedded file: made while others write, checked, and put back without losing what was there."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory
from tests.surfaces.conftest import Cli


@pytest.fixture
def backup(cli: Cli, tmp_path: Path) -> Path:
    """A backup of a memory that says "Before."."""
    cli("add", "Before.")
    path = tmp_path / "backup.db"
    cli("backup", str(path))
    return path


def test_a_backup_made_while_another_process_writes_brings_everything_back(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "backup.db"
    with AgentMemory("default", home=cli.home, embedder="hash") as other:
        other.store_turn("Before.")
        assert cli.json("admin", "backup", str(path))["bytes"] == path.stat().st_size
        other.store_turn("After.")
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.glob("*backup*")] == ["backup.db"]
    result = cli.run("restore-backup", str(path), "--json")
    assert "what was erased since" in result.stderr
    assert [turn["content"] for turn in cli.lines("turns")] == ["Before."]
    assert {line["level"] for line in cli.json("admin", "doctor")} <= {"ok", "warning"}
    (kept,) = cli.home.glob("memory.db.before-restore-*[0-9]")
    assert str(kept) in result.stdout
    cli("restore-backup", str(kept))
    assert [turn["content"] for turn in cli.lines("turns")] == ["Before.", "After."]


def test_a_backup_overwrites_a_file_with_force_only(cli: Cli, backup: Path) -> None:
    cli("add", "After.")
    before = backup.read_bytes()
    assert "--force" in cli.run("backup", str(backup)).stderr
    assert backup.read_bytes() == before
    cli("backup", str(backup), "--force")
    cli("restore-backup", str(backup))
    assert len(cli.lines("turns")) == 2


def test_a_memory_that_is_open_is_not_replaced(cli: Cli, backup: Path) -> None:
    with AgentMemory("default", home=cli.home, embedder="hash") as other:
        assert "open in another process" in cli.run("restore-backup", str(backup)).stderr
        other.store_turn("After.")
    assert len(cli.lines("turns")) == 2
    assert not list(cli.home.glob("*before-restore*"))


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _make_newer(path: Path) -> None:
    db = sqlite3.connect(path)
    with db:
        db.execute("UPDATE schema_version SET version = version + 1000")
    db.close()


@pytest.mark.parametrize(
    "spoil, told",
    [
        (lambda path: path.write_text('{"kind": "Turn"}\n'), "agentmem import"),
        (lambda path: path.write_bytes(b""), "is not a backup"),
        (_truncate, "damaged"),
        (_make_newer, "newer version"),
    ],
)
def test_what_is_no_sound_backup_replaces_nothing(
    cli: Cli, backup: Path, spoil: Callable[[Path], Any], told: str
) -> None:
    spoil(backup)
    result = cli.run("restore-backup", str(backup))
    assert result.exit_code == 1
    assert told in result.stderr
    assert str(backup) in result.stderr
    assert not list(cli.home.glob("*before-restore*"))
    assert not list(cli.home.glob("*.part*"))
    assert len(cli.lines("turns")) == 1


def test_a_damaged_memory_gives_way_to_a_backup(cli: Cli, backup: Path) -> None:
    (cli.home / "memory.db").write_bytes(b"not a database at all" * 1000)
    cli("restore-backup", str(backup))
    assert len(cli.lines("turns")) == 1


@pytest.mark.parametrize("moves, told", [(1, "is missing"), (2, "older copy")])
def test_an_interrupted_restore_is_noticed_and_can_be_repeated(
    cli: Cli, backup: Path, monkeypatch: pytest.MonkeyPatch, moves: int, told: str
) -> None:
    cli("add", "After.")
    done: list[Any] = []

    def replace(source: Any, target: Any) -> None:
        if len(done) == moves:
            raise OSError("cut off")
        done.append(target)
        os.rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", replace)
        assert "cut off" in cli.run("restore-backup", str(backup)).stderr
    assert told in cli.run("turns").stderr
    cli("restore-backup", str(backup))
    assert len(cli.lines("turns")) == 1


def test_servers_are_backed_up_by_their_own_tools(cli: Cli, backup: Path) -> None:
    cli.env["AGENTMEM_LOG_URL"] = "postgresql://agent@db/agentmem"
    cli.env["AGENTMEM_GRAPH_URL"] = "bolt://neo4j@graph"
    assert "pg_dump" in cli.run("restore-backup", str(backup)).stderr


def test_what_is_not_there_is_not_backed_up(cli: Cli, tmp_path: Path) -> None:
    assert "no memory exists at" in cli.run("backup", str(tmp_path / "backup.db")).stderr
    assert not cli.home.exists() or not list(cli.home.iterdir())
