"""Procedures, strategies, tools and outcomes over HTTP."""

from __future__ import annotations

from typing import Any

from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.memory.procedural.memory import ProceduralMemory
from agentmem.server.rest.fields import Limit
from agentmem.server.rest.verbs import VerbRouter

router = VerbRouter("procedural", "procedural")
router.verb("GET /procedures", ProceduralMemory.procedures, "list_procedures", limit=(Limit, 100))
router.verb("POST /procedures", ProceduralMemory.stage_candidate)
router.verb("POST /procedures/{procedure_id}/accept", ProceduralMemory.accept_procedure)
router.verb("POST /procedures/{procedure_id}/retire", ProceduralMemory.retire_procedure)
router.verb("GET /strategies", ProceduralMemory.find_strategies)
router.verb("POST /strategies", ProceduralMemory.learn_strategy)
router.verb("GET /strategies/{strategy_id}", ProceduralMemory.get_strategy)
router.verb("POST /strategies/{strategy_id}/reinforce", ProceduralMemory.reinforce_strategy)
router.verb("POST /invocations", ProceduralMemory.record_invocation)
router.verb("GET /tools", ProceduralMemory.tool_stats, "read_tool_stats", channel=None)
router.verb("POST /outcomes", AsyncAgentMemory.reflect, outcome=bool | str | dict[str, Any])
