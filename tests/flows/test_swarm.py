"""Announcements: what one agent tells the user's others, until when, and nobody else's words."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemory, AsyncAgentMemory, Fact, InvalidRecord, Status
from agentmem.memory.announcements import MAX_ANNOUNCEMENTS, parse_announcement_lines
from tests.flows.given import START, ManualClock, context_of, engine_of, read_head, run
from tests.flows.test_reviews import put

DOWN = "The production API is experiencing 503 errors"


def swarm(memory: AgentMemory, **where: object) -> list[Fact]:
    return memory.semantic.facts({"channel": "_swarm", **where})


def uses(memory: AgentMemory, fact: Fact) -> int:
    found = run(engine_of(memory).log.usage([fact.key], context_of(memory).scope))
    return found[fact.key].use_count if found else 0


# -- the document's example


def test_what_one_agent_announces_another_one_recalls(memory: AgentMemory) -> None:
    one, other = (memory.scoped(agent_id=name, channel=name) for name in ("deployer", "helper"))
    turn = one.store_turn(f"I have looked.\n[ANNOUNCE] {DOWN}\nMore soon.", role="assistant")
    (fact,) = other.remember("Is there anything I should know about the production API?").facts
    assert (fact.claim, fact.channel, fact.source, fact.valid_from) == (DOWN, "_swarm", "deployer", START)
    assert (fact.source_turn_ids, fact.operation_id) == ((turn.id,), turn.operation_id)
    (span,) = fact.source_spans
    assert turn.content[span[1] : span[2]] == DOWN
    assert memory.scoped(user_id="bob").remember("production API").facts == ()
    one.undo(turn.operation_id)
    assert swarm(other) == []


def test_an_announcement_has_an_author_a_time_and_an_end(memory: AgentMemory, clock: ManualClock) -> None:
    fact = memory.scoped(agent_id="bot").announce(DOWN, expires_in=timedelta(hours=2))
    assert (fact.source, fact.valid_from, fact.valid_to) == ("bot", START, START + timedelta(hours=2))
    assert (fact.channel, fact.tier, fact.tags, fact.recorded_at) == ("_swarm", "short", ("announcement",), START)
    assert memory.announce("Tea is ready").source == "user"
    clock.advance(hours=2)
    assert [each.claim for each in memory.remember("API errors, tea").facts] == ["Tea is ready"]
    assert [each.claim for each in swarm(memory)] == ["Tea is ready"]
    assert [each.claim for each in swarm(memory, as_of=START + timedelta(hours=1))] == [DOWN, "Tea is ready"]


@pytest.mark.parametrize("wrong", [{"text": ""}, {"text": " \n"}, {"text": 7}])
def test_an_announcement_says_something(memory: AgentMemory, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidRecord) as refused:
        memory.announce(**wrong)  # type: ignore[arg-type]
    assert refused.value.field == "text"


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "soon", timedelta(days=40_000), 1e300])
def test_an_announcement_ends_later(memory: AgentMemory, wrong: float) -> None:
    before = read_head(memory)
    with pytest.raises(InvalidRecord) as refused:
        memory.announce("x", expires_in=wrong)
    assert (refused.value.field, read_head(memory)) == ("expires_in", before)


# -- the same words again


def test_what_is_said_again_while_it_holds_is_strengthened(memory: AgentMemory, clock: ManualClock) -> None:
    first = memory.announce(DOWN, expires_in=3600)
    again = memory.scoped(agent_id="bot").announce("the production API is experiencing 503 errors.", expires_in=60)
    assert (again.id, again.source, again.valid_to, uses(memory, first)) == (first.id, "user", first.valid_to, 1)
    assert memory.announce(DOWN, expires_in=7200).valid_to == START + timedelta(hours=2)
    assert memory.announce(DOWN).valid_to == START + timedelta(hours=2)
    clock.advance(hours=3)
    anew = memory.announce(DOWN, expires_in=60)
    assert (anew.id != first.id, anew.supersedes, anew.valid_from) == (True, first.id, clock.time)
    assert [fact.id for fact in swarm(memory)] == [anew.id]
    assert [fact.id for fact in swarm(memory, as_of=START)] == [first.id]


def test_an_agent_that_repeats_what_it_recalled_tells_nothing_new(memory: AgentMemory) -> None:
    fact = memory.announce(DOWN, expires_in=3600)
    bot = memory.scoped(agent_id="bot")
    (line,) = [line for line in str(bot.remember("production API")).splitlines() if DOWN in line]
    turn = bot.store_turn(f"[ANNOUNCE] {line.removeprefix('- ')}", role="assistant")
    (known,) = swarm(memory)
    assert (known.id, known.claim, known.valid_to) == (fact.id, DOWN, fact.valid_to)
    assert (known.source_turn_ids, uses(memory, fact)) == ((turn.id,), 1)


def test_a_key_makes_an_announcement_once(memory: AgentMemory) -> None:
    first = memory.announce("Tea is ready", idempotency_key="k")
    at = read_head(memory)
    assert memory.announce("Tea is ready", idempotency_key="k") == first
    assert (read_head(memory), uses(memory, first)) == (at, 0)


async def test_agents_that_announce_the_same_at_once_make_one_fact(home: Path) -> None:
    async with AsyncAgentMemory("alice", home=home, embedder="hash") as memory:
        agents = [memory.scoped(agent_id=f"bot{n}", conversation_id=f"c{n}") for n in range(4)]
        told = [agent.announce(DOWN, expires_in=3600) for agent in agents]
        said = [agent.store_turn(f"[ANNOUNCE] {DOWN}", role="assistant") for agent in agents]
        await asyncio.gather(*told, *said)
        assert len(await memory.semantic.facts({"channel": "_swarm"})) == 1


# -- whose words


@pytest.mark.parametrize(
    "turn",
    [
        {"content": "[ANNOUNCE] x y", "role": "user"},
        {"content": "[ANNOUNCE] x y", "role": "tool"},
        {"content": "[ANNOUNCE] x y", "role": "system"},
        {"content": "I say [ANNOUNCE] x y", "role": "assistant"},
        {"content": "> [ANNOUNCE] x y", "role": "assistant"},
        {"content": '"[ANNOUNCE] x y"', "role": "assistant"},
        {"content": "```\n[ANNOUNCE] x y\n```", "role": "assistant"},
        {"content": "[announce] x", "role": "assistant"},
        {"content": "~~~~ text\n[ANNOUNCE] x\n~~~\n[ANNOUNCE] y\n~~~~", "role": "assistant"},
        {"content": "    [ANNOUNCE] x y", "role": "assistant"},
        {"content": "[ANNOUNCE]", "role": "assistant"},
        {"content": "\t[ANNOUNCE] x y", "role": "assistant"},
        {"content": "`[ANNOUNCE] x y`", "role": "assistant"},
        {"content": "[ANNOUNCE] x y", "role": "assistant", "metadata": {"imported": True}},
    ],
)
def test_what_is_no_word_of_an_agent_is_not_announced(memory: AgentMemory, turn: dict[str, object]) -> None:
    memory.scoped(agent_id="bot").store_turn(turn)
    assert swarm(memory) == []


def test_lines_count_behind_code_and_of_every_role_of_an_agent(memory: AgentMemory) -> None:
    memory.store_turn("```\ncode\n```\n[ANNOUNCE] one\r\n  [ANNOUNCE]\ttwo ", role="assistant")
    memory.store_turn({"content": "[ANNOUNCE] three", "role": "agent", "agent_id": "bot"})
    memory.store_turn({"content": "[ANNOUNCE] four", "role": "tool", "agent_id": "bot"})
    assert [(fact.claim, fact.source) for fact in swarm(memory)] == [
        ("one", "assistant"),
        ("two", "assistant"),
        ("three", "bot"),
    ]


def test_a_turn_that_is_stored_again_announces_nothing_again(memory: AgentMemory) -> None:
    turn = {"content": f"[ANNOUNCE] {DOWN}\n[ANNOUNCE] {DOWN}", "role": "assistant", "turn_id": "t"}
    memory.store_turn(turn)
    (fact,), at = swarm(memory), read_head(memory)
    memory.store_turn(turn)
    memory.store_turns([turn, {"content": f"[ANNOUNCE] {DOWN}", "role": "assistant", "turn_id": "u"}])
    (known,) = swarm(memory)
    assert (known.id, known.source_turn_ids, read_head(memory)) == (fact.id, ("t", "u"), at + 2)
    keyed = [{"content": "[ANNOUNCE] lunch", "role": "assistant"}]
    memory.store_turns(keyed, idempotency_key="k")
    memory.store_turns(keyed, idempotency_key="k")
    assert len(next(fact for fact in swarm(memory) if fact.claim == "lunch").source_turn_ids) == 1
    memory.forget("t", hard=True)
    memory.forget("u", hard=True)
    memory.store_turns([turn])
    assert [fact.claim for fact in swarm(memory)] == ["lunch"]


def test_one_write_announces_so_much_and_no_more(memory: AgentMemory) -> None:
    memory.store_turn("\n".join(f"[ANNOUNCE] number {n}" for n in range(MAX_ANNOUNCEMENTS + 5)), role="assistant")
    assert len(swarm(memory)) == MAX_ANNOUNCEMENTS


def test_an_announcement_that_faded_comes_back_when_it_is_said_again(memory: AgentMemory) -> None:
    fact = memory.announce("Tea is ready")
    put(memory.scoped(channel="_swarm"), fact.model_copy(update={"status": Status.ARCHIVED}))
    assert swarm(memory) == []
    assert memory.announce("Tea is ready").id == fact.id
    assert [each.id for each in swarm(memory)] == [fact.id]


PIECES = st.sampled_from(["[ANNOUNCE] a", "[ANNOUNCE]", "```", "~~~", "````", "> q", "text", "    [ANNOUNCE] b", ""])


@settings(max_examples=25)
@given(lines=st.lists(PIECES | st.text(max_size=20), max_size=12))
def test_any_text_gives_lines_with_their_places(lines: list[str]) -> None:
    text = "\n".join(lines)
    for said, start, end in parse_announcement_lines(text):
        assert text[start:end] == said != ""
        before = text[:start].split("\n")[-1]
        assert before.strip() == "[ANNOUNCE]"
