"""The statements of the graph. Types of relationships are filled in from the enumeration of edge kinds."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from agentmem.model.records import EdgeKind
from agentmem.text.blocks import load_templates


@cache
def graph_query(name: str, kinds: tuple[EdgeKind, ...] = tuple(EdgeKind)) -> str:
    """A statement of `graph.cypher`, over relationships of some kinds."""
    return _fill_statement("graph.cypher", name).replace("KINDS", "|".join(kinds))


@cache
def graph_update(name: str) -> str:
    """A statement of `apply.cypher`."""
    return _fill_statement("apply.cypher", name)


def _fill_statement(filename: str, name: str) -> str:
    blocks = load_templates(__package__, filename)
    branches: Iterable[str] = (blocks["stated"].replace("KIND", kind) for kind in EdgeKind)
    return blocks[name].replace("STATED", "\nUNION ALL\n".join(branches))
