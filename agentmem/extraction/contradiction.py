"""What is known about a claim, and what a model says that the claim means for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, WithJsonSchema

from agentmem.beliefs.slots import OWN_NAME_SLOTS, PEOPLE_SLOTS, THING_SUBJECT, USER_SUBJECT, builtin_slots
from agentmem.core.clock import add_time
from agentmem.core.columns import Bools, Floats, RecordColumns
from agentmem.core.lifecycle import DOUBTFUL
from agentmem.core.record import Record
from agentmem.core.records import SLOT_KEY_PREFIX, Entity, Fact, R, Turn
from agentmem.errors import InvalidModelOutput, ModelError
from agentmem.extraction.labels import MAX_KNOWN_FACTS
from agentmem.extraction.reply_schema import fold_label
from agentmem.memory.context import MemoryContext
from agentmem.models.protocols import LLMRequest
from agentmem.models.structured_llm import StructuredLLM
from agentmem.stores.values import WHOLE, Where
from agentmem.text.normalization import MONTHS
from agentmem.text.templates import load_templates
from agentmem.text.tokenizer import tokenize

MAX_FACTS = 20
MAX_ENTITIES = 30
MAX_FACTS_PER_SOURCE = 500
MAX_OPEN_FACTS = 10  # facts without a slot, like the window
MAX_QUERY_CHARS = 4000  # characters of a window that are compared with facts
PAGE_SIZE = 1000
DAY = timedelta(days=1)

PURPOSE = "verdict"
MAX_CANDIDATES_PER_CLAIM = 10
MAX_PAIRS_PER_CALL = 60

VerdictLabel = Literal["prefer_new", "prefer_old", "flag_review", "unrelated"]
ClaimFactPair = tuple[str, str]  # claim of the new fact, id of the known one


@dataclass
class CandidateRetriever:
    """Reads what is current in the channels that a context may read."""

    context: MemoryContext

    async def find_known(self, turns: Sequence[Turn]) -> tuple[Fact, ...]:
        """What a reading may rest on: beliefs of the user and of what is named, and open claims like these turns.

        The names of the user and of their people come first, then what shares words with the turns, then the newest;
        nothing that is over or doubtful.
        """
        text = " ".join(turn.search_text() for turn in turns).casefold()
        where = Where(kinds=("Fact",), channels=self.context.scope.readable_channels(), dedup_prefix=SLOT_KEY_PREFIX)
        stored = await self.context.engine.log.find(self.context.scope, where, limit=MAX_FACTS_PER_SOURCE)
        now = await self.context.engine.now(self.context.scope)
        held = [fact for fact in stored if isinstance(fact, Fact) and fact.superseded_at is None]
        window = " ".join(turn.search_text() for turn in turns)[:MAX_QUERY_CHARS]
        similar = [fact for fact, _ in (await self.find_similar([window], Fact))[0] if not fact.slot][:MAX_OPEN_FACTS]
        words = set(tokenize(text))
        ranked = [(_count_shared_words(fact, words), fact) for fact in held if _is_named(fact.subject, text)]
        ranked.sort(key=lambda each: (-each[0], -each[1].seq, each[1].id))
        named = sorted(
            (fact for _, fact in ranked if _names_somebody(fact)), key=lambda fact: fact.slot in PEOPLE_SLOTS
        )
        related = [fact for shared, fact in ranked if shared and not _names_somebody(fact)]
        others = [fact for shared, fact in ranked if not (shared or _names_somebody(fact))]
        found = [fact for fact in (*named, *related, *similar, *others) if _is_sure(fact, now)]
        return tuple(found[:MAX_KNOWN_FACTS])

    async def find_facts_by_source(self, source: str) -> tuple[Fact, ...]:
        """The latest current facts of one source, at most 500."""
        _, mask = await self._read_current_mask("Fact")
        ordinals = np.flatnonzero(mask)[::-1]
        found: list[Fact] = []
        for start in range(0, len(ordinals), PAGE_SIZE):
            page = await self._read_records([int(ordinal) for ordinal in ordinals[start : start + PAGE_SIZE]])
            found += [record for record in page if isinstance(record, Fact) and record.source == source]
            if len(found) >= MAX_FACTS_PER_SOURCE:
                break
        return tuple(found[:MAX_FACTS_PER_SOURCE])

    async def find_entities(self, turns: Sequence[Turn]) -> tuple[Entity, ...]:
        """Current entities whose names share words with these turns, at most 30."""
        columns, mask = await self._read_current_mask("Entity")
        words = list(dict.fromkeys(term for turn in turns for term in tokenize(turn.search_text())))
        if not words or not mask.any():
            return ()
        shared = np.zeros(columns.size, dtype=np.int64)
        for postings in (await self.context.engine.log.match(words, self.context.scope)).values():
            shared[postings.ordinals[postings.ordinals < columns.size]] += 1
        found = np.flatnonzero(mask & (shared > 0))
        best = found[np.lexsort((found, -shared[found]))][:MAX_ENTITIES]
        return tuple(
            record
            for record in await self._read_records([int(ordinal) for ordinal in best])
            if isinstance(record, Entity)
        )

    async def find_similar(self, texts: Sequence[str], cls: type[R]) -> list[list[tuple[R, float]]]:
        """For each text the current records of a class by cosine, most like first, at most 20; none without a model."""
        columns, mask = await self._read_current_mask(cls.__name__)
        vectors = await self._embed(texts) if texts and mask.any() else None
        if vectors is None:
            return [[] for _ in texts]
        return [await self._search(vector, columns, mask, cls) for vector in vectors]

    async def _search(self, vector: Floats, columns: RecordColumns, mask: Bools, cls: type[R]) -> list[tuple[R, float]]:
        index, scope = self.context.engine.vector_projections[0].index, self.context.scope
        found = await index.search(vector, scope, Where(kinds=(cls.__name__,)), WHOLE)
        inside = found.ordinals < columns.size  # an index may be ahead of the columns
        ordinals, scores = found.ordinals[inside], found.scores[inside]
        ordinals, scores = ordinals[mask[ordinals]], scores[mask[ordinals]]
        order = np.argsort(-scores, kind="stable")[:MAX_FACTS]
        cosines = {int(ordinals[at]): float(scores[at]) for at in order}
        read = await self._read_records(list(cosines))
        return [(record, cosines[columns.ordinals_by_key[record.key]]) for record in read if isinstance(record, cls)]

    async def _embed(self, texts: Sequence[str]) -> Floats | None:
        """Unit vectors as they are stored; None without an embedder that answers."""
        served = self.context.engine.vector_projections
        if not served:
            return None
        try:
            vectors = await served[0].embedder.embed(texts)
        except ModelError:  # likeness is a help and no condition: nothing waits for it
            return None
        return np.asarray(vectors.astype(np.float16), dtype=np.float32)

    async def _read_current_mask(self, kind: str) -> tuple[RecordColumns, Bools]:
        engine, scope = self.context.engine, self.context.scope
        columns = await engine.read_columns(scope)
        view = columns.build_visibility_mask(scope.readable_channels(), now=await engine.now(scope), kinds=(kind,))
        return columns, view.mask

    async def _read_records(self, ordinals: Sequence[int]) -> list[Record]:
        return await self.context.engine.log.read_by_ordinal(ordinals, self.context.scope) if ordinals else []


def _is_named(subject: str, text: str) -> bool:
    """Whether a subject is the user or nobody, or stands in a text of small letters by its first word."""
    words = subject.casefold().split()
    return subject in (USER_SUBJECT, THING_SUBJECT) or bool(words and words[0] in text)


def _names_somebody(fact: Fact) -> bool:
    """Whether a fact tells a name of the user or of their people: claims are checked by these names."""
    return fact.subject == USER_SUBJECT and (fact.slot in PEOPLE_SLOTS or fact.slot in OWN_NAME_SLOTS)


def _is_sure(fact: Fact, now: datetime) -> bool:
    """Whether a fact is neither doubtful nor over, nor a plan whose day has passed."""
    is_past_plan = fact.temporal_context == "future" and fact.valid_from and add_time(fact.valid_from, DAY) <= now
    return fact.certainty != DOUBTFUL and not is_past_plan and (fact.valid_to is None or fact.valid_to > now)


def _count_shared_words(fact: Fact, words: Set[str]) -> int:
    """How many words of a belief, its slot and what asks for it are among these."""
    return len(words & set(tokenize(" ".join((fact.value, fact.slot.replace("_", " "), *_list_cues(fact.slot))))))


def _list_cues(name: str) -> tuple[str, ...]:
    slot = builtin_slots().get(name)
    return slot.cues if slot else ()


@dataclass(frozen=True, slots=True)
class ContradictionVerdict:
    """The result for a pair. `wrong`: the known fact was never right."""

    label: VerdictLabel
    is_correction: bool = False


class _VerdictItem(BaseModel):
    model_config = ConfigDict(extra="ignore")

    new: str
    known: str
    verdict: Annotated[VerdictLabel, BeforeValidator(fold_label)]
    wrong: bool = False


class _VerdictReply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    # The prompt describes an item; here each is read separately.
    verdicts: Annotated[list[Any], WithJsonSchema({"type": "array", "items": _VerdictItem.model_json_schema()})]


UNCLEAR, UNRELATED = ContradictionVerdict("flag_review"), ContradictionVerdict("unrelated")
_COMMON_TERMS = frozenset(
    tokenize(
        "user agent assistant every also still just really always never often new old good like want get go make take "
        "use first last one two many much thing people time day week weekend month year today tomorrow yesterday "
        f"current usual have has had monday tuesday wednesday thursday friday saturday sunday {' '.join(MONTHS)}"
    )
)


@dataclass
class ContradictionClassifier:
    """Asks for verdicts and remembers them, so that a write that has to try again asks nothing twice."""

    llm: StructuredLLM
    _verdicts: dict[ClaimFactPair, ContradictionVerdict] = field(default_factory=dict)

    async def classify(self, candidates: Mapping[str, Sequence[Fact]]) -> dict[ClaimFactPair, ContradictionVerdict]:
        """A verdict for each new claim and each fact that it may contradict; a reply of no use makes all a review.

        Raises ModelUnavailable, BudgetExceeded and ConfigError as the asker does.
        """
        wanted = [
            (claim, fact)
            for claim, facts in candidates.items()
            for fact in [fact for fact in facts if _share_substance(claim, fact)][:MAX_CANDIDATES_PER_CLAIM]
        ]
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
            PURPOSE,
            load_templates(__package__, "contradiction.md")["system"],
            json.dumps(told, ensure_ascii=False),
            max_tokens=400 + 40 * len(pairs),
        )
        try:
            items, others = _parse_verdicts(await self.llm.ask(request, _VerdictReply)), UNRELATED
        except InvalidModelOutput:
            items, others = {}, UNCLEAR
        return {(claim, fact.id): items.get((claims[claim], facts[fact.id]), others) for claim, fact in pairs}


def _share_substance(claim: str, fact: Fact) -> bool:
    """Whether two claims share more than dates and common words. Without a word in common they share a name."""
    shared = set(tokenize(claim)) & set(tokenize(fact.claim))
    return not shared or any(word not in _COMMON_TERMS and not word.isdigit() for word in shared)


def _parse_verdicts(reply: _VerdictReply) -> dict[ClaimFactPair, ContradictionVerdict]:
    """Verdicts by labels; one that is none is a doubt, and so are two that differ."""
    found: dict[ClaimFactPair, ContradictionVerdict] = {}
    for raw in reply.verdicts:
        try:
            item = _VerdictItem.model_validate(raw)
        except ValidationError:
            if isinstance(raw, dict) and isinstance(raw.get("new"), str) and isinstance(raw.get("known"), str):
                found[raw["new"], raw["known"]] = UNCLEAR
            continue
        verdict, labels = ContradictionVerdict(item.verdict, item.wrong), (item.new, item.known)
        found[labels] = verdict if found.get(labels, verdict) == verdict else UNCLEAR
    return found


def _render_fact(fact: Fact) -> dict[str, str | None]:
    since, until = (None if moment is None else moment.date().isoformat() for moment in fact.valid_interval())
    return {"claim": fact.claim, "from": since, "until": until}
