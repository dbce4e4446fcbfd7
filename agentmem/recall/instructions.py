"""The instructions that hold whatever is asked: procedures in force that name no occasion."""

from __future__ import annotations

import numpy as np

from agentmem.model.clock import EPOCH
from agentmem.model.records import Procedure
from agentmem.recall.technique import Memory

MOST_READ = 200  # the latest


async def instructions(memory: Memory, most: int) -> list[Procedure]:
    """At most so many of the visible ones, those asked for most often first; candidates and retired ones never."""
    outline = memory.outline
    slots = np.flatnonzero(memory.mask & (outline.kind == outline.kinds.find("Procedure")))[-MOST_READ:]
    found = await memory.read([int(slot) for slot in slots]) if most and len(slots) else []
    standing = [record for record in found if isinstance(record, Procedure) and not record.trigger]
    in_force = [record for record in standing if record.procedure_status == "active"]
    in_force.sort(key=lambda record: record.id)
    in_force.sort(key=lambda record: (record.strength, record.last_asked or EPOCH), reverse=True)
    return in_force[:most]
