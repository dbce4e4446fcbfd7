"""Extraction, measured on cases: what becomes a fact, what waits for a person, and what is refused.

A case is one line of `cases/extraction.jsonl`: turns, what was known, the reply of a model, often a plausible wrong
one, and what must come of it. With a model of one's own the recorded replies are left out and the model is asked: then
the claims that the case wants must be there in other words, and those that it warns of must not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any

from agentmem.core.clock import to_utc
from agentmem.core.lifecycle import DOUBTFUL
from agentmem.core.records import Entity, Fact, Turn
from agentmem.core.scope import self_channel
from agentmem.extraction.drafts import ExtractionDraft, FactDraft, Window
from agentmem.extraction.llm_extractor import PURPOSE_AGENT, ExtractionResult, extract
from agentmem.extraction.said_words import has_words
from agentmem.models.protocols import LLM, LLMReply, LLMRequest
from agentmem.models.structured_llm import Budget, StructuredLLM
from agentmem.text.normalization import claimed_numbers, normalize_claim
from agentmem.text.tokenizer import estimate_tokens, tokenize
from tests.benchmarks.report import count_by_rule

START = datetime(2026, 3, 4, 10, tzinfo=UTC)  # a Wednesday
AGENT_ID = "helper"
MIN_SHARED_TERMS = 0.6
"""The share of a wanted claim's words that another claim needs to stand for it."""


RULE_TAGS = ("slot:", "rule:")  # of what plain rules read


@dataclass(frozen=True, slots=True)
class ExtractionCase:
    """One line of the file.

    `turns` and `before` have `text` and may have `role`, `speaker` and `date`; `facts` are known claims (F1, F2, …),
    `private` those of the agent, which come after them; `entities` known names. `reply` and `agent_reply` are objects,
    or lists of what is answered one after another, texts as they are. `expect` maps claims to fields of their draft,
    known facts by label, `noted` words of the notes that tell why claims were refused. `named` are the entities that
    must come, `related` the relations as "source kind target".
    """

    id: str
    rule: str
    turns: Sequence[Mapping[str, str]]
    reply: Any
    agent_reply: Any = None
    before: Sequence[Mapping[str, str]] = ()
    facts: Sequence[str] = ()
    private: Sequence[str] = ()
    entities: Sequence[str] = ()
    kept: Sequence[str] = ()
    doubted: Sequence[str] = ()
    refused: Sequence[str] = ()
    expect: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    named: Sequence[str] | None = None
    related: Sequence[str] | None = None
    sentences: Mapping[str, str] = field(default_factory=dict)
    failed: int = 0
    noted: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ExtractionCaseResult:
    """What came of a case; `wrong` is empty when all of it was right."""

    case: ExtractionCase
    failures: tuple[str, ...]


class ExtractionCaseLLM:
    """A model that answers what a case has recorded, the last reply again and again."""

    identity = "recorded:case"

    def __init__(self, case: ExtractionCase) -> None:
        self.calls = 0
        self._replies = {False: _as_list(case.reply), True: _as_list(case.agent_reply or {"facts": []})}

    async def complete(self, request: LLMRequest) -> LLMReply:
        """The next reply for the purpose of the request."""
        replies = self._replies[request.purpose == PURPOSE_AGENT]
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        self.calls += 1
        text = reply if isinstance(reply, str) else json.dumps(reply)
        asked = estimate_tokens(request.system + request.content)
        return LLMReply(text, asked, 0, estimate_tokens(text), self.identity)

    async def close(self) -> None:
        """Nothing to let go of."""


def _as_list(reply: Any) -> list[Any]:
    return list(reply) if isinstance(reply, list) else [reply]


def load_cases(path: Path | None = None) -> list[ExtractionCase]:
    """The cases of a file, or those that ship with the package."""
    shipped = resources.files(__package__).joinpath("cases", "extraction.jsonl")
    text = (path or shipped).read_text(encoding="utf-8")
    return [ExtractionCase(**json.loads(line)) for line in text.splitlines()]


async def run_extraction(
    path: Path | None = None,
    llm: LLM | None = None,
    *,
    budget: Budget | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[ExtractionCaseResult]:
    """Play the cases on their recorded replies, or on those of `llm`, whose use is counted in `budget`.

    Raises what `extract` raises; nothing is stored anywhere.
    """
    cases, verdicts = load_cases(path), list[ExtractionCaseResult]()
    account = budget or Budget()
    for case in cases:
        read = await extract(build_window(case), StructuredLLM(llm or ExtractionCaseLLM(case), account))
        wrong = _find_failures(case, read) if llm is None else _find_paraphrase_failures(case, read.draft)
        verdicts.append(ExtractionCaseResult(case, tuple(wrong)))
        if progress is not None:
            progress(len(verdicts), len(cases))
    return verdicts


def build_window(case: ExtractionCase) -> Window:
    """The window that a case describes; ids are `turn-1`, `before-1`, `fact-1`, …"""
    known = [Fact(id=f"fact-{n}", claim=claim) for n, claim in enumerate(case.facts, 1)]
    known += [
        Fact(id=f"fact-{n}", claim=claim, channel=self_channel(AGENT_ID), subject="agent")
        for n, claim in enumerate(case.private, len(known) + 1)
    ]
    turns, before = _build_turns("turn", case.turns), _build_turns("before", case.before)
    speakers = dict.fromkeys(turn.speaker for turn in (*before, *turns) if turn.speaker)
    return Window(
        conversation_id="case",
        channel="_global",
        turns=turns,
        context_turns=before,
        known_facts=tuple(known),
        known_entities=tuple(Entity(id=f"entity-{n}", name=name) for n, name in enumerate(case.entities, 1)),
        participants=tuple(speakers),
        agent_id=AGENT_ID,
    )


def _build_turns(name: str, given: Sequence[Mapping[str, str]]) -> tuple[Turn, ...]:
    moments = [
        to_utc(datetime.fromisoformat(turn["date"])) if "date" in turn else START + timedelta(minutes=n)
        for n, turn in enumerate(given)
    ]
    return tuple(
        Turn(
            id=f"{name}-{n}",
            conversation_id="case",
            index=n,
            timestamp=moment,
            content=turn["text"],
            role=turn.get("role", "user"),
            speaker=turn.get("speaker"),
        )
        for n, (turn, moment) in enumerate(zip(given, moments, strict=True), 1)
    )


def _find_failures(case: ExtractionCase, result: ExtractionResult) -> Iterator[str]:
    drafts = {draft.claim: draft for draft in result.draft.facts}
    told = [claim for claim, draft in drafts.items() if not draft.review_reason and draft.certainty != DOUBTFUL]
    doubted = [claim for claim, draft in drafts.items() if draft.review_reason]
    by_rules = {claim for claim, draft in drafts.items() if any(tag.startswith(RULE_TAGS) for tag in draft.tags)}
    for claim in (*(set(case.kept) - set(told)), *(set(told) - by_rules - set(case.kept))):
        yield f"kept should be {sorted(case.kept)}, is {sorted(told)}: {claim}"
    if sorted(case.doubted) != sorted(doubted):
        yield f"doubted should be {sorted(case.doubted)}, is {sorted(doubted)}"
    for claim in case.refused:
        if claim in told:
            yield f"{claim!r} should not be told"
    for reason in case.noted:
        if not any(reason in note for note in result.draft.notes):
            yield f"{reason!r} should be noted, notes are {result.draft.notes}"
    for claim, fields in case.expect.items():
        yield from _find_field_failures(claim, fields, drafts.get(claim))
    yield from _find_other_failures(case, result)


def _find_other_failures(case: ExtractionCase, result: ExtractionResult) -> Iterator[str]:
    """What is wrong beside the facts: entities, relations, sentences, and turns that failed."""
    named = [entity.name for entity in result.draft.entities]
    if case.named is not None and sorted(case.named) != sorted(named):
        yield f"entities should be {sorted(case.named)}, are {sorted(named)}"
    related = [f"{each.source} {each.kind} {each.target}" for each in result.draft.relations]
    if case.related is not None and sorted(case.related) != sorted(related):
        yield f"relations should be {sorted(case.related)}, are {sorted(related)}"
    sentences = {gloss.turn_id: gloss.standalone for gloss in result.draft.summaries}
    for label, sentence in case.sentences.items():
        if sentences.get(_resolve_label(label)) != sentence:
            yield f"{label} should be told as {sentence!r}, is as {sentences.get(_resolve_label(label))!r}"
    if case.failed and len(result.failed) != case.failed:
        yield f"{case.failed} turns should fail, {len(result.failed)} do"


def _find_field_failures(claim: str, fields: Mapping[str, Any], draft: FactDraft | None) -> Iterator[str]:
    for name, wanted in fields.items():
        found = getattr(draft, name, None)
        if isinstance(found, datetime):
            found = found.date().isoformat()
        if isinstance(found, tuple):
            found = list(found)
        by_id = [_resolve_label(each) for each in wanted] if isinstance(wanted, list) else _resolve_label(wanted)
        right = str(wanted) in (found or "") if name == "review_reason" else found in (wanted, by_id)
        if not right:
            yield f"{name} of {claim!r} should be {wanted!r}, is {found!r}"


def _resolve_label(label: Any) -> Any:
    """The id behind a label such as F1 or T2; anything else as it is."""
    kinds = {"F": "fact", "T": "turn"}
    is_label = isinstance(label, str) and label[:1] in kinds and label[1:].isdecimal()
    return f"{kinds[label[0]]}-{label[1:]}" if is_label else label


def _find_paraphrase_failures(case: ExtractionCase, draft: ExtractionDraft) -> Iterator[str]:
    """For replies that nobody recorded: wanted claims are there in other words, claims warned of are not."""
    kept = [fact.claim for fact in draft.facts if not fact.review_reason]
    for claim in case.kept:
        if not any(is_paraphrase(claim, found) for found in kept):
            yield f"{claim!r} should be kept, kept are {kept}"
    for claim in (*case.doubted, *case.refused):
        if any(is_paraphrase(claim, found) for found in kept) and not any(
            is_paraphrase(claim, wanted) for wanted in case.kept
        ):
            yield f"{claim!r} should not be kept"


def is_paraphrase(wanted: str, found: str) -> bool:
    """Whether one claim says what another does: the same numbers, the same polarity, and most of its words."""
    if normalize_claim(wanted) == normalize_claim(found):
        return True
    words = set(tokenize(wanted))
    shared = len(words & set(tokenize(found)))
    same = claimed_numbers(wanted) == claimed_numbers(found) and has_words(wanted, "negation") == has_words(
        found, "negation"
    )
    return same and bool(words) and shared >= MIN_SHARED_TERMS * len(words)


def build_table(results: Sequence[ExtractionCaseResult]) -> list[dict[str, object]]:
    """A row for each rule, and one for all: cases and how many were right."""
    return count_by_rule([(verdict.case.rule, not verdict.failures) for verdict in results])
