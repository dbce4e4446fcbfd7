"""The instructions that hold whatever is asked: procedures in force that name no occasion."""

from __future__ import annotations

import numpy as np

from agentmem.model.clock import EPOCH
from agentmem.model.records import Procedure
from agentmem.recall.technique import SearchContext

MAX_PROCEDURES_READ = 200  # the latest


async def read_standing_instructions(context: SearchContext, limit: int) -> list[Procedure]:
    """At most so many of the visible ones, those asked for most often first; candidates and retired ones never."""
    columns = context.columns
    ordinals = np.flatnonzero(context.mask & (columns.kind == columns.kinds.find_code("Procedure")))[
        -MAX_PROCEDURES_READ:
    ]
    found = await context.read([int(ordinal) for ordinal in ordinals]) if limit and len(ordinals) else []
    standing = [record for record in found if isinstance(record, Procedure) and not record.trigger]
    in_force = [record for record in standing if record.procedure_status == "active"]
    in_force.sort(key=lambda record: record.id)
    in_force.sort(key=lambda record: (record.strength, record.last_asked or EPOCH), reverse=True)
    return in_force[:limit]
