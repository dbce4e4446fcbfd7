"""What a restored backup brought back is erased again, from a list that was written before."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agentmem import AgentMemory
from tests.servers.stack import database_of
from tests.surfaces.conftest import Cli

ROLES = "agentmem_app, agentmem_worker"


@dataclass
class RestorableFile:
    """A command line on an embedded memory of which a backup is made and put back."""

    cli: Cli
    folder: Path

    @property
    def urls(self) -> dict[str, Any]:
        """What opens the memory besides its home."""
        return {}

    def take(self) -> None:
        """Make the backup."""
        self.cli("admin", "backup", str(self.folder / "backup.db"))

    def restore(self) -> None:
        """Put it back."""
        self.cli("admin", "restore-backup", str(self.folder / "backup.db"))


@dataclass
class RestorableDatabase(RestorableFile):
    """The same for a database that a login with an operator's roles uses."""

    admin: psycopg.Connection[tuple[()]]
    log_url: str
    copies: list[str] = field(default_factory=list)

    @property
    def urls(self) -> dict[str, Any]:
        return {"log_url": self.log_url}

    def take(self) -> None:
        self.copies.append(f"backup_{os.urandom(6).hex()}")
        name = self.log_url.rpartition("/")[2].partition("?")[0]
        self.admin.execute(f"CREATE DATABASE {self.copies[-1]} TEMPLATE {name}")

    def restore(self) -> None:
        self.log_url = database_of(self.log_url, self.copies[-1])
        self.cli.env["AGENTMEM_LOG_URL"] = self.log_url


def _make_database(request: pytest.FixtureRequest, cli: Cli, folder: Path) -> Iterator[RestorableDatabase]:
    own_url: str = request.getfixturevalue("postgres_copy")
    login = f"operator_{os.urandom(6).hex()}"
    url = f"postgresql://{login}:heron@{own_url.rpartition('@')[2]}"
    with psycopg.connect(request.getfixturevalue("postgres_url"), autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {login} LOGIN PASSWORD 'heron' IN ROLE {ROLES}")
        cli.env["AGENTMEM_LOG_URL"] = url
        made = RestorableDatabase(cli, folder, admin, url)
        yield made
        for name in made.copies:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        admin.execute(f"DROP ROLE {login}")


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.server("postgres"))])
def memory(request: pytest.FixtureRequest, cli: Cli, tmp_path: Path) -> Iterator[RestorableFile]:
    """A memory on each of the stores that a backup is made of."""
    if request.param == "file":
        yield RestorableFile(cli, tmp_path)
    else:
        yield from _make_database(request, cli, tmp_path)


def opened(memory: RestorableFile, user: str) -> AgentMemory:
    return AgentMemory(user, home=memory.cli.home, embedder="hash", **memory.urls)


def present(memory: RestorableFile, user: str) -> set[str]:
    with opened(memory, user) as view:
        found = view.remember("heron safe", top_k=100)
        return {record.id for record in (*found.turns, *found.facts)}


def test_a_restored_memory_loses_again_what_was_erased(memory: RestorableFile, tmp_path: Path) -> None:
    cli, path = memory.cli, tmp_path / "erasures.jsonl"
    with opened(memory, "alice") as alice:
        secret = alice.store_turn("The code of the safe is heron.")
        told = alice.learn_fact("The safe opens with heron", source_turn_ids=[secret.id])
        kept = alice.store_turn("A heron stood by the lake.")
    with opened(memory, "bob") as bob:
        other = bob.store_turn("Bob saw a heron, too.")
    memory.take()
    with opened(memory, "alice") as alice:
        alice.forget(secret.id, hard=True)
    listed = cli.json("admin", "erasures", "--out", str(path))
    text = path.read_text(encoding="utf-8")
    assert {json.loads(line)["user_id"] for line in text.splitlines()} == {"alice"}
    assert {secret.id, told.id} <= {json.loads(line)["id"] for line in text.splitlines()}
    assert "safe" not in text
    assert listed["users"] == 1
    assert path.stat().st_mode & 0o777 == 0o600
    assert cli.json("admin", "erase-again", str(path))["records"] == 0

    memory.restore()
    assert {secret.id, told.id} <= present(memory, "alice")
    planned = cli.json("admin", "erase-again", str(path), "--dry-run")
    assert {secret.id, told.id} <= present(memory, "alice")
    done = cli.json("admin", "erase-again", str(path))
    assert done["erased"] == planned["erased"]
    assert list(done["erased"]) == ["alice"]
    assert present(memory, "alice") == {kept.id}
    assert present(memory, "bob") == {other.id}
    assert cli("admin", "erase-again", str(path)).startswith("0 records of 0 users erased again")


def test_what_was_derived_after_the_list_goes_with_its_source(memory: RestorableFile, tmp_path: Path) -> None:
    with opened(memory, "alice") as alice:
        secret = alice.store_turn("The code of the safe is heron.")
    memory.take()
    with opened(memory, "alice") as alice:
        alice.forget(secret.id, hard=True)
    listed = memory.cli("admin", "erasures")
    memory.restore()
    with opened(memory, "alice") as alice:
        alice.learn_fact("The safe opens with heron", source_turn_ids=[secret.id])
    memory.cli("admin", "erase-again", "-", stdin=listed)
    assert present(memory, "alice") == set()


def test_a_user_who_was_erased_as_a_whole_is_erased_again_with_keys(memory: RestorableFile) -> None:
    cli = memory.cli
    with opened(memory, "alice") as alice:
        alice.store_turn("The code of the safe is heron.")
    cli("keys", "create", "--user", "alice")
    memory.take()
    cli("erase", "--user", "alice", "--yes")
    listed = cli("admin", "erasures")
    assert json.loads(listed.splitlines()[0])["kind"] == "*"
    assert cli.run("admin", "erase-again", "-", stdin=listed).stdout.startswith("0 records of 0 users")

    memory.restore()
    assert len(cli.lines("keys", "list")) == 1
    assert "  alice: " in cli("admin", "erase-again", "-", "--dry-run", stdin=listed)
    assert len(present(memory, "alice")) == 1
    assert "  alice: " in cli("admin", "erase-again", "-", stdin=listed)
    assert present(memory, "alice") == set()
    assert cli.lines("keys", "list") == []
    assert cli("admin", "erase-again", "-", stdin=listed).startswith("0 records of 0 users")


def test_a_user_who_wrote_since_keeps_what_is_new(memory: RestorableFile) -> None:
    cli = memory.cli
    with opened(memory, "alice") as alice:
        alice.store_turn("The code of the safe is heron.")
    memory.take()
    cli("erase", "--user", "alice", "--yes")
    listed = cli("admin", "erasures")
    memory.restore()
    with opened(memory, "alice") as alice:
        new = alice.store_turn("A heron stood by the lake.")
    assert "has written since" in cli("admin", "erase-again", "-", stdin=listed)
    assert present(memory, "alice") == {new.id}


def test_what_was_stored_again_under_an_erased_id_stays(memory: RestorableFile) -> None:
    cli = memory.cli
    with opened(memory, "alice") as alice:
        alice.store_turn("We met in town.", turn_id="t1")
    memory.take()
    with opened(memory, "alice") as alice:
        alice.store_turn({"content": "The code of the safe is heron.", "conversation_id": "lake"})
        alice.forget("lake", hard=True)
    listed = cli("admin", "erasures")
    assert '"kind":"Conversation","id":"lake"' in listed
    memory.restore()
    with opened(memory, "alice") as alice:
        new = alice.store_turn({"content": "A heron stood by the lake.", "conversation_id": "lake"})
    assert cli("admin", "erase-again", "-", stdin=listed).startswith("0 records of 0 users")
    assert new.id in present(memory, "alice")


def test_the_list_begins_at_a_time(cli: Cli) -> None:
    with AgentMemory("alice", home=cli.home, embedder="hash") as alice:
        alice.forget(alice.store_turn("One.", turn_id="t1").id, hard=True)
    with AgentMemory("alice", home=cli.home, embedder="hash") as alice:
        alice.forget(alice.store_turn("Two.", turn_id="t2").id, hard=True)
    times = {line["id"]: line["erased_at"] for line in map(json.loads, cli("admin", "erasures").splitlines())}
    assert times["t1"] < times["t2"]
    later = cli("admin", "erasures", "--since", times["t2"])
    assert '"id":"t2"' in later
    assert '"id":"t1"' not in later
    assert cli("admin", "erasures", "--since", "2999-01-01") == ""


LINE = '{"user_id":"default","kind":"Turn","id":"t1","erased_at":"2999-01-01T00:00:00Z"}\n'


@pytest.mark.parametrize(
    "bad, told",
    [
        ("nonsense\n", "line 2: this is not a line of agentmem admin erasures"),
        (LINE.replace("Turn", "Tern"), "line 2: ErasureLine.kind"),
        (LINE.replace("Turn", "*"), "line 2: id must be *"),
        (LINE.replace("default", ""), "line 2: ErasureLine.user_id"),
        (LINE.replace('"t1"', '"\\u0000"'), "line 2: ErasureLine.id"),
        (LINE.replace("00Z", "00"), "line 2: ErasureLine.erased_at"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_erased(cli: Cli, bad: str, told: str) -> None:
    cli("add", "One.", "--turn-id", "t1")
    result = cli.run("admin", "erase-again", "-", stdin=LINE + bad)
    assert result.exit_code == 2
    assert told in result.stderr
    assert len(cli.lines("turns")) == 1
    cli("admin", "erase-again", "-", stdin=LINE)
    assert cli.lines("turns") == []
