"""The order of a recall, from the request to the bundle and its receipt; why a record was not found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.core.clock import Stopwatch, to_micros
from agentmem.core.columns import ENDS_WITH_QUESTION, HIDDEN_STATUSES, MAX_TIME, Ints
from agentmem.core.event_loop import offload_if_large
from agentmem.core.lifecycle import DecayPolicy
from agentmem.core.procedural_records import Strategy
from agentmem.core.ranking import Fusion, ScoreList, add_bonus, fuse, top_k
from agentmem.core.record import Key, Record
from agentmem.core.records import Turn
from agentmem.core.scope import Scope
from agentmem.engine.engine import Engine
from agentmem.errors import InvalidRecord
from agentmem.memory.semantic.belief_digest import BeliefDigest
from agentmem.memory.semantic.standing import Standings
from agentmem.models.protocols import Reranker, TokenVectors
from agentmem.recall import visibility
from agentmem.recall.bundle import DeliveredRecords, MemoryBundle, read_profile, read_user_context
from agentmem.recall.cache import RankingCache
from agentmem.recall.chronology import is_answered_by_belief, order_by_time
from agentmem.recall.context import (
    DEFAULT_CONTEXT_TOKENS,
    INSTRUCTIONS_SHARE,
    KNOWLEDGE_SHARE,
    MAX_STANDING_INSTRUCTIONS,
    Context,
    ContextSources,
    pack,
    read_standing_instructions,
)
from agentmem.recall.evidence import find_fitting
from agentmem.recall.executor import Deadline, RecallMetrics, build_notices, run_techniques
from agentmem.recall.late_interaction import DEPTH, rerank_late_interaction
from agentmem.recall.llm_client import CachedLLM
from agentmem.recall.options import ContextOptions, parse_options
from agentmem.recall.receipt import (
    Receipt,
    ThreadLead,
    TraceLine,
    WhyNot,
    build_pool,
    count_contributions,
    explain_from_receipt,
)
from agentmem.recall.request import RateLimiter, RecallQuery, RecallRequest
from agentmem.recall.scoring import (
    NOTICE_NOTHING_RELEVANT,
    EvaluationTime,
    RankedSelection,
    annotate_stale,
    conversation_prior,
    has_relevant_result,
    select,
    top_per_kind,
)
from agentmem.recall.technique import SearchContext
from agentmem.recall.visibility import PreparedSearch, open_search_context
from agentmem.settings.sections import DecayOptions, SynopsisOptions
from agentmem.text.tokenizer import TokenCounter

if TYPE_CHECKING:
    from agentmem.recall.reranking import BoundedReranker


NOTICE_TOKENS_PENDING = "Word piece vectors, which profile best needs, are not there yet: ranked without them."
MAX_CONTEXT_CANDIDATES = 2_000  # records considered for one context
SPARE_RECORDS = 30  # records read beyond what should fit
MAX_THREAD_LEADS = 3
CONVERSATION_PRIOR = 0.1
"""Added to the turns of a conversation with good matches in profile `best`; measured in docs/recall.md: R@10 of the
dialogues +.003, of the messages -.006 (786 and 170 questions)."""
LENGTH_PRICE = 0.075
"""What each doubling of a turn's length over FREE_WORDS costs it in a context, in points of its score; the measures on
LoCoMo, BEAM, LifeBench and RealMem are in docs/context.md."""
MAX_REPLY_WORDS = 8  # words of a turn that may need the question before it
FREE_WORDS = 35  # words of a turn that cost nothing in a context: some 200 characters
DEFAULT_DECAY: DecayPolicy = DecayOptions()
NOTHING_BELIEVED = Standings()
NO_ORDINALS: Ints = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class RankedRecall:
    """One recall before anything is read for delivery."""

    query: RecallQuery
    context: SearchContext
    fusion: Fusion
    selection: RankedSelection
    trace: tuple[TraceLine, ...]
    notices: tuple[str, ...]
    relevant: bool | None


class RecallLayer:
    """Answers requests about what is open. `settings` are the `recall` settings, `profile` is `default` or `best`.

    `settings_fingerprint` identifies the settings in force, for receipts. `decay` is the policy by which memories fade.
    `reranker`, if any, takes a second look at the best turns; whoever opened it closes it. `metrics` says what each
    technique took and gave. Raises ConfigError for a setting that does not exist.
    """

    def __init__(
        self,
        source: Engine,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        profile: str = "default",
        settings_fingerprint: str = "",
        rate_limiter: RateLimiter | None = None,
        reranker: Reranker | None = None,
        decay: DecayPolicy = DEFAULT_DECAY,
        synopsis: SynopsisOptions | None = None,
    ) -> None:
        self.source = source
        self.decay = decay
        self.synopsis = synopsis or SynopsisOptions()
        self.options = parse_options(settings or {}, profile)
        self.settings_fingerprint = settings_fingerprint
        self.rate_limiter = rate_limiter or RateLimiter(0, 1)
        self.cache = RankingCache(source.cache_stats)
        self.llm = CachedLLM(lambda: source.llms)
        self.metrics = RecallMetrics()
        self.bounded_reranker: BoundedReranker | None = None
        if reranker is not None:
            from agentmem.recall.reranking import BoundedReranker

            self.bounded_reranker = BoundedReranker(reranker, self.options.reranker)

    def drop_user_caches(self, user_id: str) -> None:
        """Drop everything kept of a user in memory; for erasure."""
        self.cache.drop_user(user_id)
        self.llm.clear()

    async def recall(
        self,
        request: RecallRequest,
        scope: Scope,
        notices: Sequence[str] = (),
        standings: Standings = NOTHING_BELIEVED,
    ) -> MemoryBundle:
        """The bundle for a request; `notices` come first among its own. `standings` tell what is believed.

        A technique that fails or is late costs a notice and a line in the receipt. When all of them failed, the first
        failure is raised. Raises RateLimited when the user asks too often.
        """
        self.rate_limiter.acquire(scope.user_id)
        watch = Stopwatch(self.source.clock)
        pool = max(2 * request.top_k, self.options.ranking.pool)
        ranking = await self._rank(request, scope, pool, notices, standings)
        selection, context = ranking.selection, ranking.context
        top = {kind: ordinals[: request.top_k] for kind, ordinals in selection.ordinals_by_kind.items()}
        items = selection.items[np.isin(selection.items, np.concatenate([*top.values(), NO_ORDINALS]))][: request.top_k]
        records = await _read_records(ranking, np.concatenate([*top.values(), NO_ORDINALS]))
        kinds = {kind: _select_present(_put_failed_last(ordinals, records), records) for kind, ordinals in top.items()}
        items = _put_failed_last(items, records)
        keys = {ordinal: records[ordinal].key for ordinal in items.tolist() if ordinal in records}
        delivery = DeliveredRecords(
            kinds,
            {key: records[ordinal] for ordinal, key in keys.items()},
            {key: round(float(selection.item_scores[ordinal]), 4) for ordinal, key in keys.items()},
            _find_thread_leads(ranking),
            await read_user_context(context, self.synopsis),
            standings,
        )
        receipt = await self._build_receipt(ranking, delivery, watch)
        self.metrics.add_recall(receipt.trace, relevant=receipt.relevant)
        return delivery.to_bundle(receipt)

    async def context(
        self,
        request: RecallRequest,
        scope: Scope,
        max_tokens: int = DEFAULT_CONTEXT_TOKENS,
        counter: TokenCounter | None = None,
        notices: Sequence[str] = (),
        gather_sources: Callable[[ContextOptions], Awaitable[ContextSources]] | None = None,
        *,
        with_ids: bool = False,
        standings: Standings = NOTHING_BELIEVED,
    ) -> Context:
        """What matters, as much as fits into `max_tokens`, ready for a prompt: knowledge, then turns in time order.

        `gather_sources` reads what a context holds beside what was ranked. `with_ids` tells the ids of records.
        """
        if max_tokens < 1:
            raise InvalidRecord(f"max_tokens must be at least 1, got {max_tokens}", field="max_tokens")
        self.rate_limiter.acquire(scope.user_id)
        pool = min(max(self.options.ranking.pool, max_tokens // 8), MAX_CONTEXT_CANDIDATES)
        options = self.options.context
        ranking, others = await asyncio.gather(
            self._rank(request, scope, pool, notices, standings),
            _no_sources() if gather_sources is None else gather_sources(options),
        )
        self.metrics.add_recall(ranking.trace, relevant=ranking.relevant)
        context, order = ranking.context, _context_candidates(ranking, max_tokens)
        asked = _find_questions(context, order)
        records = await _read_records(ranking, np.concatenate([order, list(asked.values())]).astype(np.int64))
        standing = await read_standing_instructions(context, MAX_STANDING_INSTRUCTIONS)
        packed = await asyncio.to_thread(
            pack,
            _select_present(order, records),
            query=request.query,
            moment=context.now,
            profile=await read_profile(context),
            max_tokens=max_tokens,
            counter=counter,
            knowledge_share=KNOWLEDGE_SHARE,
            notices=ranking.notices,
            standing_instructions=standing,
            instructions_share=INSTRUCTIONS_SHARE,
            sources=others,
            questions=_select_questions(asked, records),
            candidates=_candidate_keys(ranking),
            history_chars=_estimate_history_chars(context, records),
            with_ids=with_ids,
            standings=standings,
        )
        held = {record.key: record for record in records.values()}
        shown = {key: held[key] for key in packed.records if key in held}
        packed.shown = tuple(shown.values())
        packed.values = _list_told_values(others.beliefs, packed)
        packed.fitting = await _find_fitting_keys(ranking, shown)
        return packed

    async def why_not(self, receipt: Receipt, record_id: str) -> WhyNot:
        """Why a record was delivered or not: by the receipt, and where that says too little by asking again.

        Asking again sees the memory as it was then, but the models and settings of now.
        """
        said = explain_from_receipt(receipt, record_id)
        if said.candidate is not None:
            return said
        ranking = await self._rank(
            receipt.request, receipt.scope, MAX_CONTEXT_CANDIDATES, (), replay_at=(receipt.seq, receipt.at)
        )
        return explain_exclusion(ranking.query, ranking.context, ranking.selection, record_id)

    async def replay(self, receipt: Receipt, standings: Standings = NOTHING_BELIEVED) -> MemoryBundle:
        """The bundle that a recall delivered, from its receipt, with the records as they were then.

        `standings` tell what was believed then.
        """
        context = (await self._open_search_context(receipt.request, receipt.scope, (receipt.seq, receipt.at))).context
        ordinals = {key: context.columns.ordinals_by_key.get(key, -1) for key in (*receipt.delivered, *receipt.items)}
        keys = {ordinal: key for key, ordinal in ordinals.items() if ordinal >= 0}
        read = await context.read_by_ordinal(list(keys))
        found = {keys[ordinal]: record for ordinal, record in (await annotate_stale(read, context)).items()}
        kinds: dict[str, list[Record]] = {}
        for key in receipt.delivered:
            if key in found:
                kinds.setdefault(key[0], []).append(found[key])
        items = {key: found[key] for key in receipt.items if key in found}
        known = await read_user_context(context, self.synopsis)
        delivery = DeliveredRecords(kinds, items, receipt.items, receipt.leads, known, standings)
        return delivery.to_bundle(receipt)

    async def _open_search_context(
        self, request: RecallRequest, scope: Scope, replay_at: tuple[int, datetime] | None
    ) -> PreparedSearch:
        return await open_search_context(
            self.source,
            request,
            scope,
            self.cache,
            ask=self.llm.ask,
            options=self.options,
            replay_at=replay_at,
        )

    async def _rank(
        self,
        request: RecallRequest,
        scope: Scope,
        pool: int,
        notices: Sequence[str],
        standings: Standings = NOTHING_BELIEVED,
        replay_at: tuple[int, datetime] | None = None,
    ) -> RankedRecall:
        """Everything up to the places; `replay_at` is a journal position and moment to repeat a recall at."""
        techniques = self.options.select_techniques(request.techniques)
        whole = None if self.source.is_deterministic else Deadline(self.options.ranking.deadline)
        query, context, embeddings, late = await self._open_search_context(request, scope, replay_at)
        found = await run_techniques(techniques, query, context, self.source.clock, whole)
        fusion, short = await offload_if_large(context.columns.size, self._fuse, found.lists, context, pool)
        trace, said = found.trace, [*notices, *request.notices, *late]
        about = await has_relevant_result(query, context, fusion, visibility.FEW_TURNS)
        about = is_answered_by_belief(query, standings) or about
        said += [NOTICE_NOTHING_RELEVANT] if about is False else []
        if self.options.reranks and len(short.get("Turn", ())) > 1:
            pieces = await embeddings.embed_tokens(query.parsed.text_without_names) if "whole" in found.lists else None
            again = await self._rerank_late_interaction(fusion, short["Turn"], pieces, context)
            said += [] if again else [NOTICE_TOKENS_PENDING]
            fusion = again or fusion
        if (
            self.bounded_reranker is not None
            and len(turns := top_per_kind(fusion, context, pool).get("Turn", NO_ORDINALS)) > 1
        ):
            fusion, line = await self.bounded_reranker.rerank(query, turns, fusion, context, whole)
            trace = (*trace, line)
        said += build_notices(trace)
        now = self.source.clock.now() if replay_at is None else replay_at[1]
        evaluation = EvaluationTime(now, self.decay, request.min_confidence)
        selection = await select(fusion, short, context, self.options.ranking, evaluation, request.top_k)
        if self.options.ranking.by_time:
            selection = await order_by_time(selection, fusion, query, context, standings)
        return RankedRecall(query, context, fusion, selection, trace, tuple(said), about)

    def _fuse(
        self, lists: Mapping[str, ScoreList], context: SearchContext, pool: int
    ) -> tuple[Fusion, dict[str, Ints]]:
        """The fusion, and the best of each kind by it."""
        options = self.options.ranking
        fusion = fuse(lists, context.mask, context.normalization_mask, method=options.fusion)
        if self.options.reranks and context.turn_mask.any():
            prior = conversation_prior(fusion.scores, context.turn_mask, context.columns)
            fusion = add_bonus(fusion, "conversation", CONVERSATION_PRIOR * prior)
        return fusion, top_per_kind(fusion, context, pool)

    async def _rerank_late_interaction(
        self, fusion: Fusion, turn_ordinals: Ints, query_tokens: TokenVectors | None, context: SearchContext
    ) -> Fusion | None:
        if query_tokens is None:
            return None
        return await rerank_late_interaction(turn_ordinals[:DEPTH], fusion, query_tokens, context)

    async def _build_receipt(self, ranking: RankedRecall, delivery: DeliveredRecords, stopwatch: Stopwatch) -> Receipt:
        context, selection, request = ranking.context, ranking.selection, ranking.query.request
        records = delivery.records()
        pool = await offload_if_large(
            context.columns.size,
            build_pool,
            context,
            selection.ordinals_by_kind,
            selection.scores,
            ranking.fusion,
            selection.factors,
        )
        return Receipt(
            id=self.source.ids.new_id(),
            scope=context.scope,
            at=self.source.clock.now(),
            request=request,
            profile=self.options.profile,
            settings=self.settings_fingerprint,
            embedder=context.embedder_id,
            seq=context.columns.seq if context.through_seq is None else context.through_seq,
            milliseconds=stopwatch.milliseconds(),
            pool=pool,
            relevant=ranking.relevant,
            trace=count_contributions(ranking.trace, pool, delivery.scores, request.top_k),
            delivered=tuple(records),
            fitting=await _find_fitting_keys(ranking, records),
            items=delivery.scores,
            leads=delivery.thread_leads,
            elsewhere={key: each.channel for key, each in records.items() if each.channel != context.scope.channel},
            notices=ranking.notices,
        )


async def _find_fitting_keys(ranking: RankedRecall, records: Mapping[Key, Record]) -> tuple[Key, ...]:
    """The keys of the records among these that fit the query; see `find_fitting`."""
    places = ranking.context.columns.ordinals_by_key
    given = {places[key]: record for key, record in records.items() if key in places}
    fits = await find_fitting(ranking.query, ranking.context, ranking.fusion, given)
    return tuple([key for key in records if places.get(key) in fits])


def _put_failed_last(ordinals: Ints, records: Mapping[int, Record]) -> Ints:
    """The same ranking, but of strategies those that worked take the better places, as in a context."""
    found = {record.key: int(each) for each in ordinals if isinstance(record := records.get(int(each)), Strategy)}
    if not found:
        return ordinals
    from agentmem.memory.procedural.strategies import put_failed_last

    out, better = ordinals.copy(), put_failed_last(records[each] for each in found.values())
    out[np.isin(ordinals, list(found.values()))] = [found[each.key] for each in better]
    return out


def _list_told_values(beliefs: BeliefDigest, packed: Context) -> tuple[tuple[Key, str], ...]:
    """The facts and values of the lines of beliefs that a context holds."""
    held = set(packed.records)
    pairs = (pair for line in beliefs.lines for pair in zip(line.keys, line.values, strict=True))
    return tuple(pair for pair in pairs if pair[0] in held)


def _candidate_keys(ranking: RankedRecall) -> list[Key]:
    ids = ranking.context.columns.ids
    return [
        (kind, ids[ordinal]) for kind, ordinals in ranking.selection.ordinals_by_kind.items() for ordinal in ordinals
    ]


def _estimate_history_chars(context: SearchContext, records: Mapping[int, Record]) -> int:
    """About how many characters all visible turns have: their words, by as many characters a word as in those read."""
    words, turns = context.columns.words, [ordinal for ordinal, record in records.items() if isinstance(record, Turn)]
    characters = sum(len(records[ordinal].search_text()) for ordinal in turns)
    return round(float(words[context.turn_mask].sum()) * characters / max(1, int(words[turns].sum()))) if turns else 0


async def _no_sources() -> ContextSources:
    return ContextSources()


async def _read_records(ranking: RankedRecall, ordinals: Ints) -> dict[int, Record]:
    """The records of these ordinals; those already read on the way are not read again."""
    known, context = ranking.selection.records, ranking.context
    wanted = [ordinal for ordinal in dict.fromkeys(ordinals.tolist()) if ordinal not in known]
    return {**known, **await context.read_by_ordinal(wanted)}


def _select_present(ordinals: Ints, records: Mapping[int, Record]) -> list[Record]:
    return [records[ordinal] for ordinal in ordinals.tolist() if ordinal in records]


def _find_thread_leads(ranking: RankedRecall) -> tuple[ThreadLead, ...]:
    """The conversations with most turns in the pool, at least two; the best of them is where to start reading."""
    columns, turns = ranking.context.columns, ranking.selection.ordinals_by_kind.get("Turn", NO_ORDINALS)
    codes, first, counts = np.unique(columns.conversation[turns], return_index=True, return_counts=True)
    order = np.lexsort((first, -counts))
    return tuple(
        ThreadLead(columns.conversations.values[codes[at]], columns.ids[turns[first[at]]], int(counts[at]))
        for at in order[:MAX_THREAD_LEADS]
        if counts[at] > 1
    )


def _context_candidates(ranking: RankedRecall, max_tokens: int) -> Ints:
    """Ordinals of all kinds, best first, as many as may fit by their number of words, and some more.

    A turn costs `LENGTH_PRICE` for each doubling of its length over `FREE_WORDS` words: a budget that one long turn
    fills has no room for others.
    """
    selection, columns = ranking.selection, ranking.context.columns
    ordinals = np.concatenate([*selection.ordinals_by_kind.values(), NO_ORDINALS])
    lengths = np.maximum(columns.words, FREE_WORDS) / FREE_WORDS
    prices = np.where(columns.kind == columns.kinds.find_code("Turn"), LENGTH_PRICE * np.log2(lengths), 0.0)
    order = top_k(selection.scores - prices, ordinals, len(ordinals), columns)
    most = np.cumsum(columns.words[order] + 2) <= 1.5 * max_tokens
    return order[: int(most.sum()) + SPARE_RECORDS]


def _find_questions(context: SearchContext, order: Ints) -> dict[int, int]:
    """The ordinal of the question that a short turn answers, by that of the turn."""
    columns, previous = context.columns, context.context_neighbors.previous[order]
    short = (columns.words[order] <= MAX_REPLY_WORDS) & (previous >= 0)
    short &= columns.kind[order] == columns.kinds.find_code("Turn")
    short &= (columns.asks[previous] & ENDS_WITH_QUESTION) != 0
    return dict(zip(order[short].tolist(), previous[short].tolist(), strict=True))


def _select_questions(asked: Mapping[int, int], records: Mapping[int, Record]) -> dict[Key, Turn]:
    """The turns that ask, by the key of the reply."""
    found = {records[reply].key: records.get(turn) for reply, turn in asked.items() if reply in records}
    return {key: turn for key, turn in found.items() if isinstance(turn, Turn)}


def explain_exclusion(query: RecallQuery, context: SearchContext, selection: RankedSelection, record_id: str) -> WhyNot:
    """The reason, from a recall repeated with a deeper pool."""
    ordinals = [
        ordinal
        for (_, key), ordinal in context.columns.ordinals_by_key.items()
        if key == record_id and ordinal < context.columns.size
    ]
    ordinals = [ordinal for ordinal in ordinals if context.columns.kind[ordinal] >= 0]
    if not ordinals:
        return WhyNot(False, "no record of this id was known then")
    ordinal = ordinals[0]
    if ordinal in selection.below_confidence:
        return WhyNot(False, "its confidence has faded below min_confidence")
    if context.mask[ordinal]:
        return WhyNot(False, _describe_rank(ordinal, selection))
    return WhyNot(False, f"not visible: {_describe_invisibility(ordinal, query, context)}")


def _describe_rank(ordinal: int, selection: RankedSelection) -> str:
    for kind, ordinals in selection.ordinals_by_kind.items():
        if len(found := np.flatnonzero(ordinals == ordinal)):
            return f"too far behind: place {int(found[0]) + 1} among {kind} records"
    return "too far behind to be given a place"


def _describe_invisibility(ordinal: int, query: RecallQuery, context: SearchContext) -> str:
    columns, request, scope = context.columns, query.request, context.scope
    channel = columns.channels.values[columns.channel[ordinal]]
    status = columns.statuses.values[columns.status[ordinal]]
    kind = columns.kinds.values[columns.kind[ordinal]]
    begins = int(columns.valid_from[ordinal])
    now = to_micros(query.now)
    weak = request.min_confidence is not None and bool(columns.confidence[ordinal] < request.min_confidence)
    left_out = columns.ids[ordinal] in (request.exclude or ())
    tests = (
        (left_out, "it is the turn that asked, or one that `exclude` named"),
        (channel not in scope.readable_channels(), f"its channel {channel!r} is not read here"),
        (kind not in request.kinds, f"{kind} records are not included"),
        (status in HIDDEN_STATUSES, f"it is {status}"),
        (columns.superseded_at[ordinal] != MAX_TIME, "it was superseded"),
        (columns.valid_to[ordinal] <= now, "it had ended by then"),
        (request.as_of is not None and begins > now, "it was not true yet"),
        (weak, "its confidence is below min_confidence"),
    )
    return next((text for fails, text in tests if fails), "it lies outside of the time asked for")
