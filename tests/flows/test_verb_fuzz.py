"""Every public verb with values that nobody should give: typed errors only, nothing written, and a sound store."""

from __future__ import annotations

import functools
import inspect
import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem import AgentMemError, AgentMemory, InvalidRecord
from agentmem.admin.doctor import diagnose
from tests.flows.given import open_memory, read_head, run
from tests.scale import scaled_settings
from tests.servers.stack import Stack

SUBSYSTEMS = ("episodic", "semantic", "procedural", "goals", "schedules", "working", "curation", "audit")
NOT_CALLED = {"close", "scoped", "on_due", "pursue"}  # they end the memory, or call nothing
RARE = {"erase", "consolidate", "gc", "clusters"}  # whole-user work, in one of many sequences
TEXTS = [
    "",
    " ",
    "x",
    "\ud800",
    "a\x00b",
    "\x1b[31mred",
    "\u202egpj",
    "é" * 300,
    "x" * 20_001,
    "5",
    "2026-01-01",
    "* * * * *",
]
NUMBERS = [
    0,
    1,
    -1,
    5,
    1.5,
    -0.5,
    10**18,
    10**30,
    10**5000,
    1e300,
    float("nan"),
    float("inf"),
    True,
    False,
    Decimal(1),
]
MOMENTS = [
    datetime.min,
    datetime.max,
    datetime(2026, 3, 1),
    datetime(2026, 3, 1, tzinfo=UTC),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))),
    date(2026, 3, 1),
    timedelta(1),
    timedelta.max,
    timedelta.min,
]


class Opaque:
    """A value that no store knows."""


def make_deep(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


def make_wide(levels: int) -> list[Any]:
    """Few objects that count as 2 to the power of `levels` values."""
    found: list[Any] = [1]
    for _ in range(levels):
        found = [found, found]
    return found


def make_odd_containers() -> list[Any]:
    cyclic: dict[str, Any] = {}
    cyclic["a"] = [cyclic]
    plain: list[Any] = [[], ["x"], ("x",), {"x"}, [None], [1], ["\ud800"], {}, {"a": 1}, {1: 2}, {"\ud800": 1}]
    return [*plain, {"a": float("nan")}, {"a": {1}}, {"a": 10**5000}, {"a": make_wide(40)}, cyclic, make_deep(900)]


ODD = [None, *TEXTS, *NUMBERS, *MOMENTS, *make_odd_containers(), b"x", Opaque(), Opaque, len]
FIELDS = {  # of what is given as a mapping, with a mapping that is right
    "turn": ({"content": "hi"}, "content role speaker metadata timestamp index token_count model embedding turn_id"),
    "turns": ({"content": "hi"}, "content role speaker metadata timestamp conversation_id session_id agent_id"),
    "entity": ({"name": "Bob"}, "name type aliases description properties salience first_seen id slug channel"),
    "goal": ({"description": "rest"}, "description priority deadline blocked_by parent_id progress id note created_at"),
    "outcome": ({"success": True}, "success score task_type reason conversation_id strategy_ids"),
}
FACT_FIELDS = "claim confidence tags valid_from valid_to entity_ids slot value subject tier said_at trust depends_on"


def list_verbs(memory: AgentMemory) -> list[tuple[str, Callable[..., Any]]]:
    """Every public verb of a memory and of its subsystems, by name."""
    owners = [("", memory), *((f"{name}.", getattr(memory, name)) for name in SUBSYSTEMS)]
    return [
        (f"{prefix}{name}", getattr(owner, name))
        for prefix, owner in owners
        for name in dir(owner)
        if not name.startswith("_")
        and name not in (*SUBSYSTEMS, *NOT_CALLED, "settings")
        and callable(getattr(owner, name))
    ]


def draw_arguments(draw: st.DrawFn, verb: Callable[..., Any], known: list[Any]) -> dict[str, Any]:
    """Arguments for a verb, of which each is odd, or names something that is stored."""
    values = st.sampled_from([*ODD, *known, *known])
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(verb).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            if draw(st.booleans()):
                given[draw(st.sampled_from(FACT_FIELDS.split()))] = draw(values)
        elif parameter.default is parameter.empty or draw(st.integers(0, 3)) == 0:
            given[name] = draw(values)
        if name in FIELDS and draw(st.integers(0, 3)):
            right, fields = FIELDS[name]
            given[name] = {**right, draw(st.sampled_from(fields.split())): draw(values)}
            given[name] = [given[name]] if name == "turns" else given[name]
    return given


def fill(memory: AgentMemory) -> list[Any]:
    """Something of every kind, and what names it."""
    turn = memory.store_turn({"content": "Eve lives in Bath.", "turn_id": "t", "conversation_id": "c"})
    records = [
        turn,
        memory.learn_fact("Eve sings", source_turn_ids=["t"]),
        memory.upsert_entity({"name": "Eve"}),
        memory.add_goal("sing"),
        memory.procedural.learn_strategy("warm up", tool_sequence=["piano"]),
        memory.procedural.record_invocation("piano", {"key": "c"}),
        memory.schedules.add("daily", "0 8 * * *", "sing"),
    ]
    return [*records, *(record.id for record in records), "c", "daily", "piano", "_global"]


def describe_failure(name: str, error: Exception) -> str:
    """What is wrong with an error that a verb raised; "" for one that helps the caller."""
    if not isinstance(error, AgentMemError):
        return f"{name} raised {type(error).__name__}: {str(error)[:200]!r}"
    if isinstance(error, InvalidRecord) and not error.field:
        return f"{name} names no field: {str(error)[:200]!r}"
    return f"{name} says too much" if len(str(error)) > 2_000 or not str(error).isprintable() else ""


def play_sequence(memory: AgentMemory, draw: st.DrawFn) -> None:
    """Call verbs at random; what is refused writes nothing, and what is taken can be read again."""
    known = fill(memory)
    verbs = list_verbs(memory)
    for _ in range(draw(st.integers(4, 12))):
        name, verb = draw(st.sampled_from(verbs))
        if name.rpartition(".")[2] in RARE and draw(st.integers(0, 9)):
            continue
        call = functools.partial(verb, **draw_arguments(draw, verb, known))
        head = read_head(memory)
        try:
            call()
        except Exception as error:
            if failure := describe_failure(name, error):
                raise AssertionError(failure) from error
            if isinstance(error, InvalidRecord):
                assert read_head(memory) == head, f"{name} refused its input and wrote something"
    for record in memory.list_records(limit=1_000):
        memory.get_record(record.id)


@pytest.mark.timeout(1200)  # of the nightly group
@scaled_settings(2_000, least=40)
@given(data=st.data())
def test_no_sequence_of_calls_raises_what_is_not_typed(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, open_memory(Path(folder)) as memory:
        play_sequence(memory, data.draw)
        findings = run(diagnose(memory._inner.settings))
        assert not [finding for finding in findings if finding.level == "error"]


@pytest.mark.server("postgres", "neo4j", "redis")
@scaled_settings(96, least=3)
@given(data=st.data())
def test_no_sequence_of_calls_raises_what_is_not_typed_on_servers(stack: Stack, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = {"user": f"{stack.user()}-{uuid4()}", **stack.urls}
        with open_memory(Path(folder), **options) as memory:
            play_sequence(memory, data.draw)


def test_every_argument_of_every_verb_is_checked(memory: AgentMemory) -> None:
    for _, verb in list_verbs(memory):
        parameters = [each for each in inspect.signature(verb).parameters.values() if each.kind is not each.VAR_KEYWORD]
        needed = {each.name for each in parameters if each.default is each.empty}
        for parameter in parameters:
            if parameter.annotation != "Any":
                call = functools.partial(
                    verb, **{parameter.name: Opaque()}, **dict.fromkeys(needed - {parameter.name}, "x")
                )
                with pytest.raises(InvalidRecord, match=parameter.name):
                    call()
