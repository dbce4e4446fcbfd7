"""Who the user is and what goes on lately, written down for each channel whose facts changed: by a model, or of facts.

Where nothing changed, no model is asked and nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from agentmem.consolidation import JobOptions, JobReport
from agentmem.consolidation.lease import leased
from agentmem.errors import BadReply, BudgetSpent, Conflict, LeaseLost, ModelUnavailable
from agentmem.events import INFO, WARNING, tell
from agentmem.memory import Seat
from agentmem.memory.synopsis import TIERS, assembled, holds, scope_of, shares, store, stored
from agentmem.memory.synopsis_material import FACTS, Basis, Material, bases, basis, gather
from agentmem.memory.synopsis_writing import written
from agentmem.model.clock import Stopwatch
from agentmem.model.outline import Outline
from agentmem.model.records import Synopsis
from agentmem.model.scope import Scope
from agentmem.model.synopsis import Tier
from agentmem.providers.asking import Asker, Spending
from agentmem.resources import Resources

NAME = "synopsis"
MINUTES = 60.0
TRIGGER = "changes"
WATCHES = ("Turn", "Fact", "User", "Goal", "Synopsis")
AWAY = f"{FACTS}, for the model was away"  # who made a tier that is to be made again


async def run(resources: Resources, scope: Scope, options: JobOptions) -> JobReport:
    """Write the synopsis of each channel of the user in which something changed.

    A model that is away or a budget that is spent leaves what is put together from facts, and the run is tried again.
    Raises ConfigError for a model that cannot be used.
    """
    resources.check_open()
    watch = Stopwatch(resources.clock)
    spending = resources.llms.spending() if options.spending is None else options.spending.part()
    report = JobReport(job=NAME, user_id=scope.user_id, dry_run=options.dry_run)
    asker = resources.llms.asker(NAME, spending)
    work = _Run(resources, scope, options, report, asker, resources.llms.model_name(NAME))
    if options.dry_run:
        report.count(synopsis=len(await work.waiting()))
        return report
    try:
        async with leased(resources, f"{NAME}:{scope.user_id}", f"job {NAME} of {scope.user_id!r}") as fence:
            await work.all(fence)
    except LeaseLost as error:
        report.stopped = str(error)
    _account(report, spending)
    report.seconds = watch.milliseconds() / 1000
    tell(INFO, "synopsis_written", user_id=scope.user_id, counts=report.counts, calls=report.calls)
    return report


def _account(report: JobReport, spending: Spending) -> None:
    used = spending.total
    report.calls, report.tokens, report.cost = used.calls, used.tokens, used.cost
    report.spent = dict(spending.by_purpose)


@dataclass(frozen=True)
class _Waiting:
    """A channel with something to write: what is stored, and the tiers that do not hold any more."""

    channel: str
    basis: Basis
    stored: Synopsis | None
    stale: tuple[str, ...]


@dataclass
class _Run:
    """One run for one user."""

    resources: Resources
    scope: Scope
    options: JobOptions
    report: JobReport
    asker: Asker | None
    model: str
    away: str = field(default="")  # why the model is not asked any more

    async def waiting(self) -> list[_Waiting]:
        """The channels in which something changed."""
        outline, now = await self._outline()
        found = []
        for channel, seen in (await bases(outline, sorted(outline.channels.values), now)).items():
            known = await self._stored(channel)
            if known is None and not seen.visible.any():
                continue
            stale = tuple(name for name in TIERS if not self._holds(known, name, seen, outline, now))
            if stale:
                found.append(_Waiting(channel, seen, known, stale))
        return found

    def _holds(self, known: Synopsis | None, name: str, seen: Basis, outline: Outline, now: datetime) -> bool:
        if known is None:
            return False
        tier: Tier = getattr(known, name)
        again = self.asker is not None and tier.made_by == AWAY
        return not again and holds(tier, seen, name, now + timedelta(1)) and seen.shows(outline, tier.shown)

    async def _stored(self, channel: str) -> Synopsis | None:
        found = await stored(Seat(self.resources, self.scope), channel)
        return found if found is not None and found.superseded_at is None else None

    async def all(self, fence: int) -> None:
        """Channel by channel."""
        waiting = await self.waiting()
        for number, each in enumerate(waiting):
            self.options.progress(NAME, number, len(waiting))
            try:
                await self._one(each, fence)
            except Conflict as error:  # somebody writes on; the next run finds what came of it
                self.report.failed[each.channel] = str(error)
                self.report.pending += 1

    async def _one(self, each: _Waiting, fence: int) -> None:
        scope = scope_of(self.scope.user_id, each.channel)
        outline, now = await self._outline()
        seen = basis(outline, each.channel, now)
        material = await gather(self.resources, scope, outline, seen)
        tiers = assembled(material, seen, now, self.resources.settings.synopsis)
        tiers |= await self._written(material, tiers, each.stale, now)
        if each.stored is not None:
            tiers |= {name: getattr(each.stored, name) for name in TIERS if name not in each.stale}

        async def moved() -> bool:
            outline, now = await self._outline()
            later = basis(outline, each.channel, now)
            shown = [key for tier in tiers.values() for key in tier.shown]
            return (later.identity, later.context) != (seen.identity, seen.context) or not later.shows(outline, shown)

        entry = await store(Seat(self.resources, scope), tiers, dict(material.seqs), unless=moved, fence=fence)
        if entry is None:
            self.report.pending += await moved()
            return
        self.report.operation_ids.append(entry.operation_id)
        self.report.count(synopsis=1)

    async def _written(
        self, material: Material, tiers: dict[str, Tier], stale: tuple[str, ...], now: datetime
    ) -> dict[str, Tier]:
        """The stale tiers as the model words them; those of which nothing could be used are left out."""
        if self.asker is None or material.empty:
            return {}
        if not self.away:
            try:
                return await self._asked(material, tiers, stale, now)
            except BadReply as error:
                self.report.notes.append(f"put together from facts: {error}")
                return {}
            except (BudgetSpent, ModelUnavailable) as error:
                tell(WARNING, "model_away", job=NAME, user_id=self.scope.user_id, error=str(error))
                self.away = str(error)
                self.report.stopped, self.report.halted = self.away, True
        return {name: tiers[name].model_copy(update={"made_by": AWAY}) for name in stale}

    async def _asked(
        self, material: Material, tiers: dict[str, Tier], stale: tuple[str, ...], now: datetime
    ) -> dict[str, Tier]:
        options = self.resources.settings.synopsis
        deadline = None if self.resources.deterministic else options.deadline
        assert self.asker is not None
        found = await written(material, self.asker, shares(options.max_tokens, options), deadline)
        out = {}
        for name in stale:
            sentences = tuple(found.sentences[name])
            if sentences:
                by = {"sentences": sentences, "shown": found.shown, "made_by": self.model, "made_at": now}
                out[name] = tiers[name].model_copy(update=by)
            elif tiers[name].sentences:
                self.report.notes.append(f"{name} put together from facts: no sentence of the reply rests on them")
        return out

    async def _outline(self) -> tuple[Outline, datetime]:
        return await self.resources.outline(self.scope), await self.resources.now(self.scope)
