"""Steps of a random history: verbs with arguments drawn from what the history has made so far, and questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from agentmem import Fact, Turn
from agentmem.core.records import Edge, Entity, Goal
from agentmem.facade.async_memory import AsyncAgentMemory
from tests.flows.given import START

AGENT = "bot"
CHANNELS = ("_global", "roof", "_swarm", f"_self_{AGENT}")
WRITE_CHANNELS = ("_global",) * 5 + ("roof",) * 3 + CHANNELS[2:]
PEOPLE = ("Ann", "Ben", "Zoë", "Анна")
THINGS = ("apples", "pears", "the spare key", "3 plums", "4 plums", "когда ужин", "桃の木")
ACTIVITIES = ("likes", "does not like", "lost", "has seen", "bought")
TIME_PHRASES = ("", "", " yesterday", " on 27 February 2026", " in May 2025", " last week")
QUERIES = (
    *THINGS,
    *PEOPLE,
    "Where does Ann keep the spare key?",
    "what happened yesterday?",
    "when did Ben buy plums?",
    "the of and",
    "who likes pears since May 2025",
)
MAX_OTHER_QUESTIONS = 7  # questions of a history besides recalls
RELATIONS = ("KNOWS", "WORKS_FOR", "is aunt of", "LOCATED_IN")

Call = Callable[[AsyncAgentMemory], Awaitable[Any]]


@dataclass(frozen=True)
class Step:
    """A call of a verb, by its dotted name, through the face of a channel."""

    verb: str
    channel: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    async def call(self, memory: AsyncAgentMemory) -> Any:
        """Do it."""
        found: Any = memory
        for name in self.verb.split("."):
            found = getattr(found, name)
        return await found(*self.args, **self.kwargs)


@dataclass
class HistoryState:
    """Ids that a history has made, and moments that it passed."""

    facts: list[str] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    entities: list[str] = field(default_factory=list)
    goals: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)
    conversations: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    receipts: list[str] = field(default_factory=list)
    keyed_steps: list[Step] = field(default_factory=list)
    moments: list[datetime] = field(default_factory=list)

    def record(self, step: Step, given: Any) -> None:
        """Note what a step gave."""
        if "idempotency_key" in step.kwargs:
            self.keyed_steps.append(step)
        for record in given if isinstance(given, list) else [given]:
            for kind, names in (
                (Fact, self.facts),
                (Turn, self.turns),
                (Entity, self.entities),
                (Goal, self.goals),
                (Edge, self.edges),
            ):
                if isinstance(record, kind) and record.id not in names:
                    names.append(record.id)
            if isinstance(record, Turn) and record.conversation_id not in self.conversations:
                self.conversations.append(record.conversation_id)
            operation = getattr(record, "operation_id", "")
            if operation and operation not in self.operations:
                self.operations.append(operation)
            if receipt := getattr(record, "receipt", None):
                self.receipts.append(receipt.id)

    def all_record_ids(self) -> list[str]:
        """All ids of records."""
        return [*self.facts, *self.turns, *self.entities, *self.goals, *self.edges, *self.conversations]


def draw_sentence(pick: Random) -> str:
    """What is said or claimed: few words, so that much is said twice, or nearly."""
    return f"{pick.choice(PEOPLE)} {pick.choice(ACTIVITIES)} {pick.choice(THINGS)}{pick.choice(TIME_PHRASES)}"


def draw_some(pick: Random, names: list[str], limit: int = 2) -> list[str]:
    """A few of the latest names, at times none."""
    latest = names[-6:]
    return pick.sample(latest, min(len(latest), pick.randint(0, limit)))


def draw_time(pick: Random, notes: HistoryState) -> datetime:
    """One that the history passed, or some way off."""
    return pick.choice([*notes.moments, START]) + timedelta(hours=pick.choice([0, 0, 0, -1, 24 * 30, -24 * 400]))


# -- verbs: the arguments of each; None when there is nothing yet to do it to


def _turn(pick: Random, notes: HistoryState) -> dict[str, Any]:
    text = ". ".join(draw_sentence(pick) for _ in range(pick.choice([1, 1, 1, 2, 3, 12])))
    turn: dict[str, Any] = {"content": text}
    if pick.random() < 0.6:
        turn["conversation_id"] = pick.choice(["kitchen", "garden talk", "00000000-0000-7000-8000-00000000000a"])
    if pick.random() < 0.5:
        turn |= {"speaker": pick.choice(PEOPLE), "timestamp": draw_time(pick, notes)}
    if pick.random() < 0.3:
        turn |= {"turn_id": f"t{pick.randint(0, 9)}", "role": "assistant", "metadata": {"n": 1.5, "é": [None, True]}}
    return turn


def _store_turn(pick: Random, notes: HistoryState) -> Any:
    return (pick.choice([_turn(pick, notes), draw_sentence(pick)]),), {}


def _store_turns(pick: Random, notes: HistoryState) -> Any:
    return ([_turn(pick, notes) for _ in range(pick.randint(1, 8))],), {}


def _fact_fields(pick: Random, notes: HistoryState) -> dict[str, Any]:
    offered: dict[str, Any] = {
        "confidence": pick.choice([0.2, 0.55, 1.0]),
        "source": "ann",
        "entity_ids": draw_some(pick, notes.entities, 3),
        "source_turn_ids": draw_some(pick, notes.turns),
        "valid_from": draw_time(pick, notes),
        "valid_to": draw_time(pick, notes),
        "temporal_context": pick.choice(["past", "current", "future"]),
        "tags": ["fruit", "Ω"],
        "depends_on": draw_some(pick, notes.facts),
        "tier": pick.choice(["short", "long"]),
        "salience": pick.random(),
        "memory_type": "preference",
    }
    likely = {"entity_ids": 0.8, "source_turn_ids": 0.6}
    return {name: value for name, value in offered.items() if pick.random() < likely.get(name, 0.15)}


def _learn_fact(pick: Random, notes: HistoryState) -> Any:
    return (draw_sentence(pick),), _fact_fields(pick, notes)


def _update_fact(pick: Random, notes: HistoryState) -> Any:
    claim = {"claim": draw_sentence(pick)} if pick.random() < 0.5 else {}
    return (pick.choice(notes.facts),), {**claim, **_fact_fields(pick, notes)}


def _supersede_fact(pick: Random, notes: HistoryState) -> Any:
    return (pick.choice(notes.facts), draw_sentence(pick)), {"wrong": pick.random() < 0.3, **_fact_fields(pick, notes)}


def _upsert_entity(pick: Random, notes: HistoryState) -> Any:
    entity: dict[str, Any] = {"name": pick.choice(PEOPLE), "type": pick.choice(["person", "person", "thing"])}
    if pick.random() < 0.4:
        entity |= {
            "aliases": [pick.choice([*PEOPLE, "Annie"])],
            "description": draw_sentence(pick),
            "properties": {"age": 7},
        }
    return (entity,), {}


def _relate(pick: Random, notes: HistoryState) -> Any:
    one, other = (pick.choice(notes.entities[-4:]) for _ in range(2))
    offered: dict[str, Any] = {
        "properties": {"since": 2019},
        "confidence": 0.5,
        "valid_from": draw_time(pick, notes),
        "valid_to": draw_time(pick, notes),
        "fact_id": pick.choice([*notes.facts, None]),
    }
    named = {name: value for name, value in offered.items() if pick.random() < 0.3}
    return (one, pick.choice(RELATIONS), other), named


def _add_goal(pick: Random, notes: HistoryState) -> Any:
    goal: dict[str, Any] = {"description": draw_sentence(pick), "priority": pick.randint(1, 5)}
    if notes.goals and pick.random() < 0.4:
        goal["parent_id"] = pick.choice(notes.goals)
    return (goal,), {}


def _complete_goal(pick: Random, notes: HistoryState) -> Any:
    return (pick.choice(notes.goals), pick.choice(["completed", "abandoned"]), draw_sentence(pick)), {}


def _update_profile(pick: Random, notes: HistoryState) -> Any:
    return (), {"preferences": {"fruit": pick.choice([*THINGS, None])}, "expertise_areas": [pick.choice(THINGS)]}


def _forget(pick: Random, notes: HistoryState) -> Any:
    return (pick.choice(notes.all_record_ids()), pick.random() < 0.35), {}


def _restore(pick: Random, notes: HistoryState) -> Any:
    return (pick.choice(notes.all_record_ids()),), {}


def _undo(pick: Random, notes: HistoryState) -> Any:
    return (pick.choice(notes.operations[-5:]),), {}


def _delete_conversation(pick: Random, notes: HistoryState) -> Any:
    return (pick.choice(notes.conversations),), {"hard": pick.random() < 0.3}


def _promote(pick: Random, notes: HistoryState) -> Any:
    return (pick.choice(notes.facts), "of use to all"), {}


def _boost(pick: Random, notes: HistoryState) -> Any:
    return (pick.choice(notes.facts), pick.choice([0.1, -0.3])), {}


def _observe(pick: Random, notes: HistoryState) -> Any:
    return (draw_some(pick, notes.all_record_ids(), 4), ("tried",)), {}


def _remember(pick: Random, notes: HistoryState) -> Any:
    offered: dict[str, Any] = {
        "top_k": pick.choice([1, 3, 100]),
        "as_of": draw_time(pick, notes),
        "known_at": draw_time(pick, notes),
        "since": draw_time(pick, notes),
        "until": draw_time(pick, notes),
        "time_window_hours": 30,
        "min_confidence": 0.5,
        "include": [pick.choice(["episodic", "semantic"])],
        "reinforce": False,
        "techniques": [pick.choice(["vector", "keyword", "entity", "temporal"])],
        "channels": pick.sample(["_global", "roof", "_swarm", "cellar"], 2),
    }
    return (pick.choice(QUERIES),), {name: value for name, value in offered.items() if pick.random() < 0.2}


DrawArguments = Callable[[Random, HistoryState], Any]
VERBS: dict[str, tuple[int, str, DrawArguments]] = {  # how often, what there must be, arguments
    "store_turn": (5, "", _store_turn),
    "store_turns": (3, "", _store_turns),
    "learn_fact": (7, "", _learn_fact),
    "upsert_entity": (7, "", _upsert_entity),
    "semantic.relate": (7, "entities", _relate),
    "semantic.update_fact": (3, "facts", _update_fact),
    "semantic.supersede_fact": (4, "facts", _supersede_fact),
    "semantic.promote_to_global": (2, "facts", _promote),
    "semantic.boost_salience": (1, "facts", _boost),
    "add_goal": (2, "", _add_goal),
    "complete_goal": (1, "goals", _complete_goal),
    "update_profile": (1, "", _update_profile),
    "observe_usage": (1, "", _observe),
    "remember": (3, "", _remember),
    "forget": (4, "facts", _forget),
    "restore": (3, "facts", _restore),
    "undo": (3, "operations", _undo),
    "episodic.delete_conversation": (1, "conversations", _delete_conversation),
}
VERBS_WITHOUT_KEY = ("remember",)


def draw_step(pick: Random, notes: HistoryState) -> Step:
    """The next step: mostly a new one, at times one again under its key."""
    if notes.keyed_steps and pick.random() < 0.08:
        return pick.choice(notes.keyed_steps)
    if pick.random() < 0.01:
        return Step("erase", CHANNELS[0])
    able = [name for name, (_, needed, _) in VERBS.items() if not needed or getattr(notes, needed)]
    verb = pick.choices(able, [VERBS[name][0] for name in able])[0]
    arguments, named = VERBS[verb][2](pick, notes)
    if verb not in VERBS_WITHOUT_KEY and pick.random() < 0.25:
        named = {**named, "idempotency_key": f"k{pick.randint(0, 30)}"}
    return Step(verb, pick.choice(WRITE_CHANNELS), arguments, named)


def draw_questions(pick: Random, notes: HistoryState) -> list[Step]:
    """What is asked when all is done: some recalls, some of all other questions, and the audit log."""
    face = pick.choice(CHANNELS)
    recalls = [_remember(pick, notes)[1]]
    recalls += [{name: draw_time(pick, notes), "top_k": 100} for name in ("as_of", "known_at")]
    asked = [
        Step("remember", pick.choice(CHANNELS), (pick.choice(QUERIES),), {**named, "reinforce": False})
        for named in recalls
    ]
    asked.append(Step("context", face, (pick.choice(QUERIES), pick.choice([60, 4000]))))
    if notes.entities:
        asked.append(Step("semantic.get_entity_graph", face, (notes.entities[-4:], pick.randint(1, 3))))
    others = list(_other_questions(pick, notes, face))
    return [*asked, *pick.sample(others, min(len(others), MAX_OTHER_QUESTIONS)), Step("audit.query", face)]


def _other_questions(pick: Random, notes: HistoryState, face: str) -> Iterator[Step]:
    wheres: list[dict[str, Any] | None] = [
        None,
        {"retired": True},
        {"as_of": draw_time(pick, notes)},
        {"tags": "fruit"},
    ]
    yield from (Step("semantic.facts", pick.choice(CHANNELS), (where,)) for where in wheres)
    for name in ("semantic.entities", "episodic.conversations", "goals.active", "profile", "episodic.recent_turns"):
        yield Step(name, pick.choice(CHANNELS))
    for fact in draw_some(pick, notes.facts, 2):
        yield from (Step(f"semantic.{verb}", face, (fact,)) for verb in ("get_fact", "history", "provenance"))
    for conversation in draw_some(pick, notes.conversations, 2):
        yield Step("episodic.get_conversation", face, (conversation,))
    yield Step("diff", face, (draw_time(pick, notes), draw_time(pick, notes)))
    if notes.receipts:
        receipt = pick.choice(notes.receipts)
        yield Step("audit.replay", face, (receipt,))
        yield Step("audit.why_not", face, (receipt, pick.choice([*notes.all_record_ids(), "unknown"])))
