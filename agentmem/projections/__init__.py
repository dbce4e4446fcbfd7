"""What is made from the log and follows its journal: vectors, the graph on a server, and outlines in this process."""

from __future__ import annotations

from agentmem.projections.graph import GraphProjection
from agentmem.projections.graph_vectors import GraphVectorProjection
from agentmem.projections.outlines import ColumnCache
from agentmem.projections.retries import SyncRetrier
from agentmem.projections.vectors import BACKOFF_SECONDS, CHANGE_BATCH_SIZE, VectorProjection

__all__ = [
    "BACKOFF_SECONDS",
    "CHANGE_BATCH_SIZE",
    "ColumnCache",
    "GraphProjection",
    "GraphVectorProjection",
    "SyncRetrier",
    "VectorProjection",
]
