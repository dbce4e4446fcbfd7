"""What operators do with a store as a whole: look after it, copy it, prove what it promises."""

from __future__ import annotations

from typing import cast

from agentmem.resources import Resources
from agentmem.stores.upkeep import Upkeep


def upkeep_of(resources: Resources) -> Upkeep:
    """The upkeep face of an opened store."""
    return cast(Upkeep, resources.backend.open_upkeep(resources.log.database))  # type: ignore[attr-defined]
