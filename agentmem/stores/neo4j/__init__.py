"""The graph on a Neo4j server (5.26 or newer, Community is enough): a projection that follows the log's journal."""

from __future__ import annotations

from agentmem.stores.neo4j.graph import Neo4jGraph, open_graph
from agentmem.stores.neo4j.migrations import migrate
from agentmem.stores.neo4j.vectors import Neo4jNodeVectors, create_indexes

__all__ = ["Neo4jGraph", "Neo4jNodeVectors", "create_indexes", "migrate", "open_graph"]
