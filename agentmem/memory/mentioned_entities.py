"""What is left of entities that turns alone made known, once some of these turns are erased."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agentmem.core.edges import MENTION_TEXTS
from agentmem.core.record import Key, Record
from agentmem.core.records import Edge, EdgeKind, Entity, Fact
from agentmem.memory.semantic.entities import merge_target_id
from agentmem.text.normalization import slugify


@dataclass
class MentionedEntities:
    """The entities of a user, the turns that name them, and who else knows them."""

    entities: list[Entity] = field(default_factory=list)
    mentions: dict[str, list[Edge]] = field(default_factory=dict)
    relations: list[Edge] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)

    @classmethod
    def collect(cls, records: Iterable[Record]) -> MentionedEntities:
        """What there is among these records."""
        found = cls()
        for record in records:
            if isinstance(record, Entity) and record.extracted:
                found.entities.append(record)
            elif isinstance(record, Edge) and record.edge_kind is EdgeKind.MENTIONS:
                found.mentions.setdefault(record.target, []).append(record)
            elif isinstance(record, Edge):
                found.relations.append(record)
            elif isinstance(record, Fact):
                found.facts.append(record)
        return found

    def reduce(self, gone: Collection[Key]) -> dict[Key, Entity | None]:
        """The entities that lose something with the turns that go, as they are then; None for one that goes itself.

        A name or a description goes when a turn said it, and no turn and no fact that stays does. With its last name an
        entity goes, unless a fact or a relation that stays was given for it by a caller: then it keeps its name.
        """
        out: dict[Key, Entity | None] = {}
        for entity in self.entities:
            edges = self.mentions.get(merge_target_id(entity) or entity.id, ())
            about = [fact for fact in self.facts if entity.id in fact.entity_ids]
            loses = any(("Turn", edge.source) in gone for edge in edges) or any(fact.key in gone for fact in about)
            if entity.key in gone or not loses:
                continue
            stay = [edge for edge in edges if ("Turn", edge.source) not in gone and edge.superseded_at is None]
            if all(MENTION_TEXTS in edge.properties for edge in stay):
                said = {text for edge in stay for text in edge.properties[MENTION_TEXTS]}
                claims = [fact.claim for fact in about if fact.key not in gone]
                lost = {
                    text for text in entity.extracted if text not in said and not any(text in each for each in claims)
                }
                if lost:
                    out[entity.key] = _drop_texts(entity, lost, keep_name=self._is_given(entity, gone))
        return out

    def _is_given(self, entity: Entity, gone: Collection[Key]) -> bool:
        """Whether a caller stored a fact or relation of an entity, and it stays."""
        about = [fact for fact in self.facts if entity.id in fact.entity_ids and not fact.source_turn_ids]
        related = [
            edge for edge in self.relations if entity.id in (edge.source, edge.target) and not edge.source_turn_ids
        ]
        return any(record.key not in gone for record in (*about, *related))


def _drop_texts(entity: Entity, lost: Collection[str], *, keep_name: bool) -> Entity | None:
    """The entity without these texts; None without a name."""
    names = [name for name in (entity.name, *entity.aliases) if name not in lost]
    if not names and not keep_name:
        return None
    name, *aliases = names or [entity.name]
    return entity.model_copy(
        update={
            "name": name,
            "slug": slugify(name),
            "aliases": tuple(aliases),
            "description": "" if entity.description in lost else entity.description,
            "extracted": tuple(text for text in entity.extracted if text not in lost),
        }
    )


def list_outdated(keys: Sequence[Key], versions: Mapping[Key, Sequence[Record]]) -> list[Key]:
    """Those of these entities of which an older version holds a text that the latest one has no more."""
    found = []
    for key in keys:
        texts = [_list_texts(version) for version in versions.get(key, ()) if isinstance(version, Entity)]
        if texts and set().union(*texts[:-1]) - texts[-1]:
            found.append(key)
    return found


def _list_texts(entity: Entity) -> set[str]:
    return {entity.name, *entity.aliases, entity.description}
