"""What is made from the log and follows its journal: vectors, the graph on a server, and outlines in this process."""

from __future__ import annotations

from agentmem.projections.graph import GraphProjection
from agentmem.projections.graph_vectors import GraphVectorProjection
from agentmem.projections.outlines import Outlines
from agentmem.projections.retries import Retries
from agentmem.projections.vectors import BATCH, REST, VectorProjection

__all__ = ["BATCH", "REST", "GraphProjection", "GraphVectorProjection", "Outlines", "Retries", "VectorProjection"]
