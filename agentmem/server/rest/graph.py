"""Questions to the graph over HTTP."""

from __future__ import annotations

from pydantic import BaseModel

from agentmem.core.jsonable import to_jsonable
from agentmem.core.records import Edge
from agentmem.memory.graph.knowledge_graph import GraphPaths, KnowledgeGraph
from agentmem.server.auth import Reader
from agentmem.server.rest.shapes import AnyRecord
from agentmem.server.rest.verbs import VerbRouter

router = VerbRouter("graph", "graph")


class StepAnswer(BaseModel):
    """The edges between two records of a path, and the facts and turns that they rest on."""

    edges: list[Edge]
    rests_on: list[AnyRecord]


class PathAnswer(BaseModel):
    """One path: its records in order, and a step between each two of them."""

    records: list[AnyRecord]
    steps: list[StepAnswer]


class PathsAnswer(BaseModel):
    """Paths, the shortest first, and in what the search falls short."""

    paths: list[PathAnswer]
    notices: list[str]


def build_paths_answer(found: GraphPaths) -> PathsAnswer:
    """Paths with whole records of every kind."""
    paths = [
        PathAnswer(
            records=to_jsonable(path.records),
            steps=[StepAnswer(edges=list(step.edges), rests_on=to_jsonable(step.rests_on)) for step in path.steps],
        )
        for path in found.paths
    ]
    return PathsAnswer(paths=paths, notices=list(found.notices))


router.verb("GET /graph/neighborhood", KnowledgeGraph.neighborhood, "read_neighborhood")
router.verb("GET /graph/paths", KnowledgeGraph.paths, "find_paths", answer=build_paths_answer)
router.verb("GET /graph/communities", KnowledgeGraph.communities, "list_communities")
router.verb("GET /graph/central_entities", KnowledgeGraph.central_entities, "list_central_entities")
router.verb("POST /graph/cypher", KnowledgeGraph.cypher, "ask_in_cypher", caller=Reader)
