"""`python -m tests.benchmarks.now_stories`: does the first hit tell what is true now, and the past when that is asked?

Each story of `cases/now_stories.jsonl` is stored for a user of its own among the sentences of `cases/now_everyday.txt`
and asked about before and after `consolidate()`. Stories of kind `now` changed in the end. The others are controls:
`past` and `as_of` ask what was, in `both` two things stand side by side, in `still` a turn only looks like a change.
`--wrong` lists the stories whose first hit was wrong. No language model is asked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any

from agentmem import AsyncAgentMemory
from agentmem.core.clock import FrozenClock
from tests.benchmarks.report import render_table

ASKED_AT = datetime(2026, 11, 27, 12, tzinfo=UTC)
FIRST_EVERYDAY, EVERYDAY_GAP = datetime(2026, 1, 5, 18, tzinfo=UTC), timedelta(days=13)
CONTROLS = ("past", "as_of", "both", "still")
UNMARKED_STANDINGS = (None, "", "current")
MARK = re.compile(r"[\[(](?:outdated|planned|in doubt|not known any more)\b", re.IGNORECASE)
DAY_HEADING = re.compile(r"\[\d{1,2} \w+ \d{4}\]$")
TOLD_TURNS = "## Said about this"


@dataclass(frozen=True, slots=True)
class NowStory:
    """Turns by day and a question; a good first hit holds one of `right`, a bad one holds one of `wrong` alone."""

    id: str
    kind: str
    form: str
    about: str
    turns: Sequence[tuple[str, str]]
    question: str
    right: Sequence[str]
    wrong: Sequence[str]

    def is_right(self, text: str) -> bool:
        """Whether a text tells what the question asks for."""
        return holds(text, self.right)

    def is_wrong(self, text: str) -> bool:
        """Whether a text tells the other one, and not what the question asks for."""
        return holds(text, self.wrong) and not self.is_right(text)


@dataclass(frozen=True, slots=True)
class StoryAnswer:
    """What a story got: the text of the first hit, how many marks are false, and what the context does wrong."""

    story: NowStory
    first: str
    false_marks: int = 0
    misleads: bool = False  # the context tells the outdated one, unmarked, above or without the current one
    lists_outdated_first: bool = False  # the same among the turns of the context, whatever beliefs stand above them
    is_known: bool = False  # what is believed tells the current one, and nowhere the outdated one


@dataclass(frozen=True, slots=True)
class NowScores:
    """Answers by moment: "before" and "after" `consolidate()`, and "context" after it."""

    answers: Mapping[str, Sequence[StoryAnswer]]

    def share_right(self, moment: str, *kinds: str, form: str = "") -> float:
        """The share of stories of these kinds (and this form) whose first hit is right."""
        return _share(each.story.is_right(each.first) for each in self._select(moment, kinds, form))

    def share_outdated(self, moment: str) -> float:
        """The share of changes whose first hit tells what was."""
        return _share(each.story.is_wrong(each.first) for each in self._select(moment, ("now",)))

    def false_marks(self, moment: str) -> int:
        """Marks on what is still true."""
        return sum(each.false_marks for each in self.answers.get(moment, ()))

    def share_misleading(self, *, turns_only: bool = False, known_only: bool = False) -> float:
        """The share of changes whose context tells the outdated one, unmarked, above or without the current one.

        `known_only` counts those changes of which a belief knows.
        """
        chosen = [each for each in self._select("context", ("now",)) if each.is_known or not known_only]
        return _share(each.lists_outdated_first if turns_only else each.misleads for each in chosen)

    def share_known(self) -> float:
        """The share of changes of which a belief knows."""
        return _share(each.is_known for each in self._select("context", ("now",)))

    def _select(self, moment: str, kinds: Sequence[str], form: str = "") -> list[StoryAnswer]:
        return [
            each for each in self.answers.get(moment, ()) if each.story.kind in kinds and form in ("", each.story.form)
        ]


def _share(verdicts: Iterable[bool]) -> float:
    found = list(verdicts)
    return sum(found) / len(found) if found else math.nan


def load_stories() -> list[NowStory]:
    """The stories that ship with the tests."""
    found = []
    for line in _read_lines("now_stories.jsonl"):
        case = json.loads(line)
        right, wrong = ("current", "outdated") if case["kind"] == "now" else ("expected", "wrong")
        found.append(
            NowStory(
                **{name: case[name] for name in ("id", "kind", "form", "about", "question")},
                turns=[(turn["day"], turn["text"]) for turn in case["turns"]],
                right=_as_list(case[right]),
                wrong=_as_list(case[wrong]),
            )
        )
    return found


def load_everyday() -> list[str]:
    """The sentences that are stored among the turns of every story."""
    return _read_lines("now_everyday.txt")


def _read_lines(name: str) -> list[str]:
    return resources.files(__package__).joinpath("cases", name).read_text(encoding="utf-8").splitlines()


def _as_list(words: str | list[str]) -> list[str]:
    return [words] if isinstance(words, str) else words


def holds(text: str, words: Iterable[str]) -> bool:
    """Whether one of the words stands in the text as a whole, in any case."""
    return any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text, re.IGNORECASE) for word in words)


def is_marked(line: str) -> bool:
    """Whether a line of a text says of itself that it is outdated, planned, in doubt or not known any more."""
    return MARK.search(line) is not None


def is_marked_hit(hit: Any) -> bool:
    """Whether a hit of `remember` carries a standing other than current."""
    standing = getattr(hit, "standing", None)
    return (getattr(standing, "state", None) or standing) not in UNMARKED_STANDINGS


async def play_stories(home: Path, stories: Sequence[NowStory], *, consolidate: bool = True) -> NowScores:
    """Store and ask each story for a user of its own."""
    answers: dict[str, list[StoryAnswer]] = {"before": []}
    async with AsyncAgentMemory("now", home=home, clock=FrozenClock(ASKED_AT), seed=1) as memory:
        for story in stories:
            own = memory.scoped(user_id=story.id)
            await own.store_turns(_build_turns(story))
            await own.flush()
            answers["before"].append(await _ask(own, story))
            if consolidate:
                while any(report.pending for report in await own.consolidate("consolidate")):
                    pass  # a call reads some of the conversations
                await own.consolidate()
                await own.flush()
                answers.setdefault("after", []).append(await _ask(own, story))
                answers.setdefault("context", []).append(await _read_context(own, story))
    return NowScores(answers)


def _build_turns(story: NowStory) -> list[dict[str, object]]:
    """The turns of the story and everyday ones, by time, each in a conversation of its own."""
    said = [(datetime.fromisoformat(f"{day}T12:00+00:00"), text) for day, text in story.turns]
    said += [(FIRST_EVERYDAY + EVERYDAY_GAP * number, text) for number, text in enumerate(load_everyday())]
    return [
        {"content": text, "timestamp": moment, "conversation_id": f"{moment:%Y-%m-%dT%H}"}
        for moment, text in sorted(said)
    ]


async def _ask(memory: AsyncAgentMemory, story: NowStory) -> StoryAnswer:
    found = await memory.remember(story.question, top_k=10, reinforce=False)
    texts = [hit.record.search_text() for hit in found.items]
    marked = [text for hit, text in zip(found.items, texts, strict=True) if is_marked_hit(hit)]
    return StoryAnswer(story, texts[0] if texts else "", _count_false_marks(story, marked))


async def _read_context(memory: AsyncAgentMemory, story: NowStory) -> StoryAnswer:
    text = str(await memory.context(story.question, reinforce=False))
    lines = [line for line in text.splitlines() if not DAY_HEADING.match(line)]
    turns = lines[lines.index(TOLD_TURNS) :] if TOLD_TURNS in lines else []
    marks = _count_false_marks(story, [line for line in lines if is_marked(line)])
    first = next((line for line in lines if story.is_right(line) or story.is_wrong(line)), "")
    held = [fact.value or fact.claim for state in await memory.beliefs() for fact in state.current]
    is_known = any(map(story.is_right, held)) and not any(map(story.is_wrong, held))
    return StoryAnswer(story, first, marks, _is_misleading(story, lines), _is_misleading(story, turns), is_known)


def _is_misleading(story: NowStory, lines: Sequence[str]) -> bool:
    """Whether an unmarked line tells the outdated one before any line tells the current one."""
    telling = (line for line in lines if story.is_right(line) or (story.is_wrong(line) and not is_marked(line)))
    return story.is_wrong(next(telling, ""))


def _count_false_marks(story: NowStory, marked: Iterable[str]) -> int:
    """Of a change, the marks on the current one; where both things are true, each mark on one of them.

    A line that tells the outdated value in doubt, with the newer words beside it, is marked rightly.
    """
    if story.kind == "now":
        return sum(story.is_right(text) and not holds(text, story.wrong) for text in marked)
    if story.kind in ("both", "still"):
        return sum(story.is_right(text) or (story.kind == "both" and story.is_wrong(text)) for text in marked)
    return 0


def render(scores: NowScores) -> str:
    """All figures as one table, a moment a column."""
    forms = dict.fromkeys(each.story.form for each in scores.answers["before"] if each.story.kind == "now")
    moments = [moment for moment in ("before", "after") if moment in scores.answers]
    rows = {
        "first tells what is true now": [scores.share_right(moment, "now") for moment in moments],
        **{f"  {form}": [scores.share_right(moment, "now", form=form) for moment in moments] for form in forms},
        "outdated first": [scores.share_outdated(moment) for moment in moments],
        "controls right": [scores.share_right(moment, *CONTROLS) for moment in moments],
        **{f"  {kind}": [scores.share_right(moment, kind) for moment in moments] for kind in CONTROLS},
        "false marks on hits": [scores.false_marks(moment) for moment in moments],
    }
    if "context" in scores.answers:
        rows["context: outdated above or alone"] = ["", scores.share_misleading()]
        rows["context: the same among its turns"] = ["", scores.share_misleading(turns_only=True)]
        rows["a belief knows of the change"] = ["", scores.share_known()]
        rows["context: outdated above, where one knows"] = ["", scores.share_misleading(known_only=True)]
        rows["context: its turns, where one knows"] = ["", scores.share_misleading(turns_only=True, known_only=True)]
        rows["context: false marks"] = ["", scores.false_marks("context")]
    return render_table([{"figure": name, **dict(zip(moments, row, strict=True))} for name, row in rows.items()])


def list_failures(scores: NowScores) -> list[str]:
    """A line for each story whose first hit was wrong, by moment."""
    return [
        f"{moment:7} {each.story.id:14} {each.story.question} -> {each.first!r}, not {' or '.join(each.story.right)}"
        for moment in ("before", "after")
        for each in scores.answers.get(moment, ())
        if not each.story.is_right(each.first)
    ]


def main() -> None:
    """Play the stories and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.now_stories", description=__doc__)
    parser.add_argument("--stories", type=int, help="only so many, evenly chosen")
    parser.add_argument("--no-consolidate", action="store_true", help="ask before consolidate() only")
    parser.add_argument("--wrong", action="store_true", help="list the stories whose first hit was wrong")
    given = parser.parse_args()
    stories = load_stories()
    chosen = stories[:: max(1, len(stories) // given.stories)][: given.stories] if given.stories else stories
    with tempfile.TemporaryDirectory() as folder:
        scores = asyncio.run(play_stories(Path(folder), chosen, consolidate=not given.no_consolidate))
    print(render(scores))
    if given.wrong:
        print(*list_failures(scores), sep="\n")


if __name__ == "__main__":
    main()
