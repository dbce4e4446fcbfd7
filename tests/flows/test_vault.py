"""Notes in the vault: made once, never over somebody's edits, never outside of the user's folder, gone when erased."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentmem import AgentMemory, Fact, InvalidRecord, NotFound
from agentmem.memory import vault as notes
from agentmem.memory.semantic import promotion
from agentmem.memory.vault import build_note, remove_notes, write_note
from tests.flows.given import START, ManualClock, open_memory

MANY = "ann-takes-her-coffee-black"


BODY = """
# Ann takes her coffee black

> Ann takes her coffee black

## What is known

- Kind: fact
- Said by: user

## Why it is kept

- used 5 times within 14 days

## About

- [[Ann the boss]] "{ann}"

## Sources

- turn "{turn}"
"""


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return tmp_path / "vault"


@pytest.fixture
def memory(home: Path, vault: Path, clock: ManualClock) -> Iterator[AgentMemory]:
    with open_memory(home, clock=clock, seed=7, vault=vault) as found:
        yield found


def kept(memory: AgentMemory, claim: str = "Ann takes her coffee black", **fields: Any) -> Fact:
    """A fact that was kept for long."""
    fact = memory.learn_fact(claim, tier="short", **fields)
    done = memory.curation.promote(fact.id, reason="used every morning")
    assert done.note == ""
    return done.fact


def files(vault: Path) -> list[Path]:
    return sorted(path for path in vault.rglob("*") if path.is_file())


def test_the_note_of_a_fact(memory: AgentMemory, vault: Path, clock: ManualClock) -> None:
    turn = memory.store_turn("Black, please.")
    ann = memory.upsert_entity({"name": "Ann [the] boss", "type": "person"})
    began = clock.time
    fact = memory.learn_fact(
        "Ann takes her coffee black",
        tier="short",
        confidence=0.95,
        tags=["hot drinks", "2026"],
        source_turn_ids=[turn.id],
        entity_ids=[ann.id],
    )
    now = clock.advance(days=4)
    for _ in range(5):
        memory.curation.touch(fact.id)
    assert memory.consolidate("promote")[0].counts == {"kept": 1}
    fact = memory.semantic.get_fact(fact.id)
    assert fact.vault_path == f"STM/alice/{MANY} {fact.id}.md"
    (path,) = files(vault)
    assert path == vault / fact.vault_path
    front, _, body = path.read_text(encoding="utf-8").removeprefix("---\n").partition("\n---\n")
    said = yaml.safe_load(front)
    assert said.pop("content_hash")
    assert said == {
        "id": fact.id,
        "user": "alice",
        "channel": "_global",
        "created": began,
        "promoted_at": now,
        "tags": ["agentmem", "hot-drinks"],
        "confidence": 0.95,
        "sources": [turn.id],
    }
    assert body == BODY.format(ann=ann.id, turn=turn.id)


def test_notes_are_for_their_owner_s_eyes_alone(memory: AgentMemory, vault: Path) -> None:
    kept(memory)
    assert oct(files(vault)[0].stat().st_mode & 0o777) == "0o600"
    for folder in (vault / "STM", vault / "STM" / "alice"):
        assert oct(folder.stat().st_mode & 0o777) == "0o700"


def test_the_same_note_is_not_touched(memory: AgentMemory, vault: Path) -> None:
    fact = kept(memory)
    (path,) = files(vault)
    os.utime(path, ns=(1, 1))
    memory.curation.promote(fact.id)
    assert write_note(vault, "alice", build_note(fact, "alice", [], "used every morning", START)).edited is False
    assert path.stat().st_mtime_ns == 1
    assert files(vault) == [path]


def test_a_note_that_is_missing_is_written_again(memory: AgentMemory, vault: Path) -> None:
    fact = kept(memory)
    (path,) = files(vault)
    path.unlink()
    memory.curation.promote(fact.id)
    assert files(vault) == [path]


def test_what_somebody_edited_is_left_as_it_is(memory: AgentMemory, vault: Path) -> None:
    fact = kept(memory)
    (path,) = files(vault)
    edited = path.read_text() + "\nAnd with oat milk on Sundays.\n"
    path.write_text(edited)
    memory.undo(fact.operation_id)
    assert memory.semantic.get_fact(fact.id).vault_path == ""
    done = memory.curation.promote(fact.id, reason="once more")
    assert done.note == f"{fact.vault_path}: left as somebody edited it"
    assert (done.fact.vault_path, path.read_text()) == (fact.vault_path, edited)


CLAIMS = (
    "../../etc/passwd",
    "..",
    "/etc/passwd",
    'a\\b:c*?"<>|',
    ".hidden",
    "🎉",
    "\u202e\u2066.",
    "日本語" * 100,
    "x" * 5000,
)


@pytest.mark.parametrize("claim", CLAIMS)
def test_no_claim_leads_out_of_the_folder(memory: AgentMemory, vault: Path, claim: str) -> None:
    fact = kept(memory, claim)
    (path,) = files(vault)
    assert path.parent == vault / "STM" / "alice"
    assert path.name.endswith(f" {fact.id}.md")
    assert not path.name.startswith(".")
    assert len(path.name.encode()) <= 255


@pytest.mark.parametrize("user", ["..", ".", "a/b", "../bob", "b\\c", "u" * 200, "é💡" * 60])
def test_no_user_leads_out_of_the_vault(vault: Path, user: str) -> None:
    write_note(vault, user, notes.VaultNote("a b.md", "text"))
    (path,) = files(vault)
    assert path.parent.parent == vault / "STM"
    assert len(path.parent.name.encode()) <= 255


@pytest.mark.parametrize(
    "text", ["---\n# x", "yes: [no", 'say "hi" \\', "- a\n  - b", "\x85\u2028x", "{{x}}", "\ufeff"]
)
def test_front_matter_holds_any_text(memory: AgentMemory, vault: Path, text: str) -> None:
    turn = memory.store_turn({"content": "x", "turn_id": text.replace("\n", " ").replace("\x85", "") + "."})
    fact = kept(memory, f"{text}, said Ann", source_turn_ids=[turn.id], tags=[f"a {text}"])
    front = files(vault)[0].read_text(encoding="utf-8").split("\n---\n")[0]
    said = yaml.safe_load(front.removeprefix("---\n"))
    assert (said["id"], said["sources"]) == (fact.id, [turn.id])


def test_a_vault_that_cannot_be_written_costs_a_note_and_no_promotion(home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with open_memory(home, vault=tmp_path / "file") as memory:
        fact = memory.learn_fact("Ann takes her coffee black", tier="short")
        for _ in range(5):
            memory.curation.touch(fact.id)
        report = memory.consolidate("promote")[0]
        fact = memory.semantic.get_fact(fact.id)
        assert (fact.tier, fact.vault_path, report.counts) == ("long", "", {"kept": 1})
        assert [note for note in report.notes if "the vault cannot be written" in note]


def test_a_link_in_the_place_of_a_folder_is_not_followed(home: Path, vault: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (vault / "STM").mkdir(parents=True)
    (vault / "STM" / "alice").symlink_to(outside)
    with open_memory(home, vault=vault) as memory:
        fact = memory.learn_fact("Ann takes her coffee black")
        assert "cannot be written" in memory.curation.promote(fact.id).note
    assert files(outside) == []


def test_no_note_of_an_agent_s_private_channel(memory: AgentMemory, vault: Path) -> None:
    kept(memory.scoped(agent_id="bot", channel="_self_bot"))
    assert not vault.exists()


def test_erasing_a_fact_removes_its_note_though_it_was_edited_and_renamed(memory: AgentMemory, vault: Path) -> None:
    fact, other = kept(memory), kept(memory, "Ben takes tea")
    (mine,) = [path for path in files(vault) if fact.id in path.name]
    mine.write_text(mine.read_text() + "My own words.\n")
    (mine.parent / "folder").mkdir()
    mine.rename(mine.parent / "folder" / "Coffee.md")
    receipt = memory.forget(fact.id, hard=True)
    assert receipt.scan is not None
    assert ("vault" in receipt.scan.checked, receipt.scan.leftovers, receipt.scan.deferred) == (True, {}, ())
    assert files(vault) == [vault / other.vault_path]


def test_a_note_without_its_front_matter_is_known_by_its_name(memory: AgentMemory, vault: Path) -> None:
    fact = kept(memory)
    (vault / fact.vault_path).write_text("Just coffee.")
    memory.forget(fact.id, hard=True)
    assert files(vault) == []


def test_forgetting_softly_leaves_the_note(memory: AgentMemory, vault: Path) -> None:
    fact = kept(memory)
    memory.forget(fact.id)
    assert files(vault) == [vault / fact.vault_path]


def test_erasing_what_a_note_names_takes_that_line(memory: AgentMemory, vault: Path) -> None:
    turns = memory.store_turns([{"content": "one", "turn_id": 'odd "id" 1'}, {"content": "two", "turn_id": "t2"}])
    ann = memory.upsert_entity({"name": "Ann", "type": "person"})
    fact = kept(memory, "She takes it black", source_turn_ids=[turn.id for turn in turns], entity_ids=[ann.id])
    path = vault / fact.vault_path
    memory.forget(ann.id, hard=True)
    memory.forget(turns[0].id, hard=True)
    text = path.read_text()
    assert (ann.id in text, "Ann" in text, json.dumps(turns[0].id) in text) == (False, False, False)
    assert text.count('"t2"') == 2
    assert notes._is_unedited(text), "the note is still ours"
    memory.forget("t2", hard=True)
    assert files(vault) == [], "a fact that rests on erased turns alone goes, and its note with it"


def test_erasing_the_user_leaves_what_others_put_there(memory: AgentMemory, vault: Path) -> None:
    kept(memory)
    bob = memory.scoped(user_id="bob")
    of_bob = kept(bob)
    for n in range(2):
        kept(memory, f"Fact number {n}")
    foreign = vault / "STM" / "alice" / "shopping.md"
    foreign.write_text("milk")
    (vault / "STM" / "alice" / ".x.1.part").write_text("half a note")
    assert memory.erase().scan.leftovers == {}
    assert files(vault) == [foreign, vault / of_bob.vault_path]
    foreign.unlink()
    assert remove_notes(vault, "alice", None) == 0
    assert not foreign.parent.exists()


def test_a_vault_out_of_reach_is_named_in_the_receipt(memory: AgentMemory, vault: Path, tmp_path: Path) -> None:
    fact = kept(memory)
    (vault / "STM").rename(tmp_path / "elsewhere")
    (vault / "STM").write_text("a file")
    receipt = memory.forget(fact.id, hard=True)
    assert receipt.scan is not None
    assert [said for said in receipt.scan.deferred if said.startswith("notes in the vault")]


def test_a_promotion_that_was_killed_between_note_and_commit_is_taken_up(memory: AgentMemory, vault: Path) -> None:
    fact = memory.learn_fact("Ann takes her coffee black", tier="short")
    begun = write_note(vault, "alice", build_note(fact, "alice", [], "an earlier reason", START))
    assert memory.semantic.get_fact(fact.id).vault_path == ""
    done = memory.curation.promote(fact.id, reason="used every morning")
    assert done.fact.vault_path == begun.path
    assert "used every morning" in (vault / begun.path).read_text()
    assert len(files(vault)) == 1


def test_a_fact_that_is_erased_while_its_note_is_written_leaves_none(
    memory: AgentMemory, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact = memory.learn_fact("Ann takes her coffee black", tier="short")

    def erased_meanwhile(*args: Any, **more: Any) -> Any:
        memory.forget(fact.id, hard=True)
        return write_note(*args, **more)

    monkeypatch.setattr(promotion, "write_note", erased_meanwhile)
    with pytest.raises(NotFound):
        memory.curation.promote(fact.id)
    assert files(vault) == []


@pytest.mark.parametrize("before", ["not kept", "kept", "edited"])
def test_a_fact_that_is_forgotten_while_its_note_is_written_leaves_a_note_only_where_there_was_one(
    memory: AgentMemory, vault: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    fact = kept(memory) if before == "kept" else memory.learn_fact("Ann takes her coffee black", tier="short")
    if before == "edited":  # by a person, after the job that wrote it was killed
        begun = write_note(vault, "alice", build_note(fact, "alice", [], "an earlier reason", START))
        (vault / begun.path).write_text("Black, with two sugars!")
    stood = {path: path.read_text() for path in files(vault)} if before != "not kept" else {}

    def forgotten_meanwhile(*args: Any, **more: Any) -> Any:
        memory.forget(fact.id)
        return write_note(*args, **more)

    monkeypatch.setattr(promotion, "write_note", forgotten_meanwhile)
    with pytest.raises(InvalidRecord, match="does not hold"):
        memory.curation.promote(fact.id)
    assert {path: path.read_text() for path in files(vault)} == stood
