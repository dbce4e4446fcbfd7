"""What a tool for a model is: a short schema, a call, and failures that say what to do."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, create_model
from pydantic_core import from_json

from agentmem.errors import AgentMemError, InvalidRecord
from agentmem.facade.async_memory import AsyncAgentMemory

Moment = Annotated[datetime, WithJsonSchema({"type": "string"})]
"""A date or time as an argument. Its format in the schema would be `date-time`, which a date alone is not."""

ARGUMENT_NAMES = {
    "top_k": ("limit",),
    "query": ("message",),
    "content": ("text", "message"),
    "claim": ("content", "contents", "observations"),
    "record_id": ("id",),
    "fact_id": ("memory_id", "memory_ids", "replaces", "from_memory_id"),
    "name": ("entities",),
    "type": ("entityType",),
    "kind": ("relationType", "relation_type"),
    "confidence": ("strength",),
}
"""What the library calls an argument, and what tools call it."""


class ToolFailure(Exception):
    """What a model is told instead of a result."""


class Arguments(BaseModel):
    """What a tool takes; other names are refused."""

    model_config = ConfigDict(extra="forbid")


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
            arguments = self.arguments.model_validate(_read_value(given, self.arguments))
        except ValidationError as error:
            raise ToolFailure(_describe_wrong_arguments(error, self.arguments)) from None
        try:
            return await self.call(memory, arguments)
        except InvalidRecord as error:
            unchanged = "Correct" if self.is_read_only else "Nothing was stored; correct"
            said = f"{self._name_argument(str(error))}. {unchanged} the argument and call again."
            raise ToolFailure(said) from None
        except AgentMemError as error:
            raise ToolFailure(f"{type(error).__name__}: {error}") from None

    def _name_argument(self, said: str) -> str:
        """An error of the library with the tool's own name of the argument that it begins with."""
        schema = self.input_schema()
        own = {name for part in (schema, *schema.get("$defs", {}).values()) for name in part["properties"]}

        def rename(found: re.Match[str]) -> str:
            names = (found[1], *ARGUMENT_NAMES.get(found[1], ()))
            return next((name for name in names if name in own), found[0])

        return re.sub(r"^(?:[A-Z]\w*\.)?(\w+)", rename, said)


def tool(
    title: str, *, base: type[BaseModel] = Arguments, **hints: bool
) -> Callable[[Callable[..., Awaitable[BaseModel]]], ModelTool]:
    """Make a tool from `async def name(memory, …) -> Result`. The docstring is the description.

    The type of each parameter is `Annotated[type, "sentence"]`. `base` is the base class of the arguments; `hints` are
    fields of `ModelTool`.
    """

    def build(function: Callable[..., Awaitable[BaseModel]]) -> ModelTool:
        kinds = get_type_hints(function, include_extras=True)
        fields: dict[str, Any] = {}
        for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = kinds[name], Field(default, description=kinds[name].__metadata__[-1])
        arguments = create_model(function.__name__, __base__=base, **fields)

        async def call(memory: AsyncAgentMemory, given: BaseModel) -> BaseModel:
            return await function(memory, **dict(given))

        description = " ".join((function.__doc__ or "").split())
        return ModelTool(function.__name__, title, description, arguments, kinds["return"], call, **hints)

    return build


def _read_value(value: Any, kind: Any) -> Any:
    """An argument as clients send it: a list or object may come as JSON text; what is optional, as null or empty."""
    if NoneType in get_args(kind):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
    if isinstance(value, str) and (is_model or get_origin(kind) in (list, dict)):
        try:
            value = from_json(value)
        except ValueError:
            return value  # refused by its type
    if is_model and isinstance(value, dict):
        fields = {key: field for name, field in kind.model_fields.items() for key in (name, field.alias)}
        return {
            name: _read_value(each, fields[name].annotation) if name in fields else each
            for name, each in value.items()
            if name not in fields or fields[name].is_required() or (each is not None and each != "")
        }
    if get_origin(kind) is list and isinstance(value, list):
        return [_read_value(each, get_args(kind)[0]) for each in value]
    return value


def shorten_schema(schema: Any) -> Any:
    """A JSON schema without titles and docstrings of classes, and with `anyOf` a type and null as that type."""
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
        if name != "title" and not (name == "description" and "properties" in schema)
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
