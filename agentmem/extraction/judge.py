"""What a new fact means for the facts that are known: asked of a model, once for all new facts of a window."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, WithJsonSchema

from agentmem.errors import InvalidModelOutput
from agentmem.model.records import Fact
from agentmem.providers import LLMRequest
from agentmem.providers.asking import StructuredLLM
from agentmem.text.blocks import load_templates

PURPOSE = "verdict"
MAX_CANDIDATES_PER_CLAIM = 10
MAX_PAIRS_PER_CALL = 60

VerdictLabel = Literal["prefer_new", "prefer_old", "flag_review", "unrelated"]
ClaimFactPair = tuple[str, str]  # claim of the new fact, id of the known one


@dataclass(frozen=True, slots=True)
class ContradictionVerdict:
    """What became of a pair. `wrong`: the known fact was never right."""

    label: VerdictLabel
    is_correction: bool = False


class _VerdictItem(BaseModel):
    model_config = ConfigDict(extra="ignore")

    new: str
    known: str
    verdict: VerdictLabel
    wrong: bool = False


class _VerdictReply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    # The model is told what an item looks like; here each is read for itself.
    verdicts: Annotated[list[Any], WithJsonSchema({"type": "array", "items": _VerdictItem.model_json_schema()})]


DOUBTFUL, UNRELATED = ContradictionVerdict("flag_review"), ContradictionVerdict("unrelated")


@dataclass
class ContradictionClassifier:
    """Asks for verdicts and remembers them, so that a write that has to try again asks nothing twice."""

    llm: StructuredLLM
    _verdicts: dict[ClaimFactPair, ContradictionVerdict] = field(default_factory=dict)

    async def classify(self, candidates: Mapping[str, Sequence[Fact]]) -> dict[ClaimFactPair, ContradictionVerdict]:
        """A verdict for each new claim and each fact that it may contradict; a reply of no use makes all a review.

        Raises ModelUnavailable, BudgetExceeded and ConfigError as the asker does.
        """
        wanted = [(claim, fact) for claim, facts in candidates.items() for fact in facts[:MAX_CANDIDATES_PER_CLAIM]]
        open_ones = [(claim, fact) for claim, fact in wanted if (claim, fact.id) not in self._verdicts]
        for start in range(0, len(open_ones), MAX_PAIRS_PER_CALL):
            self._verdicts |= await self._classify_batch(open_ones[start : start + MAX_PAIRS_PER_CALL])
        return {(claim, fact.id): self._verdicts[claim, fact.id] for claim, fact in wanted}

    async def _classify_batch(self, pairs: Sequence[tuple[str, Fact]]) -> dict[ClaimFactPair, ContradictionVerdict]:
        claims = {claim: f"N{n}" for n, claim in enumerate(dict.fromkeys(claim for claim, _ in pairs), 1)}
        facts = {fact.id: f"K{n}" for n, fact in enumerate({fact.id: fact for _, fact in pairs}.values(), 1)}
        told = {
            "new": {label: claim for claim, label in claims.items()},
            "known": {facts[fact.id]: _render_fact(fact) for _, fact in pairs},
            "pairs": [[claims[claim], facts[fact.id]] for claim, fact in pairs],
        }
        request = LLMRequest(
            PURPOSE, load_templates(__package__, "judge.md")["system"], json.dumps(told, ensure_ascii=False),
            max_tokens=400 + 40 * len(pairs),
        )  # fmt: skip
        try:
            items, others = _parse_verdicts(await self.llm.ask(request, _VerdictReply)), UNRELATED
        except InvalidModelOutput:
            items, others = {}, DOUBTFUL
        return {(claim, fact.id): items.get((claims[claim], facts[fact.id]), others) for claim, fact in pairs}


def _parse_verdicts(reply: _VerdictReply) -> dict[ClaimFactPair, ContradictionVerdict]:
    """Verdicts by labels; one that is none is a doubt, and so are two that differ."""
    found: dict[ClaimFactPair, ContradictionVerdict] = {}
    for raw in reply.verdicts:
        try:
            item = _VerdictItem.model_validate(raw)
        except ValidationError:
            if isinstance(raw, dict) and isinstance(raw.get("new"), str) and isinstance(raw.get("known"), str):
                found[raw["new"], raw["known"]] = DOUBTFUL
            continue
        verdict, labels = ContradictionVerdict(item.verdict, item.wrong), (item.new, item.known)
        found[labels] = verdict if found.get(labels, verdict) == verdict else DOUBTFUL
    return found


def _render_fact(fact: Fact) -> dict[str, str | None]:
    since, until = (None if moment is None else moment.date().isoformat() for moment in fact.valid_interval())
    return {"claim": fact.claim, "from": since, "until": until}
