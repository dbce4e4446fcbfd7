"""Recall: techniques side by side, one fusion, factors, and a bundle that explains itself. It writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.errors import InvalidRecord
from agentmem.model.clock import Stopwatch
from agentmem.model.decay import Fading
from agentmem.model.outline import Ints
from agentmem.model.ranking import Fusion, Ranked, best, fuse, plus
from agentmem.model.records import Key, Record, Turn
from agentmem.model.scope import Scope
from agentmem.providers import TokenVectors
from agentmem.providers.rerankers import Reranker
from agentmem.recall.aside import aside
from agentmem.recall.asking import Asking
from agentmem.recall.beside import Beside
from agentmem.recall.bundle import Delivery, MemoryBundle
from agentmem.recall.context import CONTEXT_TOKENS, Context, Counter, pack
from agentmem.recall.instructions import instructions
from agentmem.recall.kept import Keep
from agentmem.recall.metrics import RecallMetrics
from agentmem.recall.options import ContextOptions, read_options
from agentmem.recall.prior import conversation_prior
from agentmem.recall.query import Query, Request
from agentmem.recall.rate import RateLimit
from agentmem.recall.receipt import Line, Receipt, ThreadLead, WhyNot, make_pool, why_not, with_contributions
from agentmem.recall.relevance import NOTHING_RELEVANT, relevant
from agentmem.recall.rerank import late_interaction
from agentmem.recall.run import Deadline, notices_of, run
from agentmem.recall.select import AsOfNow, Selection, select, shortlist
from agentmem.recall.standing import marked
from agentmem.recall.technique import Memory
from agentmem.recall.user import profile_of, user_context
from agentmem.recall.view import Opened, Source, open_memory
from agentmem.settings_parts import DecayOptions, SynopsisOptions

if TYPE_CHECKING:
    from agentmem.recall.reranker import Reranking

NO_TOKENS = "Word piece vectors, which profile best needs, are not there yet: ranked without them."
MOST_PACKED = 2_000  # records considered for one context
SPARE = 30  # records read beyond what should fit
LEADS = 3
NO_SETTING: Fading = DecayOptions()
NOTHING: Ints = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """One recall before anything is read for delivery."""

    query: Query
    memory: Memory
    fusion: Fusion
    selection: Selection
    trace: tuple[Line, ...]
    notices: tuple[str, ...]
    relevant: bool


class RecallLayer:
    """Answers requests about what is open. `settings` are the `recall` settings, `profile` is `default` or `best`.

    `digest` identifies the settings in force, for receipts. `decay` are the laws by which memories fade. `reranker`, if
    any, takes a second look at the best turns; whoever opened it closes it. `metrics` says what each technique took and
    gave. Raises ConfigError for a setting that does not exist.
    """

    def __init__(
        self, source: Source, settings: Mapping[str, Mapping[str, Any]] | None = None, *, profile: str = "default",
        digest: str = "", limit: RateLimit | None = None, reranker: Reranker | None = None,
        decay: Fading = NO_SETTING, synopsis: SynopsisOptions | None = None,
    ) -> None:  # fmt: skip
        self.source = source
        self.decay = decay
        self.synopsis = synopsis or SynopsisOptions()
        self.options = read_options(settings or {}, profile)
        self.digest = digest
        self.limit = limit or RateLimit(0, 1)
        self.keep = Keep(source.lookups)
        self.asking = Asking(lambda: source.llms)
        self.metrics = RecallMetrics()
        self.reranking: Reranking | None = None
        if reranker is not None:
            from agentmem.recall.reranker import Reranking

            self.reranking = Reranking(reranker, self.options.reranker)

    def forget(self, user_id: str) -> None:
        """Drop everything kept of a user in memory; for erasure."""
        self.keep.forget(user_id)
        self.asking.forget()

    async def recall(self, request: Request, scope: Scope, notices: Sequence[str] = ()) -> MemoryBundle:
        """The bundle for a request; `notices` come first among its own.

        A technique that fails or is late costs a notice and a line in the receipt. When all of them failed, the first
        failure is raised. Raises RateLimited when the user asks too often.
        """
        self.limit.take(scope.user_id)
        watch = Stopwatch(self.source.clock)
        ranking = await self._rank(request, scope, max(2 * request.top_k, self.options.ranking.pool), notices)
        selection, memory = ranking.selection, ranking.memory
        top = {kind: slots[: request.top_k] for kind, slots in selection.kinds.items()}
        items = selection.items[np.isin(selection.items, np.concatenate([*top.values(), NOTHING]))][: request.top_k]
        records = await _read(ranking, np.concatenate([*top.values(), NOTHING]))
        kinds = {kind: _present(slots, records) for kind, slots in top.items()}
        scores = [round(float(selection.item_scores[slot]), 4) for slot in items if int(slot) in records]
        delivery = Delivery(kinds, _present(items, records), scores, _leads(ranking), await self._user(memory))
        receipt = await self._receipt(ranking, delivery, watch)
        self.metrics.count(receipt.trace, relevant=receipt.relevant)
        return delivery.bundle(receipt)

    async def context(
        self, request: Request, scope: Scope, max_tokens: int = CONTEXT_TOKENS, counter: Counter | None = None,
        notices: Sequence[str] = (), beside: Callable[[ContextOptions], Awaitable[Beside]] | None = None,
    ) -> Context:  # fmt: skip
        """What matters, as much as fits into `max_tokens`, ready for a prompt: knowledge, then turns in time order.

        `beside` reads what a context holds beside what was ranked.
        """
        if max_tokens < 1:
            raise InvalidRecord(f"max_tokens must be at least 1, got {max_tokens}", field="max_tokens")
        self.limit.take(scope.user_id)
        pool = min(max(self.options.ranking.pool, max_tokens // 8), MOST_PACKED)
        options = self.options.context
        ranking, others = await asyncio.gather(
            self._rank(request, scope, pool, notices), _nothing() if beside is None else beside(options)
        )
        self.metrics.count(ranking.trace, relevant=ranking.relevant)
        order, memory = _worth_reading(ranking, max_tokens), ranking.memory
        records = await _read(ranking, order)
        standing = await instructions(memory, options.standing)
        return await asyncio.to_thread(
            pack, _present(order, records), profile=await profile_of(memory), max_tokens=max_tokens, counter=counter,
            knowledge=options.knowledge, notices=ranking.notices, standing=standing,
            instructions=options.instructions, beside=others, rooms=options,
            considered=_keys(ranking), history=_history(memory, records),
        )  # fmt: skip

    async def why_not(self, receipt: Receipt, record_id: str) -> WhyNot:
        """Why a record was delivered or not: by the receipt, and where that says too little by asking again.

        Asking again sees the memory as it was then, but the models and settings of now.
        """
        from agentmem.recall.unseen import unseen

        said = why_not(receipt, record_id)
        if said.candidate is not None:
            return said
        ranking = await self._rank(receipt.request, receipt.scope, MOST_PACKED, (), (receipt.seq, receipt.at))
        return unseen(ranking.query, ranking.memory, ranking.selection, record_id)

    async def replay(self, receipt: Receipt) -> MemoryBundle:
        """The bundle that a recall delivered, from its receipt, with the records as they were then."""
        memory = (await self._open(receipt.request, receipt.scope, (receipt.seq, receipt.at))).memory
        slots = {key: memory.outline.slots.get(key, -1) for key in (*receipt.delivered, *receipt.items)}
        known = {slot: key for key, slot in slots.items() if slot >= 0}
        read = {slots[record.key]: record for record in await memory.read(list(known))}
        found = {known[slot]: record for slot, record in (await marked(read, memory)).items()}
        kinds: dict[str, list[Record]] = {}
        for key in receipt.delivered:
            if key in found:
                kinds.setdefault(key[0], []).append(found[key])
        items = [(found[key], score) for key, score in receipt.items.items() if key in found]
        records, scores = [record for record, _ in items], [score for _, score in items]
        delivery = Delivery(kinds, records, scores, receipt.leads, await self._user(memory))
        return delivery.bundle(receipt)

    async def _user(self, memory: Memory) -> dict[str, Any]:
        return await user_context(memory, self.synopsis)

    async def _open(self, request: Request, scope: Scope, then: tuple[int, datetime] | None) -> Opened:
        return await open_memory(
            self.source, request, scope, self.keep, ask=self.asking.ask, tokens=self.options.rerank is not None,
            few_turns=self.options.ranking.few_turns, then=then,
        )  # fmt: skip

    async def _rank(
        self, request: Request, scope: Scope, pool: int, notices: Sequence[str],
        then: tuple[int, datetime] | None = None,
    ) -> Ranking:  # fmt: skip
        """Everything up to the places; `then` is a journal position and moment to repeat a recall at."""
        techniques = self.options.enabled(request.techniques)
        whole = None if self.source.deterministic else Deadline(self.options.ranking.deadline)
        query, memory, embeddings, late = await self._open(request, scope, then)
        memory = replace(memory, settings={each.name: each.options for each in self.options.techniques})
        found = await run(techniques, query, memory, self.source.clock, whole)
        fusion, short = await aside(memory.outline.size, self._fuse, found.lists, memory, pool)
        trace, said = found.trace, [*notices, *late]
        about = relevant(query, memory, fusion, self.options.ranking.few_turns)
        said += [] if about else [NOTHING_RELEVANT]
        if self.options.rerank is not None and len(short.get("Turn", ())) > 1:
            pieces = await embeddings.pieces(query.read.bare) if "whole" in found.lists else None
            again = await self._rerank(fusion, short["Turn"], pieces, memory)
            said += [] if again else [NO_TOKENS]
            fusion = again or fusion
        if self.reranking is not None and len(turns := shortlist(fusion, memory, pool).get("Turn", NOTHING)) > 1:
            fusion, line = await self.reranking.look(query, turns, fusion, memory, whole)
            trace = (*trace, line)
        said += notices_of(trace)
        now = self.source.clock.now() if then is None else then[1]
        standing = AsOfNow(now, self.decay, request.min_confidence)
        selection = await select(fusion, short, memory, self.options.ranking, standing, request.top_k)
        return Ranking(query, memory, fusion, selection, trace, tuple(said), about)

    def _fuse(self, lists: Mapping[str, Ranked], memory: Memory, pool: int) -> tuple[Fusion, dict[str, Ints]]:
        """The fusion, and the best of each kind by it."""
        options = self.options.ranking
        fusion = fuse(lists, memory.mask, memory.basis, method=options.fusion, k=options.rrf_k)
        if options.conversation_prior and memory.turns.any():
            prior = conversation_prior(fusion.scores, memory.turns, memory.outline)
            fusion = plus(fusion, "conversation", options.conversation_prior * prior)
        return fusion, shortlist(fusion, memory, pool)

    async def _rerank(self, fusion: Fusion, turns: Ints, pieces: TokenVectors | None, memory: Memory) -> Fusion | None:
        options = self.options.rerank
        if pieces is None or options is None:
            return None
        return await late_interaction(turns[: options.depth], fusion, pieces, memory, options)

    async def _receipt(self, ranking: Ranking, delivery: Delivery, watch: Stopwatch) -> Receipt:
        memory, selection, request = ranking.memory, ranking.selection, ranking.query.request
        keys = {record.key: record.channel for record in delivery.records()}
        pool = await aside(
            memory.outline.size, make_pool, memory, selection.kinds, selection.scores, ranking.fusion, selection.factors
        )
        return Receipt(
            id=self.source.ids.new(), scope=memory.scope, at=self.source.clock.now(), request=request,
            profile=self.options.profile, settings=self.digest, embedder=memory.identity,
            seq=memory.outline.seq if memory.through is None else memory.through,
            milliseconds=watch.milliseconds(), pool=pool, relevant=ranking.relevant,
            trace=with_contributions(ranking.trace, pool, delivery.item_scores(), request.top_k),
            delivered=delivery.keys(), items=delivery.item_scores(), leads=delivery.leads,
            elsewhere={key: channel for key, channel in keys.items() if channel != memory.scope.channel},
            notices=ranking.notices,
        )  # fmt: skip


def _keys(ranking: Ranking) -> list[Key]:
    ids = ranking.memory.outline.ids
    return [(kind, ids[slot]) for kind, slots in ranking.selection.kinds.items() for slot in slots]


def _history(memory: Memory, records: Mapping[int, Record]) -> int:
    """About how many characters all visible turns have: their words, by as many characters a word as in those read."""
    words, turns = memory.outline.words, [slot for slot, record in records.items() if isinstance(record, Turn)]
    characters = sum(len(records[slot].searchable()) for slot in turns)
    return round(float(words[memory.turns].sum()) * characters / max(1, int(words[turns].sum()))) if turns else 0


async def _nothing() -> Beside:
    return Beside()


async def _read(ranking: Ranking, slots: Ints) -> dict[int, Record]:
    """The records of these slots; those already read on the way are not read again."""
    known, memory = ranking.selection.records, ranking.memory
    wanted = [slot for slot in dict.fromkeys(int(slot) for slot in slots) if slot not in known]
    return {**known, **{memory.outline.slots[record.key]: record for record in await memory.read(wanted)}}


def _present(slots: Ints, records: Mapping[int, Record]) -> list[Record]:
    return [records[int(slot)] for slot in slots if int(slot) in records]


def _leads(ranking: Ranking) -> tuple[ThreadLead, ...]:
    """The conversations with most turns in the pool, at least two; the best of them is where to start reading."""
    outline, turns = ranking.memory.outline, ranking.selection.kinds.get("Turn", NOTHING)
    codes, first, counts = np.unique(outline.conversation[turns], return_index=True, return_counts=True)
    order = np.lexsort((first, -counts))
    return tuple(
        ThreadLead(outline.conversations.values[codes[at]], outline.ids[turns[first[at]]], int(counts[at]))
        for at in order[:LEADS]
        if counts[at] > 1
    )


def _worth_reading(ranking: Ranking, max_tokens: int) -> Ints:
    """Slots of all kinds, best first, as many as may fit by their number of words, and some more."""
    selection, outline = ranking.selection, ranking.memory.outline
    slots = np.concatenate([*selection.kinds.values(), NOTHING])
    order = best(selection.scores, slots, len(slots), outline)
    most = np.cumsum(outline.words[order] + 2) <= 1.5 * max_tokens
    return order[: int(most.sum()) + SPARE]
