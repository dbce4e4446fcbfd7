"""What a new fact means for the facts that are known: asked of a model, once for all new facts of a window."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, WithJsonSchema

from agentmem.errors import BadReply
from agentmem.model.records import Fact
from agentmem.providers import LLMRequest
from agentmem.providers.asking import Asker
from agentmem.text.blocks import load_blocks

PURPOSE = "verdict"
MOST_CANDIDATES = 10
MOST_PAIRS = 60

Word = Literal["prefer_new", "prefer_old", "flag_review", "unrelated"]
Pair = tuple[str, str]  # claim of the new fact, id of the known one


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a pair. `wrong`: the known fact was never right."""

    word: Word
    wrong: bool = False


class _Item(BaseModel):
    model_config = ConfigDict(extra="ignore")

    new: str
    known: str
    verdict: Word
    wrong: bool = False


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    # The model is told what an item looks like; here each is read for itself.
    verdicts: Annotated[list[Any], WithJsonSchema({"type": "array", "items": _Item.model_json_schema()})]


DOUBTFUL, UNRELATED = Verdict("flag_review"), Verdict("unrelated")


@dataclass
class Judge:
    """Asks for verdicts and remembers them, so that a write that has to try again asks nothing twice."""

    asker: Asker
    _known: dict[Pair, Verdict] = field(default_factory=dict)

    async def verdicts(self, pairs: Mapping[str, Sequence[Fact]]) -> dict[Pair, Verdict]:
        """A verdict for each new claim and each fact that it may contradict; a reply of no use makes all a review.

        Raises ModelUnavailable, BudgetSpent and ConfigError as the asker does.
        """
        wanted = [(claim, fact) for claim, facts in pairs.items() for fact in facts[:MOST_CANDIDATES]]
        open_ones = [(claim, fact) for claim, fact in wanted if (claim, fact.id) not in self._known]
        for start in range(0, len(open_ones), MOST_PAIRS):
            self._known |= await self._ask(open_ones[start : start + MOST_PAIRS])
        return {(claim, fact.id): self._known[claim, fact.id] for claim, fact in wanted}

    async def _ask(self, pairs: Sequence[tuple[str, Fact]]) -> dict[Pair, Verdict]:
        claims = {claim: f"N{n}" for n, claim in enumerate(dict.fromkeys(claim for claim, _ in pairs), 1)}
        facts = {fact.id: f"K{n}" for n, fact in enumerate({fact.id: fact for _, fact in pairs}.values(), 1)}
        told = {
            "new": {label: claim for claim, label in claims.items()},
            "known": {facts[fact.id]: _told(fact) for _, fact in pairs},
            "pairs": [[claims[claim], facts[fact.id]] for claim, fact in pairs],
        }
        request = LLMRequest(
            PURPOSE, load_blocks(__package__, "judge.md")["system"], json.dumps(told, ensure_ascii=False),
            max_tokens=400 + 40 * len(pairs),
        )  # fmt: skip
        try:
            items, others = _items(await self.asker.ask(request, _Reply)), UNRELATED
        except BadReply:
            items, others = {}, DOUBTFUL
        return {(claim, fact.id): items.get((claims[claim], facts[fact.id]), others) for claim, fact in pairs}


def _items(reply: _Reply) -> dict[Pair, Verdict]:
    """Verdicts by labels; one that is none is a doubt, and so are two that differ."""
    found: dict[Pair, Verdict] = {}
    for raw in reply.verdicts:
        try:
            item = _Item.model_validate(raw)
        except ValidationError:
            if isinstance(raw, dict) and isinstance(raw.get("new"), str) and isinstance(raw.get("known"), str):
                found[raw["new"], raw["known"]] = DOUBTFUL
            continue
        verdict, labels = Verdict(item.verdict, item.wrong), (item.new, item.known)
        found[labels] = verdict if found.get(labels, verdict) == verdict else DOUBTFUL
    return found


def _told(fact: Fact) -> dict[str, str | None]:
    since, until = (None if moment is None else moment.date().isoformat() for moment in fact.span())
    return {"claim": fact.claim, "from": since, "until": until}
