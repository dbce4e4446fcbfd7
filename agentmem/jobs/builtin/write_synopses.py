"""Who the user is and what goes on lately, written down for each channel whose facts changed: by a model, or of facts.

Where nothing changed, no model is asked and nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from agentmem.core.clock import add_time
from agentmem.core.columns import RecordColumns
from agentmem.core.records import Synopsis, SynopsisSection
from agentmem.core.scope import channel_scope
from agentmem.core.telemetry import DEBUG, INFO, WARNING, log_event
from agentmem.errors import BudgetExceeded, Conflict, InvalidModelOutput, ModelUnavailable
from agentmem.jobs.job import Job
from agentmem.jobs.runner import LeasedRun, build_leased_run
from agentmem.memory.context import MemoryContext
from agentmem.memory.synopsis import (
    SECTIONS,
    assemble_sections,
    find_stored_synopsis,
    is_fresh,
    split_token_budget,
    write_synopsis,
)
from agentmem.memory.synopsis_sources import (
    MADE_FROM_FACTS,
    SourceSnapshot,
    SynopsisSources,
    read_sources,
    take_snapshot,
    take_snapshots,
)
from agentmem.memory.synopsis_writer import generate_synopsis

NAME = "synopsis"
MADE_WITHOUT_MODEL = f"{MADE_FROM_FACTS}, for the model was away"  # who made a tier that is to be made again


@dataclass(frozen=True)
class _StaleSynopsis:
    """A channel with something to write: what is stored, and the tiers that do not hold any more."""

    channel: str
    snapshot: SourceSnapshot
    stored: Synopsis | None
    stale_sections: tuple[str, ...]


@dataclass
class _WriteSynopsesRun(LeasedRun):
    unavailable_reason: str = ""  # why the model is not asked any more

    def __post_init__(self) -> None:
        llms = self.engine.llms
        self.budget = self.options.open_budget(self.engine)
        self.llm, self.model_name = llms.for_purpose(NAME, self.budget), llms.model_name(NAME)

    async def preview(self) -> bool:
        """Count the channels in which something changed."""
        self.report.add_counts(synopsis=len(await self.find_stale_synopses()))
        return True

    def log_end(self) -> None:
        """Tell what was written, and what models used up for it."""
        self.report.set_usage(self.budget)
        user, counts, calls = self.scope.user_id, self.report.counts, self.report.calls
        log_event(INFO if counts else DEBUG, "synopsis_written", user_id=user, counts=counts, calls=calls)

    async def find_stale_synopses(self) -> list[_StaleSynopsis]:
        """The channels in which something changed."""
        columns, now = await self._read_columns()
        found = []
        for channel, seen in (await take_snapshots(columns, sorted(columns.channels.values), now)).items():
            known = await self._read_stored(channel)
            if known is None and not seen.visible.any():
                continue
            stale = tuple(name for name in SECTIONS if not self._is_fresh(known, name, seen, columns, now))
            if stale:
                found.append(_StaleSynopsis(channel, seen, known, stale))
        return found

    def _is_fresh(
        self, known: Synopsis | None, name: str, snapshot: SourceSnapshot, columns: RecordColumns, now: datetime
    ) -> bool:
        if known is None:
            return False
        tier: SynopsisSection = getattr(known, name)
        again = self.llm is not None and tier.made_by == MADE_WITHOUT_MODEL
        return (
            not again
            and is_fresh(tier, snapshot, name, add_time(now, timedelta(1)))
            and snapshot.has_all(columns, tier.shown)
        )

    async def _read_stored(self, channel: str) -> Synopsis | None:
        found = await find_stored_synopsis(MemoryContext(self.engine, self.scope), channel)
        return found if found is not None and found.superseded_at is None else None

    async def run_all(self) -> None:
        """Write the synopsis of each channel in which something changed.

        A model that is away or a budget that is spent leaves what is put together from facts, and the run is tried
        again.
        """
        waiting = await self.find_stale_synopses()
        for number, each in enumerate(waiting):
            self.options.progress(NAME, number, len(waiting))
            try:
                await self._write_synopsis(each)
            except Conflict as error:  # somebody writes on; the next run finds what came of it
                self.report.failed[each.channel] = str(error)
                self.report.pending += 1

    async def _write_synopsis(self, stale: _StaleSynopsis) -> None:
        scope = channel_scope(self.scope.user_id, stale.channel).with_channels([stale.channel])
        columns, now = await self._read_columns()
        seen = take_snapshot(columns, stale.channel, now)
        material = await read_sources(self.engine, scope, columns, seen)
        tiers = assemble_sections(material, seen, now, self.engine.settings.synopsis)
        tiers |= await self._generate_sections(material, tiers, stale.stale_sections, now)
        if stale.stored is not None:
            tiers |= {name: getattr(stale.stored, name) for name in SECTIONS if name not in stale.stale_sections}

        async def is_obsolete() -> bool:
            columns, now = await self._read_columns()
            later = take_snapshot(columns, stale.channel, now)
            shown = [key for tier in tiers.values() for key in tier.shown]
            return (later.identity_digest, later.context_digest) != (
                seen.identity_digest,
                seen.context_digest,
            ) or not later.has_all(columns, shown)

        entry = await write_synopsis(
            MemoryContext(self.engine, scope), tiers, dict(material.versions), is_obsolete=is_obsolete, fence=self.fence
        )
        if entry is None:
            self.report.pending += await is_obsolete()
            return
        self.report.operation_ids.append(entry.operation_id)
        self.report.add_counts(synopsis=1)

    async def _generate_sections(
        self,
        sources: SynopsisSources,
        sections: dict[str, SynopsisSection],
        stale_sections: tuple[str, ...],
        now: datetime,
    ) -> dict[str, SynopsisSection]:
        """The stale tiers as the model words them; those of which nothing could be used are left out."""
        if self.llm is None or sources.is_empty:
            return {}
        if not self.unavailable_reason:
            try:
                return await self._request_sections(sources, sections, stale_sections, now)
            except InvalidModelOutput as error:
                self.report.notes.append(f"put together from facts: {error}")
                return {}
            except (BudgetExceeded, ModelUnavailable) as error:
                log_event(WARNING, "model_away", job=NAME, user_id=self.scope.user_id, error=str(error))
                self.unavailable_reason = str(error)
                self.report.stop_reason, self.report.abort_others = self.unavailable_reason, True
        return {name: sections[name].model_copy(update={"made_by": MADE_WITHOUT_MODEL}) for name in stale_sections}

    async def _request_sections(
        self,
        sources: SynopsisSources,
        sections: dict[str, SynopsisSection],
        stale_sections: tuple[str, ...],
        now: datetime,
    ) -> dict[str, SynopsisSection]:
        options = self.engine.settings.synopsis
        deadline = None if self.engine.is_deterministic else options.deadline
        assert self.llm is not None
        found = await generate_synopsis(sources, self.llm, split_token_budget(options.max_tokens, options), deadline)
        out = {}
        for name in stale_sections:
            sentences = tuple(found.sentences[name])
            if sentences:
                by = {"sentences": sentences, "shown": found.shown, "made_by": self.model_name, "made_at": now}
                out[name] = sections[name].model_copy(update=by)
            elif sections[name].sentences:
                self.report.notes.append(f"{name} put together from facts: no sentence of the reply rests on them")
        return out

    async def _read_columns(self) -> tuple[RecordColumns, datetime]:
        return await self.engine.read_columns(self.scope), await self.engine.now(self.scope)


JOB = Job(
    NAME,
    60.0,
    "changes",
    build_leased_run(NAME, _WriteSynopsesRun),
    watches=("Turn", "Fact", "User", "Goal", "Synopsis"),
)
