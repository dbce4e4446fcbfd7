"""The story that the demo tells: one memory over half a year, each line from what the memory really answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentmem.cli.render import bold, colorize, dim, pluralize
from agentmem.errors import ConfigError

if TYPE_CHECKING:
    from agentmem.facade.async_memory import AsyncAgentMemory

START = datetime(2026, 1, 12, 9, tzinfo=UTC)
MARCH = datetime(2026, 3, 1, tzinfo=UTC)
MOVE = timedelta(days=149)
TURNS = ("I'm allergic to peanuts.", "I live in Bergen.", "My sister Anna plays the cello.", "My locker code is 4711.")
NEWS = "I live in Oslo now."
CORRECTION = "The user is allergic to walnuts"
OTHER_USER = "bob"


class StoryClock:
    """Stands at the beginning of the story until it is moved on."""

    def __init__(self) -> None:
        self.moment = START

    def now(self) -> datetime:
        """The moment of the story."""
        return self.moment


@dataclass(frozen=True)
class Step:
    """One part of the story: its title, and what was said, asked and answered."""

    title: str
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Story:
    """All parts, and the counts that must meet: `stored - forgotten == left`."""

    steps: tuple[Step, ...]
    counts: Mapping[str, int]

    def to_document(self) -> dict[str, Any]:
        """The story as data."""
        steps = [{"title": step.title, "lines": [list(line) for line in step.lines]} for step in self.steps]
        return {"steps": steps, "counts": dict(self.counts)}


async def tell_story(memory: AsyncAgentMemory, clock: StoryClock) -> Story:
    """Store, ask, change, correct, explain and forget, in the memory of one user."""
    if await memory.episodic.recent_turns(1):
        raise ConfigError("this user has a memory in this folder already; name another --home or --user")
    steps = [await _store_and_ask(memory, clock)]
    clock.moment += MOVE
    steps += [await tell(memory) for tell in (_change_home, _correct_allergy, _explain_home, _forget_code)]
    left = len(await memory.episodic.recent_turns(100))
    return Story(tuple(steps), {"stored": len(TURNS) + 1, "forgotten": 1, "left": left})


async def ask_as_other_user(memory: AsyncAgentMemory) -> Step:
    """The same question by a user who has told nothing."""
    question = "Where does Alice live?"
    found = (await memory.remember(question)).items
    return Step(f"Another user, {OTHER_USER}, in the same file", (("asks", question), ("finds", _join(found))))


async def _store_and_ask(memory: AsyncAgentMemory, clock: StoryClock) -> Step:
    await memory.store_turns([{"role": "user", "content": text} for text in TURNS])
    await memory.consolidate()
    question = "What must the chef avoid?"
    best = (await memory.remember(question, include=["episodic"])).items[0]
    said = tuple(("says", text) for text in TURNS)
    day = f"{clock.now():%d %B %Y}: Alice tells her agent something, and asks in other words"
    return Step(day, (*said, ("asks", question), ("finds", f"{best.text}  [{best.why}]")))


async def _change_home(memory: AsyncAgentMemory) -> Step:
    await memory.store_turn(NEWS)
    await memory.consolidate()
    question = "Where do I live?"
    found = (await memory.remember(question, include=["episodic"])).items[:2]
    lines = [("finds", f"{hit.text}  [{hit.standing}]") for hit in found]
    return Step(f"{START + MOVE:%d %B %Y}: something changes", (("says", NEWS), ("asks", question), *lines))


async def _correct_allergy(memory: AsyncAgentMemory) -> Step:
    (slot,) = await memory.beliefs("user", "allergies")
    await memory.semantic.supersede_fact(slot.current[0].id, CORRECTION, is_correction=True)
    lines = [("corrects", f"{CORRECTION}, and always was")]
    for question, moment in (
        ("What is true now?", {}),
        ("What was true in March?", {"as_of": MARCH}),
        ("What did you believe in March?", {"known_at": MARCH}),
    ):
        slots = await memory.beliefs("user", **moment)
        held = sorted((slot.slot, ", ".join(fact.value for fact in slot.current)) for slot in slots)
        lines += [("asks", question), ("answers", "; ".join(f"{name}: {value}" for name, value in held if value))]
    return Step("A mistake is corrected, and no history is lost", tuple(lines))


async def _explain_home(memory: AsyncAgentMemory) -> Step:
    (slot,) = await memory.beliefs("user", "home")
    fact = slot.current[0]
    (turn,) = await memory.semantic.provenance(fact.id)
    why = f'{slot.slot}: {fact.value}, because Alice said "{turn.content}" on {turn.timestamp:%d %B %Y}'
    return Step("Why do you believe that?", (("answers", why),))


async def _forget_code(memory: AsyncAgentMemory) -> Step:
    question = "What is my locker code?"
    turn = (await memory.remember(question, include=["episodic"])).items[0].record
    receipt = await memory.forget(turn.id, hard=True)
    assert receipt.scan is not None, "a hard forget scans for leftovers"
    proof = f"{pluralize(len(receipt.scan.checked), 'place')} searched, {len(receipt.scan.leftovers)} leftovers"
    left = [hit for hit in (await memory.remember(question)).items if "4711" in hit.text]
    return Step(
        "Forget, with proof", (("forgets", f"{TURNS[3]}  [{proof}]"), ("asks", question), ("finds", _join(left)))
    )


def _join(found: Iterable[Any]) -> str:
    return "; ".join(hit.text for hit in found) or "nothing"


def render_story(story: Story, file: str, next_steps: Iterable[str]) -> str:
    """The story as text, at most 40 lines of at most 100 characters."""
    lines = []
    for step in story.steps:
        lines.append(bold(step.title))
        for verb, text in step.lines:
            answer = verb in {"finds", "answers"}
            lines.append(dim(f"  {verb:>8}  ") + (colorize(text, "green") if answer else text))
    counts = story.counts
    summed = f"{counts['stored']} turns stored - {counts['forgotten']} forgotten = {counts['left']} left"
    return "\n".join([*lines, bold(f"{summed}, in one file: ") + file, *(dim(line) for line in next_steps)])
