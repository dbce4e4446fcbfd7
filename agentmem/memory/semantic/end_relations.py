"""Relations that end with the belief that states them: a new employer ends WORKS_FOR, a parting ends "wife of"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from agentmem.core.edges import build_relation
from agentmem.core.record import Status
from agentmem.core.records import Edge, EdgeKind, Entity, Fact
from agentmem.memory.context import MemoryContext

_WORDS_BY_SLOT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "employer": (EdgeKind.WORKS_FOR.value,),
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
        words = _WORDS_BY_SLOT.get(fact.slot, ())
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
    missing = [name for name in fact.entity_ids if name not in entities]
    read = await context.engine.log.read_records("Entity", missing, context.scope) if missing else []
    about = [entities[name] for name in fact.entity_ids if name in entities]
    about += [record for record in read if isinstance(record, Entity)]
    subject = next((each.id for each in about if _is_named(each, fact.subject)), None)
    value = next((each.id for each in about if _is_named(each, fact.value.partition(" (")[0])), None)
    return (subject, value) if subject and value and subject != value else None


def _is_named(entity: Entity, name: str) -> bool:
    return name.casefold() in {each.casefold() for each in (entity.name, *entity.aliases)}


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
