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

from agentmem.bench.report import by_rule
from agentmem.extraction import Draft, FactDraft, Window
from agentmem.extraction.clauses import denies
from agentmem.extraction.figures import numbers_claimed
from agentmem.extraction.llm import PURPOSE_AGENT, Read, extract
from agentmem.model.clock import aware
from agentmem.model.records import Entity, Fact, Turn
from agentmem.model.scope import self_channel
from agentmem.providers import LLM, LLMReply, LLMRequest, estimated_tokens
from agentmem.providers.asking import Asker, Spending
from agentmem.text.names import normalised_claim
from agentmem.text.words import terms

START = datetime(2026, 3, 4, 10, tzinfo=UTC)  # a Wednesday
AGENT = "helper"
ALIKE = 0.6
"""The share of a wanted claim's words that another claim needs to stand for it."""


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the file.

    `turns` and `before` have `text` and may have `role`, `speaker` and `date`; `facts` are known claims (F1, F2, …),
    `private` those of the agent, which come after them; `entities` known names. `reply` and `agent_reply` are objects,
    or lists of what is answered one after another, texts as they are. `expect` maps claims to fields of their draft,
    known facts by label. `named` are the entities that must come, `related` the relations as "source kind target".
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a case; `wrong` is empty when all of it was right."""

    case: Case
    wrong: tuple[str, ...]


class Recorded:
    """A model that answers what a case has recorded, the last reply again and again."""

    identity = "recorded:case"

    def __init__(self, case: Case) -> None:
        self.calls = 0
        self._replies = {False: _listed(case.reply), True: _listed(case.agent_reply or {"facts": []})}

    async def complete(self, request: LLMRequest) -> LLMReply:
        """The next reply for the purpose of the request."""
        replies = self._replies[request.purpose == PURPOSE_AGENT]
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        self.calls += 1
        text = reply if isinstance(reply, str) else json.dumps(reply)
        asked = estimated_tokens(request.system + request.content)
        return LLMReply(text, asked, 0, estimated_tokens(text), self.identity)

    async def close(self) -> None:
        """Nothing to let go of."""


def _listed(reply: Any) -> list[Any]:
    return list(reply) if isinstance(reply, list) else [reply]


def read_cases(path: Path | None = None) -> list[Case]:
    """The cases of a file, or those that ship with the package."""
    shipped = resources.files(__package__).joinpath("cases", "extraction.jsonl")
    text = (path or shipped).read_text(encoding="utf-8")
    return [Case(**json.loads(line)) for line in text.splitlines()]


async def run_extraction(
    path: Path | None = None, llm: LLM | None = None, *, spending: Spending | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Verdict]:  # fmt: skip
    """Play the cases on their recorded replies, or on those of `llm`, whose use is counted in `spending`.

    Raises what `extract` raises; nothing is stored anywhere.
    """
    cases, verdicts = read_cases(path), list[Verdict]()
    account = spending or Spending()
    for case in cases:
        read = await extract(window_of(case), Asker(llm or Recorded(case), account))
        wrong = _wrong(case, read) if llm is None else _wrong_in_other_words(case, read.draft)
        verdicts.append(Verdict(case, tuple(wrong)))
        if progress is not None:
            progress(len(verdicts), len(cases))
    return verdicts


def window_of(case: Case) -> Window:
    """The window that a case describes; ids are `turn-1`, `before-1`, `fact-1`, …"""
    known = [Fact(id=f"fact-{n}", claim=claim) for n, claim in enumerate(case.facts, 1)]
    known += [
        Fact(id=f"fact-{n}", claim=claim, channel=self_channel(AGENT), subject="agent")
        for n, claim in enumerate(case.private, len(known) + 1)
    ]
    turns, before = _turns("turn", case.turns), _turns("before", case.before)
    speakers = dict.fromkeys(turn.speaker for turn in (*before, *turns) if turn.speaker)
    return Window(
        conversation_id="case", channel="_global", turns=turns, before=before, facts=tuple(known),
        entities=tuple(Entity(id=f"entity-{n}", name=name) for n, name in enumerate(case.entities, 1)),
        participants=tuple(speakers), agent_id=AGENT,
    )  # fmt: skip


def _turns(name: str, given: Sequence[Mapping[str, str]]) -> tuple[Turn, ...]:
    moments = [
        aware(datetime.fromisoformat(turn["date"])) if "date" in turn else START + timedelta(minutes=n)
        for n, turn in enumerate(given)
    ]
    return tuple(
        Turn(
            id=f"{name}-{n}", conversation_id="case", index=n, timestamp=moment, content=turn["text"],
            role=turn.get("role", "user"), speaker=turn.get("speaker"),
        )
        for n, (turn, moment) in enumerate(zip(given, moments, strict=True), 1)
    )  # fmt: skip


def _wrong(case: Case, read: Read) -> Iterator[str]:
    drafts = {draft.claim: draft for draft in read.draft.facts}
    kept = [claim for claim, draft in drafts.items() if not draft.doubt]
    doubted = [claim for claim, draft in drafts.items() if draft.doubt]
    for name, wanted, found in (("kept", case.kept, kept), ("doubted", case.doubted, doubted)):
        if sorted(wanted) != sorted(found):
            yield f"{name} should be {sorted(wanted)}, is {sorted(found)} {[drafts[claim].doubt for claim in found]}"
    for claim in case.refused:
        if claim in drafts:
            yield f"{claim!r} should be refused"
    for claim, fields in case.expect.items():
        yield from _wrong_fields(claim, fields, drafts.get(claim))
    yield from _wrong_rest(case, read)


def _wrong_rest(case: Case, read: Read) -> Iterator[str]:
    """What is wrong beside the facts: entities, relations, sentences, and turns that failed."""
    named = [entity.name for entity in read.draft.entities]
    if case.named is not None and sorted(case.named) != sorted(named):
        yield f"entities should be {sorted(case.named)}, are {sorted(named)}"
    related = [f"{each.source} {each.kind} {each.target}" for each in read.draft.relations]
    if case.related is not None and sorted(case.related) != sorted(related):
        yield f"relations should be {sorted(case.related)}, are {sorted(related)}"
    sentences = {gloss.turn_id: gloss.standalone for gloss in read.draft.glosses}
    for label, sentence in case.sentences.items():
        if sentences.get(_id_of(label)) != sentence:
            yield f"{label} should be told as {sentence!r}, is as {sentences.get(_id_of(label))!r}"
    if len(read.failed) != case.failed:
        yield f"{case.failed} turns should fail, {len(read.failed)} do"


def _wrong_fields(claim: str, fields: Mapping[str, Any], draft: FactDraft | None) -> Iterator[str]:
    for name, wanted in fields.items():
        found = getattr(draft, name, None)
        if isinstance(found, datetime):
            found = found.date().isoformat()
        if isinstance(found, tuple):
            found = list(found)
        by_id = [_id_of(each) for each in wanted] if isinstance(wanted, list) else _id_of(wanted)
        right = str(wanted) in (found or "") if name == "doubt" else found in (wanted, by_id)
        if not right:
            yield f"{name} of {claim!r} should be {wanted!r}, is {found!r}"


def _id_of(label: Any) -> Any:
    """The id behind a label such as F1 or T2; anything else as it is."""
    kinds = {"F": "fact", "T": "turn"}
    is_label = isinstance(label, str) and label[:1] in kinds and label[1:].isdecimal()
    return f"{kinds[label[0]]}-{label[1:]}" if is_label else label


def _wrong_in_other_words(case: Case, draft: Draft) -> Iterator[str]:
    """For replies that nobody recorded: wanted claims are there in other words, claims warned of are not."""
    kept = [fact.claim for fact in draft.facts if not fact.doubt]
    for claim in case.kept:
        if not any(alike(claim, found) for found in kept):
            yield f"{claim!r} should be kept, kept are {kept}"
    for claim in (*case.doubted, *case.refused):
        if any(alike(claim, found) for found in kept) and not any(alike(claim, wanted) for wanted in case.kept):
            yield f"{claim!r} should not be kept"


def alike(wanted: str, found: str) -> bool:
    """Whether one claim says what another does: the same numbers, the same polarity, and most of its words."""
    if normalised_claim(wanted) == normalised_claim(found):
        return True
    words = set(terms(wanted))
    shared = len(words & set(terms(found)))
    same = numbers_claimed(wanted) == numbers_claimed(found) and denies(wanted) == denies(found)
    return same and bool(words) and shared >= ALIKE * len(words)


def table(verdicts: Sequence[Verdict]) -> list[dict[str, object]]:
    """A row for each rule, and one for all: cases and how many were right."""
    return by_rule([(verdict.case.rule, not verdict.wrong) for verdict in verdicts])
