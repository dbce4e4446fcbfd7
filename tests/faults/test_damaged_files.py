"""Damaged files: the cache is made anew, the main file is named and left exactly as it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from agentmem.admin.doctor import diagnose
from agentmem.errors import AgentMemError, CorruptStore, SchemaMismatch
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.settings.settings import Settings
from tests.faults import checks

PAGE = 4096
NOISE = random.Random(7).randbytes(PAGE)
NEEDLE = b"number 30 "


def _memory(home: Path) -> AsyncAgentMemory:
    return AsyncAgentMemory("ann", home=home, embedder="hash", dimensions=64, conversation_id="talk")


async def _filled(home: Path) -> None:
    async with _memory(home) as memory:
        await memory.store_turns([f"number {n} " + "lorem ipsum dolor sit amet " * 30 for n in range(60)])
        await memory.working.set("mood", "calm")


def _page_of(content: bytes, needle: bytes) -> int:
    return content.index(needle) // PAGE * PAGE


def _header(content: bytes) -> bytes:
    return NOISE[:100] + content[100:]


def _every_other_page(content: bytes) -> bytes:
    pages = [content[at : at + PAGE] for at in range(0, len(content), PAGE)]
    return b"".join(NOISE if number % 2 else page for number, page in enumerate(pages))


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2 // PAGE * PAGE]


def _stub(content: bytes) -> bytes:
    return content[:50]


def _text(content: bytes) -> bytes:
    return b"Dear diary, today I learned what a database is.\n" * 500


def _zeros(content: bytes) -> bytes:
    return bytes(len(content))


@pytest.mark.parametrize("damage", [_header, _every_other_page, _cut, _stub, _text, _zeros])
async def test_a_damaged_main_file_is_named_and_left_alone(home: Path, damage: Callable[[bytes], bytes]) -> None:
    await _filled(home)
    file = home / "memory.db"
    damaged = damage(file.read_bytes())
    file.write_bytes(damaged)
    for _ in range(2):
        with pytest.raises(CorruptStore, match=r"memory\.db is damaged.*restore a backup"):
            await _memory(home).open()
    assert file.read_bytes() == damaged
    assert [path.name for path in home.glob("memory.db-*")] == ["memory.db-guard"]
    findings = await diagnose(Settings(home=home, embedder="hash"))
    assert any(finding.level == "error" and finding.fix for finding in findings)
    assert file.read_bytes() == damaged


async def test_a_damaged_page_is_named_when_it_is_read_and_never_written_over(home: Path) -> None:
    await _filled(home)
    file = home / "memory.db"
    content = bytearray(file.read_bytes())
    at = _page_of(content, NEEDLE)
    content[at : at + PAGE] = NOISE
    file.write_bytes(content)
    memory = await _memory(home).open()
    with pytest.raises(CorruptStore, match=r"memory\.db is damaged"):
        await memory.episodic.get_conversation("talk")
    with suppress(CorruptStore):
        await memory.store_turn("A write that may or may not meet the damage.")
    with suppress(AgentMemError):
        await memory.close()
    assert file.read_bytes()[at : at + PAGE] == NOISE
    findings = await diagnose(Settings(home=home, embedder="hash"))
    assert any(finding.level == "error" for finding in findings)


async def test_another_programs_database_is_refused_and_left_alone(home: Path) -> None:
    await _filled(home)
    session = (home / "session.db").read_bytes()
    other = home / "other" / "memory.db"
    other.parent.mkdir()
    other.write_bytes(session)
    with pytest.raises(SchemaMismatch, match="another program"):
        await _memory(other.parent).open()
    assert other.read_bytes() == session


@pytest.mark.parametrize("damage", [_header, _cut, _stub, _text, _zeros])
async def test_a_damaged_session_file_is_made_anew(home: Path, damage: Callable[[bytes], bytes]) -> None:
    await _filled(home)
    file = home / "session.db"
    file.write_bytes(damage(file.read_bytes()))
    async with _memory(home) as memory:
        turn = await memory.store_turn("It goes on.")
        assert turn.index == 60
        assert await memory.working.get("mood") is None or damage is _cut
        await memory.working.set("mood", "brave")
        assert await memory.working.get("mood") == "brave"
        assert len(await memory.working.turns(100)) == 50
        await checks.check_healthy(memory.engine)


async def test_a_session_file_damaged_while_it_is_open_costs_no_write(home: Path) -> None:
    await _filled(home)
    async with _memory(home) as memory:
        for path in home.glob("session.db*"):
            path.write_bytes(NOISE)
        for number in range(3):
            turn = await memory.store_turn(f"It goes on and on, {number}.")
            assert turn.index == 60 + number
        await checks.check_settled(memory)
        await checks.check_healthy(memory.engine)
