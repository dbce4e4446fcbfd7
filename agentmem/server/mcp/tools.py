"""What a tool for a model is: a short schema, a call, and failures that say what to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from agentmem.errors import AgentMemError, InvalidRecord
from agentmem.facade.async_memory import AsyncAgentMemory


class ToolFailure(Exception):
    """What a model is told instead of a result."""


@dataclass(frozen=True, slots=True)
class ModelTool:
    """One tool. `call` gets the memory and the arguments as a model of type `arguments`.

    `is_destructive` and `is_read_only` are the hints that clients ask a person by. One that works in all channels of
    the user (`is_whole_user`) is refused to keys of one channel or agent.
    """

    name: str
    title: str
    description: str
    arguments: type[BaseModel]
    result: type[BaseModel]
    call: Callable[[AsyncAgentMemory, Any], Awaitable[BaseModel]]
    is_read_only: bool = False
    is_destructive: bool = False
    is_idempotent: bool = False
    is_whole_user: bool = False

    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments, without what costs tokens and says nothing."""
        return dict(shorten_schema(self.arguments.model_json_schema()))

    def output_schema(self) -> dict[str, Any]:
        """The JSON schema of the result."""
        return dict(shorten_schema(self.result.model_json_schema()))

    async def run(self, memory: AsyncAgentMemory, given: dict[str, Any]) -> BaseModel:
        """The result. Raises ToolFailure with what to do about it."""
        try:
            arguments = self.arguments.model_validate(given)
        except ValidationError as error:
            raise ToolFailure(_describe_wrong_arguments(error, self.arguments)) from None
        try:
            return await self.call(memory, arguments)
        except InvalidRecord as error:
            raise ToolFailure(f"{error}. Nothing was stored; correct the argument and call again.") from None
        except AgentMemError as error:
            raise ToolFailure(f"{type(error).__name__}: {error}") from None


def shorten_schema(schema: Any) -> Any:
    """A JSON schema without titles, and with `anyOf` a type and null as that type."""
    if isinstance(schema, list):
        return [shorten_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kinds = schema.get("anyOf")
    if kinds is not None and len(kinds) == 2 and {"type": "null"} in kinds:
        rest = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
        return shorten_schema({**kinds[kinds[0] == {"type": "null"}], **rest})
    return {
        name: {key: shorten_schema(value) for key, value in item.items()}
        if name == "properties"
        else shorten_schema(item)
        for name, item in schema.items()
        if name != "title"
    }


def _describe_wrong_arguments(error: ValidationError, arguments: type[BaseModel]) -> str:
    """What is wrong with each argument, without what was given, and which arguments there are."""
    faults = []
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        name = ".".join(str(part) for part in fault["loc"]) or "arguments"
        said = {"missing": "is missing", "extra_forbidden": "is unknown"}.get(fault["type"], "is wrong")
        faults.append(f"{name} {said}" + (f" ({fault['msg']})" if said == "is wrong" else ""))
    known = ", ".join(
        f"{field.alias or name}{'' if field.is_required() else ' (optional)'}"
        for name, field in arguments.model_fields.items()
    )
    return f"{'; '.join(faults)}. Arguments are: {known}."
