"""What a job works out about the graph of what is known, kept as records."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from agentmem.core.record import Record

MAX_COMMUNITY_ENTITIES = 20_000  # as many as one analysis takes


class Community(Record):
    """Entities of one channel that hang together, the most central first, each with its score.

    It holds ids and no names, so that nothing in it outlives an erased or changed name. `total` is how many communities
    were found with it, `basis` a digest of the records that they were computed from.
    """

    entity_ids: tuple[str, ...] = Field(min_length=1, max_length=MAX_COMMUNITY_ENTITIES)
    scores: tuple[float, ...] = Field(max_length=MAX_COMMUNITY_ENTITIES)
    total: int = Field(strict=True, ge=1)
    basis: str

    IS_IN_GRAPH: ClassVar[bool] = False  # made of links that are there, and written anew with each change of them
