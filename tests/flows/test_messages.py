"""Messages as agents send them, through Python: shapes, odd ones among others, moments, and broken characters."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from agentmem import AgentMemory
from agentmem.errors import InvalidRecord

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Vigo"}'}}


def test_a_conversation_of_an_agent_is_stored_as_it_is_sent(memory: AgentMemory) -> None:
    stored = memory.store_turns(
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "name": "ada", "content": [{"type": "text", "text": "Rain in Vigo?"}]},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "no"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "dry"}]},
            SimpleNamespace(model_dump=lambda: {"type": "ai", "content": "No rain.", "id": "run-1"}),
        ]
    )
    assert [(turn.role, turn.content) for turn in stored] == [
        ("system", "Be brief."),
        ("user", "Rain in Vigo?"),
        ("assistant", '[calls weather {"city": "Vigo"}]'),
        ("tool", "[weather returned] no"),
        ("assistant", "No rain."),
    ]
    assert stored[1].speaker == "ada"
    assert [(each.index, each.reason) for each in stored.skipped] == [(4, "has no text")]


def test_an_odd_turn_costs_the_others_nothing_where_it_is_skipped(memory: AgentMemory) -> None:
    memory.store_turn({"content": "Taken.", "turn_id": "t1"})
    turns: list[Any] = ["One.", {"role": "wizard", "content": "x"}, {"content": "Two.", "turn_id": "t1"}, 7, "Three."]
    with pytest.raises(InvalidRecord, match="role must be user"):
        memory.store_turns(turns)
    assert [turn.content for turn in memory.episodic.recent_turns()] == ["Taken."]
    stored = memory.store_turns(turns, on_error="skip")
    assert [turn.content for turn in stored] == ["One.", "Three."]
    assert [(each.index, each.field) for each in stored.skipped] == [(1, "role"), (2, None), (3, "turn")]
    with pytest.raises(InvalidRecord, match="on_error must be raise or skip, got 'ignore'"):
        memory.store_turns(["x"], on_error="ignore")  # type: ignore[arg-type]


def test_an_id_that_is_meant_as_turn_id_is_not_lost_in_silence(memory: AgentMemory) -> None:
    with pytest.raises(InvalidRecord, match=r"turn has no field 'id'; it may have .*turn_id"):
        memory.store_turn({"role": "user", "content": "One.", "id": "t1"})


def test_one_message_without_text_is_refused(memory: AgentMemory) -> None:
    with pytest.raises(InvalidRecord, match="the message has no text"):
        memory.store_turn({"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]})


@pytest.mark.parametrize(
    "given, moment",
    [
        ("2025-03-08T18:05:00+09:00", datetime(2025, 3, 8, 18, 5, tzinfo=timezone(timedelta(hours=9)))),
        ("2025-03-08", datetime(2025, 3, 8, tzinfo=UTC)),
        (date(2025, 3, 8), datetime(2025, 3, 8, tzinfo=UTC)),
    ],
)
def test_a_moment_may_be_a_text_or_a_date(memory: AgentMemory, given: Any, moment: datetime) -> None:
    turn = memory.store_turn("A heron.", timestamp=given)
    assert turn.timestamp == moment
    assert turn.timestamp.utcoffset() == moment.utcoffset()
    assert memory.store_turn({"content": "Two herons.", "timestamp": given}).timestamp == moment


@pytest.mark.parametrize("given", [1741457100, 17.5, "soon", "1741457100", "2099-01-01"])
def test_a_moment_that_is_none_or_far_ahead_is_refused(memory: AgentMemory, given: Any) -> None:
    for turn in ({"content": "x", "timestamp": given}, None):
        with pytest.raises(InvalidRecord, match="timestamp"):
            memory.store_turns([turn]) if turn else memory.store_turn("x", timestamp=given)


def test_half_a_character_costs_nothing_wherever_it_stands(memory: AgentMemory) -> None:
    assert memory.store_turn("cut \ud83d here").content == "cut \ufffd here"
    assert memory.store_turn({"content": "x", "metadata": {"note": ["\udc00"]}}).metadata["note"] == ["\ufffd"]
    assert memory.learn_fact("The boat is called \ud83d.").claim == "The boat is called \ufffd."
    assert memory.remember("cut \ud83d here").turns


def test_a_context_shows_the_passage_of_a_long_turn_that_was_found(memory: AgentMemory) -> None:
    filler = "".join(f"On day {day} we spoke of lorem {day * 7} and ipsum {day * 3}. " for day in range(300))
    memory.store_turn(f"{filler}The vault opens with seven-violet-nine. {filler}")
    for note in range(3):
        memory.store_turn(f"Another note {note} about bees.")
    for counter in (None, lambda text: len(text.split())):
        text = memory.context("how does the vault open?", max_tokens=1500, counter=counter).text
        assert "seven-violet-nine" in text
        assert "user: … " in text
        assert "about bees" in text
    assert len(memory.context("how does the vault open?", max_tokens=1500).text) > 5000


def test_a_long_message_finds_what_it_asks_for(memory: AgentMemory) -> None:
    memory.store_turn("The staging server is called Heron.")
    message = "What was the staging server called? The log:\n" + "12:00 INFO worker heartbeat ok\n" * 1000
    memory.store_turn(message)
    found = memory.remember(message)
    assert found[0].text == str(found[0]) == "The staging server is called Heron."
    assert "first and last 5,000" in found.notices[0]
    assert "Heron" in memory.context(message).text


def test_a_report_tells_which_turns_were_not_read_to_their_end(memory: AgentMemory) -> None:
    turn = memory.store_turn("Notes of the meeting about budgets. " * 100 + "I live in Vigo.")
    (report,) = memory.consolidate("consolidate")
    assert report.notes == [
        f"turn {turn.id} has 3,615 characters: the first 1,500 were read by rules; a model reads more"
    ]


def test_relevance_is_unknown_where_it_was_not_measured(memory: AgentMemory) -> None:
    memory.store_turn("I like tea.")
    assert memory.remember("asdfgh").relevant is None
