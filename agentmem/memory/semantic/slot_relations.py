"""Relations of slots: which entities a belief ties, and which stated relations end with it.

A new employer ends a WORKS_FOR that was stated, a parting ends "wife of".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from agentmem.core.edges import RELATION_BY_SLOT, build_relation
from agentmem.core.record import Status
from agentmem.core.records import PROFILE_ID, Edge, EdgeKind, Entity, Fact
from agentmem.memory.context import MemoryContext

MAX_RELATION_SOURCES = 20  # turns that are noted of a relation: it rests on any of them
# beside the relation that the slot itself states
_WORDS_BY_SLOT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "home": (EdgeKind.LOCATED_IN.value,),
        "school": ("student at", "studies at"),
        "partner": (
            "partner",
            "wife",
            "husband",
            "girlfriend",
            "boyfriend",
            "spouse",
            "fiancé",
            "fiancée",
            "married to",
        ),
        "boss": ("boss", "manager", "line manager", "supervisor", "reports to"),
        "landlord": ("landlord", "landlady"),
        "friends": ("friend", "best friend", "mate", "flatmate", "roommate"),
        "pets": ("dog", "cat", "pet", "rabbit", "horse", "hamster"),
        "children": ("son", "daughter", "child"),
        "siblings": ("sister", "brother", "sibling", "twin"),
        "parents": ("mother", "father", "mum", "mom", "dad", "parent"),
    }
)


async def find_ended_relations(
    context: MemoryContext, facts: Sequence[Fact], entities: Mapping[str, Entity] | None = None
) -> list[Edge]:
    """The relations that these facts end or show to be wrong; [] where they state none.

    Facts that hold are skipped. `entities` are known ones by id, others are read.
    """
    out: dict[str, Edge] = {}
    for fact in facts:
        kinds = [RELATION_BY_SLOT[fact.slot].value] if fact.slot in RELATION_BY_SLOT else []
        words = [*kinds, *_WORDS_BY_SLOT.get(fact.slot, ())]
        is_wrong = fact.superseded_at is not None and fact.reason == "wrong"
        if not words or not (is_wrong or (fact.valid_to is not None and fact.temporal_context != "future")):
            continue
        ends = await _find_ends(context, fact, entities or {})
        ids = _list_ids(context.scope.user_id, fact.channel, ends, words) if ends else []
        found = await context.engine.log.read_records("Edge", ids, context.scope) if ids else []
        for edge in found:
            if isinstance(edge, Edge) and edge.superseded_at is None and edge.valid_to is None:
                out[edge.id] = _end(edge, fact)
    return list(out.values())


async def _find_ends(context: MemoryContext, fact: Fact, entities: Mapping[str, Entity]) -> tuple[str, str] | None:
    """The entities of the subject and of the value of a fact, among those it is about."""
    named = await name_relation_ends(context, fact, entities)
    subject, value = named.subject_entity_id, named.value_entity_id
    return (subject, value) if subject not in (None, PROFILE_ID, value) and value else None


async def name_relation_ends(context: MemoryContext, fact: Fact, entities: Mapping[str, Entity] | None = None) -> Fact:
    """The fact with the ids of the entities that its subject and its value name, among those it is about.

    `entities` are known ones by id, others are read. A fact whose slot states no relation is returned as it is.
    """
    wanted = {"subject_entity_id": fact.subject, "value_entity_id": fact.value.partition(" (")[0]}
    missing = [field for field in wanted if getattr(fact, field) is None]
    if fact.slot not in RELATION_BY_SLOT or not fact.entity_ids or not missing:
        return fact
    known = dict(entities or {})
    unread = [name for name in fact.entity_ids if name not in known]
    read = await context.engine.log.read_records("Entity", unread, context.scope) if unread else []
    known |= {record.id: record for record in read if isinstance(record, Entity)}
    about = [known[name] for name in fact.entity_ids if name in known]
    return fact.model_copy(
        update={
            field: next((each.id for each in about if _is_named(each, wanted[field])), getattr(fact, field))
            for field in missing
        }
    )


def _is_named(entity: Entity, name: str) -> bool:
    return name.casefold() in {each.casefold() for each in (entity.name, *entity.aliases)}


def restate_relation(known: Edge, turn_id: str, said_at: datetime | None) -> Edge:
    """A relation that a turn states again: with one more source, up to a bound; what had ended holds again."""
    more: dict[str, Any] = {"valid_from": said_at, "valid_to": None} if known.valid_to else {}
    has_room = more or len(known.source_turn_ids) < MAX_RELATION_SOURCES
    if known.source_turn_ids and turn_id not in known.source_turn_ids and has_room:
        more["source_turn_ids"] = (*known.source_turn_ids, turn_id)
    return known.model_copy(update=more)


def _list_ids(user_id: str, channel: str, ends: tuple[str, str], words: Sequence[str]) -> list[str]:
    """The possible ids of a relation with these words, in either direction."""
    kinds = [kind for word in words for kind in ((word,) if word.isupper() else (word, f"{word} of"))]
    return [build_relation(user_id, channel, both, kind).id for kind in kinds for both in (ends, (ends[1], ends[0]))]


def _end(edge: Edge, fact: Fact) -> Edge:
    """The relation after its belief ended, or was found wrong."""
    if fact.superseded_at is not None and fact.reason == "wrong":
        return edge.model_copy(update={"status": Status.SUPERSEDED, "superseded_at": fact.superseded_at})
    end = fact.valid_to
    is_later = end is not None and (edge.valid_from is None or edge.valid_from < end)
    return edge.model_copy(update={"valid_to": end if is_later else edge.valid_from})
