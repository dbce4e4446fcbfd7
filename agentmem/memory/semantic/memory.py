"""Knowledge: facts with both times, entities, typed relations, and what of it waits for a decision."""

from __future__ import annotations

from dataclasses import dataclass

from agentmem.memory.semantic.belief_view import BeliefView
from agentmem.memory.semantic.promotion import FactPromotion
from agentmem.memory.semantic.reviews import Reviews


@dataclass
class SemanticMemory(Reviews, FactPromotion, BeliefView):
    """Facts, beliefs, entities, relations and reviews."""
