"""Any text that a store may hold is loaded and rendered; a text that shows nothing is refused at the door."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentmem import AgentMemory, InvalidRecord, Record
from agentmem.admin.export_import import export_user, import_user
from agentmem.cli import render
from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.plain_values import has_visible
from agentmem.core.scope import Scope
from agentmem.server.mcp.records import describe_record
from agentmem.text.plain_line import to_plain_line
from agentmem.text.terminal_text import neutralize_styled
from tests.flows.given import ManualClock, context_of, engine_of, open_memory, run
from tests.scale import scaled

INVISIBLE = (
    "\u200b",
    "\u00ad",
    "\ufeff",
    "\u2060",
    "\x7f",
    "\ufe0f",
    "\u200d",
    "\u3164",
    "\u2800",
    " \u200b\n",
    "\U000e0101",
)
VISIBLE_FORMATS = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x13440)}
TEXTS = st.text(min_size=1, max_size=40) | st.text("\u200b\u00ad\x7f\ufe0f\u200d <>/#:\n", min_size=1, max_size=10)


@dataclass
class OldFile:
    """A memory whose records hold what an older version took."""

    memory: AgentMemory
    records: list[Record]

    def fill(self, text: str) -> None:
        """Put the text into every field that takes one, past the checks of the verbs."""
        fields = ("content", "claim", "value", "subject", "name", "description", "aliases", "expertise_areas")

        async def make(write: WriteAttempt) -> Change:
            new = [
                each.model_copy(
                    update={
                        name: (text,) if name in ("aliases", "expertise_areas") else text
                        for name in fields
                        if getattr(each, name, None) not in (None, "", (), "user")
                    }
                    | ({"preferences": {text: text}} if each.kind == "User" else {})
                    | ({"speaker": text} if each.kind == "Turn" else {})
                )
                for each in self.records
            ]
            return write.build_change(*new)

        engine, scope = engine_of(self.memory), context_of(self.memory).scope
        run(engine.write(scope, "old", make, kind="Fact"))
        working = f"working:_global:{scope.conversation_id}:"
        run(engine.session.set(scope, f"{working}context:{text}", text, ttl=60))
        run(engine.session.push(scope, f"{working}thoughts", text, keep=1, ttl=60))


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldFile]:
    home = tmp_path_factory.mktemp("old") / "home"
    with open_memory(home, conversation_id="talk", clock=ManualClock()) as memory:
        memory.store_turn({"content": "The tent is here.", "speaker": "Ann"})
        memory.learn_fact("Mia has a tent.", subject="user")
        memory.learn_fact("Mia lives in Graz.", slot="home", value="Graz", subject="user")
        memory.learn_fact("Eve works at Acme.", slot="employer", value="Acme", subject="Eve")
        memory.learn_fact("Mia sells a tent.", memory_type="context")
        memory.upsert_entity({"name": "tent", "aliases": ("camp",), "description": "for nights"})
        memory.add_goal("Sell the tent")
        memory.update_profile(preferences={"tone": "short"}, expertise_areas=["tents"])
        yield OldFile(memory, memory.list_records(limit=100))


@settings(max_examples=scaled(20, least=5))
@given(text=TEXTS.filter(str.strip))
@example(text="\u200b")
@example(text="\u00ad")
@example(text="\x7f")
@example(text="\ufe0f")
def test_every_renderer_takes_every_stored_text(old: OldFile, text: str) -> None:
    old.fill(text)
    memory = old.memory
    bundle = memory.remember("tent")
    records = memory.list_records(limit=100)
    assert any(getattr(each, "claim", "") == text for each in records)
    shown = [
        str(memory.synopsis()),
        memory.context("tent"),
        bundle.to_context(ids=True),
        str(bundle),
        memory.working.current_markdown(),
        *map(str, memory.beliefs()),
        *(describe_record(each).text for each in records if each.search_text()),
    ]
    assert all(has_visible(each) for each in shown), shown
    for each in (*map(render.render_record, records), render.render_mapping(memory.working.context())):
        assert neutralize_styled(each) == each


@pytest.mark.parametrize("text", INVISIBLE)
def test_a_stored_text_that_shows_nothing_is_shown_as_its_escape(old: OldFile, text: str) -> None:
    old.fill(text)
    escaped = text.strip().encode("unicode_escape").decode()
    assert f"- {escaped}" in str(old.memory.synopsis())
    assert escaped in old.memory.context("tent")
    assert to_plain_line(text) == escaped


def test_white_space_controls_and_format_characters_show_nothing() -> None:
    for code in range(0x110000):
        character = chr(code)
        if unicodedata.category(character) in ("Cc", "Cf", "Zs", "Zl", "Zp") and code not in VISIBLE_FORMATS:
            assert not has_visible(character), hex(code)
        elif unicodedata.category(character)[0] in "NPS" and code != 0x2800:
            assert has_visible(character), hex(code)


DOORS: list[tuple[str, Callable[[Any, str], Any]]] = [
    ("content", lambda memory, text: memory.store_turn(text)),
    ("turn_id", lambda memory, text: memory.store_turn("x", turn_id=text)),
    ("conversation_id", lambda memory, text: memory.store_turn({"content": "x", "conversation_id": text})),
    ("claim", lambda memory, text: memory.learn_fact(text)),
    ("value", lambda memory, text: memory.learn_fact("x", slot="home", value=text)),
    ("name", lambda memory, text: memory.upsert_entity({"name": text})),
    ("id", lambda memory, text: memory.upsert_entity({"name": "x", "id": text})),
    ("description", lambda memory, text: memory.add_goal(text)),
    ("query", lambda memory, text: memory.remember(text)),
    ("query", lambda memory, text: memory.context(text)),
    ("thought", lambda memory, text: memory.working.push_thought(text)),
    ("key", lambda memory, text: memory.working.set(text, 1)),
    ("text", lambda memory, text: memory.announce(text)),
    ("task", lambda memory, text: memory.procedural.find_strategies(text)),
    ("prompt", lambda memory, text: memory.schedules.add("x", "0 8 * * *", text)),
    ("user_id", lambda memory, text: memory.scoped(user_id=text).store_turn("x")),
    ("user_id", lambda memory, text: memory.scoped(user_id=text).learn_fact("x")),
    ("channel", lambda memory, text: memory.scoped(channel=text)),
    ("agent_id", lambda memory, text: memory.scoped(agent_id=text)),
    ("session_id", lambda memory, text: memory.scoped(session_id=text)),
]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentMemory]:
    with open_memory(tmp_path_factory.mktemp("empty") / "home") as memory:
        yield memory


@pytest.mark.parametrize("text", ["\u200b", "\x7f", "\ufe0f", " \u2060"], ids=ascii)
@pytest.mark.parametrize("number", range(len(DOORS)), ids=[f"{at}-{field}" for at, (field, _) in enumerate(DOORS)])
def test_a_text_that_shows_nothing_is_refused_by_the_name_of_its_field(
    empty: AgentMemory, number: int, text: str
) -> None:
    field, call = DOORS[number]
    with pytest.raises(InvalidRecord) as refused:
        call(empty, text)
    assert refused.value.field == field
    assert empty.list_records() == []


def test_an_old_memory_under_invisible_names_is_imported_read_exported_and_erased(home: Path) -> None:
    with open_memory(home, channel="shed") as memory:
        memory.store_turn("The tent is here.", turn_id="t1")
        stored = memory.learn_fact("Mia has a tent.")
        old = memory.scoped(user_id="\u200b", channel="_global")

        def export(scope: Scope) -> list[str]:
            lines: list[str] = []
            run(export_user(engine_of(memory), scope, lines.append))
            return lines

        names = {'"alice"': r'"\u200b"', '"t1"': r'"\u2060"', '"shed"': r'"\ufeff"', f'"{stored.id}"': r'"\u00ad"'}
        lines = export(context_of(memory).scope)
        for name, invisible in names.items():
            lines = [line.replace(name, invisible) for line in lines]
        run(import_user(engine_of(memory), context_of(old).scope, lines))
        assert export(context_of(old).scope) == lines
        old.learn_fact("Mia sells a tent.")
        assert [fact.claim for fact in old.semantic.facts()] == ["Mia sells a tent."]
        old.erase()
        assert "tent" not in "".join(export(context_of(old).scope))


def test_a_word_with_a_zero_width_character_inside_is_taken(home: Path) -> None:
    with open_memory(home) as memory:
        assert memory.learn_fact("Mia\u200bhas a tent").claim == "Mia\u200bhas a tent"
