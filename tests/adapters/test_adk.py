"""The memory service of ADK: sessions become turns, once; apps and users do not mix; a runner finds them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from agentmem import AgentMemory, AsyncAgentMemory, InvalidRecord, ScopeError
from agentmem.adapters.adk import AgentMemMemoryService
from docs.examples.adapters import adk_memory
from tests.flows.given import open_memory

PEANUTS = "I am allergic to peanuts."
AT = datetime(2026, 3, 8, 12, tzinfo=UTC)
ANN: dict[str, str] = {"app_name": "travel", "user_id": "ann"}


@pytest.fixture
def memory(home: Path) -> Iterator[AgentMemory]:
    with open_memory(home) as opened:
        yield opened


@pytest.fixture
def service(memory: AgentMemory) -> AgentMemMemoryService:
    return AgentMemMemoryService(memory)


def event(number: int, text: str, author: str = "user", **more: Any) -> Event:
    """An event with one text."""
    content = types.Content(role="user" if author == "user" else "model", parts=[types.Part(text=text)])
    return Event(id=f"e{number}", author=author, content=content, timestamp=AT.timestamp() + number, **more)


def session(*events: Event, session_id: str = "s1", **where: str) -> Session:
    return Session(id=session_id, events=list(events), **{**ANN, **where})


async def search(service: AgentMemMemoryService, query: str, **where: str) -> list[MemoryEntry]:
    return (await service.search_memory(**{**ANN, **where}, query=query)).memories


async def texts(service: AgentMemMemoryService, query: str, **where: str) -> list[str]:
    return [entry.content.parts[0].text for entry in await search(service, query, **where)]  # type: ignore[index, misc]


async def test_a_session_is_found_with_author_time_and_id(service: AgentMemMemoryService, memory: AgentMemory) -> None:
    await service.add_session_to_memory(session(event(0, PEANUTS), event(1, "No peanuts then.", "guide")))
    said, answered = sorted(await search(service, "peanuts"), key=lambda entry: entry.timestamp or "")
    assert (said.author, said.timestamp, said.content.role) == ("user", "2026-03-08T12:00:00+00:00", "user")
    assert (answered.author, answered.timestamp, answered.content.role) == (
        "guide",
        "2026-03-08T12:00:01+00:00",
        "model",
    )
    assert said.content.parts == [types.Part(text=PEANUTS)]
    view = memory.scoped(user_id="ann", channel="adk:travel")
    [turn] = [turn for turn in view.episodic.recent_turns() if turn.id == said.id]
    assert (turn.conversation_id, turn.role, turn.content) == ("adk:travel:s1", "user", PEANUTS)


async def test_a_session_added_again_adds_what_is_new(service: AgentMemMemoryService, memory: AgentMemory) -> None:
    await service.add_session_to_memory(session(event(0, PEANUTS)))
    await service.add_session_to_memory(session(event(0, PEANUTS), event(1, "And to peanut butter.")))
    await service.add_events_to_memory(**ANN, session_id="s1", events=[event(1, "And to peanut butter.")])
    assert sorted(await texts(service, "peanuts")) == ["And to peanut butter.", PEANUTS]
    await service.add_session_to_memory(session(event(0, PEANUTS), session_id="s2"))
    assert len(await search(service, "peanuts")) == 3
    assert len(memory.scoped(user_id="ann", channel="adk:travel").episodic.recent_turns()) == 3


async def test_an_event_that_says_something_else_now_is_told_in_the_log(
    service: AgentMemMemoryService, caplog: pytest.LogCaptureFixture
) -> None:
    await service.add_session_to_memory(session(event(0, PEANUTS)))
    await service.add_session_to_memory(session(event(0, "I eat anything."), event(1, "Oslo is far.")))
    assert sorted(await texts(service, "peanuts Oslo")) == ["I am allergic to peanuts.", "Oslo is far."]
    assert [each.levelno for each in caplog.records if "adk_events_skipped" in each.message] == [logging.WARNING]


async def test_only_what_was_said_is_stored(service: AgentMemMemoryService, memory: AgentMemory) -> None:
    call = types.Part(function_call=types.FunctionCall(name="book", args={"to": "Oslo"}))
    thought = types.Part(text="The user wants Oslo.", thought=True)
    answer = types.Content(role="model", parts=[thought, types.Part(text="Booked"), call, types.Part(text="Oslo.")])
    await service.add_session_to_memory(
        session(
            Event(id="e0", author="guide", content=types.Content(role="model", parts=[call, thought])),
            Event(id="e1", author="guide", content=answer),
            Event(id="e2", author="guide"),
            event(3, "Boo", "guide", partial=True),
            event(4, "  "),
        )
    )
    turns = memory.scoped(user_id="ann", channel="adk:travel").episodic.recent_turns()
    assert [turn.content for turn in turns] == ["Booked\nOslo."]


async def test_apps_and_users_do_not_mix(service: AgentMemMemoryService, memory: AgentMemory) -> None:
    memory.scoped(user_id="ann").store_turn("Peanuts in the user's own channel.")
    for where in (ANN, {**ANN, "app_name": "food"}, {**ANN, "user_id": "bob"}):
        await service.add_session_to_memory(session(event(0, f"Peanuts: {sorted(where.values())}"), **where))
    for where in (ANN, {**ANN, "app_name": "food"}, {**ANN, "user_id": "bob"}):
        assert await texts(service, "peanuts", **where) == [f"Peanuts: {sorted(where.values())}"]
    assert await search(service, "peanuts", app_name="other") == await search(service, "peanuts", user_id="eve") == []


async def test_a_deleted_memory_does_not_come_back(service: AgentMemMemoryService) -> None:
    talk = session(event(0, PEANUTS), event(1, "Peanuts are tasty."))
    await service.add_session_to_memory(talk)
    [name] = [entry.id for entry in await search(service, "peanuts") if entry.content.parts[0].text == PEANUTS]  # type: ignore[index]
    for stranger in ({**ANN, "user_id": "bob"}, {**ANN, "app_name": "food"}):
        await service.delete_memory(**stranger, memory_id=name)
    assert len(await search(service, "peanuts")) == 2
    await service.delete_memory(**ANN, memory_id=name)
    await service.delete_memory(**ANN, memory_id=name)
    await service.delete_memory(**ANN)
    await service.add_session_to_memory(talk)
    assert await texts(service, "peanuts") == ["Peanuts are tasty."]


async def test_what_is_known_is_added_as_facts(service: AgentMemMemoryService) -> None:
    known = types.Content(role="user", parts=[types.Part(text="The user likes window seats")])
    entries = [MemoryEntry(content=known, timestamp="2026-03-08"), MemoryEntry(content=known, timestamp="someday")]
    await service.add_memory(**ANN, memories=[*entries, MemoryEntry(content=types.Content())])
    [found] = await search(service, "Which seat?")
    assert (found.author, found.timestamp, found.custom_metadata["kind"]) == (None, "2026-03-08T00:00:00+00:00", "Fact")
    await service.delete_memory(**ANN, memory_id=found.id)
    assert await search(service, "Which seat?") == []


async def test_facts_read_from_sessions_are_found_beside_them(
    service: AgentMemMemoryService, memory: AgentMemory
) -> None:
    await service.add_session_to_memory(session(event(0, PEANUTS)))
    await asyncio.to_thread(memory.scoped(user_id="ann", channel="adk:travel").consolidate, "consolidate")
    assert set(await texts(service, "allergic")) == {PEANUTS, "The user is allergic to peanuts"}


@pytest.mark.parametrize("query", ["", "  ", "x" * 20_000, "'; --", "\ud800", "*", "\x00"])
async def test_any_query_is_answered(service: AgentMemMemoryService, query: str) -> None:
    await service.add_session_to_memory(session(event(0, PEANUTS)))
    assert len(await search(service, query)) <= 1


@pytest.mark.parametrize("name", ["", "\x00", "x" * 300, "_system"])
async def test_names_that_cannot_be_kept_are_refused(service: AgentMemMemoryService, name: str) -> None:
    with pytest.raises((InvalidRecord, ScopeError)):
        await service.add_session_to_memory(session(event(0, PEANUTS), user_id=name))
    for where in ({"app_name": "_self_x"}, {"session_id": "../x"}):  # which are names
        await service.add_session_to_memory(session(event(0, PEANUTS), **where))  # type: ignore[arg-type]
    with pytest.raises(InvalidRecord):
        await service.add_session_to_memory(session(event(0, PEANUTS), session_id="x" * 300))


async def test_many_sessions_at_once_and_long_ones_are_stored_whole(
    service: AgentMemMemoryService, memory: AgentMemory
) -> None:
    long = session(*(event(number, f"Line {number}") for number in range(1_100)), session_id="long")
    talks = [session(event(0, f"Talk {number}"), session_id=f"s{number}") for number in range(20)]
    await asyncio.gather(*(service.add_session_to_memory(each) for each in [long, *talks, *talks]))
    view = memory.scoped(user_id="ann", channel="adk:travel")
    counts = {each.id: len(view.episodic.get_conversation(each.id)) for each in view.episodic.conversations(limit=100)}
    assert counts == {"adk:travel:long": 1_100, **{f"adk:travel:s{number}": 1 for number in range(20)}}


async def test_an_async_memory_serves_its_own_loop_and_all_is_there_after_a_restart(home: Path) -> None:
    async with AsyncAgentMemory("any", home=home, embedder="hash") as memory:
        await AgentMemMemoryService(memory).add_session_to_memory(session(event(0, PEANUTS)))
    async with AsyncAgentMemory("any", home=home, embedder="hash") as memory:
        service = AgentMemMemoryService(memory)
        await service.add_session_to_memory(session(event(0, PEANUTS)))
        assert await texts(service, "peanuts") == [PEANUTS]
        assert isinstance(service, BaseMemoryService)


def test_the_agent_of_the_example_knows_what_an_earlier_session_said(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTMEM_HOME", str(home))
    monkeypatch.setenv("AGENTMEM_EMBEDDER", "hash")
    adk_memory.main()
    first, second = [line for line in capsys.readouterr().out.splitlines() if "> " not in line]
    assert (first, second) == ("I know nothing of you yet.", f"You said: {PEANUTS}")
    adk_memory.main(["bob"])
    assert capsys.readouterr().out.splitlines()[1] == "I know nothing of you yet."
