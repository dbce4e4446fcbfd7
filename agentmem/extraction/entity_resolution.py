"""Which entity a name means: one that is known by it, else a new one. Like names and vectors never join two."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentmem.core.edges import RELATION_BY_SLOT
from agentmem.core.records import RELATION_END_FIELDS, Entity, build_record
from agentmem.extraction.drafts import EntityDraft, FactDraft
from agentmem.text.normalization import slugify

UNKNOWN_TYPE = "thing"
AGENT = "agent"


@dataclass
class EntityResolver:
    """Names of one channel. `known_entities` are its current entities; `created` become new ones, `extended` gain
    names.
    """

    user_id: str
    channel: str
    known_entities: list[Entity]
    created: dict[str, Entity] = field(default_factory=dict)
    extended: dict[str, Entity] = field(default_factory=dict)
    _by_slug: dict[str, list[Entity]] = field(default_factory=dict)
    _resolved_ids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for entity in self.known_entities:
            for name in slugs_of(entity):
                self._by_slug.setdefault(name, []).append(entity)

    def resolve_or_create(self, draft: EntityDraft, new_id: str) -> str:
        """Take a name in and return the id of the entity that it means here, "" for a name of nothing.

        `new_id` is for a new entity.
        """
        name = slugify(draft.name)
        if not name:
            return ""
        found = self._match(name, draft.type) or self._match_alias(draft)
        if found is None:
            made = build_record(
                Entity,
                id=new_id,
                channel=self.channel,
                name=draft.name,
                type=draft.type,
                slug=name,
                aliases=tuple(alias for alias in draft.aliases if slugify(alias)),
                description=draft.description,
                extracted=tuple(list_draft_texts(draft)),
            )
            self.created[made.id] = found = made
            for each in slugs_of(made):
                self._by_slug.setdefault(each, []).append(made)
        elif found.id not in self.created:
            self._extend(found, draft)
        for each in (name, *map(slugify, draft.aliases)):
            self._resolved_ids.setdefault(each, found.id)
        return found.id

    def resolve(self, name: str) -> str | None:
        """The id of the entity that a name means; None for an unknown name."""
        wanted = slugify(name)
        if wanted in self._resolved_ids:
            return self._resolved_ids[wanted]
        found = self._by_slug.get(wanted, [])
        return found[0].id if found else None

    def resolve_all(self, names: Iterable[str]) -> tuple[str, ...]:
        """The ids that these names mean, each once; unknown names are left out."""
        return tuple(dict.fromkeys(found for name in names if (found := self.resolve(name)) is not None))

    def resolve_ends(self, draft: FactDraft) -> dict[str, str | None]:
        """The entities of the subject and of the value of a claim, by field; {} for a slot that ties no two."""
        if draft.slot not in RELATION_BY_SLOT:
            return {}
        names = draft.subject, draft.value.partition(" (")[0]
        return dict(zip(RELATION_END_FIELDS, map(self.resolve, names), strict=True))

    def _match(self, name: str, entity_type: str) -> Entity | None:
        found = [entity for entity in self._by_slug.get(name, []) if is_compatible_type(entity.type, entity_type)]
        exact = [entity for entity in found if entity.type == entity_type and entity.slug == name]
        return next(iter(exact or found), None)

    def _match_alias(self, draft: EntityDraft) -> Entity | None:
        """By an alias that was stated, where it is nobody else's."""
        found = {entity.id: entity for alias in draft.aliases if (entity := self._match(slugify(alias), draft.type))}
        return next(iter(found.values())) if len(found) == 1 else None

    def _extend(self, entity: Entity, draft: EntityDraft) -> None:
        old = self.extended.get(entity.id, entity)
        names = [name for name in (draft.name, *draft.aliases) if slugify(name) not in slugs_of(old)]
        described = old.description or draft.description
        if names or described != old.description:
            aliases = (*old.aliases, *dict.fromkeys(names))
            gained = (*names, *((described,) if described != old.description else ()))
            more = {"aliases": aliases, "description": described, "extracted": (*old.extracted, *gained)}
            self.extended[entity.id] = old.model_copy(update=more)


def list_draft_texts(draft: EntityDraft) -> list[str]:
    """What a turn says of an entity: its names, and its description if there is one."""
    return [text for text in (draft.name, *draft.aliases, draft.description) if text]


def slugs_of(entity: Entity) -> list[str]:
    """The names an entity is known by, as they are compared, each once."""
    return list(dict.fromkeys(found for name in (entity.name, *entity.aliases) if (found := slugify(name))))


def is_compatible_type(one: str, other: str) -> bool:
    """Whether two types may be of one entity: the same, or one that says nothing. An agent is nobody else."""
    if AGENT in (one, other):
        return one == other
    return one == other or UNKNOWN_TYPE in (one, other)
