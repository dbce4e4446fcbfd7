"""Questions whose answer lies two or three links from anything they name, among turns that answer alike.

A case is one line of `cases/multihop.jsonl`: relations, each told in a turn, and an answer that names only the last of
them. Every answer has doubles: the same words about somebody else. So words and meaning alone cannot tell which is
right; relations can. What a turn names and relates is given, as a model's reply would, and goes through the pipeline.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import product
from typing import Any, cast

from agentmem.agent_memory import AsyncAgentMemory
from agentmem.bench.target import Target
from agentmem.providers import LLMReply, LLMRequest, estimated_tokens
from agentmem.providers.llms import LLMs

SPEC = "recorded:multihop"
DISTRACTING = 2_000
PER_CONVERSATION = 20
BATCH = 1_000
PATIENT = 60.0  # seconds that links are waited for: this asks what is found, and a graph that just started is slow
WITHOUT = ("vector", "keyword", "temporal", "dialogue")

_FIRST = (
    "Aldo", "Birte", "Cyril", "Dagny", "Elio", "Freya", "Guido", "Hedda", "Ivo", "Jette", "Kaspar", "Livia", "Milos",
    "Noor", "Otto", "Pia", "Rune", "Selma", "Timo", "Ulla", "Vera", "Wim", "Xenia", "Yann", "Zora",
)  # fmt: skip
_LAST = ("Aaltonen", "Bakker", "Costa", "Duval", "Eriksen", "Fabre", "Galli", "Hoffman")
_ASIDES = (
    "{} asked whether the meeting could be moved to Tuesday.", "Nobody has heard from {} since the weekend.",
    "A parcel for {} is waiting at the front desk.", "We should invite {} to the summer party.",
)  # fmt: skip


Named = tuple[str, tuple[str, ...]]  # a text, and whom it names


@dataclass(frozen=True, slots=True)
class Link:
    """A relation, and the turn that tells of it."""

    source: str
    relation: str
    target: str
    text: str


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the file. `names` is whom the answer's turn names."""

    name: str
    question: str
    links: tuple[Link, ...]
    names: str
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """At which place the answer's turn came, from 1, with the graph and without; None beyond the tenth."""

    case: Case
    hops: int
    place: int | None
    without: int | None


def read_cases() -> list[Case]:
    """The cases that ship with the package."""
    text = resources.files(__package__).joinpath("cases", "multihop.jsonl").read_text(encoding="utf-8")
    return [
        Case(line["id"], line["question"], tuple(Link(**link) for link in line["links"]), **line["answer"])
        for line in map(json.loads, text.splitlines())
    ]


def hops(case: Case, cases: Sequence[Case]) -> int:
    """Links between what the question names and the turn that answers, the turn's own naming being the last one."""
    about = {link.target: link.source for each in cases for link in each.links}
    at, count = case.names, 1
    while not _named(at, case.question) and at in about:
        at, count = about[at], count + 1
    return count


def _named(name: str, text: str) -> bool:
    return name in text or name.split(maxsplit=1)[0] in text


def distracting(cases: Sequence[Case], count: int) -> list[Named]:
    """Turns and whom they name: doubles of every answer, and asides about those whom the questions start from."""
    people = [f"{first} {last}" for last, first in product(_LAST, _FIRST)]
    asides: list[Named] = [
        (text.format(link.source), (link.source,)) for case in cases for link in case.links for text in _ASIDES
    ]
    doubles: list[Named] = []
    while len(doubles) + len(asides) < count:
        number = len(doubles)
        case, name = cases[number % len(cases)], people[(number // len(cases) + 7 * number) % len(people)]
        doubles.append((case.text.replace(case.names, name), (name,)))
    return [*asides, *doubles][:count]


class Recorded:
    """Replies with what each turn names and relates, by its text."""

    identity = SPEC

    def __init__(self, told: Mapping[str, tuple[tuple[str, ...], tuple[Link, ...]]]) -> None:
        self._told = told

    async def complete(self, request: LLMRequest) -> LLMReply:
        """The reply to one window."""
        data = json.loads(request.content[request.content.index("{") :])
        reply: dict[str, Any] = {"turns": [], "facts": [], "entities": [], "relations": []}
        for turn in data["turns"]:
            names, links = self._told[turn["text"]]
            label = turn["label"]
            reply["turns"].append({"turn": label})
            reply["entities"] += [{"turn": label, "name": name, "type": "person"} for name in names]
            reply["relations"] += [
                {"turn": label, "source": link.source, "kind": link.relation, "target": link.target, "quote": link.text}
                for link in links
            ]
        text = json.dumps(reply)
        return LLMReply(text, estimated_tokens(request.content), 0, estimated_tokens(text), SPEC)

    async def close(self) -> None:
        """Nothing to close."""


async def run(
    target: Target, cases: Sequence[Case], *, count: int = DISTRACTING,
    progress: Callable[[int, int], None] | None = None,
) -> list[Found]:  # fmt: skip
    """Store the turns of all cases among `count` others for one user, erased afterwards, and ask every question."""
    told = {text: (names, ()) for text, names in distracting(cases, count)}
    telling = {link.text: ((link.source, link.target), (link,)) for case in cases for link in case.links}
    answers = {case.text: ((case.names,), ()) for case in cases}
    everything: dict[str, tuple[tuple[str, ...], tuple[Link, ...]]] = {**told, **telling, **answers}
    settings = {"llm": SPEC, "recall": {"entity": {"deadline": PATIENT}}}
    async with target("multihop", settings) as opened:
        memory = cast(AsyncAgentMemory, opened)
        memory.resources.llms = LLMs(memory.resources.settings, {SPEC: Recorded(everything)})
        own = memory.scoped(user_id=f"multihop {target.mark}".strip())
        try:
            await _store(own, _mixed(list(everything)))
            while (await own.consolidate("consolidate"))[0].pending:
                if progress is not None:
                    progress(0, len(cases))
            await own.flush()
            found = []
            for number, case in enumerate(cases, 1):
                found.append(await _ask(own, case, hops(case, cases)))
                if progress is not None:
                    progress(number, len(cases))
            return found
        finally:
            await own.erase()


def _mixed(texts: Sequence[str]) -> list[str]:
    """In an order in which what belongs together does not stand together, the same every time."""
    step = next(step for step in (797, 799, 801, 803) if len(texts) % step)
    order = sorted(range(len(texts)), key=lambda place: (place * step % len(texts), place))
    return [texts[place] for place in order]


async def _store(memory: AsyncAgentMemory, texts: Sequence[str]) -> None:
    turns = [
        {"content": text, "conversation_id": f"talk {place // PER_CONVERSATION}"} for place, text in enumerate(texts)
    ]
    for start in range(0, len(turns), BATCH):
        await memory.store_turns(turns[start : start + BATCH])


async def _ask(memory: AsyncAgentMemory, case: Case, distance: int) -> Found:
    places = []
    for techniques in (None, WITHOUT):
        bundle = await memory.remember(case.question, techniques=techniques, reinforce=False)
        said = [turn.content for turn in bundle.turns]
        places.append(said.index(case.text) + 1 if case.text in said else None)
    return Found(case, distance, *places)


def table(found: Sequence[Found]) -> list[dict[str, object]]:
    """A row for each number of links and one for all: questions, and R@10 with the graph and without."""
    rows: list[dict[str, object]] = []
    for count in (*sorted({one.hops for one in found}), 0):
        some = [one for one in found if count in (one.hops, 0)]
        rows.append({
            "links": count or "all", "questions": len(some),
            "R@10": round(sum(one.place is not None for one in some) / max(1, len(some)), 4),
            "R@10 without the graph": round(sum(one.without is not None for one in some) / max(1, len(some)), 4),
        })  # fmt: skip
    return rows


def wrong(found: Sequence[Found]) -> dict[str, tuple[str, ...]]:
    """The questions whose answer was not among the first ten."""
    return {one.case.name: (f"not found over {one.hops} links",) for one in found if one.place is None}
