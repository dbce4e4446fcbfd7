"""A tool for a model, made from a function."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from agentmem.server.compat.server_memory import CamelModel
from agentmem.server.mcp.tools import ToolFailure, tool


class Total(BaseModel):
    """A sum."""

    total: int


@tool("Add numbers", base=CamelModel, is_read_only=True)
async def add_numbers(
    memory: Any, first_number: Annotated[int, "The first."], second: Annotated[int, "The second."] = 2
) -> Total:
    """Add two numbers. It stores
    nothing.
    """
    return Total(total=first_number + second)


async def test_a_tool_says_and_does_what_its_function_says_and_does() -> None:
    assert (add_numbers.name, add_numbers.title) == ("add_numbers", "Add numbers")
    assert (add_numbers.description, add_numbers.is_read_only) == ("Add two numbers. It stores nothing.", True)
    assert add_numbers.input_schema() == {
        "additionalProperties": False,
        "properties": {
            "firstNumber": {"description": "The first.", "type": "integer"},
            "second": {"default": 2, "description": "The second.", "type": "integer"},
        },
        "required": ["firstNumber"],
        "type": "object",
    }
    assert add_numbers.output_schema()["properties"] == {"total": {"type": "integer"}}
    memory: Any = None
    assert await add_numbers.run(memory, {"firstNumber": 1}) == Total(total=3)
    with pytest.raises(ToolFailure, match="third is unknown"):
        await add_numbers.run(memory, {"firstNumber": 1, "third": 3})
