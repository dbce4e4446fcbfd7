"""A home that cannot be written, and a full disk: what is stored is read and exported, and every write says why not."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import pytest

from agentmem.admin.doctor import diagnose
from agentmem.admin.export_import import export_user
from agentmem.errors import AgentMemError, ConfigError, StoreUnavailable
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.settings.settings import Settings

SPAWN = multiprocessing.get_context("forkserver")
NOBODY = 65534
ENDINGS = ("", "-wal", "-shm", "-guard")
Look = Callable[[Path], Any]


def open_home(home: Path) -> AsyncAgentMemory:
    return AsyncAgentMemory(
        "ann", home=home, embedder="hash", dimensions=64, conversation_id="talk", audit_level="verbose"
    )


async def fill(home: Path) -> None:
    async with open_home(home) as memory:
        await store_some(memory)


async def store_some(memory: AsyncAgentMemory) -> None:
    turn = await memory.store_turn("Bees sleep in winter, I read in Graz.", turn_id="t0")
    await memory.learn_fact("The user lives in Graz", slot="home", value="Graz", source_turn_ids=[turn.id])
    await memory.add_goal({"description": "Build a hive", "id": "hive"})
    await memory.working.set("mood", "calm")


async def read_everything(home: Path) -> dict[str, Any]:
    """What the verbs that read give out of a memory that cannot be written."""
    lines: list[str] = []
    async with open_home(home) as memory:
        bundle = await memory.remember("bees in winter")
        await export_user(memory.engine, memory.scope, lines.append)
        await memory.working.set("mood", "brave")
        return {
            "turns": [turn.id for turn in bundle.turns],
            "notices": list(bundle.notices),
            "context": "Graz" in str(await memory.context("Where do I live?")),
            "conversation": len(await memory.episodic.get_conversation("talk")),
            "facts": [fact.value for fact in await memory.semantic.facts()],
            "goals": [goal.id for goal in await memory.goals.all()],
            "exported": sum("Bees sleep" in line for line in lines) > 0,
            "mood": await memory.working.get("mood"),
        }


async def try_writes(home: Path) -> list[str]:
    """What the verbs that write say, each a StoreUnavailable; one that does anything else says so."""
    said = []
    async with open_home(home) as memory:
        writes: dict[str, Callable[[], Any]] = {
            "store_turn": lambda: memory.store_turn("A word more."),
            "learn_fact": lambda: memory.learn_fact("The user keeps bees"),
            "forget": lambda: memory.forget("t0"),
            "forget hard": lambda: memory.forget("t0", hard=True),
            "erase": memory.erase,
            "consolidate": memory.consolidate,
        }
        for name, write in writes.items():
            try:
                await write()
            except StoreUnavailable as error:
                said.append(str(error))
            except AgentMemError as error:
                said.append(f"{name} raised {error!r}")
            else:
                said.append(f"{name} was done")
    return said


def check_read(found: dict[str, Any]) -> None:
    notices = found.pop("notices")
    assert found == {
        "turns": ["t0"],
        "context": True,
        "conversation": 1,
        "facts": ["Graz"],
        "goals": ["hive"],
        "exported": True,
        "mood": "brave",
    }
    assert any("takes no writes" in notice for notice in notices)
    assert any("could not be noted" in notice for notice in notices)


# -- a folder of somebody else


async def leave_closed(home: Path) -> None:
    await fill(home)


async def leave_killed(home: Path) -> None:
    """The files of a memory that is open: what was stored stands in the log."""
    live = home.with_name("live")
    async with open_home(live) as memory:
        await store_some(memory)
        home.mkdir()
        for ending in ENDINGS:
            shutil.copy(live / f"memory.db{ending}", home / f"memory.db{ending}")


async def leave_killed_without_lock_file(home: Path) -> None:
    await leave_killed(home)
    (home / "memory.db-shm").unlink()


def look_as_nobody(folder: str, leave: Callable[[Path], Any], pipe: Pipe) -> None:
    """Look at a home as a user who may read it and not write."""
    home = Path(folder) / "home"
    warm = Path(folder) / "warm"  # loads what is loaded late, which another user may not read
    for look in (fill, read_everything, try_writes):
        asyncio.run(look(warm))
    asyncio.run(diagnose(Settings(home=warm, embedder="hash")))
    asyncio.run(leave(home))
    before = {path.name: path.read_bytes() for path in home.iterdir()}
    for path in (*home.iterdir(), home):
        path.chmod(0o555 if path.is_dir() else 0o444)
    if os.getuid() == 0:  # the administrator may write anywhere
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        found, said = asyncio.run(read_everything(home)), asyncio.run(try_writes(home))
        new = ""
        try:
            asyncio.run(open_home(home / "new").open())
        except ConfigError as error:
            new = str(error)
        checks = asyncio.run(diagnose(Settings(home=home, embedder="hash")))
        errors = [finding.detail for finding in checks if finding.level == "error"]
        pipe.send((found, said, new, errors, before == {path.name: path.read_bytes() for path in home.iterdir()}))
    except BaseException as error:
        pipe.send(repr(error))
        raise


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may look into."""
    with tempfile.TemporaryDirectory(prefix="agentmem-read-only-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
        for path in Path(folder).rglob("*"):
            path.chmod(0o700)


@pytest.mark.parametrize("leave", [leave_closed, leave_killed, leave_killed_without_lock_file])
def test_a_home_that_cannot_be_written_is_read_and_exported(open_folder: Path, leave: Look) -> None:
    ours, theirs = SPAWN.Pipe(duplex=False)
    child = SPAWN.Process(target=look_as_nobody, args=(str(open_folder), leave, theirs))
    child.start()
    theirs.close()
    told = ours.recv()
    child.join()
    assert child.exitcode == 0, told
    found, said, new, errors, unchanged = told
    check_read(found)
    assert all("memory.db is open for reading only, because" in message for message in said), said
    assert "cannot be written" in said[0]
    assert str(open_folder / "home" / "new") in new
    assert errors == []
    assert unchanged


# -- a full disk


def look_on_a_full_disk(folder: str, pipe: Pipe) -> None:
    """Look at a home whose files may not grow by a byte, as on a full disk."""
    home = Path(folder)
    asyncio.run(fill(home))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        told = asyncio.run(read_everything(home)), asyncio.run(try_writes(home))
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        asyncio.run(fill_again(home))
        pipe.send(told)
    except BaseException as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        pipe.send(repr(error))
        raise


async def fill_again(home: Path) -> None:
    async with open_home(home) as memory:
        await memory.store_turn("There is room again.")
        assert len(await memory.episodic.get_conversation("talk")) == 2


def test_a_memory_on_a_full_disk_is_read_and_exported(home: Path) -> None:
    ours, theirs = SPAWN.Pipe(duplex=False)
    child = SPAWN.Process(target=look_on_a_full_disk, args=(str(home), theirs))
    child.start()
    theirs.close()
    told = ours.recv()
    child.join()
    assert child.exitcode == 0, told
    found, said = told
    check_read(found)
    assert all("no room left" in message for message in said), said


async def forget_without_room(home: Path, pipe: Pipe) -> None:
    async with open_home(home) as memory:
        for number in range(120):
            await memory.store_turn(f"Number {number} tells of herons. " + "lorem ipsum " * 200, turn_id=f"h{number}")
        log = (home / "memory.db-wal").stat().st_size
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(log, (home / "memory.db").stat().st_size), hard))
        receipt = await memory.forget("h7", hard=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert receipt.scan is not None
        pipe.send((dict(receipt.scan.leftovers), list(receipt.scan.deferred), log))


def look_at_an_erasure(folder: str, pipe: Pipe) -> None:
    asyncio.run(forget_without_room(Path(folder), pipe))


def test_an_erasure_on_a_full_disk_takes_the_room_of_the_write_ahead_log(home: Path) -> None:
    ours, theirs = SPAWN.Pipe(duplex=False)
    child = SPAWN.Process(target=look_at_an_erasure, args=(str(home), theirs))
    child.start()
    theirs.close()
    leftovers, _, log = ours.recv()
    child.join()
    assert child.exitcode == 0
    assert leftovers == {}
    assert log > 1_000_000
    assert not any(b"Number 7 tells" in path.read_bytes() for path in home.glob("memory.db*"))
