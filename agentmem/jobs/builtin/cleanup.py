"""What has been silent for long is put away: conversations are marked as archived, faded entities are forgotten softly.

A conversation's turns stay findable: they are what the user said, and the mark only says that nothing goes on there. It
is taken off when the conversation goes on. Documents whose time to live has passed are deleted. With
`ltm_retention_days`, long-lived facts that nobody recorded or used for so many days are archived, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

import numpy as np

from agentmem.core.clock import add_time, from_micros, to_micros
from agentmem.core.columns import HIDDEN_STATUSES, MAX_TIME
from agentmem.core.documents import Document
from agentmem.core.lifecycle import CLEANUP, decay_start, is_due, next_due, salience_now
from agentmem.core.record import Record, Status
from agentmem.core.records import RELATION_KINDS, Conversation, EdgeKind, Entity, Fact
from agentmem.core.scope import Scope, channel_scope
from agentmem.errors import StoreUnavailable
from agentmem.jobs.due_records import PAGE_SIZE, DueRecordsRun
from agentmem.jobs.job import Job
from agentmem.jobs.runner import build_leased_run
from agentmem.memory.context import MemoryContext
from agentmem.memory.documents import Documents
from agentmem.stores.job_queue import DueDate

PROTECTED_ENTITY_TYPES = frozenset({"user", "agent"})  # who they are is given, however seldom they are spoken of
REFERENCE_EDGE_KINDS = frozenset({EdgeKind.ABOUT, *RELATION_KINDS})
EDGE_PAGE_SIZE = 1000  # edges asked for in one go


class _CleanupRun(DueRecordsRun):
    async def run_all(self) -> None:
        """Put away what is due. Counts: `archived`, `reopened`, `forgotten`, `expired`, `kept` records; notes say why.

        With `options.retry_parked` all long-lived facts are looked at, not only those stored since `ltm_retention_days`
        was set.
        """
        try:
            async for records in self.read_pages(CLEANUP):
                await _clean_page(self, records)
            if self.options.retry_parked:
                async for records in _read_old_facts(self):
                    await _archive_facts(self, [record for record in records if isinstance(record, Fact)])
        except StoreUnavailable as error:
            self.report.stop_reason = str(error)


JOB = Job(CLEANUP, 1440.0, "due", build_leased_run(CLEANUP, _CleanupRun))


async def _clean_page(work: DueRecordsRun, records: Sequence[Record]) -> None:
    await _archive_conversations(work, [record for record in records if isinstance(record, Conversation)])
    await _forget_entities(work, [record for record in records if isinstance(record, Entity)])
    await _archive_facts(work, [record for record in records if isinstance(record, Fact)])
    await _remove_documents(work, [record for record in records if isinstance(record, Document)])
    await work.reschedule([each for each in records if not isinstance(each, Conversation | Entity | Fact | Document)])


# -- conversations


async def _archive_conversations(work: DueRecordsRun, conversations: Sequence[Conversation]) -> None:
    days = work.engine.settings.retention.conversation_days
    if not conversations or days is None:
        await work.set_due_dates([DueDate(*each.key, None) for each in conversations])
        return
    last, idle = await _read_last_turn_times(work, conversations), timedelta(days=days)
    waiting = {each.id: add_time(last[each.id], idle) for each in conversations}
    going_on = [each for each in conversations if waiting[each.id] >= work.now]
    silent = [each for each in conversations if waiting[each.id] < work.now]
    reason = f"no turn for {days:g} days"
    await work.write_records("archived", [_mark_archived(each, True, reason) for each in silent if not each.archived])
    await work.write_records(
        "reopened", [_mark_archived(each, False, "it went on") for each in going_on if each.archived]
    )
    later = [DueDate(*each.key, add_time(waiting[each.id], timedelta(microseconds=1)), CLEANUP) for each in going_on]
    # Those archived now are due no more by that; those that could not be, since they changed meanwhile, still are.
    await work.set_due_dates([*later, *(DueDate(*each.key, None) for each in silent if each.archived)])
    # A turn stored before that found them still due, and so it asked for no other look.
    last = await _read_last_turn_times(work, silent) if silent else {}
    await work.set_due_dates(
        [DueDate(*each.key, work.now, CLEANUP) for each in silent if add_time(last[each.id], idle) >= work.now]
    )


def _mark_archived(conversation: Conversation, archived: bool, reason: str) -> Conversation:
    return conversation.model_copy(update={"archived": archived, "reason": reason})


async def _read_last_turn_times(work: DueRecordsRun, conversations: Sequence[Conversation]) -> dict[str, datetime]:
    """When the last turn of each conversation was recorded; without one, when the conversation was."""
    columns = await work.engine.read_columns(work.scope)
    found = {each.id: each.recorded_at or work.now for each in conversations}
    turns = np.flatnonzero(columns.kind == columns.kinds.find_code("Turn"))
    latest = np.zeros(len(columns.conversations.values) + 1, dtype=np.int64)
    np.maximum.at(latest, columns.conversation[turns], columns.recorded_at[turns])
    for name, recorded in found.items():
        code = columns.conversations.find_code(name)
        if code >= 0 and latest[code]:
            found[name] = max(recorded, from_micros(int(latest[code])))
    return found


# -- entities


async def _forget_entities(work: DueRecordsRun, entities: Sequence[Entity]) -> None:
    if not entities:
        return
    used, settings = await work.read_usage(entities), work.engine.settings
    dues = {each.id: next_due(each, used.get(each.key), work.now, settings) for each in entities}
    faded = [each for each in entities if is_due(dues[each.id], CLEANUP, work.now)]
    names = {each.id for each in faded}
    await work.reschedule([each for each in entities if each.id not in names])
    known = await _find_referenced(work, faded)
    kept = [each for each in faded if each.id in known or each.type.casefold() in PROTECTED_ENTITY_TYPES]
    every = max(timedelta(days=settings.retention.entity_days), timedelta(days=1))
    await work.set_due_dates([DueDate(*each.key, dues[each.id].next_check(work.now, every), CLEANUP) for each in kept])
    if kept:
        work.report.add_counts(kept=len(kept))
    gone = {each.id for each in faded} - {each.id for each in kept}
    forgotten = []
    for each in (entity for entity in faded if entity.id in gone):
        since = decay_start(each, used.get(each.key))
        left = salience_now(each.salience, since, work.now, settings.decay)
        reason = f"salience {left:.3f}, unused for {(work.now - since).days} days, and no fact names it"
        forgotten.append(
            each.model_copy(update={"status": Status.FORGOTTEN, "superseded_at": work.now, "reason": reason})
        )
    await work.write_records("forgotten", forgotten)


async def _find_referenced(work: DueRecordsRun, entities: Sequence[Entity]) -> set[str]:
    """Those of which a fact or a relation that stands says something, in any channel."""
    engine = work.engine
    if engine.graph_projection is not None and not await engine.graph_projection.sync_fully(work.scope):
        raise StoreUnavailable(f"the graph could not catch up: {engine.graph_projection.last_error}")
    columns = await engine.read_columns(work.scope)
    everywhere = Scope(work.scope.user_id, channels=tuple(columns.channels.values))
    left, known = {each.key for each in entities}, set[str]()
    while left:
        found = await engine.graph.edges(sorted(left), everywhere, REFERENCE_EDGE_KINDS, limit=EDGE_PAGE_SIZE)
        named = {name for edge in found for name in (edge.source, edge.target) if ("Entity", name) in left}
        known |= named
        left -= {("Entity", name) for name in named}
        if len(found) < EDGE_PAGE_SIZE or not named:  # else those that were crowded out are asked for again
            return known
    return known


# -- documents


async def _remove_documents(work: DueRecordsRun, documents: Sequence[Document]) -> None:
    gone = [each for each in documents if each.is_expired(work.now)]
    await work.reschedule([each for each in documents if not each.is_expired(work.now)])
    for channel in sorted({each.channel for each in gone}):
        here = [each for each in gone if each.channel == channel]
        view = Documents(MemoryContext(work.engine, channel_scope(work.scope.user_id, channel)))
        for each in here if work.report.dry_run else await view.remove_expired(here):
            work.add_note("expired", each, "its time to live has passed")


# -- long-lived facts


async def _archive_facts(work: DueRecordsRun, facts: Sequence[Fact]) -> None:
    if not facts:
        return
    used, settings = await work.read_usage(facts), work.engine.settings
    old = [each for each in facts if is_due(next_due(each, used.get(each.key), work.now, settings), CLEANUP, work.now)]
    gone = {each.id for each in old}
    await work.reschedule([each for each in facts if each.id not in gone])
    days = settings.retention.ltm_retention_days or 0
    reason = f"neither recorded nor used for {days:g} days"
    await work.write_records(
        "archived", [each.model_copy(update={"status": Status.ARCHIVED, "reason": reason}) for each in old]
    )


async def _read_old_facts(work: DueRecordsRun) -> AsyncIterator[list[Record]]:
    """The facts that are old enough by their recording, a page at a time."""
    days = work.engine.settings.retention.ltm_retention_days
    if days is None:
        return
    columns = await work.engine.read_columns(work.scope)
    old = columns.recorded_at < to_micros(add_time(work.now, -timedelta(days=days)))
    old &= (columns.kind == columns.kinds.find_code("Fact")) & (columns.superseded_at == MAX_TIME)
    ordinals = np.flatnonzero(old & ~columns.statuses.mask_for(HIDDEN_STATUSES)[columns.status])
    for start in range(0, len(ordinals), PAGE_SIZE):
        yield await work.engine.log.read_by_ordinal(
            [int(ordinal) for ordinal in ordinals[start : start + PAGE_SIZE]], work.scope
        )
