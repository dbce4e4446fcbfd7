"""A scripted life, turn by turn with the jobs of each night, and what is believed of it on days with known answers.

`python -m tests.benchmarks.belief_life FOLDER [--show] [--careful]` reads `life.jsonl` and `truth.json` of a folder:
turns with a day and a moment, beliefs with the days on which they hold, and things that must never be believed. With
`--careful` the turns are read as `reading.jsonl` says, in place of the rules.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agentmem import AsyncAgentMemory, ConsolidationWorker
from agentmem.beliefs.slots import find_slot
from agentmem.beliefs.values import is_refinement, is_same_value
from agentmem.models.registry import LLMRegistry
from agentmem.text.tokenizer import tokenize
from tests.benchmarks.careful_reader import CarefulReader
from tests.fakes.scribe import SPEC

START = datetime(2026, 3, 2, tzinfo=UTC)
CHANNELS = ("_global", "heron")
NIGHT = timedelta(hours=23)
ASKED_DAYS = (9, 30, 44)
CONTEXT_TOKENS = 1_000
_COURTESY = re.compile(
    r"(?:\W|\b(?:ok|okay|thanks?|thank you|great|sure|noted|got it|lol|haha|yes|yep|no|exactly|correct|perfect"
    r"|nice|cheers|right|never mind|you're welcome|danke|gerne|genau|super)\b)*",
    re.IGNORECASE,
)
_IN_BRACKETS = re.compile(r" \((?!cat|dog)[^)]*\)")


class DayClock:
    """Stands at the moment of the turn that is played."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> datetime:
        """The moment."""
        return self.at


async def play_life(
    folder: Path, home: Path, *, show: bool = False, is_careful: bool = False, days: int = 1_000
) -> dict[str, float]:
    """Play the first days of a life into a new memory and score what it believes; the shares by name.

    `current` is weighted as the truth says. `outdated` are values that are over and still told as current.
    """
    life = [json.loads(line) for line in (folder / "life.jsonl").read_text(encoding="utf-8").splitlines() if line]
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    clock, total = DayClock(), Counter[str]()
    reader = CarefulReader(folder, life) if is_careful else None
    more: dict[str, Any] = {"llm": SPEC, "synopsis_llm": "none"} if reader else {}
    async with AsyncAgentMemory("lena", home=home, embedder="hash", clock=clock, seed=1, **more) as memory:
        if reader:
            memory.engine.llms = LLMRegistry(memory.engine.settings, {SPEC: reader})
        worker = ConsolidationWorker(memory.engine)
        for day in sorted({row["day"] for row in life if row["day"] <= days}):
            for row in life:
                if row["day"] == day and row["role"] in ("user", "assistant"):
                    clock.at = datetime.fromisoformat(row["at"])
                    view = memory.scoped(conversation_id=row["conversation"], channel=row["channel"])
                    await view.store_turn(row["text"], role=row["role"], turn_id=row["id"], timestamp=clock.at)
            clock.at = START + timedelta(days=day) + NIGHT
            await worker.run_once()
            for check in truth["checks"]:
                if check["day"] == day:
                    total.update(await _check(memory, truth, check, show=show))
        total["reviews"] = len(await memory.semantic.reviews())
    tokens = [sum(part) / len(reader.tokens) for part in zip(*reader.tokens, strict=True)] if reader else []
    named = dict(zip(("fixed tokens", "window tokens", "reply tokens"), tokens, strict=False))
    return _shares(total) | named


async def _check(
    memory: AsyncAgentMemory, truth: Mapping[str, Any], check: Mapping[str, Any], *, show: bool
) -> Counter[str]:
    out = Counter[str]()
    held, planned, claims = list[tuple[str, str, str]](), list[tuple[str, str, str]](), list[str]()
    for channel in CHANNELS:
        for state in await memory.scoped(channel=channel).beliefs():
            held += [(state.subject, state.slot, fact.value) for fact in state.current]
            planned += [(state.subject, state.slot, fact.value) for fact in state.planned]
    claims = [fact.claim for fact in await memory.semantic.facts()]
    beliefs = truth["beliefs"]
    for name, wanted, found in (("current", check["current"], held), ("planned", check["planned"], planned)):
        for number in wanted:
            belief, weight = beliefs[number], beliefs[number].get("weight", 1) if name == "current" else 1
            is_held = any(_fits(belief, each) for each in found)
            out[name] += weight
            out[f"{name} held"] += weight * is_held
            if show and not is_held:
                print(f"day {check['day']} missed {name}: {belief['subject']}.{belief['slot']}={belief['value']}")
    for number in check["no_longer"]:
        belief = beliefs[number]
        is_again = any(_is_same_belief(belief, beliefs[other]) for other in check["current"])
        told = [each for each in (planned if belief["kind"] == "plan" else held) if _fits(belief, each, is_exact=True)]
        out["over"] += 1
        out["outdated"] += bool(told) and not is_again
        if show and told and not is_again:
            print(f"day {check['day']} outdated: {told[0]}")
    if check["day"] in ASKED_DAYS:
        out += await _ask(memory, [beliefs[number] for number in (*check["current"], *check["planned"])], show=show)
    for number in check["must_not"]:
        rule = truth["must_not"][number]
        wrong = [claim for claim in claims if re.search(rule["match"], claim, re.IGNORECASE)]
        out["must not"] += 1
        out["believed anyway"] += bool(wrong)
        if show and wrong:
            print(f"day {check['day']} must not: {wrong[0]} ({rule['why']})")
    return out


async def _ask(memory: AsyncAgentMemory, beliefs: Sequence[Mapping[str, Any]], *, show: bool) -> Counter[str]:
    """How many of the beliefs with a question stand in the context for it, and how many of its lines say nothing."""
    out = Counter[str]()
    for belief in beliefs:
        if belief.get("ask"):
            text = (await memory.context(belief["ask"], max_tokens=CONTEXT_TOKENS)).text
            lines = [line for line in text.splitlines() if line and not line.startswith(("#", "<", "["))]
            is_answered = re.search(belief["key"], text, re.IGNORECASE) is not None
            out["asked"] += 1
            out["answered"] += is_answered
            out["lines"] += len(lines)
            out["empty lines"] += sum(map(_is_empty, lines, ["", *lines]))
            if show and not is_answered:
                print(f"not answerable: {belief['ask']} ({belief['value']})")
    return out


def _is_empty(line: str, before: str) -> bool:
    """Whether a line is a courtesy alone. "Yes." below the question that it answers says something."""
    return not before.endswith("?") and _COURTESY.fullmatch(line.partition(": ")[2] or line) is not None


def _is_same_belief(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return (one["subject"], one["slot"], one["value"]) == (other["subject"], other["slot"], other["value"])


def _fits(belief: Mapping[str, Any], held: tuple[str, str, str], *, is_exact: bool = False) -> bool:
    """Whether a held value is that of the truth: the same, or one says the other more exactly."""
    subject, slot, value = held
    named = {belief["subject"].casefold(), _IN_BRACKETS.sub("", belief["subject"]).casefold()}
    slots = {belief["slot"].casefold(), f"the:{belief['slot']}".casefold(), *belief.get("other_slots", ())}
    if ":" in slot:
        slot_fits = any(_is_same_thing(subject, slot, belief["subject"], each) for each in slots)
    else:
        slot_fits = subject.casefold() in named and slot.casefold() in slots
    if not slot_fits:
        return False
    for wanted in (belief["value"], _IN_BRACKETS.sub("", belief["value"]), *(belief.get("also") or ())):
        kind = find_slot(slot)
        plain = re.sub(r" 20\d\d\b", "", wanted)
        if is_same_value(value, wanted) or is_same_value(value, plain):
            return True
        if not is_exact and _stem(value) == _stem(plain):
            return True
        if not is_exact and re.search(belief.get("key") or "(?!)", value, re.IGNORECASE):
            return True
        if not is_exact and (is_refinement(kind, value, wanted) or is_refinement(kind, wanted, value)):
            return True
    return False


def _is_same_thing(subject: str, slot: str, wanted_subject: str, wanted_slot: str) -> bool:
    """Whether two open keys name one thing: one may use more words, or have them in its subject ("Ann's wedding")."""
    kind, _, name = slot.casefold().partition(":")
    wanted_kind, _, wanted_name = wanted_slot.partition(":")
    one = _stem(name) | _stem(subject.replace("user", ""))
    other = _stem(wanted_name) | _stem(wanted_subject.replace("user", ""))
    is_named = bool(_stem(name) & _stem(wanted_name)) or name == wanted_name
    return kind == wanted_kind and is_named and (one <= other or other <= one)


def _stem(text: str) -> frozenset[str]:
    return frozenset(tokenize(text))


def _shares(total: Counter[str]) -> dict[str, float]:
    pairs = {
        "current": ("current held", "current"),
        "planned": ("planned held", "planned"),
        "outdated": ("outdated", "over"),
        "must not": ("believed anyway", "must not"),
        "answerable": ("answered", "asked"),
        "empty lines": ("empty lines", "lines"),
    }
    return {name: total[part] / max(1, total[whole]) for name, (part, whole) in pairs.items()} | {
        "reviews": float(total["reviews"])
    }


def render(shares: Mapping[str, float]) -> Iterator[str]:
    """The shares, a line each."""
    for name, value in shares.items():
        yield f"{name:13} {value:.2f}"


def main(arguments: Sequence[str]) -> None:
    """Play the life of a folder."""
    folder = Path(next(each for each in arguments if not each.startswith("-")))
    with tempfile.TemporaryDirectory() as home:
        options = {"show": "--show" in arguments, "is_careful": "--careful" in arguments}
        shares = asyncio.run(play_life(folder, Path(home), **options))
    print(*render(shares), sep="\n")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
