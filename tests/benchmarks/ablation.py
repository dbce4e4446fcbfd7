"""What each technique adds: the paired difference of recall with and without it, over the questions of data sets.

    python -m tests.benchmarks.ablation DATA.json ... [--replies REPLIES.jsonl]

Settings alone are those of `ablation.json`. Then: links, with the graph that the rules make of the dialogues; two
unrelated questions put into one, which `decompose` takes apart by its rule; and, with recorded replies, the techniques
that ask a model. `REPLIES.jsonl` has a line for each question: its id as `question`, and by the name of a technique
what a model replied.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from agentmem import AsyncAgentMemory
from agentmem.models.protocols import LLMReply, LLMRequest
from agentmem.models.registry import LLMRegistry
from tests.benchmarks import recall, report
from tests.benchmarks.datasets import BenchmarkDialogue, Question, load_dialogues
from tests.benchmarks.metrics import ConfigurationScores, paired_difference
from tests.benchmarks.recall import Configuration
from tests.benchmarks.suite import load_configurations
from tests.benchmarks.target import BenchmarkMemory, MemoryFactory

SETTINGS = Path(__file__).with_name("ablation.json")
METRICS = ("R@5", "R@10", "MRR", "nDCG@10")
ASKING = ("hyde", "expansion", "self_query", "decompose")
SPEC = "recorded:replies"
PLAIN = Configuration("as shipped")
Row = dict[str, object]


def switched(name: str, technique: str, *, on: bool, **more: Any) -> Configuration:
    """A technique switched on or off."""
    return Configuration(name, {"recall": {technique: {"enabled": on}}, **more})


@dataclass(frozen=True)
class Replies:
    """See `LLM`: answers a technique's question about a query with what was recorded for that, by its text."""

    known: Mapping[str, Mapping[str, Any]]
    identity = SPEC

    async def complete(self, request: LLMRequest) -> LLMReply:
        """The reply for the purpose of the request."""
        query = request.content.split("<question>\n", 1)[1].rsplit("\n</question>", 1)[0]
        return LLMReply(json.dumps(self.known[query].get(request.purpose, {})), 0, 0, 0, SPEC)

    async def close(self) -> None:
        """Nothing to close."""


@dataclass(frozen=True)
class Answered(MemoryFactory):
    """A memory whose model has the recorded replies."""

    replies: Replies = Replies({})

    def __call__(self, user_id: str, settings: Mapping[str, Any]) -> AbstractAsyncContextManager[BenchmarkMemory]:
        """Open the memory of a user, to be used with `async with`."""

        @asynccontextmanager
        async def opened() -> AsyncIterator[BenchmarkMemory]:
            async with MemoryFactory.__call__(self, user_id, {"llm": SPEC, **settings}) as memory:
                inside = cast(AsyncAgentMemory, memory).engine
                inside.llms = LLMRegistry(inside.settings, {SPEC: self.replies})
                yield memory

        return opened()


def in_pairs(dialogue: BenchmarkDialogue) -> BenchmarkDialogue:
    """The dialogue with its questions two by two, the first with the middle one, and so on: each pair is one question.

    Both want all their evidence. A third of the questions is taken.
    """
    asked = dialogue.scored_questions[::3]
    half = len(asked) // 2
    return replace(dialogue, questions=tuple(map(_together, asked[:half], asked[half : 2 * half])))


def _together(one: Question, other: Question) -> Question:
    text = f"{one.text.rstrip('? ')}, and {other.text[:1].lower()}{other.text[1:]}"
    both = one.evidence | other.evidence
    return replace(one, id=f"{one.id} {other.id}", text=text, category_name="two in one", evidence=both)


def rows(group: str, scores: Sequence[ConfigurationScores]) -> list[Row]:
    """What the first configuration reached, and the differences of the others to it, with 95 % intervals."""
    first, *others = scores
    reached = {metric: f"{first.column(metric).mean():.3f}" for metric in METRICS}
    found: list[Row] = [{"group": group, "configuration": first.name, "n": len(first.questions), **reached}]
    for other in others:
        differences = {}
        for metric in METRICS:
            each = paired_difference(other, first, metric)
            differences[metric] = f"{each.mean:+.3f} [{each.low:+.3f}, {each.high:+.3f}]"
        found.append({"group": group, "configuration": other.name, "n": len(other.questions), **differences})
    return found


async def compared(
    group: str, target: MemoryFactory, dialogues: Sequence[BenchmarkDialogue], configurations: Sequence[Configuration]
) -> list[Row]:
    """`rows` of these configurations; the dialogues are stored where they are not yet."""
    result = await recall.evaluate(target, dialogues, configurations, context_tokens=0)
    return rows(group, [reading.scores for reading in result.runs])


async def consolidate(target: MemoryFactory, dialogues: Sequence[BenchmarkDialogue]) -> None:
    """Let the rules read the dialogues."""
    for dialogue in dialogues:
        async with target(f"{dialogue.dataset}/{dialogue.id}", {"llm": "none"}) as opened:
            memory = cast(AsyncAgentMemory, opened)
            while (await memory.consolidate("consolidate"))[0].pending:
                pass
            await memory.flush()


async def measure(data: Path, replies: Path | None, folder: Path, embedder: str) -> list[Row]:
    """All rows of one data set."""
    dialogues = load_dialogues([data])
    target = MemoryFactory(str(folder / "plain"), embedder, {"seed": 1})  # no deadlines: a busy machine finds the same
    found = await compared("settings", target, dialogues, load_configurations(SETTINGS))
    paired_up = [in_pairs(dialogue) for dialogue in dialogues]
    by_rule = switched("decompose by its rule", "decompose", on=True)
    found += await compared("two questions in one", target, paired_up, [PLAIN, by_rule])
    if replies is not None:
        found += await _asking(dialogues, replies, target)
    shutil.copytree(folder / "plain", folder / "linked")
    linked = replace(target, home=str(folder / "linked"))
    await consolidate(linked, dialogues)
    configurations = [
        Configuration("as shipped, with what the rules found"),
        switched("without links", "entity", on=False),
        switched("decompose by its rule", "decompose", on=True),
    ]
    return found + await compared("with the rules' graph", linked, dialogues, configurations)


async def _asking(dialogues: Sequence[BenchmarkDialogue], replies: Path, target: MemoryFactory) -> list[Row]:
    """The techniques that ask a model, over the questions with recorded replies."""
    lines = {line["question"]: line for line in map(json.loads, replies.read_text(encoding="utf-8").splitlines())}
    some = [
        replace(one, questions=tuple(each for each in one.scored_questions if each.id in lines)) for one in dialogues
    ]
    some = [dialogue for dialogue in some if dialogue.questions]
    if not some:
        return []
    known = {each.text: lines[each.id] for dialogue in some for each in dialogue.questions}
    answered = Answered(target.home, target.embedder, target.settings, replies=Replies(known))
    return await compared("recorded replies", answered, some, [PLAIN, *(switched(n, n, on=True) for n in ASKING)])


def main() -> None:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="LoCoMo- or BEAM-shaped files")
    parser.add_argument("--replies", type=Path, help="recorded replies of a model")
    parser.add_argument("--embedder", default="local")
    given = parser.parse_args()
    for data in given.data:
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(measure(data, given.replies, Path(folder), given.embedder))
        print(f"## {data}\n\n{report.render_table(found)}\n", flush=True)


if __name__ == "__main__":
    main()
