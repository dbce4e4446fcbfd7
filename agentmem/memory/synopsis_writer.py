"""A synopsis worded by a language model. Its reply is data: what does not rest on the records it names is dropped."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import BaseModel

from agentmem.core.record import Key
from agentmem.core.records import Fact, Goal, SynopsisSentence, User
from agentmem.errors import ModelUnavailable
from agentmem.memory.synopsis_sources import (
    MAX_SENTENCE_CHARS,
    SynopsisSources,
    belief_sentences,
    fit_to_budget,
    identity_sentences,
    render_claim,
    render_date,
    render_goal,
    truncate,
)
from agentmem.models.protocols import LLMRequest
from agentmem.models.structured_llm import StructuredLLM
from agentmem.text.templates import load_templates
from agentmem.text.tokenizer import estimate_tokens, tokenize

PURPOSE = "synopsis"
MAX_REPLY_TOKENS = 2_000  # of a reply
MAX_PROMPT_TOKENS = 6_000  # tokens of records that a model is shown
MAX_SENTENCES = 40  # sentences of a tier that are looked at
MAX_LABELS = 30  # of a sentence
_LABEL = re.compile(r"\[?\b[BFGP]\d+\b\]?")
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_NUMBER = re.compile(r"\d+")
_NEGATION = re.compile(r"\b(?:no|not|never|none|without|cannot|nobody|nothing)\b|n['’]t\b", re.IGNORECASE)
_USER_TERMS = frozenset(tokenize("user person they their"))


class SynopsisReplySentence(BaseModel):
    """One sentence of a reply, and the labels of the records that it rests on."""

    text: str
    labels: list[str]


class SynopsisReply(BaseModel):
    """What a model is asked for."""

    identity: list[SynopsisReplySentence]
    context: list[SynopsisReplySentence]


class LLMSynopsis(NamedTuple):
    """What came of asking: sentences by tier, and every record that the model was shown."""

    sentences: Mapping[str, list[SynopsisSentence]]
    shown: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class PromptRecord:
    """An input of the model: its text, and the records that it represents."""

    text: str
    keys: tuple[Key, ...]


@dataclass
class PromptSheet:
    """The records by label, as they are shown, as many as there is room for."""

    records: dict[str, PromptRecord] = field(default_factory=dict)
    data: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    remaining_tokens: int = MAX_PROMPT_TOKENS

    @classmethod
    def from_sources(cls, sources: SynopsisSources) -> PromptSheet:
        """What is known, as sentences with labels; what matters most first."""
        sheet = cls()
        for letter, name, sentences in (
            ("P", "profile", [each for each in identity_sentences(sources) if _kinds(each) == {User.__name__}]),
            ("G", "goals", [_build_sentence(render_goal(goal), goal) for goal in sources.goals]),
            ("B", "beliefs", belief_sentences(sources.beliefs)),
            ("F", "facts", [_build_sentence(_render_dated_claim(fact), fact) for fact in _list_facts(sources)]),
        ):
            for sentence in sentences:
                sheet._add(letter, name, sentence)
        return sheet

    def _add(self, letter: str, name: str, sentence: SynopsisSentence) -> None:
        cost = estimate_tokens(sentence.text) + 8
        if cost <= self.remaining_tokens:
            self.remaining_tokens -= cost
            rows = self.data.setdefault(name, [])
            label = f"{letter}{len(rows) + 1}"
            rows.append({"label": label, "text": sentence.text})
            self.records[label] = PromptRecord(sentence.text, sentence.grounds)

    def shown_keys(self) -> tuple[Key, ...]:
        """Every record that is on it."""
        return tuple(dict.fromkeys(key for told in self.records.values() for key in told.keys))


async def generate_synopsis(
    sources: SynopsisSources, llm: StructuredLLM, token_budgets: Mapping[str, int], deadline: float | None
) -> LLMSynopsis:
    """Ask for both tiers, each of at most so many tokens.

    Raises ModelUnavailable, after `deadline` seconds too, and what the asker raises.
    """
    sheet = PromptSheet.from_sources(sources)
    request = LLMRequest(
        PURPOSE,
        load_templates("agentmem.memory", "synopsis.md")["system"],
        json.dumps(sheet.data, ensure_ascii=False),
        max_tokens=MAX_REPLY_TOKENS,
        temperature=0.2,
    )
    try:
        async with asyncio.timeout(deadline):
            reply = await llm.ask(request, SynopsisReply)
    except TimeoutError as error:
        raise ModelUnavailable(f"{PURPOSE}: no answer within {deadline:g} s") from error
    found = {
        name: ground_sentences(getattr(reply, name)[:MAX_SENTENCES], sheet.records) for name in ("identity", "context")
    }
    return LLMSynopsis(
        {name: fit_to_budget(kept, token_budgets[name], estimate_tokens) for name, kept in found.items()},
        sheet.shown_keys(),
    )


def ground_sentences(
    sentences: Sequence[SynopsisReplySentence], records: Mapping[str, PromptRecord]
) -> list[SynopsisSentence]:
    """The sentences that rest on what they name: known labels, and no name, number or denial that is not there."""
    kept = []
    for each in sentences:
        labels = list(dict.fromkeys(label.strip("[] ") for label in each.labels))
        text = " ".join(_LABEL.sub(" ", each.text).split()).lstrip("#->* ")
        if not labels or len(labels) > MAX_LABELS or any(label not in records for label in labels):
            continue
        grounds = [records[label] for label in labels]
        if 3 <= len(text) <= MAX_SENTENCE_CHARS and is_grounded_in(text, [each.text for each in grounds]):
            keys = tuple(dict.fromkeys(key for each in grounds for key in each.keys))
            kept.append(SynopsisSentence(text=text, grounds=keys))
    return kept


def is_grounded_in(text: str, grounds: Sequence[str]) -> bool:
    """Whether a sentence has no number, name or denial that its grounds lack, and says something that they say."""
    said = " . ".join(grounds)
    words, given = set(tokenize(text)) - _USER_TERMS, set(tokenize(said)) | _USER_TERMS
    numbers = set(_NUMBER.findall(text)) <= set(_NUMBER.findall(said))
    names = all(set(tokenize(name)) <= given for name in _find_names(text))
    denied = [bool(_NEGATION.search(ground)) for ground in grounds]
    sides = any(denied) if _NEGATION.search(text) else not all(denied)
    return numbers and names and sides and bool(words & given)


def _find_names(text: str) -> list[str]:
    """Words with a capital letter that begin no sentence."""
    found = [(match[0], text[: match.start()].rstrip(' "“«(')) for match in _WORD.finditer(text)]
    return [name for name, before in found if name[0].isupper() and before and before[-1] not in ".!?:"]


def _list_facts(sources: SynopsisSources) -> list[Fact]:
    return [*sources.about_user, *sources.preferences, *sources.recent_facts, *sources.about_others]


def _render_dated_claim(fact: Fact) -> str:
    since = f" (since {render_date(fact.valid_from)})" if fact.valid_from else ""
    return f"{render_claim(fact)}{since}"


def _build_sentence(text: str, record: Fact | Goal) -> SynopsisSentence:
    return SynopsisSentence(text=truncate(text), grounds=(record.key,))


def _kinds(sentence: SynopsisSentence) -> set[str]:
    return {kind for kind, _ in sentence.grounds}
