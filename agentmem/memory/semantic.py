"""Knowledge: facts with both times, entities, typed relations."""

from __future__ import annotations

from dataclasses import dataclass

from agentmem.memory.entities import Entities
from agentmem.memory.facts import Facts


@dataclass
class Semantic(Facts, Entities):
    """Facts, entities and relations."""
