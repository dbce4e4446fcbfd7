"""What a recall tells of the user, whatever was asked: the profile, and the synopsis while it holds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np

from agentmem.model.records import Synopsis, User
from agentmem.model.synopsis import SynopsisSection
from agentmem.recall.technique import SearchContext
from agentmem.settings_parts import SynopsisOptions

PROFILE_FIELDS = ("preferences", "expertise_areas", "communication_style", "metadata")
SYNOPSIS_KEY = "synopsis"


async def read_profile(context: SearchContext) -> dict[str, Any]:
    """The user's profile as it stood, without what is empty."""
    columns = context.columns
    ordinals = np.flatnonzero(context.current_mask & (columns.kind == columns.kinds.find_code("User")))
    for user in await context.read([int(ordinal) for ordinal in ordinals[:1]]):
        if isinstance(user, User):
            return {name: value for name in PROFILE_FIELDS if (value := getattr(user, name))}
    return {}


async def read_user_context(context: SearchContext, options: SynopsisOptions) -> dict[str, Any]:
    """The profile, and under `synopsis` what is stored of the readable channels and still holds."""
    told, synopsis = await read_profile(context), await _read_synopsis(context, options)
    return {**told, SYNOPSIS_KEY: synopsis} if synopsis is not None else told


async def _read_synopsis(context: SearchContext, options: SynopsisOptions) -> Synopsis | None:
    columns, readable = context.columns, context.scope.readable_channels()
    mine = context.current_mask & (columns.kind == columns.kinds.find_code(Synopsis.__name__))
    ordinals = np.flatnonzero(mine & columns.channels.mask_for(readable)[columns.channel])
    if not len(ordinals):
        return None
    from agentmem.memory.synopsis import SECTIONS, is_fresh, merge_channels
    from agentmem.memory.synopsis_material import take_snapshots

    since, parts = context.now - timedelta(seconds=min(options.context_ttl, 1e9)), {}
    stand = await take_snapshots(columns, readable, context.now)
    for found in await context.read([int(ordinal) for ordinal in ordinals]):
        if isinstance(found, Synopsis):
            now, part = stand[found.channel], dict[str, SynopsisSection]()
            for name in SECTIONS:
                tier: SynopsisSection = getattr(found, name)
                good = is_fresh(tier, now, name, since) and now.has_all(columns, tier.shown)
                part[name] = tier if good else SynopsisSection()
            parts[found.channel] = part
    made = merge_channels(
        context.scope, [parts[name] for name in readable if name in parts], options, options.max_tokens, None
    )
    return made if made.text else None
