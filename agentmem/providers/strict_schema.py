"""JSON schemas in the form that both OpenAI and Anthropic follow to the letter.

Both take a subset: every object closed, every property required, no references to itself. What else a schema demands
(lengths, bounds, patterns) is told to the model in words and checked afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

_FORMATS = {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
_DROPPED = {"$defs", "additionalProperties", "default", "discriminator", "examples", "required", "title"}
_Defs = Mapping[str, Any]


@cache
def strict_schema(model: type[BaseModel]) -> Mapping[str, Any]:
    """The schema of a pydantic model, with references put in place. Made once: it takes some 20 ms.

    Raises ValueError for a model that has no such form: one that is no object or contains itself, an object with free
    keys, a tuple, a value of any type.
    """
    schema = model.model_json_schema()
    try:
        strict = _strict(schema, schema.get("$defs", {}), ())
        if strict.get("type") != "object":
            raise ValueError("it is no object")
        return MappingProxyType(strict)
    except ValueError as error:
        raise ValueError(f"{model.__name__} has no strict schema: {error}") from error


def _strict(schema: Mapping[str, Any], defs: _Defs, inside: tuple[str, ...]) -> dict[str, Any]:
    left = {key: value for key, value in schema.items() if key not in _DROPPED}
    while name := _reference(left):
        if name in inside:
            raise ValueError(f"{name} contains itself")
        inside = (*inside, name)
        target = {key: value for key, value in defs[name].items() if key not in _DROPPED}
        left = {**target, **{key: value for key, value in left.items() if key not in ("$ref", "allOf")}}
        schema = defs[name]
    found: dict[str, Any] = {}
    description = [left.pop("description")] if "description" in left else []
    if (kind := left.pop("type", None)) is not None:
        found["type"] = kind
    if choices := left.pop("anyOf", None) or left.pop("oneOf", None):
        found["anyOf"] = [_strict(choice, defs, inside) for choice in choices]
    elif kind == "object":
        found.update(_object(schema, left.pop("properties", {}), defs, inside))
    elif kind == "array":
        found["items"] = _strict(_items(left), defs, inside)
    elif kind is None and not left.keys() & {"enum", "const"}:
        raise ValueError("a value of any type")
    if "const" in left:
        found["enum"] = [left.pop("const")]
    found.update({key: left.pop(key) for key in ("enum",) if key in left})
    if left.get("format") in _FORMATS:
        found["format"] = left.pop("format")
    if left:
        description.append(json.dumps(left, default=str))
    if description:
        found["description"] = " ".join(description)
    return found


def _reference(schema: Mapping[str, Any]) -> str:
    """The name of the definition that stands here; older pydantic wraps a reference that has a description."""
    wrapped = schema.get("allOf", [])
    target = wrapped[0] if len(wrapped) == 1 else schema
    return str(target.get("$ref", "")).removeprefix("#/$defs/")


def _object(schema: Mapping[str, Any], properties: _Defs, defs: _Defs, inside: tuple[str, ...]) -> dict[str, Any]:
    if schema.get("additionalProperties", False) is not False:
        raise ValueError("an object with free keys")
    strict = {key: _strict(value, defs, inside) for key, value in properties.items()}
    return {"properties": strict, "required": list(strict), "additionalProperties": False}


def _items(left: dict[str, Any]) -> Mapping[str, Any]:
    if "prefixItems" in left or "items" not in left:
        raise ValueError("a tuple, or a list of values of any type")
    items: Mapping[str, Any] = left.pop("items")
    return items
