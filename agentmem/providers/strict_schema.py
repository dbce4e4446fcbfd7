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

_SUPPORTED_FORMATS = {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
_DROPPED_KEYS = {"$defs", "additionalProperties", "default", "discriminator", "examples", "required", "title"}
_Defs = Mapping[str, Any]


@cache
def to_strict_schema(model: type[BaseModel]) -> Mapping[str, Any]:
    """The schema of a pydantic model, with references put in place. Made once: it takes some 20 ms.

    Raises ValueError for a model that has no such form: one that is no object or contains itself, an object with free
    keys, a tuple, a value of any type.
    """
    schema = model.model_json_schema()
    try:
        strict = _to_strict(schema, schema.get("$defs", {}), ())
        if strict.get("type") != "object":
            raise ValueError("it is no object")
        return MappingProxyType(strict)
    except ValueError as error:
        raise ValueError(f"{model.__name__} has no strict schema: {error}") from error


def _to_strict(schema: Mapping[str, Any], defs: _Defs, ancestors: tuple[str, ...]) -> dict[str, Any]:
    left = {key: value for key, value in schema.items() if key not in _DROPPED_KEYS}
    while name := _reference_name(left):
        if name in ancestors:
            raise ValueError(f"{name} contains itself")
        ancestors = (*ancestors, name)
        target = {key: value for key, value in defs[name].items() if key not in _DROPPED_KEYS}
        left = {**target, **{key: value for key, value in left.items() if key not in ("$ref", "allOf")}}
        schema = defs[name]
    found: dict[str, Any] = {}
    description = [left.pop("description")] if "description" in left else []
    if (kind := left.pop("type", None)) is not None:
        found["type"] = kind
    if choices := left.pop("anyOf", None) or left.pop("oneOf", None):
        found["anyOf"] = [_to_strict(choice, defs, ancestors) for choice in choices]
    elif kind == "object":
        found.update(_to_strict_object(schema, left.pop("properties", {}), defs, ancestors))
    elif kind == "array":
        found["items"] = _to_strict(_pop_items(left), defs, ancestors)
    elif kind is None and not left.keys() & {"enum", "const"}:
        raise ValueError("a value of any type")
    if "const" in left:
        found["enum"] = [left.pop("const")]
    found.update({key: left.pop(key) for key in ("enum",) if key in left})
    if left.get("format") in _SUPPORTED_FORMATS:
        found["format"] = left.pop("format")
    if left:
        description.append(json.dumps(left, default=str))
    if description:
        found["description"] = " ".join(description)
    return found


def _reference_name(schema: Mapping[str, Any]) -> str:
    """The name of the definition that stands here; older pydantic wraps a reference that has a description."""
    wrapped = schema.get("allOf", [])
    target = wrapped[0] if len(wrapped) == 1 else schema
    return str(target.get("$ref", "")).removeprefix("#/$defs/")


def _to_strict_object(
    schema: Mapping[str, Any], properties: _Defs, defs: _Defs, ancestors: tuple[str, ...]
) -> dict[str, Any]:
    if schema.get("additionalProperties", False) is not False:
        raise ValueError("an object with free keys")
    strict = {key: _to_strict(value, defs, ancestors) for key, value in properties.items()}
    return {"properties": strict, "required": list(strict), "additionalProperties": False}


def _pop_items(schema: dict[str, Any]) -> Mapping[str, Any]:
    if "prefixItems" in schema or "items" not in schema:
        raise ValueError("a tuple, or a list of values of any type")
    items: Mapping[str, Any] = schema.pop("items")
    return items
