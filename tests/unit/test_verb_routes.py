"""Routes that are made from the signature of a verb."""

from __future__ import annotations

import pytest

from agentmem.memory.goals import Goals
from agentmem.server.rest.verbs import VerbRouter


def test_a_type_for_a_parameter_that_the_verb_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Goals\.block has no parameter blockers"):
        VerbRouter("goals", "goals").verb("POST /goals/{goal_id}/block", Goals.block, blockers=list[str])
