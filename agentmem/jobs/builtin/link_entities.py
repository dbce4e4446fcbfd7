"""Entities that may be one: those with a name in common are merged, those that are only alike are put to a person.

Likeness alone merges nothing here, because somebody stored them as two. People are always asked about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.record import Status
from agentmem.core.records import Entity, Review, build_record
from agentmem.errors import Conflict, InvalidRecord, NotFound
from agentmem.extraction.entity_resolution import AGENT, UNKNOWN_TYPE, is_compatible_type, slugs_of
from agentmem.jobs.job import Job, context_for
from agentmem.jobs.runner import LeasedRun, build_leased_run
from agentmem.memory.context import MemoryContext
from agentmem.memory.semantic.memory import SemanticMemory
from agentmem.memory.semantic.reviews import same_entity_review_id

NAME = "entity_linking"
COMPARE_BATCH_SIZE = 256  # entities that are compared with all others at once
MIN_REVIEW_COSINE = 0.75  # from which two names of one type are put to a person
PERSON, USER_TYPE = "person", "user"

EntityPair = tuple[Entity, Entity]


@dataclass
class _LinkEntitiesRun(LeasedRun):
    context: MemoryContext = field(init=False)  # of the channel that is looked at

    async def run_all(self) -> None:
        """Compare the entities that changed since the last run with the others of their channel.

        Counts: `merged` entities and `review` questions put. What a person kept apart is neither merged nor asked
        again.
        """
        after = (await self.engine.job_queue.state(NAME, self.scope)).seq
        for channel in await self.find_changed_channels("Entity", after):
            self.context = context_for(self.engine, self.scope, channel)
            await self._link_channel(after)

    async def _link_channel(self, after_seq: int) -> None:
        """Pairs with a name in common first: a merge may settle what would be asked about."""
        everybody = [entity for entity in await self._read_entities() if entity.type not in (AGENT, USER_TYPE)]
        fresh = [entity for entity in everybody if entity.seq > after_seq]
        named = list(_find_pairs_sharing_names(fresh, everybody))
        known = await self._read_review_ids([*named, *(alike := await self._find_similar_pairs(fresh, everybody))])
        gone: set[str] = set()
        for one, other in named:
            if (
                gone.isdisjoint((one.id, other.id))
                and same_entity_review_id(one.user_id, one.id, other.id) not in known
            ):
                if PERSON in (one.type, other.type) or one.type != other.type:
                    await self._request_review(one, other)
                elif await self._merge(one, other):
                    gone.add(other.id)
        asked = {frozenset((one.id, other.id)) for one, other in named}
        for one, other in alike:
            fresh_pair = frozenset((one.id, other.id)) not in asked and gone.isdisjoint((one.id, other.id))
            if fresh_pair and same_entity_review_id(one.user_id, one.id, other.id) not in known:
                await self._request_review(one, other)

    async def _read_entities(self) -> list[Entity]:
        found = await self.context.list_readable("Entity", channels=(self.context.scope.channel,))
        return [
            entity
            for entity in found
            if isinstance(entity, Entity) and entity.superseded_at is None and entity.status is Status.ACTIVE
        ]

    async def _find_similar_pairs(self, fresh: Sequence[Entity], all_entities: Sequence[Entity]) -> list[EntityPair]:
        """Pairs of one type, but not of people, that are near in meaning; none where the embedder sees words alone."""
        served = self.engine.vector_projections[:1]
        if not served or served[0].embedder.identity.startswith("hash:"):
            return []
        columns = await self.engine.read_columns(self.context.scope)
        likely = [entity for entity in all_entities if entity.type not in (PERSON, UNKNOWN_TYPE)]
        vectors = await served[0].index.read_vectors(
            [columns.ordinals_by_key[entity.key] for entity in likely], self.context.scope
        )
        held = [entity for entity in likely if columns.ordinals_by_key[entity.key] in vectors]
        if not held:
            return []
        rows = np.stack([vectors[columns.ordinals_by_key[entity.key]] for entity in held]).astype(np.float32)
        at = {entity.id: number for number, entity in enumerate(held)}
        asked = [at[entity.id] for entity in fresh if entity.id in at]
        pairs = {}
        for start in range(0, len(asked), COMPARE_BATCH_SIZE):
            some = asked[start : start + COMPARE_BATCH_SIZE]
            for left, right in np.argwhere(rows[some] @ rows.T >= MIN_REVIEW_COSINE).tolist():
                one, other = sorted((held[some[left]], held[right]), key=_age_key)
                if one.id != other.id and one.type == other.type:
                    pairs[one.id, other.id] = one, other
        return list(pairs.values())

    async def _read_review_ids(self, pairs: Sequence[EntityPair]) -> set[str]:
        """Questions about these pairs that were put before, decided or not."""
        ids = [same_entity_review_id(one.user_id, one.id, other.id) for one, other in pairs]
        found = await self.engine.log.read_records("Review", ids, self.context.scope) if ids else []
        return {record.id for record in found}

    async def _merge(self, keep: Entity, other: Entity) -> bool:
        """Merge both into the older one; False on a conflict."""
        self.report.add_counts(merged=1)
        if self.report.dry_run:
            return True
        semantic = SemanticMemory(self.context)
        try:
            await semantic.merge_entities(keep.id, other.id)
        except (Conflict, InvalidRecord, NotFound) as error:
            self.report.add_counts(merged=-1)
            self.report.notes.append(f"{keep.id} and {other.id} are not merged: {error}")
            return False
        return True

    async def _request_review(self, one: Entity, other: Entity) -> None:
        """Ask whether two are one, by the names that they have now."""
        if self.report.dry_run:
            self.report.add_counts(review=1)
            return
        ids, log, scope = (one.id, other.id), self.engine.log, self.context.scope
        review_id = same_entity_review_id(one.user_id, *ids)

        async def make(write: WriteAttempt) -> Change | None:
            found = await log.read_records("Entity", ids, scope)
            both = {each.id: each for each in found if isinstance(each, Entity) and each.superseded_at is None}
            if len(both) < 2 or await log.read_records("Review", [review_id], scope):
                return None
            review = _build_review(review_id, both[one.id], both[other.id])
            return write.build_change(
                review, expected_versions={review.key: None} | {each.key: each.seq for each in both.values()}
            )

        try:
            entry = await self.engine.write(scope, NAME, make, kind="Review", fence=self.fence)
        except Conflict as error:  # they change without a pause: the next run looks at them
            self.report.notes.append(str(error))
            return
        if entry is not None:
            self.report.operation_ids.append(entry.operation_id)
            self.report.add_counts(review=1)


JOB = Job(NAME, 60.0, "changes", build_leased_run(NAME, _LinkEntitiesRun), watches=("Entity",))


def _build_review(review_id: str, one: Entity, other: Entity) -> Review:
    return build_record(
        Review,
        id=review_id,
        channel=one.channel,
        about="same_entity",
        question=f"Are {one.name!r} ({one.type}) and {other.name!r} ({other.type}) the same?",
        record_ids=(one.id, other.id),
    )


def _find_pairs_sharing_names(fresh: Sequence[Entity], all_entities: Sequence[Entity]) -> Iterator[EntityPair]:
    """Pairs with a name or alias in common that may be of one kind, the older one first, each once."""
    by_name: dict[str, list[Entity]] = {}
    for entity in all_entities:
        for name in slugs_of(entity):
            by_name.setdefault(name, []).append(entity)
    seen = set()
    for one in fresh:
        for other in (each for name in slugs_of(one) for each in by_name[name]):
            older, younger = sorted((one, other), key=_age_key)
            key = (older.id, younger.id)
            if one.id != other.id and is_compatible_type(one.type, other.type) and key not in seen:
                seen.add(key)
                yield older, younger


def _age_key(entity: Entity) -> tuple[datetime | None, str]:
    return entity.recorded_at, entity.id
