"""`python -m tests.benchmarks.rules FILE`: what the rule extractor finds in LoCoMo-shaped dialogues, and how exactly.

Prints counts by rule and the precision over the claims that were checked by hand (`rules_verdicts.json`: keys of
dialogue, turn, rule and claim hash; no text of the data set). `--sample` lists the claims to check next, `--judge` adds
verdicts to the file. Fails below the targets.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from agentmem.core.records import Entity, Fact, Turn
from agentmem.extraction.drafts import ExtractionDraft, FactDraft, Window
from agentmem.extraction.plain.extractor import extract
from agentmem.text.normalization import hash_claim, slugify
from tests.benchmarks.datasets import BenchmarkDialogue, load_dialogues
from tests.benchmarks.report import render_table

VERDICTS = Path(__file__).with_name("rules_verdicts.json")
TURNS = 6
FACTS, ENTITIES, JUDGED, PRECISION = 100, 150, 100, 0.95


@dataclass(frozen=True)
class Claim:
    """A fact that was found, and the turn it rests on."""

    dialogue: str
    fact: FactDraft
    turn: Turn

    @property
    def rule(self) -> str:
        return self.fact.tags[0].partition(":")[2]

    @property
    def key(self) -> str:
        return f"{self.fact.turn_id} of {self.dialogue}|{self.rule}|{hash_claim(self.fact.claim)[:16]}"

    @property
    def order(self) -> str:
        """A place in the sample that nobody chose."""
        return sha256(self.key.encode()).hexdigest()


@dataclass
class Found:
    """All that was found: claims, and entities as (dialogue, slug)."""

    claims: list[Claim]
    entities: set[tuple[str, str]]
    relations: int = 0
    replaced: int = 0

    def sample(self) -> list[Claim]:
        return sorted(self.claims, key=lambda claim: claim.order)[:JUDGED]


def find(dialogues: Sequence[BenchmarkDialogue]) -> Found:
    """Read every dialogue in windows of 6 turns, each beside what the ones before it gave."""
    found = Found([], set())
    for dialogue in dialogues:
        facts: list[Fact] = []
        entities: dict[str, Entity] = {}
        for window in windows(dialogue, facts, entities):
            draft = extract(window)
            turns = {turn.id: turn for turn in window.turns}
            for fact in draft.facts:
                turn = turns[fact.turn_id]
                assert fact.span is not None
                assert turn.content[fact.span[0] : fact.span[1]] == fact.quote
                found.claims.append(Claim(dialogue.id, fact, turn))
            found.entities |= {(dialogue.id, slugify(entity.name)) for entity in draft.entities}
            found.relations += len(draft.relations)
            found.replaced += sum(bool(fact.supersedes_id or fact.ends_fact_ids) for fact in draft.facts)
            learn(draft, facts, entities)
    return found


def windows(dialogue: BenchmarkDialogue, facts: list[Fact], entities: dict[str, Entity]) -> Iterator[Window]:
    turns = [
        Turn(
            id=turn["turn_id"],
            conversation_id=turn["conversation_id"],
            index=number,
            content=turn["content"],
            role=turn.get("role", "user"),
            speaker=turn.get("speaker"),
            timestamp=turn.get("timestamp"),
        )
        for number, turn in enumerate(dialogue.turns)
    ]
    speakers = tuple(sorted({turn.speaker for turn in turns if turn.speaker}))
    for conversation in dict.fromkeys(turn.conversation_id for turn in turns):
        said = [turn for turn in turns if turn.conversation_id == conversation]
        for start in range(0, len(said), TURNS):
            yield Window(
                conversation_id=conversation,
                channel="_global",
                turns=tuple(said[start : start + TURNS]),
                context_turns=tuple(said[max(0, start - TURNS) : start]),
                known_facts=tuple(facts),
                known_entities=tuple(entities.values()),
                participants=speakers,
            )


def learn(draft: ExtractionDraft, facts: list[Fact], entities: dict[str, Entity]) -> None:
    for fact in draft.facts:
        facts.append(
            Fact(id=f"f{len(facts)}", claim=fact.claim, tags=fact.tags, temporal_context=fact.temporal_context)
        )
    for entity in draft.entities:
        entities.setdefault(slugify(entity.name), Entity(id=entity.name, name=entity.name, type=entity.type))


def report(found: Found, verdicts: dict[str, bool]) -> int:
    """Print it all; 1 below a target, else 0."""
    made, right = Counter(claim.rule for claim in found.claims), Counter[str]()
    judged = [claim for claim in found.claims if claim.key in verdicts]
    checked = Counter(claim.rule for claim in judged)
    right.update(claim.rule for claim in judged if verdicts[claim.key])
    print(
        render_table(
            [
                {"rule": rule, "facts": n, "checked": checked[rule], "right": right[rule]}
                for rule, n in made.most_common()
            ]
        )
    )
    precision = right.total() / len(judged) if judged else 0.0
    print(f"\nfacts {len(found.claims)} (at least {FACTS}), entities {len(found.entities)} (at least {ENTITIES})")
    print(f"relations {found.relations}, facts that replace or end another {found.replaced}")
    print(f"checked by hand {len(judged)} (at least {JUDGED}), precision {precision:.3f} (at least {PRECISION})")
    enough = len(found.claims) >= FACTS and len(found.entities) >= ENTITIES and len(judged) >= JUDGED
    return 0 if enough and precision >= PRECISION else 1


def unjudged(found: Found, verdicts: dict[str, bool]) -> Iterator[str]:
    for claim in found.sample():
        if claim.key not in verdicts:
            start, end = claim.fact.span or (0, 0)
            text = claim.turn.content
            marked = f"{text[:start]}[[{text[start:end]}]]{text[end:]}"
            begins = claim.fact.valid_from.date() if claim.fact.valid_from else "-"
            yield (
                f"{claim.key}\n  {claim.fact.temporal_context} {begins} | {claim.fact.claim}\n"
                f"  {claim.turn.timestamp:%Y-%m-%d} {claim.turn.speaker}: {marked}"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--sample", action="store_true", help="list the claims of the sample that have no verdict")
    parser.add_argument("--judge", type=Path, help="a JSON object of new verdicts to add")
    options = parser.parse_args()
    verdicts: dict[str, bool] = json.loads(VERDICTS.read_text(encoding="utf-8")) if VERDICTS.exists() else {}
    if options.judge:
        verdicts |= json.loads(options.judge.read_text(encoding="utf-8"))
        VERDICTS.write_text(json.dumps(dict(sorted(verdicts.items())), indent=0) + "\n", encoding="utf-8")
    found = find(load_dialogues(options.files))
    if options.sample:
        print(*unjudged(found, verdicts), sep="\n")
        return 0
    return report(found, verdicts)


if __name__ == "__main__":
    sys.exit(main())
