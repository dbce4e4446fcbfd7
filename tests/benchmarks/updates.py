"""A thousand numbered statements of which later ones replace earlier ones, read without a model; what is held of them.

The shape is that of FactConsolidation (MemoryAgentBench): the newest plain statement about a subject and a relation
counts, and a question of two links follows the newest value of the first one. The statements are made up here.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentmem import AsyncAgentMemory
from agentmem.beliefs.values import is_same_value

PER_TURN = 25
SHARE_OF_UPDATES = 0.4
_FIRST = ("Ada", "Bruno", "Celia", "Dario", "Edda", "Felix", "Greta", "Hugo", "Ines", "Karla", "Leif", "Mona", "Nils")
_LAST = ("Abel", "Bosko", "Crane", "Dietz", "Ekberg", "Falk", "Garde", "Hallas", "Iversen", "Jansky", "Keller", "Lomax")
_COUNTRIES = ("Altovia", "Brenmark", "Cordavia", "Drelland", "Estoria", "Falmark", "Gorvania", "Heldria", "Istavia")
_CITIES = ("Abergast", "Brunholm", "Caldera", "Dunwick", "Eskarp", "Fenholt", "Grimstad", "Harrowby", "Ilmenau")
_FIRMS = ("Arvo Works", "Bright Harbor Group", "Cobalt Lane", "Dune Systems", "Ember and Sons", "University of Fenholt")
_SPORTS = ("basketball", "association football", "ice hockey", "tennis", "rowing", "table tennis")

# relation: words with S and V, kind of the subject, kind of the value
RELATIONS: Mapping[str, tuple[str, str, str]] = {
    "spouse": ("{s} is married to {v}", "person", "person"),
    "citizen": ("{s} is a citizen of {v}", "person", "country"),
    "birthplace": ("{s} was born in the city of {v}", "person", "city"),
    "employer": ("{s} is employed by {v}", "person", "firm"),
    "sport": ("{s} is associated with the sport of {v}", "person", "sport"),
    "child": ("{s}'s child is {v}", "person", "person"),
    "school": ("{s} was educated at {v}", "person", "firm"),
    "capital": ("The capital of {s} is {v}", "country", "city"),
    "head": ("The head of state of {s} is {v}", "country", "person"),
    "continent": ("{s} is located in the continent of {v}", "country", "country"),
    "founder": ("{s} was founded by {v}", "firm", "person"),
    "chief": ("The chief executive officer of {s} is {v}", "firm", "person"),
    "seat": ("The headquarters of {s} is located in the city of {v}", "firm", "city"),
    "mayor": ("The mayor of {s} is {v}", "city", "person"),
}


@dataclass(frozen=True, slots=True)
class UpdateScores:
    """Shares of questions answered by what is held: of one link, of two, and of old values still told as current."""

    one_link: float
    two_links: float
    outdated: float


def make_statements(count: int, seed: int) -> list[tuple[str, str, str]]:
    """Subject, relation and value, in the order in which they are said; later ones replace earlier ones."""
    draw = random.Random(seed)
    pools = {
        "person": [f"{first} {last}" for first in _FIRST for last in _LAST],
        "country": _COUNTRIES,
        "city": _CITIES,
        "firm": _FIRMS,
        "sport": _SPORTS,
    }
    out: list[tuple[str, str, str]] = []
    said: dict[tuple[str, str], str] = {}
    while len(out) < count:
        if said and draw.random() < SHARE_OF_UPDATES:
            subject, relation = draw.choice(list(said))
        else:
            relation = draw.choice(list(RELATIONS))
            subject = draw.choice(pools[RELATIONS[relation][1]])
        value = draw.choice(pools[RELATIONS[relation][2]])
        if value not in (subject, said.get((subject, relation))):
            said[subject, relation] = value
            out.append((subject, relation, value))
    return out


async def play_updates(home: Path, *, count: int = 1_000, seed: int = 1) -> UpdateScores:
    """Store the statements as numbered lists, consolidate without a model, and ask what is held."""
    statements = make_statements(count, seed)
    newest = {(subject, relation): value for subject, relation, value in statements}
    async with AsyncAgentMemory("reader", home=home, embedder="hash", seed=1) as memory:
        for start in range(0, count, PER_TURN):
            lines = [
                f"{start + number}. {_say(*each)}." for number, each in enumerate(statements[start : start + PER_TURN])
            ]
            await memory.store_turn("\n".join(lines))
        reports = await memory.consolidate()
        assert not any(report.pending for report in reports), reports
        by_relation = {
            (state.subject, _find_relation(state.slot)): [fact.value for fact in state.current]
            for state in await memory.beliefs()
        }
    return _score(statements, newest, by_relation)


def _say(subject: str, relation: str, value: str) -> str:
    return RELATIONS[relation][0].format(s=subject, v=value)


def _find_relation(slot: str) -> str:
    """Which relation a slot is: the one whose words around subject and value give its name."""
    if slot in RELATIONS:  # where a slot of people fits, it is taken: `employer`
        return slot
    key = slot.partition(":")[2]
    said = {name: words.lower().format(s="\u2026", v="") for name, (words, _, _) in RELATIONS.items()}
    return next((name for name, words in said.items() if key in words), key)


def _score(
    statements: Sequence[tuple[str, str, str]],
    newest: Mapping[tuple[str, str], str],
    held: Mapping[tuple[str, str], Sequence[str]],
) -> UpdateScores:
    def is_held(subject: str, relation: str, value: str) -> bool:
        return any(is_same_value(each, value) for each in held.get((subject, relation), ()))

    right = [is_held(subject, relation, value) for (subject, relation), value in newest.items()]
    old = [each for each in statements if newest[each[0], each[1]] != each[2]]
    told = [is_held(*each) for each in old]
    links = [
        is_held(subject, first, middle) and is_held(middle, second, value)
        for (subject, first), middle in newest.items()
        for (start, second), value in newest.items()
        if start == middle
    ]
    return UpdateScores(_share(right), _share(links), _share(told))


def _share(answers: Sequence[bool]) -> float:
    return sum(answers) / max(1, len(answers))


def render(scores: UpdateScores) -> Iterator[str]:
    """The shares, a line each."""
    yield f"one link   {scores.one_link:.3f}"
    yield f"two links  {scores.two_links:.3f}"
    yield f"outdated   {scores.outdated:.3f}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(*render(asyncio.run(play_updates(Path(folder)))), sep="\n")
