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

from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.models.protocols import LLMReply, LLMRequest
from agentmem.models.registry import LLMRegistry
from agentmem.text.tokenizer import estimate_tokens
from tests.benchmarks.target import MemoryFactory

LLM_SPEC = "recorded:multihop"
DISTRACTOR_COUNT = 2_000
TURNS_PER_CONVERSATION = 20
BATCH_SIZE = 1_000
# seconds that links are waited for: this asks what is found, and a graph that just started is slow
LINK_DEADLINE_SECONDS = 60.0
TECHNIQUES_WITHOUT_GRAPH = ("vector", "keyword", "temporal", "dialogue")

_FIRST = (
    "Aldo",
    "Birte",
    "Cyril",
    "Dagny",
    "Elio",
    "Freya",
    "Guido",
    "Hedda",
    "Ivo",
    "Jette",
    "Kaspar",
    "Livia",
    "Milos",
    "Noor",
    "Otto",
    "Pia",
    "Rune",
    "Selma",
    "Timo",
    "Ulla",
    "Vera",
    "Wim",
    "Xenia",
    "Yann",
    "Zora",
)
_LAST = ("Aaltonen", "Bakker", "Costa", "Duval", "Eriksen", "Fabre", "Galli", "Hoffman")
_ASIDES = (
    "{} asked whether the meeting could be moved to Tuesday.",
    "Nobody has heard from {} since the weekend.",
    "A parcel for {} is waiting at the front desk.",
    "We should invite {} to the summer party.",
)


NamedText = tuple[str, tuple[str, ...]]  # a text, and whom it names


@dataclass(frozen=True, slots=True)
class CaseLink:
    """A relation, and the turn that tells of it."""

    source: str
    relation: str
    target: str
    text: str


@dataclass(frozen=True, slots=True)
class MultihopCase:
    """One line of the file. `names` is whom the answer's turn names."""

    name: str
    question: str
    links: tuple[CaseLink, ...]
    names: str
    text: str


@dataclass(frozen=True, slots=True)
class MultihopCaseResult:
    """At which place the answer's turn came, from 1, with the graph and without; None beyond the tenth."""

    case: MultihopCase
    hops: int
    rank: int | None
    rank_without_graph: int | None


def load_cases() -> list[MultihopCase]:
    """The cases that ship with the package."""
    text = resources.files(__package__).joinpath("cases", "multihop.jsonl").read_text(encoding="utf-8")
    return [
        MultihopCase(line["id"], line["question"], tuple(CaseLink(**link) for link in line["links"]), **line["answer"])
        for line in map(json.loads, text.splitlines())
    ]


def count_hops(case: MultihopCase, cases: Sequence[MultihopCase]) -> int:
    """Links between what the question names and the turn that answers, the turn's own naming being the last one."""
    about = {link.target: link.source for each in cases for link in each.links}
    at, count = case.names, 1
    while not _is_named(at, case.question) and at in about:
        at, count = about[at], count + 1
    return count


def _is_named(name: str, text: str) -> bool:
    return name in text or name.split(maxsplit=1)[0] in text


def build_distractors(cases: Sequence[MultihopCase], count: int) -> list[NamedText]:
    """Turns and whom they name: doubles of every answer, and asides about those whom the questions start from."""
    people = [f"{first} {last}" for last, first in product(_LAST, _FIRST)]
    asides: list[NamedText] = [
        (text.format(link.source), (link.source,)) for case in cases for link in case.links for text in _ASIDES
    ]
    doubles: list[NamedText] = []
    while len(doubles) + len(asides) < count:
        number = len(doubles)
        case, name = cases[number % len(cases)], people[(number // len(cases) + 7 * number) % len(people)]
        doubles.append((case.text.replace(case.names, name), (name,)))
    return [*asides, *doubles][:count]


class MultihopCaseLLM:
    """Replies with what each turn names and relates, by its text."""

    identity = LLM_SPEC

    def __init__(self, replies: Mapping[str, tuple[tuple[str, ...], tuple[CaseLink, ...]]]) -> None:
        self._replies = replies

    async def complete(self, request: LLMRequest) -> LLMReply:
        """The reply to one window."""
        data = json.loads(request.content[request.content.index("{") :])
        reply: dict[str, Any] = {"turns": [], "facts": [], "entities": [], "relations": []}
        for turn in data["turns"]:
            names, links = self._replies[turn["text"]]
            label = turn["label"]
            reply["turns"].append({"turn": label})
            reply["entities"] += [{"turn": label, "name": name, "type": "person"} for name in names]
            reply["relations"] += [
                {"turn": label, "source": link.source, "kind": link.relation, "target": link.target, "quote": link.text}
                for link in links
            ]
        text = json.dumps(reply)
        return LLMReply(text, estimate_tokens(request.content), 0, estimate_tokens(text), LLM_SPEC)

    async def close(self) -> None:
        """Nothing to close."""


async def run(
    factory: MemoryFactory,
    cases: Sequence[MultihopCase],
    *,
    distractors: int = DISTRACTOR_COUNT,
    progress: Callable[[int, int], None] | None = None,
) -> list[MultihopCaseResult]:
    """Store the turns of all cases among `distractors` others for one user, erased afterwards, and ask every
    question.
    """
    told = {text: (names, ()) for text, names in build_distractors(cases, distractors)}
    telling = {link.text: ((link.source, link.target), (link,)) for case in cases for link in case.links}
    answers = {case.text: ((case.names,), ()) for case in cases}
    everything: dict[str, tuple[tuple[str, ...], tuple[CaseLink, ...]]] = {**told, **telling, **answers}
    settings = {"llm": LLM_SPEC, "recall": {"entity": {"deadline": LINK_DEADLINE_SECONDS}}}
    async with factory("multihop", settings) as opened:
        memory = cast(AsyncAgentMemory, opened)
        memory.engine.llms = LLMRegistry(memory.engine.settings, {LLM_SPEC: MultihopCaseLLM(everything)})
        own = memory.scoped(user_id=f"multihop {factory.user_suffix}".strip())
        try:
            await _store(own, _mix(list(everything)))
            while (await own.consolidate("consolidate"))[0].pending:
                if progress is not None:
                    progress(0, len(cases))
            await own.flush()
            found = []
            for number, case in enumerate(cases, 1):
                found.append(await _ask(own, case, count_hops(case, cases)))
                if progress is not None:
                    progress(number, len(cases))
            return found
        finally:
            await own.erase()


def _mix(texts: Sequence[str]) -> list[str]:
    """In an order in which what belongs together does not stand together, the same every time."""
    step = next(step for step in (797, 799, 801, 803) if len(texts) % step)
    order = sorted(range(len(texts)), key=lambda place: (place * step % len(texts), place))
    return [texts[place] for place in order]


async def _store(memory: AsyncAgentMemory, texts: Sequence[str]) -> None:
    turns = [
        {"content": text, "conversation_id": f"talk {place // TURNS_PER_CONVERSATION}"}
        for place, text in enumerate(texts)
    ]
    for start in range(0, len(turns), BATCH_SIZE):
        await memory.store_turns(turns[start : start + BATCH_SIZE])


async def _ask(memory: AsyncAgentMemory, case: MultihopCase, hop_count: int) -> MultihopCaseResult:
    places = []
    for techniques in (None, TECHNIQUES_WITHOUT_GRAPH):
        bundle = await memory.remember(case.question, techniques=techniques, reinforce=False)
        said = [turn.content for turn in bundle.turns]
        places.append(said.index(case.text) + 1 if case.text in said else None)
    return MultihopCaseResult(case, hop_count, *places)


def build_table(results: Sequence[MultihopCaseResult]) -> list[dict[str, object]]:
    """A row for each number of links and one for all: questions, and R@10 with the graph and without."""
    rows: list[dict[str, object]] = []
    for count in (*sorted({one.hops for one in results}), 0):
        some = [one for one in results if count in (one.hops, 0)]
        rows.append(
            {
                "links": count or "all",
                "questions": len(some),
                "R@10": round(sum(one.rank is not None for one in some) / max(1, len(some)), 4),
                "R@10 without the graph": round(
                    sum(one.rank_without_graph is not None for one in some) / max(1, len(some)), 4
                ),
            }
        )
    return rows


def failures_by_case(results: Sequence[MultihopCaseResult]) -> dict[str, tuple[str, ...]]:
    """The questions whose answer was not among the first ten."""
    return {one.case.name: (f"not found over {one.hops} links",) for one in results if one.rank is None}
