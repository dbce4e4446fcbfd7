"""The face of one memory for programs with an event loop: everyday verbs, subsystems as properties."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self, Unpack

from agentmem.core.arguments import check_arguments
from agentmem.core.plain_values import describe_value
from agentmem.core.procedural_records import Outcome
from agentmem.core.record import FinalGoalStatus, MemoryType, Record, TemporalContext, Tier
from agentmem.core.records import Entity, Fact, Goal, Synopsis, Turn, User
from agentmem.core.scope import GLOBAL, Scope, ScopeFields
from agentmem.core.telemetry import ProgressCallback, no_progress
from agentmem.errors import AgentMemError, InvalidRecord, NotFound
from agentmem.facade.async_subsystems import AsyncSubsystems
from agentmem.facade.engine_handle import EngineHandle
from agentmem.importers.items import ImportReport
from agentmem.jobs.job import ALL_CONVERSATIONS, DEFAULT_LIMIT, JobOptions, JobReport, select_jobs
from agentmem.memory.announcements import announce
from agentmem.memory.context import Diff, ErasureReceipt, ForgetReceipt
from agentmem.memory.episodic import OnError, StoredTurns
from agentmem.memory.read_audit import audit_read
from agentmem.memory.semantic.belief_digest import read_digest
from agentmem.memory.semantic.belief_view import SlotBeliefs
from agentmem.memory.semantic.standing import Standing, Standings
from agentmem.memory.semantic.user_profile import UserProfile
from agentmem.recall.audit import RecallAudit
from agentmem.recall.bundle import MemoryBundle
from agentmem.recall.context import Context, gather_sources
from agentmem.recall.request import RecallGroup, RecallRequest
from agentmem.settings.overrides import SettingsOverrides
from agentmem.settings.settings import Settings, load_settings
from agentmem.text.tokenizer import TokenCounter, check_counter

if TYPE_CHECKING:
    from agentmem.memory.curation import Curation
    from agentmem.memory.erasure import Erasure


@check_arguments
class AsyncAgentMemory(AsyncSubsystems):
    """One memory of one user: episodic, semantic and working memory behind one object.

    `settings` and keyword overrides (any field of Settings: home, embedder, audit_level, clock, seed, …) are read once;
    the stores are opened by `async with` or `open()`. `channel` is where writes go; reads also cover the agent's own
    channel, `_swarm` and `_global`. Without a `conversation_id` the first turn starts a new conversation.
    """

    def __init__(
        self,
        user_id: str,
        *,
        channel: str = GLOBAL,
        conversation_id: str | None = None,
        session_id: str | None = None,
        agent_id: str | None = None,
        settings: Settings | None = None,
        **overrides: Unpack[SettingsOverrides],
    ) -> None:
        self.scope = Scope(user_id, channel, agent_id, conversation_id, session_id).check_visible()
        self._opening = EngineHandle(load_settings(settings, **overrides))

    # -- life

    async def open(self) -> Self:
        """Open the stores; twice is fine. Raises ConfigError, SchemaMismatch, CorruptStore or StoreUnavailable."""
        await self._opening.open(self.scope.user_id)
        return self

    async def close(self) -> None:
        """Close what is open, for all scoped views; closing twice is fine."""
        await self._opening.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncAgentMemory({self.scope.user_id!r}, channel={self.scope.channel!r})"

    def scoped(self, **view: Unpack[ScopeFields]) -> AsyncAgentMemory:
        """Another view that shares what is open: another user, channel, conversation, agent or session.

        `channels` are the only ones that the view reads. `key_id` is the key by which a server let the caller in; the
        journal and audit rows name it as the actor. A key of one channel or agent writes into `own_channels` alone.
        """
        other = AsyncAgentMemory.__new__(AsyncAgentMemory)
        given: dict[str, Any] = {name: value for name, value in view.items() if value is not None}
        channels = given.pop("channels", None)
        other.scope = replace(self.scope, **given).check_visible().with_channels(channels)
        if other.scope.user_id != self.scope.user_id and "conversation_id" not in given:
            other.scope = replace(other.scope, conversation_id=None)
        other._opening = self._opening
        return other

    # -- subsystems that need other verbs, or are not public

    @cached_property
    def curation(self) -> Curation:
        """What fades, what stays, and what says the same."""
        from agentmem.memory.curation import Curation

        return Curation(self._context, self.consolidate)

    @cached_property
    def _erasure(self) -> Erasure:
        from agentmem.memory.erasure import Erasure

        return Erasure(self._context)

    # -- storing

    async def store_turn(
        self,
        turn: Turn | Mapping[str, Any] | str | object,
        *,
        role: str = "user",
        speaker: str | None = None,
        timestamp: datetime | date | str | None = None,
        turn_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Turn:
        """Store one turn and return it as stored; acknowledged when it is committed, before any model runs.

        `turn` is text, a Turn, a mapping with `content` and optionally `role, turn_id, speaker, timestamp,
        conversation_id, conversation_title, metadata`, or a message as OpenAI, Anthropic, Gemini or LangChain have it.
        With a `turn_id` (or `idempotency_key`) a retry returns the first result; another payload under it is a
        Conflict. A timestamp is a datetime, a date or ISO 8601 text, UTC without an offset; None is now. Raises
        InvalidRecord before anything is written, NotFound when that turn was erased since.
        """
        if isinstance(turn, str):
            turn = {
                "content": turn,
                "role": role,
                "speaker": speaker,
                "timestamp": timestamp,
                "turn_id": turn_id,
                "metadata": metadata,
            }
        elif speaker is not None or timestamp is not None or turn_id is not None or metadata is not None:
            raise InvalidRecord("give speaker, timestamp, turn_id and metadata inside the turn", field="turn")
        stored = await self.episodic.store([turn], idempotency_key=idempotency_key)
        if stored.skipped:
            raise InvalidRecord(f"content: the message {stored.skipped[0].reason}", field="content")
        if not stored:
            raise NotFound("this turn was erased; it is not stored again under the same turn_id")
        return stored[0]

    async def store_turns(
        self,
        turns: Sequence[Turn | Mapping[str, Any] | str | object],
        *,
        idempotency_key: str | None = None,
        on_error: OnError = "raise",
    ) -> StoredTurns:
        """Store up to 1,000 turns in one transaction, in order; see `store_turn`. [] for none.

        With `on_error="skip"` what is wrong is left out; `skipped` of the list that is returned tells index and reason.
        """
        return await self.episodic.store(turns, idempotency_key=idempotency_key, on_error=on_error)

    async def learn_fact(
        self,
        claim: str,
        *,
        confidence: float | None = None,
        source: str | None = None,
        entity_ids: Sequence[str] | None = None,
        source_turn_ids: Sequence[str] | None = None,
        subject: str | None = None,
        slot: str | None = None,
        value: str | None = None,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        temporal_context: TemporalContext | None = None,
        tags: Sequence[str] | None = None,
        depends_on: Sequence[str] | None = None,
        tier: Tier | None = None,
        salience: float | None = None,
        importance: float | None = None,
        memory_type: MemoryType | None = None,
        idempotency_key: str | None = None,
    ) -> Fact:
        """Store what is known, without a model. The same claim again, while current, gains the new sources.

        Confidence (.8 when None), salience (.5) and importance are within 0 and 1; `tier` is `long` (only ranks lower
        with time) or `short` (fades). From importance `decay.spare_importance` (.8) on, a fact is never put away by
        itself. With a `slot`, such as `home` or `date:release`, and its `value` it is a belief about `subject` (the
        user when None): a new value takes the place of the old one by the decision table, and `beliefs` shows it. A
        plain sentence ("The user lives in Oslo") gives slot and value by itself, unless others are given.
        Ids named must be stored. Raises InvalidRecord naming the field.
        """
        belief = {"subject": subject, "slot": slot, "value": value, "memory_type": memory_type}
        times = {"valid_from": valid_from, "valid_to": valid_to, "temporal_context": temporal_context}
        links = {"entity_ids": entity_ids, "source_turn_ids": source_turn_ids, "depends_on": depends_on, "tags": tags}
        worth = {"confidence": confidence, "tier": tier, "salience": salience, "importance": importance}
        given: dict[str, Any] = {"source": source, **belief, **times, **links, **worth}
        fields = {name: value for name, value in given.items() if value is not None}
        return await self.semantic.learn_fact(claim, idempotency_key=idempotency_key, **fields)

    async def upsert_entity(self, entity: Entity | Mapping[str, Any], *, idempotency_key: str | None = None) -> Entity:
        """Store an entity (`name`, `type`, `aliases`, `description`, `properties`), or add to the one of that name."""
        return await self.semantic.upsert_entity(entity, idempotency_key=idempotency_key)

    async def add_goal(self, goal: Goal | Mapping[str, Any] | str, *, idempotency_key: str | None = None) -> Goal:
        """Store a goal: its description, a mapping of Goal's fields, or a Goal."""
        return await self.goals.add(goal, idempotency_key=idempotency_key)

    @audit_read
    async def get_goal(self, goal_id: str) -> Goal:
        """The goal of this id; NotFound when this scope has none."""
        return await self.goals.get(goal_id)

    async def complete_goal(
        self,
        goal_id: str,
        status: FinalGoalStatus = "completed",
        result: str = "",
        *,
        cascade: Annotated[bool, "Abandon its open sub-goals."] = False,
        idempotency_key: str | None = None,
    ) -> Goal:
        """End a goal as `completed` or `abandoned`, with its result; `cascade` abandons its open sub-goals."""
        return await self.goals.complete(goal_id, status, result, cascade=cascade, idempotency_key=idempotency_key)

    async def announce(
        self, text: str, *, expires_in: timedelta | float | None = None, idempotency_key: str | None = None
    ) -> Fact:
        """Tell all agents of the user something, until `expires_in` (a timedelta or seconds) has passed if given.

        It is a fact in `_swarm`. Said again while it holds, it is strengthened; only a later end changes its end.
        """
        return await announce(self._context, text, expires_in=expires_in, idempotency_key=idempotency_key)

    async def beliefs(
        self,
        subject: Annotated[str | None, "user, or a name; everybody if left out."] = None,
        slot: Annotated[str | None, "Only this slot."] = None,
        *,
        as_of: Annotated[datetime | None, "What was true at this moment."] = None,
        known_at: Annotated[datetime | None, "What memory held at this moment."] = None,
    ) -> list[SlotBeliefs]:
        """What is believed, slot by slot: current, planned, former and unsure values with the facts that hold them.

        `subject` is `user` or a name, None for everybody. `as_of` asks for a moment of the world, `known_at` for what
        memory held at a moment of the record. Empty when nothing is believed.
        """
        return await self.semantic.beliefs(subject, slot, as_of=as_of, known_at=known_at)

    @audit_read
    async def profile(self) -> UserProfile:
        """What is believed of the user, slot by slot with its sources, and what a program set with `update_profile`."""
        from agentmem.memory.profile import Profile

        return await Profile(self._context).read()

    async def update_profile(
        self,
        *,
        preferences: Mapping[str, Any] | None = None,
        expertise_areas: Sequence[str] | None = None,
        communication_style: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> User:
        """Merge what is given into the profile; None (null) inside a mapping removes that entry."""
        from agentmem.memory.profile import Profile

        return await Profile(self._context).update(
            idempotency_key=idempotency_key,
            preferences=preferences,
            expertise_areas=expertise_areas,
            communication_style=communication_style,
            metadata=metadata,
        )

    async def import_file(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        owner: str | None = None,
        on_error: OnError | None = None,
        dry_run: bool = False,
        progress: ProgressCallback = no_progress,
    ) -> ImportReport:
        """Store what a file, a folder or an archive of another program holds: chats, facts, notes, or an export.

        The `format` is found out when it is None. Of a file with memories of several users, `owner` says whose come in.
        What is wrong in a file written for this import raises InvalidRecord before anything is stored, in other files
        it is left out and counted; `on_error` does one of the two with all. A second import adds nothing.
        """
        from agentmem.importers.importer import Importer

        return await Importer(format, None, on_error, owner, dry_run).import_files(self, [Path(path)], progress)

    # -- recall

    async def remember(
        self,
        query: str,
        *,
        top_k: Annotated[int, "How many of each kind, and in all: 1 to 100."] = 10,
        channels: Annotated[Sequence[str] | None, "Read exactly these channels."] = None,
        as_of: Annotated[datetime | None, "What was true at this moment."] = None,
        known_at: Annotated[datetime | None, "What memory held at this moment."] = None,
        since: Annotated[datetime | None, "Only what began at this moment or later."] = None,
        until: Annotated[datetime | None, "Only what began before this moment."] = None,
        time_window_hours: float | None = None,
        min_confidence: float | None = None,
        include: Annotated[Sequence[RecallGroup] | RecallGroup, "The parts of memory to search."] = (
            "episodic",
            "semantic",
            "procedural",
            "documents",
        ),
        techniques: Sequence[str] | None = None,
        exclude: Annotated[Sequence[str] | str | None, "Records to leave out; by default the turn that asks."] = None,
        reinforce: Annotated[bool, "Whether what is found counts as used."] = True,
    ) -> MemoryBundle:
        """What matters for a query, of all kinds, ranked and explained.

        `since` and `until` bound where a record's world time begins. The turn that asks, which `exclude` is by default,
        is the newest of the conversation with the same text. What is delivered is reinforced once, unless
        `reinforce=False`: then nothing changes. An empty store gives an empty bundle. Printing a bundle gives a
        readable context. Of a query over 10,000 characters the beginning and the end are searched by, and a notice
        says so. Raises InvalidRecord for an empty query.
        """
        span = (since, until, time_window_hours, min_confidence)
        request = RecallRequest(query, top_k, channels, as_of, known_at, *span, include, techniques, exclude)
        engine, layer = self._opening.get()
        scope = self._context.scope
        trail = await RecallAudit.begin(engine, scope, "retrieve", request)
        try:
            bundle = await layer.recall(request, scope, engine.notices, await self._read_standings(request))
        except AgentMemError as error:
            await trail.write_row(None, error=type(error).__name__)
            raise
        trail.publish(bundle)
        if reinforce and bundle.receipt.delivered:
            shown = [item.record for item in bundle.items] + list(bundle.facts) + list(bundle.entities)
            if notice := await trail.reinforce(bundle.receipt.fitting, shown):
                bundle = replace(bundle, notices=(*bundle.notices, notice))
        await trail.write_row(bundle.receipt)
        return bundle

    async def context(
        self,
        query: str,
        max_tokens: Annotated[int, "The most it may take; 4 characters count as one."] = 4000,
        *,
        counter: TokenCounter | None = None,
        ids: bool = False,
        as_of: Annotated[datetime | None, "What was true at this moment."] = None,
        known_at: Annotated[datetime | None, "What memory held at this moment."] = None,
        reinforce: bool = True,
    ) -> Context:
        """What matters for a query within `max_tokens`, between markers; for a model it is data, not instructions.

        Of all tiers: how to answer, what is believed, open goals, the last turns of the conversation, and what is
        found. Tokens are characters / 4, rounded up, unless `counter` (text to number of tokens) is given. `ids` shows
        the ids of records. `as_of` asks what was true at a moment of the world, `known_at` what was known at a moment
        of the record: the context then holds only what was believed, and what is found of then. `parts` of what is
        returned holds the same by section. Empty when nothing is known. What is shown and fits the query counts as
        accessed, as in `remember`, unless `reinforce=False`.
        """
        request = RecallRequest(query=query, as_of=as_of, known_at=known_at)
        engine, layer = self._opening.get()
        counter = check_counter(counter)
        from agentmem.facade.claim_reader import SAMPLE_ORDER, find_order_slot

        await asyncio.to_thread(find_order_slot, SAMPLE_ORDER)  # compiles its patterns, once in a process
        scope, known = self._context.scope, replace(self._context, is_facade=False)
        others = partial(gather_sources, known, request, find_order_slot=find_order_slot)
        trail = await RecallAudit.begin(engine, scope, "context", request)
        standings = await self._read_standings(request)
        room = (max_tokens, check_counter(counter))
        packed = await layer.context(request, scope, *room, engine.notices, others, with_ids=ids, standings=standings)
        trail.publish_context(packed)
        if reinforce and (notice := await trail.reinforce(packed.fitting, packed.shown, packed.values)):
            packed.notices = (*packed.notices, notice)
        shown = [*(record.id for record in packed.shown), *(key[1] for key, _ in packed.values)]
        await trail.write_row(None, shown=shown)
        return packed

    async def find_standing(self, record: Record) -> Standing:
        """How what a record says stands now by what is believed: whether it holds, and if not, since when."""
        standings = (await read_digest(replace(self._context, is_facade=False))).standings
        return standings.find(record, await self._opening.get()[0].now(self._context.scope))

    async def _read_standings(self, request: RecallRequest) -> Standings:
        known = replace(self._context, scope=self._context.scope.with_channels(request.channels), is_facade=False)
        return (await read_digest(known, request.as_of, request.known_at)).standings

    @audit_read
    async def synopsis(self, *, max_tokens: int | None = None, counter: TokenCounter | None = None) -> Synopsis:
        """Who the user is, and what goes on lately, in at most `max_tokens` (1,000) tokens; no model is asked.

        What a model wrote in the background stands here while the facts behind it do; else it is made of facts.
        """
        from agentmem.memory.synopsis import Synopses

        return await Synopses(self._context).read(max_tokens, check_counter(counter))

    @audit_read
    async def get_record(self, record_id: str) -> Record:
        """The current record of this id, of any kind; NotFound when this scope has none."""
        found = await self._context.find_by_id(record_id)
        if not found:
            raise NotFound(
                f"no record {describe_value(record_id)} in the channels {', '.join(self.scope.readable_channels())}"
            )
        return found[0]

    @audit_read
    async def list_records(
        self, kinds: Sequence[str] = (), *, after: Record | tuple[int, str, str] | None = None, limit: int = 100
    ) -> list[Record]:
        """A page of the current records that this scope can read, in the order in which they were last written.

        `kinds` are those wanted, such as `Fact`; all when empty. `after` is the last record of the page before, or its
        `seq`, kind and id: what is written meanwhile comes at the end, and nothing that stands is left out. At most
        1,000; [] after the last one. Raises InvalidRecord, naming the field.
        """
        return await self._context.list_page(kinds, after, limit)

    # -- forgetting and taking back

    async def forget(
        self, record_id: str, hard: bool = False, *, reason: str = "", idempotency_key: str | None = None
    ) -> ForgetReceipt:
        """Forget a record. Softly: out of recall, restorable. `hard`: erased everywhere, with a scan in the receipt."""
        return await self._erasure.forget_id(record_id, hard=hard, reason=reason, idempotency_key=idempotency_key)

    async def restore(self, record_id: str, *, idempotency_key: str | None = None) -> list[Record]:
        """Bring back what was softly forgotten or archived under this id; no job puts it away again until it is used.

        Returns the restored records. Raises NotFound where nothing under this id was put away.
        """
        return await self._erasure.restore(record_id, idempotency_key=idempotency_key)

    async def erase(self) -> ErasureReceipt:
        """Erase everything of this user, in every channel and store; the receipt carries the scan."""
        return await self._erasure.erase_user()

    async def undo(self, operation_id: str, *, idempotency_key: str | None = None) -> str:
        """Take an operation back; returns the id of the operation that did. Conflict when later ones built on it."""
        from agentmem.memory.history import History

        return await History(self._context).undo(operation_id, idempotency_key=idempotency_key)

    @audit_read
    async def diff(self, earlier: datetime, later: datetime) -> Diff:
        """What memory learned, retired and changed between two moments of the record."""
        from agentmem.memory.history import History

        return await History(self._context).diff(earlier, later)

    async def observe_usage(
        self, ids: Sequence[str], context_tags: Sequence[str] = (), *, idempotency_key: str | None = None
    ) -> int:
        """Note that records were used in an answer, once per key; returns how many were found."""
        return await self._context.record_usage(ids, context_tags, idempotency_key=idempotency_key)

    async def reflect(
        self, outcome: bool | str | Mapping[str, Any] | Outcome, *, idempotency_key: str | None = None
    ) -> Outcome:
        """State how a conversation or a task ended: true or false, `failure: why`, or fields of Outcome."""
        from agentmem.memory.procedural.strategies import Outcomes

        return await Outcomes(self._context).reflect(outcome, idempotency_key=idempotency_key)

    # -- in the background

    async def consolidate(
        self,
        job: str | None = None,
        dry_run: bool = False,
        *,
        retry_parked: bool = False,
        reread: bool = False,
        since: datetime | None = None,
        by: str = "",
        read_all: bool = False,
        progress: ProgressCallback = no_progress,
    ) -> list[JobReport]:
        """Run the background jobs (or one of them) for this user now; a report of each.

        `consolidate` reads turns that nobody has read yet, of ten conversations or with `read_all` of all, with the
        language model of the settings, or by rules where none is set. `retry_parked` takes up what was parked. `reread`
        reads again what only rules read, or what the model `by` read, `since` a moment; what was read of it goes, where
        nobody touched it since. Raises InvalidRecord for an unknown job, ConfigError for a model that cannot be used; a
        model that is away is told in the report.
        """
        from agentmem.jobs.reread import build_reread
        from agentmem.jobs.runner import run_job_for_user

        again, limit = build_reread(reread=reread, by=by, since=since), ALL_CONVERSATIONS if read_all else DEFAULT_LIMIT
        options = JobOptions(dry_run=dry_run, retry_parked=retry_parked, reread=again, limit=limit, progress=progress)
        return [
            await run_job_for_user(self.engine, module, self.scope, options) for module in select_jobs(job).values()
        ]

    # -- projections

    async def lag(self) -> dict[str, int]:
        """Changes that each projection has still to apply for this user; all 0 when caught up."""
        return await self.engine.lag(self.scope)

    async def flush(self) -> None:
        """Wait until every projection has caught up; raises ModelUnavailable when the embedder does not come back."""
        await self.engine.flush(self.scope)
