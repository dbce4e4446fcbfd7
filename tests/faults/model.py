"""What memory should hold, in the simplest terms: the journal's order, each write's intent, and two dictionaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentmem.core.changes import JournalEntry, derive_change_id
from agentmem.core.record import Key, Record
from agentmem.core.records import Fact, Turn
from agentmem.core.scope import Scope

VERBS = {
    "store": "store_turn",
    "learn": "learn_fact",
    "supersede": "supersede_fact",
    "forget": "forget",
    "restore": "restore",
    "undo": "undo",
    "erase": "forget",
}


@dataclass
class IntendedWrite:
    """One write as its caller meant it; it was `acknowledged`, `refused` or, after failures, is `unknown`."""

    verb: str
    user: str
    key: str
    arguments: Mapping[str, Any]
    outcome: str = "unknown"

    def change_ids(self) -> list[str]:
        """Under which the journal knows it; each turn has one of its own, and an erasure also a second step."""
        names = [turn["turn_id"] for turn in self.arguments["turns"]] if self.verb == "store" else [self.key]
        return [derive_change_id(Scope(self.user), VERBS[self.verb], name) for name in names]


@dataclass(frozen=True)
class ExpectedTurn:
    """A turn; `status` as of a fact."""

    text: str
    conversation: str
    index: int
    status: str = "active"


@dataclass(frozen=True)
class ExpectedFact:
    """A fact: its status, the fact that superseded it, the turns it rests on."""

    claim: str
    status: str = "active"
    successor: str | None = None
    sources: tuple[str, ...] = ()


State = ExpectedTurn | ExpectedFact


@dataclass
class ReferenceModel:
    """One user's memory. `apply` takes the journal in order, and fails where an entry is not what was meant."""

    state: dict[Key, State] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)
    _past: dict[Key, list[tuple[int, State | None]]] = field(default_factory=dict)
    _operations: dict[str, list[int]] = field(default_factory=dict)

    def apply(self, entry: JournalEntry, write: IntendedWrite) -> None:
        self._operations.setdefault(entry.operation_id, []).append(entry.seq)
        getattr(self, f"_{write.verb}")(entry, write.arguments)

    def start_erasure(self, entry: JournalEntry, given: Mapping[str, Any]) -> None:
        """The first step: facts that stay lose what is to go as a source."""
        for stored in entry.upserts:
            record, state = stored.record, self.state[stored.record.key]
            assert isinstance(record, Fact)
            assert isinstance(state, ExpectedFact)
            left = tuple(name for name in state.sources if name != given["id"])
            assert len(left) < len(state.sources), f"{record.id} lost no source"
            self._put(record.key, replace(state, sources=left), entry.seq)

    def current_facts(self, claim: str) -> list[str]:
        """Ids of the facts that say this now."""
        return [name for name, known in self.facts().items() if known.claim == claim and known.status == "active"]

    def facts(self) -> dict[str, ExpectedFact]:
        return {name: state for (_, name), state in self.state.items() if isinstance(state, ExpectedFact)}

    def turns(self) -> dict[str, ExpectedTurn]:
        return {name: state for (_, name), state in self.state.items() if isinstance(state, ExpectedTurn)}

    def _put(self, key: Key, state: State | None, seq: int) -> None:
        self._past.setdefault(key, []).append((seq, state))
        if state is None:
            self.state.pop(key, None)
        else:
            self.state[key] = state

    def _fact(self, name: str) -> ExpectedFact:
        state = self.state["Fact", name]
        assert isinstance(state, ExpectedFact)
        return state

    def _store(self, entry: JournalEntry, given: Mapping[str, Any]) -> None:
        (turn,) = [stored.record for stored in entry.upserts if isinstance(stored.record, Turn)]
        (meant,) = [one for one in given["turns"] if one["turn_id"] == turn.id]
        taken = [said.index for said in self.turns().values() if said.conversation == meant["conversation_id"]]
        said = ExpectedTurn(meant["content"], meant["conversation_id"], max(taken, default=-1) + 1)
        self._put(("Turn", turn.id), said, entry.seq)

    def _learn(self, entry: JournalEntry, given: Mapping[str, Any]) -> None:
        (fact,) = [stored.record for stored in entry.upserts]
        same, sources = self.current_facts(given["claim"]), tuple(given["source_turn_ids"])
        there = {name for name, said in self.turns().items() if said.status == "active"}
        assert set(sources) <= there, f"{fact.id} rests on a turn that is not there"
        if same:
            assert fact.id == same[0], "the same claim was stored twice"
            known = self._fact(fact.id)
            self._put(fact.key, replace(known, sources=tuple(dict.fromkeys((*known.sources, *sources)))), entry.seq)
        else:
            assert fact.key not in self._past, "a new fact has an id that was used before"
            self._put(fact.key, ExpectedFact(given["claim"], sources=sources), entry.seq)

    def _supersede(self, entry: JournalEntry, given: Mapping[str, Any]) -> None:
        latest, seen = given["id"], set()
        while (after := self._fact(latest).successor) in self.facts() and after not in seen:
            seen.add(after)
            latest = after
        same = self.current_facts(given["claim"])
        if same == [latest]:  # nothing new, but that it was said again
            return
        (after,) = [stored.record for stored in entry.upserts if stored.record.id != latest]
        if same:
            assert after.id == same[0], "the same claim was stored twice"
        else:
            assert after.key not in self._past, "a new fact has an id that was used before"
            self._put(after.key, ExpectedFact(given["claim"]), entry.seq)
        self._put(("Fact", latest), replace(self._fact(latest), status="superseded", successor=after.id), entry.seq)

    def _forget(self, entry: JournalEntry, given: Mapping[str, Any]) -> None:
        assert self._fact(given["id"]).status != "forgotten", "forgotten twice"
        self._put(("Fact", given["id"]), replace(self._fact(given["id"]), status="forgotten"), entry.seq)

    def _restore(self, entry: JournalEntry, given: Mapping[str, Any]) -> None:
        key = ("Fact", given["id"])
        assert self._fact(given["id"]).status == "forgotten", "restored, but it was not forgotten"
        before = [
            state for _, state in self._past[key] if isinstance(state, ExpectedFact) and state.status != "forgotten"
        ]
        self._put(key, replace(before[-1], sources=self._fact(given["id"]).sources), entry.seq)

    def _undo(self, entry: JournalEntry, given: Mapping[str, Any]) -> None:
        seqs = self._operations[given["operation_id"]]
        for key, past in self._past.items():
            done = [state for seq, state in past if seq in seqs]
            if done:
                assert past[-1][1] == done[-1], f"{key} changed since, and was undone all the same"
                earlier = [state for seq, state in past if seq < seqs[0]]
                self._put(key, earlier[-1] if earlier else None, entry.seq)

    def _erase(self, entry: JournalEntry, given: Mapping[str, Any]) -> None:
        gone = {given["id"]}
        gone |= {name for name, known in self.facts().items() if known.sources and set(known.sources) <= gone}
        assert {one.id for one in entry.removals} == gone, (
            f"erased {[one.id for one in entry.removals]}, meant {sorted(gone)}"
        )
        self.erased |= gone
        for key in [key for key in self._past if key[1] in gone]:
            del self._past[key]
            self.state.pop(key, None)


def to_model_state(records: Sequence[Record]) -> dict[Key, State]:
    """What a memory holds, in the model's terms."""
    found: dict[Key, State] = {}
    for record in records:
        if isinstance(record, Turn):
            found[record.key] = ExpectedTurn(record.content, record.conversation_id, record.index, record.status.value)
        elif isinstance(record, Fact):
            found[record.key] = ExpectedFact(
                record.claim, record.status.value, record.superseded_by, record.source_turn_ids
            )
    return found


def replay_journal(journal: Sequence[JournalEntry], writes: Sequence[IntendedWrite]) -> ReferenceModel:
    """The model after a user's whole journal, in which every entry is some write's, and each write is there once."""
    meant = {change_id: write for write in writes for change_id in write.change_ids()}
    model, done, begun = ReferenceModel(), Counter[str](), dict[str, IntendedWrite]()
    for entry in journal:
        write = meant.get(entry.change_id) or begun.get(entry.operation_id)
        assert write is not None, f"nobody meant the {entry.operation} at {entry.seq}"
        if write.verb == "erase" and entry.operation != "erase":
            begun[entry.operation_id] = write
            model.start_erasure(entry, write.arguments)
            continue
        done[write.key] += 1
        model.apply(entry, write)
    for write in writes:
        found, whole = done[write.key], len(write.arguments["turns"]) if write.verb == "store" else 1
        if write.verb == "erase" and write in begun.values() and not found:
            found = int(write.arguments["id"] in model.erased)  # by another, at the same time
        assert found in (0, whole), f"{found} of {whole} parts of {write} were done"
        assert found or write.outcome != "acknowledged", f"{write} was lost"
        assert not found or write.outcome != "refused", f"{write} was refused, and done all the same"
    return model
