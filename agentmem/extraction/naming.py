"""Which entity a name means: one that is known by it, else a new one; where that is doubtful, a question.

Two people with like names stay two: likeness of names alone never joins people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agentmem.extraction import EntityDraft
from agentmem.memory.reviews import pair_id
from agentmem.model.records import Entity, Review, build
from agentmem.text.names import slug

SAME = 0.90
"""Cosine from which two names of one type, but not of people, are taken for one."""

LIKE = 0.75
"""Cosine from which that is asked."""

UNKNOWN = "thing"
PERSON = "person"
AGENT = "agent"


@dataclass
class Naming:
    """Names of one channel. `known` are its current entities; `fresh` become new ones, `grown` gain names."""

    user_id: str
    channel: str
    known: list[Entity]
    fresh: dict[str, Entity] = field(default_factory=dict)
    grown: dict[str, Entity] = field(default_factory=dict)
    reviews: list[Review] = field(default_factory=list)
    _by_slug: dict[str, list[Entity]] = field(default_factory=dict)
    _meant: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for entity in self.known:
            for name in slugs_of(entity):
                self._by_slug.setdefault(name, []).append(entity)

    def knows(self, draft: EntityDraft) -> bool:
        """Whether an entity is known by this name or by an alias."""
        return (self._match(slug(draft.name), draft.type) or self._match_any(draft)) is not None

    def learn(self, draft: EntityDraft, new_id: str, alike: Sequence[tuple[Entity, float]] = ()) -> str:
        """Take a name in and return the id of the entity that it means here, "" for a name of nothing.

        `new_id` is for a new entity; `alike` are known ones by cosine, most like first.
        """
        name = slug(draft.name)
        if not name:
            return ""
        alike = [(each, cosine) for each, cosine in alike if each.type == draft.type != PERSON and cosine >= LIKE]
        found = self._match(name, draft.type) or self._match_any(draft)
        if found is None and alike and alike[0][1] >= SAME:
            found = alike[0][0]
        if found is None:
            made = build(
                Entity, id=new_id, channel=self.channel, name=draft.name, type=draft.type, slug=name,
                aliases=tuple(alias for alias in draft.aliases if slug(alias)), description=draft.description,
            )  # fmt: skip
            self.fresh[made.id] = found = made
            doubtful = _longer_or_shorter(made, self.known) if made.type == PERSON else [each for each, _ in alike[:1]]
            for other in doubtful:
                self._ask(other, made)
            for each in slugs_of(made):
                self._by_slug.setdefault(each, []).append(made)
        elif found.id not in self.fresh:
            self._grow(found, draft)
        for each in (name, *map(slug, draft.aliases)):
            self._meant.setdefault(each, found.id)
        return found.id

    def meant(self, name: str) -> str | None:
        """The id of the entity that a name means; None for a name that nobody gave an entity."""
        wanted = slug(name)
        if wanted in self._meant:
            return self._meant[wanted]
        found = self._by_slug.get(wanted, [])
        return found[0].id if found else None

    def ids(self, names: Iterable[str]) -> tuple[str, ...]:
        """The ids that these names mean, each once; unknown names are left out."""
        return tuple(dict.fromkeys(found for name in names if (found := self.meant(name)) is not None))

    def _match(self, name: str, type: str) -> Entity | None:
        found = [entity for entity in self._by_slug.get(name, []) if one_kind(entity.type, type)]
        exact = [entity for entity in found if entity.type == type and entity.slug == name]
        return next(iter(exact or found), None)

    def _match_any(self, draft: EntityDraft) -> Entity | None:
        """By an alias that was stated, where it is nobody else's."""
        found = {entity.id: entity for alias in draft.aliases if (entity := self._match(slug(alias), draft.type))}
        return next(iter(found.values())) if len(found) == 1 else None

    def _grow(self, entity: Entity, draft: EntityDraft) -> None:
        old = self.grown.get(entity.id, entity)
        names = [name for name in (draft.name, *draft.aliases) if slug(name) not in slugs_of(old)]
        described = old.description or draft.description
        if names or described != old.description:
            aliases = (*old.aliases, *dict.fromkeys(names))
            self.grown[entity.id] = old.model_copy(update={"aliases": aliases, "description": described})

    def _ask(self, known: Entity, fresh: Entity) -> None:
        """Put the question whether two entities are one, which only a person can answer."""
        self.reviews.append(
            build(
                Review, id=pair_id(self.user_id, known.id, fresh.id), channel=self.channel, about="same_entity",
                question=f"Are {known.name!r} and {fresh.name!r} the same {fresh.type}?",
                record_ids=(known.id, fresh.id),
            )
        )  # fmt: skip


def _longer_or_shorter(fresh: Entity, known: Iterable[Entity]) -> list[Entity]:
    """People whose name is a part of this one's, or has it as a part."""
    words = set(fresh.slug.split("-"))
    others = ((entity, set(entity.slug.split("-"))) for entity in known if entity.type == PERSON)
    return [entity for entity, other in others if words < other or other < words]


def slugs_of(entity: Entity) -> list[str]:
    """The names an entity is known by, as they are compared, each once."""
    return list(dict.fromkeys(found for name in (entity.name, *entity.aliases) if (found := slug(name))))


def one_kind(one: str, other: str) -> bool:
    """Whether two types may be of one entity: the same, or one that says nothing. An agent is nobody else."""
    if AGENT in (one, other):
        return one == other
    return one == other or UNKNOWN in (one, other)
