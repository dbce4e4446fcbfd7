"""The stories about what is true now: their data is well formed, and a short run of them gives figures."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.benchmarks.now_stories import (
    CONTROLS,
    NowScores,
    NowStory,
    StoryAnswer,
    _count_false_marks,
    _is_misleading,
    holds,
    list_failures,
    load_everyday,
    load_stories,
    play_stories,
    render,
)

STORIES = load_stories()
CHANGE = NowStory("a", "now", "same", "home", [], "Where do I live?", ["Oslo"], ["Bergen"])


def test_there_are_enough_stories_of_each_kind_and_form() -> None:
    kinds = Counter(story.kind for story in STORIES)
    forms = Counter(story.form for story in STORIES if story.kind == "now")
    assert set(kinds) == {"now", *CONTROLS}
    assert kinds["now"] >= 104
    assert min(kinds[kind] for kind in CONTROLS) >= 20
    assert sum(kinds[kind] for kind in CONTROLS) >= 104
    assert forms["third"] >= 15
    assert min(forms[language] for language in ("german", "spanish", "french", "portuguese")) >= 6
    assert len({story.id for story in STORIES}) == len(STORIES)


def test_every_turn_of_a_story_tells_one_of_the_two() -> None:
    for story in STORIES:
        told = [(holds(text, story.right), holds(text, story.wrong)) for _, text in story.turns]
        days = [day for day, _ in story.turns]
        assert set(told) == {(True, False), (False, True)}, story
        assert not holds(story.question, story.right), story
        assert days == sorted(set(days)), story
        if story.kind == "now":
            assert [is_right for is_right, _ in told].index(True) == len(told) - 1, story


def test_everyday_sentences_share_no_word_with_answers() -> None:
    everyday = load_everyday()
    words = set(re.findall(r"\w+", " ".join(everyday).lower()))
    answers = {each for story in STORIES for each in (*story.right, *story.wrong)}
    assert len(everyday) == 24
    assert not words & {word for each in answers for word in re.findall(r"\w{3,}", each.lower())}


@pytest.mark.parametrize(
    "lines, misleads",
    [
        (["I live in Bergen.", "I moved to Oslo."], True),
        (["I live in Bergen."], True),
        (["home: Oslo (before: Bergen)", "I live in Bergen."], False),
        (["I live in Bergen. [outdated since 10 Jun 2026]", "I moved to Oslo."], False),
        (["The soup was salty."], False),
    ],
)
def test_a_context_misleads_with_the_outdated_above_or_alone(lines: list[str], misleads: bool) -> None:
    assert _is_misleading(CHANGE, lines) is misleads


def test_marks_on_what_is_still_true_are_false() -> None:
    marked = ["I live in Bergen.", "I moved to Oslo."]
    assert _count_false_marks(CHANGE, marked) == 1
    assert _count_false_marks(NowStory("b", "both", "same", "kin", [], "", ["Oslo"], ["Bergen"]), marked) == 2
    assert _count_false_marks(NowStory("c", "past", "same", "home", [], "", ["Bergen"], ["Oslo"]), marked) == 0


async def test_a_run_gives_figures_and_lists_what_was_wrong(tmp_path: Path) -> None:
    chosen = [next(story for story in STORIES if story.kind == kind) for kind in ("now", "past", "both")]
    scores = await play_stories(tmp_path, chosen)
    assert [len(scores.answers[moment]) for moment in ("before", "after", "context")] == [3, 3, 3]
    assert all(each.first for each in scores.answers["after"])
    assert "first tells what is true now" in render(scores)
    wrong = NowScores({"before": [StoryAnswer(CHANGE, "I live in Bergen.")]})
    assert (wrong.share_right("before", "now"), wrong.share_outdated("before")) == (0, 1)
    assert list_failures(wrong) == ["before  a              Where do I live? -> 'I live in Bergen.', not Oslo"]


async def test_most_first_hits_tell_what_is_true_now(tmp_path: Path) -> None:
    scores = await play_stories(tmp_path, STORIES[::8], consolidate=False)
    assert scores.share_right("before", "now") >= 0.75
    assert scores.share_right("before", *CONTROLS) >= 0.85


@pytest.mark.nightly
async def test_all_stories_keep_their_figures(tmp_path: Path) -> None:
    scores = await play_stories(tmp_path, STORIES)
    for moment in ("before", "after"):
        assert scores.share_right(moment, "now") >= 0.85
        assert scores.share_right(moment, *CONTROLS) >= 0.9
        assert scores.false_marks(moment) == 0
    assert scores.share_misleading(known_only=True) <= 0.02
    assert scores.false_marks("context") == 0
