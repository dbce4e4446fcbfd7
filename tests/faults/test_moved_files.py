"""Files deleted, replaced, emptied or set back: no write into them is acknowledged, no store begins anew in silence."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentmem.admin.doctor import diagnose
from agentmem.errors import CorruptStore, StoreUnavailable
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.settings.settings import Settings

ENDINGS = ("", "-wal", "-shm", "-guard")


def open_home(home: Path) -> AsyncAgentMemory:
    return AsyncAgentMemory("ann", home=home, embedder="hash", dimensions=64, conversation_id="talk")


async def fill(home: Path, count: int = 3) -> None:
    async with open_home(home) as memory:
        for number in range(count):
            await memory.store_turn(f"Number {number} is about bees.")


async def count_turns(home: Path) -> int:
    async with open_home(home) as memory:
        return len(await memory.episodic.recent_turns(100))


async def leave_as_killed(home: Path, into: Path, count: int = 3) -> None:
    """What a process leaves that is killed: the files of a memory that is open, whose commits stand in the log."""
    async with open_home(home) as memory:
        for number in range(count):
            await memory.store_turn(f"Number {number} is about bees.")
        into.mkdir()
        for ending in ENDINGS:
            shutil.copy(home / f"memory.db{ending}", into / f"memory.db{ending}")


async def find_errors(home: Path) -> str:
    findings = await diagnose(Settings(home=home, embedder="hash"))
    return " ".join(f"{finding.check}: {finding.detail}" for finding in findings if finding.level == "error")


# -- under a memory that is open


async def delete_main(home: Path, other: Path) -> None:
    (home / "memory.db").unlink()


async def delete_log(home: Path, other: Path) -> None:
    (home / "memory.db-wal").unlink()


async def delete_lock_file(home: Path, other: Path) -> None:
    (home / "memory.db-shm").unlink()


async def delete_folder(home: Path, other: Path) -> None:
    shutil.rmtree(home)


async def replace_by_another_store(home: Path, other: Path) -> None:
    await fill(other)
    (other / "memory.db").replace(home / "memory.db")


async def replace_by_a_copy(home: Path, other: Path) -> None:
    shutil.copy(home / "memory.db", home / "copy.db")
    (home / "copy.db").replace(home / "memory.db")


@pytest.mark.parametrize(
    "move",
    [delete_main, delete_log, delete_lock_file, delete_folder, replace_by_another_store, replace_by_a_copy],
)
async def test_an_open_memory_refuses_to_go_on_without_its_files(
    home: Path, tmp_path: Path, move: Callable[[Path, Path], object]
) -> None:
    async with open_home(home) as memory:
        await memory.store_turn("Bees sleep in winter.")
        await move(home, tmp_path / "other")  # type: ignore[misc]
        before = {path.name: path.stat().st_ino for path in home.glob("memory.db*")}
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"memory\.db.* was deleted, moved or replaced"):
                await memory.store_turn("This must not be acknowledged.")
            with pytest.raises(StoreUnavailable, match="was deleted, moved or replaced"):
                await memory.episodic.get_conversation("talk")
            with pytest.raises(StoreUnavailable, match="was deleted, moved or replaced"):
                await memory.remember("bees")
        assert {path.name: path.stat().st_ino for path in home.glob("memory.db*")} == before


async def test_a_file_that_is_put_back_is_used_again(home: Path) -> None:
    async with open_home(home) as memory:
        await memory.store_turn("Bees sleep in winter.")
        (home / "memory.db").rename(home / "away.db")
        with pytest.raises(StoreUnavailable, match="was deleted"):
            await memory.store_turn("Not stored.")
        (home / "away.db").rename(home / "memory.db")
        await memory.store_turn("Stored again.")
        assert len(await memory.episodic.get_conversation("talk")) == 2
    assert await count_turns(home) == 2


async def test_an_older_copy_written_over_the_open_file_is_found_at_the_next_opening(
    home: Path, tmp_path: Path
) -> None:
    await fill(home)
    shutil.copy(home / "memory.db", tmp_path / "older.db")
    async with open_home(home) as memory:
        await memory.store_turn("Later.")
        (home / "memory.db").write_bytes((tmp_path / "older.db").read_bytes())
        (home / "memory.db-wal").write_bytes(b"")
    assert "commits that were acknowledged" in await open_refused(home)


async def open_refused(home: Path) -> str:
    with pytest.raises(CorruptStore) as caught:
        await open_home(home).open()
    return str(caught.value)


# -- before it is opened


async def lose_main(home: Path, tmp_path: Path) -> None:
    await fill(home)
    (home / "memory.db").unlink()


async def empty_main(home: Path, tmp_path: Path) -> None:
    await fill(home)
    os.truncate(home / "memory.db", 0)


async def empty_main_of_a_killed_process(home: Path, tmp_path: Path) -> None:
    await leave_as_killed(tmp_path / "live", home)
    os.truncate(home / "memory.db", 0)
    (home / "memory.db-guard").unlink()


async def lose_log(home: Path, tmp_path: Path) -> None:
    await fill(tmp_path / "live")  # a file that is there, whose later commits stand in the log
    await leave_as_killed(tmp_path / "live", home)
    (home / "memory.db-wal").unlink()


async def empty_log(home: Path, tmp_path: Path) -> None:
    await fill(tmp_path / "live")
    await leave_as_killed(tmp_path / "live", home)
    os.truncate(home / "memory.db-wal", 0)


async def garble_log(home: Path, tmp_path: Path) -> None:
    await fill(tmp_path / "live")
    await leave_as_killed(tmp_path / "live", home)
    log = home / "memory.db-wal"
    log.write_bytes(bytes(reversed(log.read_bytes())))


async def cut_log(home: Path, tmp_path: Path) -> None:
    await fill(tmp_path / "live")
    await leave_as_killed(tmp_path / "live", home)
    os.truncate(home / "memory.db-wal", (home / "memory.db-wal").stat().st_size // 2)


async def take_the_log_of_another_store(home: Path, tmp_path: Path) -> None:
    await fill(home)
    await leave_as_killed(tmp_path / "live", tmp_path / "killed")
    shutil.copy(tmp_path / "killed" / "memory.db-wal", home / "memory.db-wal")


async def take_another_store(home: Path, tmp_path: Path) -> None:
    await fill(home)
    await fill(tmp_path / "other", 9)
    shutil.copy(tmp_path / "other" / "memory.db", home / "memory.db")


async def take_an_older_copy(home: Path, tmp_path: Path) -> None:
    await fill(home)
    shutil.copy(home / "memory.db", tmp_path / "older.db")
    await fill(home)
    shutil.copy(tmp_path / "older.db", home / "memory.db")


CASES = {
    lose_main: "is missing, but it held store",
    empty_main: "is empty, but it held store",
    empty_main_of_a_killed_process: "is empty, but its write-ahead log",
    lose_log: "commits that were acknowledged",
    empty_log: "commits that were acknowledged",
    garble_log: "commits that were acknowledged",
    cut_log: "commits that were acknowledged",
    take_the_log_of_another_store: "belongs to another store",
    take_another_store: "it was replaced",
    take_an_older_copy: "commits that were acknowledged",
}


@pytest.mark.parametrize("damage", CASES)
async def test_a_store_that_lost_something_is_not_opened_and_left_as_it_is(
    home: Path, tmp_path: Path, damage: Callable[[Path, Path], object]
) -> None:
    await damage(home, tmp_path)  # type: ignore[misc]
    before = {path.name: path.read_bytes() for path in home.glob("memory.db*") if not path.name.endswith("-shm")}
    said = await find_errors(home)
    for _ in range(2):
        assert CASES[damage] in await open_refused(home)
    assert CASES[damage] in said
    after = {path.name: path.read_bytes() for path in home.glob("memory.db*") if not path.name.endswith("-shm")}
    assert {name: after.get(name, b"") for name in before} | after == before | dict.fromkeys(after.keys() - before, b"")


@pytest.mark.parametrize("damage", [empty_main, lose_main, lose_log, take_another_store, take_an_older_copy])
async def test_deleting_the_guard_file_accepts_what_is_there(
    home: Path, tmp_path: Path, damage: Callable[[Path, Path], object]
) -> None:
    await damage(home, tmp_path)  # type: ignore[misc]
    assert str(home / "memory.db-guard") in await open_refused(home)
    (home / "memory.db-guard").unlink()
    before = await count_turns(home)
    await fill(home, 2)
    assert await count_turns(home) == before + 2
    assert await find_errors(home) == ""


# -- what is no loss


async def test_what_a_killed_process_leaves_is_opened(home: Path, tmp_path: Path) -> None:
    await leave_as_killed(tmp_path / "live", home)
    assert await find_errors(home) == ""
    assert await count_turns(home) == 3


async def test_a_guard_file_behind_its_store_is_brought_along(home: Path, tmp_path: Path) -> None:
    await fill(home)
    shutil.copy(home / "memory.db-guard", tmp_path / "guard")
    await fill(home)
    shutil.copy(tmp_path / "guard", home / "memory.db-guard")
    assert await count_turns(home) == 6
    assert (home / "memory.db-guard").read_bytes() != (tmp_path / "guard").read_bytes()


@pytest.mark.parametrize("content", [b"", b"no guard\n", b"\xff" * 500])
async def test_a_damaged_guard_file_is_named_and_made_again(home: Path, content: bytes) -> None:
    await fill(home)
    (home / "memory.db-guard").write_bytes(content)
    findings = await diagnose(Settings(home=home, embedder="hash"))
    assert [finding.level for finding in findings if finding.check == "guard"] == ["warning"]
    assert await count_turns(home) == 3
    findings = await diagnose(Settings(home=home, embedder="hash"))
    assert [finding.level for finding in findings if finding.check == "guard"] == ["ok"]


async def test_a_guard_file_is_not_written_through_a_link(home: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    home.mkdir()
    (home / "memory.db-guard").symlink_to(tmp_path / "precious")
    await fill(home)
    assert (tmp_path / "precious").read_text() == "mine"


async def test_two_memories_of_one_home_keep_one_guard_file(home: Path) -> None:
    async with open_home(home) as one, open_home(home) as two:
        for number in range(4):
            await (one, two)[number % 2].store_turn(f"Number {number}.")
    assert await count_turns(home) == 4
    assert await find_errors(home) == ""
