"""Entities that may be one: those with a name in common are merged, those that are only alike are put to a person.

Likeness alone merges nothing here, because somebody stored them as two. People are always asked about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from agentmem.consolidation import JobOptions, JobReport
from agentmem.consolidation.clusters import seat_of
from agentmem.consolidation.lease import leased_run
from agentmem.errors import Conflict, InvalidRecord, NotFound
from agentmem.extraction.naming import AGENT, LIKE, PERSON, UNKNOWN, one_kind, slugs_of
from agentmem.memory import Seat
from agentmem.memory.reviews import pair_id
from agentmem.memory.semantic import Semantic
from agentmem.model.changes import Change, Write
from agentmem.model.records import Entity, Review, Status, build
from agentmem.model.scope import Scope
from agentmem.resources import Resources

NAME = "entity_linking"
MINUTES = 60.0
TRIGGER = "changes"
WATCHES = ("Entity",)
BLOCK = 256  # entities that are compared with all others at once
USER = "user"

Pair = tuple[Entity, Entity]


@leased_run(NAME)
async def run(
    resources: Resources, scope: Scope, options: JobOptions, report: JobReport, fence: int
) -> None:  # fmt: skip
    """Compare the entities that changed since the last run with the others of their channel.

    Counts: `merged` entities and `review` questions put. What a person kept apart is neither merged nor asked again.
    """
    after = (await resources.jobs.state(NAME, scope)).seq
    for channel in await _channels(resources, scope, after):
        await _Run(resources, seat_of(resources, scope, channel), report, fence).all(after)


async def _channels(resources: Resources, scope: Scope, after: int) -> list[str]:
    outline = await resources.outline(scope)
    fresh = (outline.kind == outline.kinds.find("Entity")) & (outline.seqs > after)
    return sorted({outline.channels.values[code] for code in outline.channel[fresh].tolist()})


@dataclass
class _Run:
    resources: Resources
    seat: Seat
    report: JobReport
    fence: int

    async def all(self, after: int) -> None:
        """Pairs with a name in common first: a merge may settle what would be asked about."""
        everybody = [entity for entity in await self._entities() if entity.type not in (AGENT, USER)]
        fresh = [entity for entity in everybody if entity.seq > after]
        named = list(_sharing(fresh, everybody))
        known = await self._reviews([*named, *(alike := await self._alike(fresh, everybody))])
        gone: set[str] = set()
        for one, other in named:
            if gone.isdisjoint((one.id, other.id)) and pair_id(one.user_id, one.id, other.id) not in known:
                if PERSON in (one.type, other.type) or one.type != other.type:
                    await self._ask(one, other)
                elif await self._merge(one, other):
                    gone.add(other.id)
        asked = {frozenset((one.id, other.id)) for one, other in named}
        for one, other in alike:
            fresh_pair = frozenset((one.id, other.id)) not in asked and gone.isdisjoint((one.id, other.id))
            if fresh_pair and pair_id(one.user_id, one.id, other.id) not in known:
                await self._ask(one, other)

    async def _entities(self) -> list[Entity]:
        found = await self.seat.all("Entity", channels=(self.seat.scope.channel,))
        return [
            entity for entity in found
            if isinstance(entity, Entity) and entity.superseded_at is None and entity.status is Status.ACTIVE
        ]  # fmt: skip

    async def _alike(self, fresh: Sequence[Entity], everybody: Sequence[Entity]) -> list[Pair]:
        """Pairs of one type, but not of people, that are near in meaning; none where the embedder sees words alone."""
        served = self.resources.vectors[:1]
        if not served or served[0].embedder.identity.startswith("hash:"):
            return []
        outline = await self.resources.outline(self.seat.scope)
        likely = [entity for entity in everybody if entity.type not in (PERSON, UNKNOWN)]
        vectors = await served[0].index.whole([outline.slots[entity.key] for entity in likely], self.seat.scope)
        held = [entity for entity in likely if outline.slots[entity.key] in vectors]
        if not held:
            return []
        rows = np.stack([vectors[outline.slots[entity.key]] for entity in held]).astype(np.float32)
        at = {entity.id: number for number, entity in enumerate(held)}
        asked = [at[entity.id] for entity in fresh if entity.id in at]
        pairs = {}
        for start in range(0, len(asked), BLOCK):
            some = asked[start : start + BLOCK]
            for left, right in np.argwhere(rows[some] @ rows.T >= LIKE).tolist():
                one, other = sorted((held[some[left]], held[right]), key=_age)
                if one.id != other.id and one.type == other.type:
                    pairs[one.id, other.id] = one, other
        return list(pairs.values())

    async def _reviews(self, pairs: Sequence[Pair]) -> set[str]:
        """Questions about these pairs that were put before, decided or not."""
        ids = [pair_id(one.user_id, one.id, other.id) for one, other in pairs]
        found = await self.resources.log.get("Review", ids, self.seat.scope) if ids else []
        return {record.id for record in found}

    async def _merge(self, keep: Entity, other: Entity) -> bool:
        """Make the older one of both; False where something stood against it."""
        self.report.count(merged=1)
        if self.report.dry_run:
            return True
        semantic = Semantic(self.seat)
        try:
            await semantic.merge_entities(keep.id, other.id)
        except (Conflict, InvalidRecord, NotFound) as error:
            self.report.count(merged=-1)
            self.report.notes.append(f"{keep.id} and {other.id} are not merged: {error}")
            return False
        return True

    async def _ask(self, one: Entity, other: Entity) -> None:
        """Ask whether two are one, by the names that they have now."""
        if self.report.dry_run:
            self.report.count(review=1)
            return
        ids, log, scope = (one.id, other.id), self.resources.log, self.seat.scope
        review_id = pair_id(one.user_id, *ids)

        async def make(write: Write) -> Change | None:
            found = await log.get("Entity", ids, scope)
            both = {each.id: each for each in found if isinstance(each, Entity) and each.superseded_at is None}
            if len(both) < 2 or await log.get("Review", [review_id], scope):
                return None
            review = _review(review_id, both[one.id], both[other.id])
            return write.change(review, expects={review.key: None} | {each.key: each.seq for each in both.values()})

        try:
            entry = await self.resources.write(scope, NAME, make, kind="Review", fence=self.fence)
        except Conflict as error:  # they change without a pause: the next run looks at them
            self.report.notes.append(str(error))
            return
        if entry is not None:
            self.report.operation_ids.append(entry.operation_id)
            self.report.count(review=1)


def _review(review_id: str, one: Entity, other: Entity) -> Review:
    return build(
        Review, id=review_id, channel=one.channel, about="same_entity",
        question=f"Are {one.name!r} ({one.type}) and {other.name!r} ({other.type}) the same?",
        record_ids=(one.id, other.id),
    )  # fmt: skip


def _sharing(fresh: Sequence[Entity], everybody: Sequence[Entity]) -> Iterator[Pair]:
    """Pairs with a name or alias in common that may be of one kind, the older one first, each once."""
    by_name: dict[str, list[Entity]] = {}
    for entity in everybody:
        for name in slugs_of(entity):
            by_name.setdefault(name, []).append(entity)
    seen = set()
    for one in fresh:
        for other in (each for name in slugs_of(one) for each in by_name[name]):
            older, younger = sorted((one, other), key=_age)
            key = (older.id, younger.id)
            if one.id != other.id and one_kind(one.type, other.type) and key not in seen:
                seen.add(key)
                yield older, younger


def _age(entity: Entity) -> tuple[datetime | None, str]:
    return entity.recorded_at, entity.id
