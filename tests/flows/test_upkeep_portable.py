"""Export and import: everything comes back as it was, and a bad file changes nothing."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemError, AsyncAgentMemory, Conflict, InvalidRecord, MemoryBundle
from agentmem.admin.doctor import diagnose
from agentmem.admin.export_format import ChangeLine, parse_line
from agentmem.admin.export_import import export_user, import_user
from agentmem.core.scope import Scope
from agentmem.engine.engine import Engine
from agentmem.settings.settings import load_settings
from tests.scale import scaled


class SteppingClock:
    """A clock that moves on by a second whenever it is asked, until it is stopped."""

    def __init__(self) -> None:
        self.time = datetime(2025, 3, 1, tzinfo=UTC)
        self.step = timedelta(seconds=1)

    def now(self) -> datetime:
        self.time += self.step
        return self.time

    def stop(self) -> None:
        self.step = timedelta(0)


@asynccontextmanager
async def opened(
    home: Path, user: str = "alice", clock: SteppingClock | None = None
) -> AsyncIterator[AsyncAgentMemory]:
    async with AsyncAgentMemory(user, home=home, embedder="hash", seed=7, clock=clock or SteppingClock()) as memory:
        yield memory


async def exported(resources: Engine, scope: Scope) -> list[str]:
    lines: list[str] = []
    report = await export_user(resources, scope, lines.append)
    assert report.changes == sum('"type":"change"' in line for line in lines)
    return lines


def ranking(bundle: MemoryBundle) -> list[Any]:
    return [(item.record.key, item.record.seq, item.score, item.why) for item in bundle.items]


async def some_history(memory: AsyncAgentMemory) -> None:
    turns = [
        {"content": f"We met {name} at the {place}?", "speaker": "Ann", "conversation_id": place, "turn_id": name}
        for name, place in (("Bo", "lake"), ("Cy", "lake"), ("Di", "shop"))
    ]
    await memory.store_turns(turns)
    likes = await memory.learn_fact("Ann likes tea", source_turn_ids=["Bo"], confidence=0.7)
    await memory.semantic.supersede_fact(likes.id, "Ann likes coffee")
    secret = await memory.learn_fact("Ann keeps a secret")
    await memory.upsert_entity({"name": "Ann", "type": "person", "aliases": ["Annie"]})
    await memory.upsert_entity({"name": "Ann", "type": "person", "description": "a friend"})
    goal = await memory.add_goal("learn to swim")
    await memory.complete_goal(goal.id)
    await memory.update_profile(preferences={"drink": "coffee", "no": 1.5})
    await memory.forget("Di")
    await memory.forget(secret.id, hard=True)
    await memory.remember("what does Ann like?")


@pytest.mark.parametrize("user", ["alice", "somebody else"])
async def test_what_is_exported_comes_back_to_the_byte(home: Path, tmp_path: Path, user: str) -> None:
    clock = SteppingClock()
    async with opened(home, clock=clock) as memory:
        await some_history(memory)
        clock.stop()
        lines = await exported(memory.engine, memory.scope)
        bundle = await memory.remember("what does Ann like?", reinforce=False)
    async with opened(tmp_path / "other", user, clock) as copy:
        report = await import_user(copy.engine, copy.scope, iter(lines))
        assert (report.changes, report.repeated) == (json.loads(lines[0])["head"], 0)
        again = await exported(copy.engine, copy.scope)
        assert again[1:] == lines[1:]
        assert json.loads(again[0]) == {**json.loads(lines[0]), "user_id": user}
        await copy.flush()
        found = await copy.remember("what does Ann like?", reinforce=False)
        assert ranking(found) == ranking(bundle)
        await copy.store_turn({"content": "Back at the lake.", "conversation_id": "lake"})
        assert [turn.index for turn in await copy.episodic.get_conversation("lake")] == [0, 1, 2]
    assert "secret" not in "".join(lines)
    assert [f for f in await diagnose(load_settings(home=tmp_path / "other")) if f.level == "error"] == []


async def test_the_graph_and_the_words_of_an_import_are_those_of_a_rebuild(home: Path) -> None:
    async with opened(home) as memory:
        await some_history(memory)
        lines = await exported(memory.engine, memory.scope)
        copy = memory.scoped(user_id="copy")
        await import_user(copy.engine, copy.scope, lines)
        keys = [("Turn", "Bo"), ("Turn", "Cy"), ("Conversation", "lake")]
        edges = await copy.engine.graph.edges(keys, copy.scope)
        words = await copy.engine.log.match(["tea", "coffe", "lake", "friend"], copy.scope)
        assert edges
        assert {"tea", "lake", "friend"} <= words.keys()
        await copy.engine.graph.rebuild(copy.scope)
        await copy.engine.admin.rebuild_terms(copy.scope)
        assert await copy.engine.graph.edges(keys, copy.scope) == edges
        again = await copy.engine.log.match(["tea", "coffe", "lake", "friend"], copy.scope)
        assert {term: found.ordinals.tolist() for term, found in again.items()} == {
            term: found.ordinals.tolist() for term, found in words.items()
        }


async def test_an_import_that_was_cut_off_goes_on(home: Path) -> None:
    async with opened(home) as memory:
        await some_history(memory)
        lines = await exported(memory.engine, memory.scope)
        copy = memory.scoped(user_id="copy")
        changes = [
            line for number, text in enumerate(lines, 1) if isinstance(line := parse_line(number, text), ChangeLine)
        ]
        await memory.engine.admin.import_changes(copy.scope, [change.to_raw() for change in changes[:5]])
        report = await import_user(memory.engine, copy.scope, lines)
        assert (report.changes, report.repeated) == (len(changes) - 5, 5)
        assert (await exported(memory.engine, copy.scope))[1:] == lines[1:]
        assert (await import_user(memory.engine, copy.scope, lines)).changes == 0


async def test_a_user_with_a_memory_of_its_own_is_left_alone(home: Path) -> None:
    async with opened(home) as memory:
        await some_history(memory)
        lines = await exported(memory.engine, memory.scope)
        other = memory.scoped(user_id="bob")
        await other.store_turn("I was here first.")
        before = await exported(memory.engine, other.scope)
        with pytest.raises(Conflict, match="change 1 differs"):
            await import_user(memory.engine, other.scope, lines)
        assert await exported(memory.engine, other.scope) == before
        await memory.store_turn("One more.")
        with pytest.raises(Conflict, match="already has"):
            await import_user(memory.engine, memory.scope, lines)


async def test_an_import_brings_nothing_erased_back(home: Path) -> None:
    async with opened(home) as memory:
        await memory.store_turn("Ann likes tea.")
        lines = await exported(memory.engine, memory.scope)
        await memory.erase()
        with pytest.raises(Conflict, match=r"erased since this export.*import into another user"):
            await import_user(memory.engine, memory.scope, lines)
        assert (await import_user(memory.engine, Scope("bob"), lines)).changes == 1


async def test_somebody_unknown_has_an_empty_export(home: Path) -> None:
    async with opened(home) as memory:
        lines = await exported(memory.engine, memory.scope)
        assert [json.loads(line).get("type", "header") for line in lines] == ["header", "end"]
        assert (await import_user(memory.engine, Scope("bob"), lines)).changes == 0


def edited(number: int, change: Callable[[dict[str, Any]], object]) -> Callable[[list[str]], list[str]]:
    def edit(lines: list[str]) -> list[str]:
        value = json.loads(lines[number])
        change(value)
        return [*lines[:number], json.dumps(value), *lines[number:][1:]]

    return edit


BROKEN: dict[str, tuple[str, Callable[[list[str]], list[str]]]] = {
    "empty": ("line", lambda lines: []),
    "no header": ("format", lambda lines: lines[1:]),
    "another format": ("format", edited(0, lambda v: v.update(format="zip"))),
    "a later version": ("version", edited(0, lambda v: v.update(version=2))),
    "cut short": ("line", lambda lines: lines[:-1]),
    "cut in a line": ("line", lambda lines: [*lines[:3], lines[3][:40]]),
    "a missing change": ("seq", lambda lines: [*lines[:2], *lines[3:]]),
    "a change twice": ("seq", lambda lines: [*lines[:2], lines[1], *lines[2:]]),
    "more after the end": ("line", lambda lines: [*lines, lines[-1]]),
    "an unknown field": ("more", edited(1, lambda v: v.update(more=1))),
    "a missing field": ("actor", edited(1, lambda v: v.pop("actor"))),
    "a wrong type": ("at", edited(1, lambda v: v.update(at="now"))),
    "an unknown line": ("type", edited(1, lambda v: v.update(type="chance"))),
    "no object": ("line", lambda lines: [lines[0], "[1]", *lines[2:]]),
    "no number": ("line", lambda lines: [lines[0], lines[1].replace('"at":', '"at":NaN,"x":'), *lines[2:]]),
    "a key twice": ("line", lambda lines: [lines[0], lines[1].replace('"at":', '"at":1,"at":'), *lines[2:]]),
    "a surrogate": ("line", edited(1, lambda v: v.update(cause="\ud800"))),
    "a later format of a record": ("format", edited(1, lambda v: v["versions"][1].update(format=9))),
    "a later format of nothing": ("format", edited(1, lambda v: v["versions"][1].update(format=9, record=None))),
    "an unknown kind": ("kind", edited(1, lambda v: v["versions"][0].update(kind="Dream"))),
    "an invalid record": ("content", edited(1, lambda v: v["versions"][1]["record"].update(content=""))),
    "a stamp in a record": ("record", edited(1, lambda v: v["versions"][1]["record"].update(user_id="eve"))),
    "a turn without a place": ("conversation_id", edited(1, lambda v: v["versions"][1]["record"].pop("index", None))),
    "a slot of another": ("slot", edited(2, lambda v: v["versions"][0].update(slot=0))),
    "slots that nothing fills": ("slots", edited(0, lambda v: v.update(slots=1 << 23))),
    "more slots than there can be": ("slots", edited(0, lambda v: v.update(slots=1 << 62))),
    "a slot far away": (
        "slots",
        lambda lines: edited(1, lambda v: v["versions"][0].update(slot=(1 << 31) - 1))(
            edited(0, lambda v: v.update(slots=1 << 31))(lines)
        ),
    ),
    "a turn far away": (
        "conversation_id",
        edited(1, lambda v: v["versions"][1]["record"].update(index=1 << 31)),
    ),
    "a number too large": ("token_count", edited(1, lambda v: v["versions"][1]["record"].update(token_count=1 << 64))),
    "a slot beyond": ("slot", edited(1, lambda v: v["versions"][0].update(slot=999))),
    "time running backwards": ("at", edited(2, lambda v: v.update(at=0))),
    "an id used twice": (
        "change_id",
        lambda lines: edited(2, lambda v: v.update(change_id=json.loads(lines[1])["change_id"]))(lines),
    ),
    "two turns in one place": ("record", edited(2, lambda v: v["versions"][0]["record"].update(index=0))),
    "another count": ("changes", edited(-1, lambda v: v.update(usage=99))),
    "usage of nothing": ("id", edited(-2, lambda v: v.update(id="nobody"))),
}


@pytest.fixture(scope="module")
def good_file(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines of an export."""

    async def make() -> list[str]:
        async with opened(tmp_path_factory.mktemp("exported") / "home") as memory:
            await some_history(memory)
            return await exported(memory.engine, memory.scope)

    return asyncio.run(make())


@pytest.mark.parametrize("what", BROKEN)
async def test_a_bad_file_is_refused_with_line_and_field_and_nothing_is_written(
    home: Path, good_file: list[str], what: str
) -> None:
    field, spoil = BROKEN[what]
    async with opened(home) as memory:
        lines = spoil(list(good_file))
        with pytest.raises(InvalidRecord) as caught:
            await import_user(memory.engine, Scope("bob"), lines)
        assert str(caught.value).startswith("line ") or "the file" in str(caught.value)
        assert caught.value.field is not None
        assert field in caught.value.field
        assert (await memory.engine.admin.journal_counters(Scope("bob"))).head == 0


# -- random histories

WORDS = st.sampled_from(["tea", "lake", "Ann", "2024", "Go", "не", "茶", "x\u0000y", "café", "why?"])
TEXT = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)
NUMBER = st.integers(0, 9)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "turn",
                "turns",
                "fact",
                "supersede",
                "entity",
                "goal",
                "profile",
                "forget",
                "erase",
                "restore",
                "undo",
                "recall",
                "relate",
                "erase_user",
            ]
        ),
        TEXT,
        NUMBER,
    ),
    max_size=14,
)


async def act(memory: AsyncAgentMemory, step: str, text: str, n: int, seen: list[Any]) -> Any:
    some = seen[n % len(seen)] if seen else None
    if step == "turn":
        return await memory.store_turn({"content": text, "conversation_id": f"c{n % 2}", "metadata": {"n": n / 3}})
    if step == "turns":
        return (await memory.store_turns([{"content": text, "turn_id": f"t{n}"}, text]))[0]
    if step == "fact":
        return await memory.learn_fact(text, confidence=n / 9, tags=[text], valid_from=datetime(2020 + n, 1, 1))
    if step == "entity":
        return await memory.upsert_entity({"name": text, "aliases": [f"{text} {n}"]})
    if step == "goal":
        return await memory.add_goal({"description": text, "priority": 1 + n % 5})
    if step == "profile":
        await memory.update_profile(preferences={text: n}, expertise_areas=[text])
    if step == "recall":
        await memory.remember(text)
    if step == "erase_user" and n < 2:
        await memory.erase()
    return await act_on(memory, step, text, some, seen) if some is not None else None


async def act_on(memory: AsyncAgentMemory, step: str, text: str, some: Any, seen: list[Any]) -> Any:
    if step == "supersede" and some.kind == "Fact":
        return await memory.semantic.supersede_fact(some.id, text)
    if step == "forget":
        await memory.forget(some.id, reason=text)
    elif step == "erase":
        await memory.forget(some.id, hard=True)
    elif step == "restore":
        await memory.restore(some.id)
    elif step == "undo":
        await memory.undo(some.operation_id)
    elif step == "relate" and some.kind == "Entity":
        others = [record for record in seen if record.kind == "Entity" and record.id != some.id]
        if others:
            await memory.semantic.relate(some.id, "KNOWS", others[-1].id)
    return None


async def lived(memory: AsyncAgentMemory, steps: Iterable[tuple[str, str, int]]) -> None:
    seen: list[Any] = []
    for step, text, n in steps:
        try:
            made = await act(memory, step, text, n, seen)
        except AgentMemError:
            continue  # refused, as some random steps should be
        if made is not None:
            seen.append(made)


@pytest.mark.long
@settings(max_examples=scaled(30))
@given(STEPS)
def test_any_history_survives_the_round_trip(steps: list[tuple[str, str, int]]) -> None:
    async def check(home: Path) -> None:
        clock = SteppingClock()
        async with opened(home, clock=clock) as memory:
            await lived(memory, steps)
            clock.stop()
            lines = await exported(memory.engine, memory.scope)
            for user in ("bob", "carol"):
                other = memory.scoped(user_id=user)
                await import_user(memory.engine, other.scope, lines)
                again = await exported(memory.engine, other.scope)
                assert again[1:] == lines[1:]
                lines = again
            for word in ("tea Ann", "lake", "茶"):
                live, copied = [
                    ranking(await view.remember(word, reinforce=False))
                    for view in (memory, memory.scoped(user_id="carol"))
                ]
                assert copied == live
        assert [found for found in await diagnose(load_settings(home=home)) if found.level == "error"] == []

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder) / "home"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def replaced(value: Any, place: int, other: Any) -> tuple[Any, int]:
    """The value with its `place`-th leaf replaced, and how many leaves were passed."""
    if isinstance(value, dict):
        out = {}
        for name, inner in value.items():
            out[name], place = replaced(inner, place, other)
        return out, place
    if isinstance(value, list) and value:
        items = []
        for inner in value:
            made, place = replaced(inner, place, other)
            items.append(made)
        return items, place
    return (other if place == 0 else value), place - 1


async def refused(resources: Engine, scope: Scope, lines: list[str]) -> str | None:
    try:
        await import_user(resources, scope, lines)
    except InvalidRecord as error:
        return str(error)
    return None


@pytest.mark.long
@settings(max_examples=scaled(25))
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 25), JSON), min_size=12, max_size=12))
def test_whatever_stands_in_a_line_is_refused_or_imported_whole(changes: list[tuple[int, int, Any]]) -> None:
    async def check(home: Path) -> None:
        async with opened(home) as memory:
            await some_history(memory)
            good = await exported(memory.engine, memory.scope)
            for n, (line, place, other) in enumerate(changes):
                number = line % len(good)
                spoiled = json.dumps(replaced(json.loads(good[number]), place, other)[0])
                scope = Scope(f"user {n}")
                refusal = await refused(memory.engine, scope, [*good[:number], spoiled, *good[number + 1 :]])
                if refusal is not None:
                    assert refusal.startswith("line ")
                    assert (await memory.engine.admin.journal_counters(scope)).head == 0
                else:
                    await exported(memory.engine, scope)
                    await memory.scoped(user_id=scope.user_id).remember("what does Ann like?")
        assert [found for found in await diagnose(load_settings(home=home)) if found.level == "error"] == []

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder) / "home"))


@settings(max_examples=200)
@given(st.text(max_size=60) | st.binary(max_size=30).map(lambda b: b.decode("utf-8", "surrogateescape")))
def test_noise_is_no_line(text: str) -> None:
    with pytest.raises(InvalidRecord, match="line 2"):
        parse_line(2, text)
