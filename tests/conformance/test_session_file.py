"""The session cache's own file: swept, wiped, shared with other processes, and made anew when it is damaged."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agentmem.core.scope import Scope
from agentmem.errors import StoreUnavailable
from agentmem.stores.sqlite import open_session
from agentmem.stores.sqlite.database import connect
from agentmem.stores.sqlite.session import SqliteSession
from tests.conformance.stores import ManualClock

ANN, BOB = Scope("ann"), Scope("bob")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "session.db"


@pytest.fixture
async def session(path: Path, clock: ManualClock) -> AsyncIterator[SqliteSession]:
    made = await open_session(path, clock)
    yield made
    await made.close()


async def test_what_expired_is_swept_by_later_writes(session: SqliteSession, clock: ManualClock, path: Path) -> None:
    def rows() -> int:
        db = connect(path)
        try:
            return int(db.execute("SELECT count(*) FROM kv").get)
        finally:
            db.close()

    await session.set(ANN, "short", 1, ttl=10)
    clock.advance(30)
    await session.set(ANN, "k", 1, ttl=600)
    assert rows() == 2
    clock.advance(31)
    await session.set(ANN, "l", 1, ttl=600)
    assert rows() == 2
    clock.advance(-3600)
    await session.set(ANN, "m", 1, ttl=1)
    assert rows() == 3


async def test_what_is_cleared_is_in_no_file(session: SqliteSession, path: Path) -> None:
    for n in range(50):
        await session.push(ANN, "turns", f"MARKER {n} " + "x" * 400, keep=20, ttl=60)
    await session.set(BOB, "k", "stays", ttl=60)
    await session.clear(ANN)
    # Another process looks: opening the file here would drop the locks of the connection that is still open.
    script = "import pathlib, sys; print(sum(b'MARKER' in f.read_bytes() for f in pathlib.Path(sys.argv[1]).iterdir()))"
    found = subprocess.run([sys.executable, "-c", script, str(path.parent)], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "0"
    assert await session.get(BOB, "k") == "stays"


async def test_a_file_of_an_older_version_is_used_as_it_is(path: Path, clock: ManualClock) -> None:
    first = await open_session(path, clock)
    await first.set(ANN, "k", 1, ttl=60)
    await first.close()
    db = connect(path)
    db.execute("ALTER TABLE kv DROP COLUMN written")
    db.close()
    again = await open_session(path, clock)
    assert await again.get(ANN, "k") == 1
    await again.set(ANN, "l", 2, ttl=60, max_bytes=100)
    assert await again.items(ANN, "") == {"k": 1, "l": 2}
    await again.close()


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database at all" * 400)


def torn(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100:] = b"\xff" * (len(data) - 100)
    path.write_bytes(bytes(data))


def other_program(path: Path) -> None:
    path.write_bytes(b"")
    db = connect(path)
    db.execute("CREATE TABLE kv (something TEXT)")
    db.close()


@pytest.mark.parametrize("damage", [garbage, torn, other_program])
async def test_a_damaged_file_is_made_anew(path: Path, clock: ManualClock, damage: Callable[[Path], None]) -> None:
    first = await open_session(path, clock)
    await first.set(ANN, "k", "x" * 5000, ttl=60)
    await first.close()
    damage(path)
    again = await open_session(path, clock)
    assert await again.get(ANN, "k") is None
    await again.set(ANN, "k", 2, ttl=60)
    assert await again.get(ANN, "k") == 2
    await again.close()


async def test_a_file_damaged_while_open_is_made_anew(session: SqliteSession, path: Path) -> None:
    await session.set(ANN, "k", 1, ttl=60)
    db = connect(path)
    db.execute("DROP TABLE kv")
    db.close()
    assert await session.get(ANN, "k") is None
    await session.set(ANN, "k", 2, ttl=60)
    assert await session.get(ANN, "k") == 2


async def test_a_lock_of_another_process_does_not_hold_up_for_long(session: SqliteSession, path: Path) -> None:
    await session.set(ANN, "k", 1, ttl=60)
    await session.clear(BOB)
    db = connect(path)
    db.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        await session.set(ANN, "k", 2, ttl=60)
    assert await session.get(ANN, "k") == 1
    db.execute("ROLLBACK")
    db.close()
    await session.set(ANN, "k", 2, ttl=60)
    assert await session.get(ANN, "k") == 2
