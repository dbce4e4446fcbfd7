"""A synopsis worded by a language model. Its reply is data: what does not rest on the records it names is dropped."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import BaseModel

from agentmem.errors import ModelUnavailable
from agentmem.memory.synopsis_material import (
    LONGEST,
    Material,
    claim_text,
    context_of,
    cut,
    day,
    fitting,
    goal_text,
    identity_of,
)
from agentmem.model.records import Fact, Goal, Key, User
from agentmem.model.synopsis import Sentence
from agentmem.providers import LLMRequest
from agentmem.providers.asking import Asker
from agentmem.text.blocks import load_blocks
from agentmem.text.tokens import quarter
from agentmem.text.words import terms

PURPOSE = "synopsis"
TOKENS = 2_000  # of a reply
SHOWN = 6_000  # tokens of records that a model is shown
MOST = 40  # sentences of a tier that are looked at
MOST_LABELS = 30  # of a sentence
_LABEL = re.compile(r"\[?\b[FGTP]\d+\b\]?")
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_NUMBER = re.compile(r"\d+")
_DENIES = re.compile(r"\b(?:no|not|never|none|without|cannot|nobody|nothing)\b|n['’]t\b", re.IGNORECASE)
_OF_THE_USER = frozenset(terms("user person they their"))


class Said(BaseModel):
    """One sentence of a reply, and the labels of the records that it rests on."""

    text: str
    labels: list[str]


class Reply(BaseModel):
    """What a model is asked for."""

    identity: list[Said]
    context: list[Said]


class Written(NamedTuple):
    """What came of asking: sentences by tier, and every record that the model was shown."""

    sentences: Mapping[str, list[Sentence]]
    shown: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """Something that the model is told: what it says, and the records that it stands for."""

    text: str
    keys: tuple[Key, ...]


@dataclass
class Sheet:
    """The records by label, as they are shown, as many as there is room for."""

    told: dict[str, Told] = field(default_factory=dict)
    data: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    room: int = SHOWN

    @classmethod
    def of(cls, material: Material) -> Sheet:
        """What is known, as sentences with labels; what matters most first."""
        sheet = cls()
        for letter, name, sentences in (
            ("P", "profile", [each for each in identity_of(material) if _kinds(each) == {User.__name__}]),
            ("G", "goals", [_sentence(goal_text(goal), goal) for goal in material.goals]),
            ("F", "facts", [_sentence(_dated(fact), fact) for fact in _facts(material)]),
            ("T", "talks", [each for each in context_of(material) if _kinds(each) == {"Turn"}]),
        ):
            for sentence in sentences:
                sheet._add(letter, name, sentence)
        return sheet

    def _add(self, letter: str, name: str, sentence: Sentence) -> None:
        cost = quarter(sentence.text) + 8
        if cost <= self.room:
            self.room -= cost
            rows = self.data.setdefault(name, [])
            label = f"{letter}{len(rows) + 1}"
            rows.append({"label": label, "text": sentence.text})
            self.told[label] = Told(sentence.text, sentence.grounds)

    def shown(self) -> tuple[Key, ...]:
        """Every record that is on it."""
        return tuple(dict.fromkeys(key for told in self.told.values() for key in told.keys))


async def written(material: Material, asker: Asker, rooms: Mapping[str, int], deadline: float | None) -> Written:
    """Ask for both tiers, each of at most so many tokens.

    Raises ModelUnavailable, after `deadline` seconds too, and what the asker raises.
    """
    sheet = Sheet.of(material)
    request = LLMRequest(
        PURPOSE, load_blocks("agentmem.memory", "synopsis.md")["system"], json.dumps(sheet.data, ensure_ascii=False),
        max_tokens=TOKENS, temperature=0.2,
    )  # fmt: skip
    try:
        async with asyncio.timeout(deadline):
            reply = await asker.ask(request, Reply)
    except TimeoutError as error:
        raise ModelUnavailable(f"{PURPOSE}: no answer within {deadline:g} s") from error
    found = {name: grounded(getattr(reply, name)[:MOST], sheet.told) for name in ("identity", "context")}
    return Written({name: fitting(kept, rooms[name], quarter) for name, kept in found.items()}, sheet.shown())


def grounded(said: Sequence[Said], told: Mapping[str, Told]) -> list[Sentence]:
    """The sentences that rest on what they name: known labels, and no name, number or denial that is not there."""
    kept = []
    for each in said:
        labels = list(dict.fromkeys(label.strip("[] ") for label in each.labels))
        text = " ".join(_LABEL.sub(" ", each.text).split()).lstrip("#->* ")
        if not labels or len(labels) > MOST_LABELS or any(label not in told for label in labels):
            continue
        grounds = [told[label] for label in labels]
        if 3 <= len(text) <= LONGEST and rests_on(text, [each.text for each in grounds]):
            keys = tuple(dict.fromkeys(key for each in grounds for key in each.keys))
            kept.append(Sentence(text=text, grounds=keys))
    return kept


def rests_on(text: str, grounds: Sequence[str]) -> bool:
    """Whether a sentence has no number, name or denial that its grounds lack, and says something that they say."""
    said = " . ".join(grounds)
    words, given = set(terms(text)) - _OF_THE_USER, set(terms(said)) | _OF_THE_USER
    numbers = set(_NUMBER.findall(text)) <= set(_NUMBER.findall(said))
    names = all(set(terms(name)) <= given for name in _names(text))
    denied = [bool(_DENIES.search(ground)) for ground in grounds]
    sides = any(denied) if _DENIES.search(text) else not all(denied)
    return numbers and names and sides and bool(words & given)


def _names(text: str) -> list[str]:
    """Words with a capital letter that begin no sentence."""
    found = [(match[0], text[: match.start()].rstrip(' "“«(')) for match in _WORD.finditer(text)]
    return [name for name, before in found if name[0].isupper() and before and before[-1] not in ".!?:"]


def _facts(material: Material) -> list[Fact]:
    return [*material.about, *material.preferences, *material.lately, *material.others]


def _dated(fact: Fact) -> str:
    since = f" (since {day(fact.valid_from)})" if fact.valid_from else ""
    return f"{claim_text(fact)}{since}"


def _sentence(text: str, record: Fact | Goal) -> Sentence:
    return Sentence(text=cut(text), grounds=(record.key,))


def _kinds(sentence: Sentence) -> set[str]:
    return {kind for kind, _ in sentence.grounds}
