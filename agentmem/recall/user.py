"""What a recall tells of the user, whatever was asked: the profile, and the synopsis while it holds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np

from agentmem.model.records import Synopsis, User
from agentmem.model.synopsis import Tier
from agentmem.recall.technique import Memory
from agentmem.settings_parts import SynopsisOptions

FIELDS = ("preferences", "expertise_areas", "communication_style", "metadata")
SYNOPSIS = "synopsis"


async def profile_of(memory: Memory) -> dict[str, Any]:
    """The user's profile as it stood, without what is empty."""
    outline = memory.outline
    slots = np.flatnonzero(memory.current & (outline.kind == outline.kinds.find("User")))
    for user in await memory.read([int(slot) for slot in slots[:1]]):
        if isinstance(user, User):
            return {name: value for name in FIELDS if (value := getattr(user, name))}
    return {}


async def user_context(memory: Memory, options: SynopsisOptions) -> dict[str, Any]:
    """The profile, and under `synopsis` what is stored of the readable channels and still holds."""
    told, synopsis = await profile_of(memory), await _synopsis(memory, options)
    return {**told, SYNOPSIS: synopsis} if synopsis is not None else told


async def _synopsis(memory: Memory, options: SynopsisOptions) -> Synopsis | None:
    outline, readable = memory.outline, memory.scope.readable()
    mine = memory.current & (outline.kind == outline.kinds.find(Synopsis.__name__))
    slots = np.flatnonzero(mine & outline.channels.among(readable)[outline.channel])
    if not len(slots):
        return None
    from agentmem.memory.synopsis import TIERS, holds, joined
    from agentmem.memory.synopsis_material import bases

    since, parts = memory.moment - timedelta(seconds=min(options.context_ttl, 1e9)), {}
    stand = await bases(outline, readable, memory.moment)
    for found in await memory.read([int(slot) for slot in slots]):
        if isinstance(found, Synopsis):
            now, part = stand[found.channel], dict[str, Tier]()
            for name in TIERS:
                tier: Tier = getattr(found, name)
                good = holds(tier, now, name, since) and now.shows(outline, tier.shown)
                part[name] = tier if good else Tier()
            parts[found.channel] = part
    made = joined(memory.scope, [parts[name] for name in readable if name in parts], options, options.max_tokens, None)
    return made if made.text else None
