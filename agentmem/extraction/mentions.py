"""Who was spoken of around a turn: by name, or by a word for what somebody is to the user, such as "mum"."""

from __future__ import annotations

import re
from functools import cache

from agentmem.beliefs.slots import PEOPLE_SLOTS, USER_SUBJECT
from agentmem.core.records import Turn
from agentmem.extraction.drafts import Window
from agentmem.extraction.frames.frame_set import LANGUAGES, load_frames

_TURNS_BEFORE = 6  # in which somebody was named whom a pronoun, or words without a subject, may mean
_MORE_RELATION_WORDS = {
    "partner": r"married|marry\w*|dating|engaged|seeing|wedding",
    "boss": r"reports? to|reporting to|works? under",
    "pets": r"adopted|puppy|pup|kitten|pets?|dogs|cats|rabbits|horses|schildkröte|kaninchen|wellensittich|tortuga"
    r"|conejo|loro|tortue|lapin|perroquet|tartaruga|coelho|papagaio",
    "friends": r"friends|mates|marra|pals?|budd(?:y|ies)|besties?|amis|amies|amig[oa]s|freunde",
    "children": r"kids|children|bairns|sons|daughters|boys|girls|gave birth|enfants?|kinder|kind|hij[oa]s|filh[oa]s",
    "siblings": r"sisters|brothers|siblings|twins|geschwister|herman[oa]s|frères|s\u0153urs|irm\u00e3os|irm\u00e3s",
    "parents": r"parents|eltern|padres|pais",
    "landlord": r"rent(?:ing)?|proprio|hausbesitzer\w*",
}


@cache
def relation_words(slot: str) -> str:
    """A pattern of the words of all languages for somebody of a slot ("sister", "Schwester"); breeds for pets."""
    words: set[str] = set()
    for language in LANGUAGES:
        frames = load_frames(language)
        words.update(noun for noun, kind in frames.nouns.items() if kind == slot)
        words.update(frames.pets if slot == "pets" else ())
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)"


@cache
def group_pattern(slot: str) -> re.Pattern[str]:
    """More words that tell of a relation without naming one person: "kids", "we adopted", "who is she marrying?"."""
    return re.compile(rf"\b(?:{_MORE_RELATION_WORDS.get(slot, '(?!)')})\b")


class Mentions:
    """Names and words for people in the turns of a window and those before it."""

    def __init__(self, window: Window) -> None:
        self._turns = [*window.context_turns, *window.turns]
        self._places = {turn.id: place for place, turn in enumerate(self._turns)}
        known = [fact for fact in window.known_facts if fact.subject == USER_SUBJECT and fact.slot in PEOPLE_SLOTS]
        self._slots = {fact.value.casefold(): fact.slot for fact in known}

    def note(self, name: str, slot: str) -> None:
        """Remember that somebody is told to be the user's sister, friend or boss."""
        self._slots.setdefault(name.casefold(), slot)

    def is_spoken_of(self, subject: str, turn: Turn) -> bool:
        """Whether a turn, or one of the few before it, names somebody or says what they are to the user."""
        return any(self.find(subject, text) for text in self._list_around(turn))

    def is_named(self, name: str, turn: Turn) -> bool:
        """Whether a turn, or one of the few before it, has somebody's name."""
        return any(_find_name(name, text) for text in self._list_around(turn))

    def _list_around(self, turn: Turn) -> list[str]:
        place = self._places[turn.id]
        return [each.content.casefold() for each in self._turns[max(0, place - _TURNS_BEFORE) : place + 1]]

    def get_texts(self, turn: Turn) -> str:
        """What was said in a turn and the few before it, in small letters."""
        return " ".join(self._list_around(turn))

    def list_before(self, turn: Turn) -> list[str]:
        """The two turns before what a turn answers, in small letters: they tell whom an answer is about."""
        place = self._places[turn.id]
        return [each.content.casefold() for each in self._turns[max(0, place - 3) : max(0, place - 1)]]

    def find(self, subject: str, text: str) -> re.Match[str] | None:
        """The first word in a text in small letters that means somebody: a part of the name, or "mum"."""
        slot = self._slots.get(subject.casefold(), "")
        kin = rf"\b(?:{relation_words(slot)})(?:'?s)?\b" if slot else "(?!)"
        return _find_name(subject, text) or re.search(kin, text)


def _find_name(name: str, text: str) -> re.Match[str] | None:
    words = "|".join(re.escape(word) for word in re.findall(r"[\w-]{2,}", name.casefold().partition(" (")[0]))
    return re.search(rf"\b(?:{words or '(?!)'})(?:'?s)?\b", text)
