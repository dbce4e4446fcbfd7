"""What has been silent for long is put away: conversations are marked as archived, faded entities are forgotten softly.

A conversation's turns stay findable: they are what the user said, and the mark only says that nothing goes on there. It
is taken off when the conversation goes on. With `ltm_retention_days`, long-lived facts that nobody recorded or used for
so many days are archived, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

import numpy as np

from agentmem.consolidation import JobOptions, JobReport
from agentmem.consolidation.due import PAGE, DueRun
from agentmem.consolidation.lease import leased_run
from agentmem.errors import StoreUnavailable
from agentmem.model.clock import from_micros, micros
from agentmem.model.decay import salience_now
from agentmem.model.dues import CLEANUP, anchor, is_due, next_due
from agentmem.model.outline import HIDDEN, NEVER
from agentmem.model.records import RELATIONS, Conversation, EdgeKind, Entity, Fact, Record, Status
from agentmem.model.scope import Scope
from agentmem.resources import Resources
from agentmem.stores.jobs import Due

NAME = CLEANUP
MINUTES = 1440.0
TRIGGER = "due"
SPEAKERS = frozenset({"user", "agent"})  # who they are is given, however seldom they are spoken of
KNOWN_BY = frozenset({EdgeKind.ABOUT, *RELATIONS})
ASKED = 1000  # edges asked for in one go


@leased_run(NAME)
async def run(
    resources: Resources, scope: Scope, options: JobOptions, report: JobReport, fence: int
) -> None:  # fmt: skip
    """Put away what is due. Counts: `archived`, `reopened`, `forgotten` and `kept` records; notes say why.

    With `options.again` all long-lived facts are looked at, not only those stored since `ltm_retention_days` was set.
    """
    try:
        work = DueRun(resources, scope, report, resources.clock.now(), fence)
        async for records in work.pages(CLEANUP):
            options.progress(NAME, len(work.seen), len(work.seen))
            await _page(work, records)
        if options.again:
            async for records in _old_facts(work):
                await _facts(work, [record for record in records if isinstance(record, Fact)])
    except StoreUnavailable as error:
        report.stopped = str(error)


async def _page(work: DueRun, records: Sequence[Record]) -> None:
    await _conversations(work, [record for record in records if isinstance(record, Conversation)])
    await _entities(work, [record for record in records if isinstance(record, Entity)])
    await _facts(work, [record for record in records if isinstance(record, Fact)])
    await work.look_later([each for each in records if not isinstance(each, Conversation | Entity | Fact)])


# -- conversations


async def _conversations(work: DueRun, conversations: Sequence[Conversation]) -> None:
    days = work.resources.settings.retention.conversation_days
    if not conversations or days is None:
        await work.settle([Due(*each.key, None) for each in conversations])
        return
    last, idle = await _last_turns(work, conversations), timedelta(days=days)
    waiting = {each.id: last[each.id] + idle for each in conversations}
    going_on = [each for each in conversations if waiting[each.id] >= work.now]
    silent = [each for each in conversations if waiting[each.id] < work.now]
    reason = f"no turn for {days:g} days"
    await work.put("archived", [_marked(each, True, reason) for each in silent if not each.archived])
    await work.put("reopened", [_marked(each, False, "it went on") for each in going_on if each.archived])
    later = [Due(*each.key, waiting[each.id] + timedelta(microseconds=1), CLEANUP) for each in going_on]
    # Those archived now are due no more by that; those that could not be, since they changed meanwhile, still are.
    await work.settle([*later, *(Due(*each.key, None) for each in silent if each.archived)])
    # A turn stored before that found them still due, and so it asked for no other look.
    last = await _last_turns(work, silent) if silent else {}
    await work.settle([Due(*each.key, work.now, CLEANUP) for each in silent if last[each.id] + idle >= work.now])


def _marked(conversation: Conversation, archived: bool, reason: str) -> Conversation:
    return conversation.model_copy(update={"archived": archived, "reason": reason})


async def _last_turns(work: DueRun, conversations: Sequence[Conversation]) -> dict[str, datetime]:
    """When the last turn of each conversation was recorded; without one, when the conversation was."""
    outline = await work.resources.outline(work.scope)
    found = {each.id: each.recorded_at or work.now for each in conversations}
    turns = np.flatnonzero(outline.kind == outline.kinds.find("Turn"))
    latest = np.zeros(len(outline.conversations.values) + 1, dtype=np.int64)
    np.maximum.at(latest, outline.conversation[turns], outline.recorded_at[turns])
    for name, recorded in found.items():
        code = outline.conversations.find(name)
        if code >= 0 and latest[code]:
            found[name] = max(recorded, from_micros(int(latest[code])))
    return found


# -- entities


async def _entities(work: DueRun, entities: Sequence[Entity]) -> None:
    if not entities:
        return
    used, laws = await work.usage(entities), work.resources.settings
    dues = {each.id: next_due(each, used.get(each.key), work.now, laws) for each in entities}
    faded = [each for each in entities if is_due(dues[each.id], CLEANUP, work.now)]
    names = {each.id for each in faded}
    await work.look_later([each for each in entities if each.id not in names])
    known = await _known(work, faded)
    kept = [each for each in faded if each.id in known or each.type.casefold() in SPEAKERS]
    every = max(timedelta(days=laws.retention.entity_days), timedelta(days=1))
    await work.settle([Due(*each.key, dues[each.id].looked_at_again(work.now, every), CLEANUP) for each in kept])
    if kept:
        work.report.count(kept=len(kept))
    gone = {each.id for each in faded} - {each.id for each in kept}
    forgotten = []
    for each in (entity for entity in faded if entity.id in gone):
        since = anchor(each, used.get(each.key))
        left = salience_now(each.salience, since, work.now, laws.decay)
        reason = f"salience {left:.3f}, unused for {(work.now - since).days} days, and no fact names it"
        forgotten.append(
            each.model_copy(update={"status": Status.FORGOTTEN, "superseded_at": work.now, "reason": reason})
        )
    await work.put("forgotten", forgotten)


async def _known(work: DueRun, entities: Sequence[Entity]) -> set[str]:
    """Those of which a fact or a relation that stands says something, in any channel."""
    resources = work.resources
    if resources.following is not None and not await resources.following.follow_to_end(work.scope):
        raise StoreUnavailable(f"the graph could not catch up: {resources.following.last_error}")
    outline = await resources.outline(work.scope)
    everywhere = Scope(work.scope.user_id, channels=tuple(outline.channels.values))
    left, known = {each.key for each in entities}, set[str]()
    while left:
        found = await resources.graph.edges(sorted(left), everywhere, KNOWN_BY, limit=ASKED)
        named = {name for edge in found for name in (edge.source, edge.target) if ("Entity", name) in left}
        known |= named
        left -= {("Entity", name) for name in named}
        if len(found) < ASKED or not named:  # else those that were crowded out are asked for again
            return known
    return known


# -- long-lived facts


async def _facts(work: DueRun, facts: Sequence[Fact]) -> None:
    if not facts:
        return
    used, laws = await work.usage(facts), work.resources.settings
    old = [each for each in facts if is_due(next_due(each, used.get(each.key), work.now, laws), CLEANUP, work.now)]
    gone = {each.id for each in old}
    await work.look_later([each for each in facts if each.id not in gone])
    days = laws.retention.ltm_retention_days or 0
    reason = f"neither recorded nor used for {days:g} days"
    await work.put(
        "archived", [each.model_copy(update={"status": Status.ARCHIVED, "reason": reason}) for each in old]
    )  # fmt: skip


async def _old_facts(work: DueRun) -> AsyncIterator[list[Record]]:
    """The facts that are old enough by their recording, a page at a time."""
    days = work.resources.settings.retention.ltm_retention_days
    if days is None:
        return
    outline = await work.resources.outline(work.scope)
    old = outline.recorded_at < micros(work.now - timedelta(days=days))
    old &= (outline.kind == outline.kinds.find("Fact")) & (outline.superseded_at == NEVER)
    slots = np.flatnonzero(old & ~outline.statuses.among(HIDDEN)[outline.status])
    for start in range(0, len(slots), PAGE):
        yield await work.resources.log.by_slot([int(slot) for slot in slots[start : start + PAGE]], work.scope)
