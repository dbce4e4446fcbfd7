"""The description of the routes (OpenAPI) beyond what the framework makes of them: keys, records by kind, events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from agentmem.core.records import KINDS
from agentmem.server.auth import OPEN_PATHS, OPERATOR_PATHS
from agentmem.server.rest.shapes import DESCRIBED, MARK, UserContextAnswer

REFERENCE = "#/components/schemas/{model}"
PARTIAL = {"Problem", UserContextAnswer.__name__}  # answers that leave out what is empty
SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key, or a token of an identity provider."},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "A key."},
}
TAGS = [
    {
        "name": "moxxy",
        "description": "Moxxy is a program that runs AI agents; these are the memory routes that its document names.",
    },
    {
        "name": "mem0",
        "description": "mem0 is a memory service for AI agents; programs written for its server can use these routes.",
    },
]


def name_operation(route: APIRoute) -> str:
    """The operation id of a route: the name of its function. mem0's routes have a prefix, and their version."""
    group, _, rest = route.path.lstrip("/").partition("/")
    if group != "mem0":
        return route.name
    version = rest.partition("/")[0]
    return f"mem0_{route.name}" + (f"_{version}" if version in ("v1", "v2", "v3") else "")


def complete_description(app: FastAPI) -> None:
    """Let the app tell in `/openapi.json` what the framework leaves out."""
    describe = app.openapi

    def describe_whole() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _complete(describe())
        return app.openapi_schema

    app.openapi = describe_whole  # type: ignore[method-assign]


def _complete(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document["components"]["schemas"]
    schemas |= _build_schemas()
    _replace_marks(document)
    _tell_optional_fields(document)
    document["components"]["securitySchemes"] = SECURITY_SCHEMES
    document["tags"] = [tag for tag in TAGS if tag["name"] in _list_tags(document)]
    document["security"] = [{name: []} for name in SECURITY_SCHEMES]
    for path in document["paths"].keys() & OPEN_PATHS:
        _set_security(document["paths"][path], [])
    for path in document["paths"].keys() & OPERATOR_PATHS:
        _set_security(document["paths"][path], [{}, *document["security"]])
    return document


def _set_security(operations: Mapping[str, dict[str, Any]], security: list[dict[str, Any]]) -> None:
    for operation in operations.values():
        operation["security"] = security


def _build_schemas() -> dict[str, Any]:
    """The schemas that no route names: of each kind of record with its `kind`, of any of them, and of `DESCRIBED`."""
    models: tuple[type[BaseModel], ...] = (*KINDS.values(), *DESCRIBED)
    _, found = models_json_schema([(cls, "serialization") for cls in models], ref_template=REFERENCE)
    schemas: dict[str, Any] = found["$defs"]
    mapping = {}
    for kind in KINDS:
        title = f"{kind}Record"
        mapping[kind] = REFERENCE.format(model=title)
        fields = {"kind": {"type": "string", "const": kind}, **schemas[kind]["properties"]}
        required = ["kind", *schemas[kind].get("required", ())]
        schemas[title] = schemas[kind] | {"title": title, "properties": fields, "required": required}
    union = [{"$ref": reference} for reference in mapping.values()]
    discriminator = {"propertyName": "kind", "mapping": mapping}
    return schemas | {"AnyRecord": {"title": "AnyRecord", "oneOf": union, "discriminator": discriminator}}


def _walk(value: Any) -> Iterator[dict[str, Any]]:
    """All objects of a JSON value."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _walk(item)


def _replace_marks(document: dict[str, Any]) -> None:
    for found in list(_walk(document)):
        if (name := found.pop(MARK, None)) is not None:
            found.clear()
            found["$ref"] = REFERENCE.format(model=name)


def _tell_optional_fields(document: dict[str, Any]) -> None:
    """Answers have all their fields. What a request may leave out has no `default`: generators take that for a value.

    Schemas that no route refers to are dropped.
    """
    schemas, operations = document["components"]["schemas"], [*_list_operations(document)]
    sent = _find_schemas([each.get("requestBody") for each in operations], schemas)
    given = _find_schemas([each["responses"] for each in operations], schemas)
    for name in sent ^ given:
        for field in (fields := schemas[name].get("properties", {})).values():
            default = field.pop("default", None)
            if name in sent and default:
                text = f"{field.get('description', '')} {json.dumps(default)} when left out."
                field["description"] = text.strip()
        if name in given - PARTIAL and fields:
            schemas[name]["required"] = list(fields)
    document["components"]["schemas"] = {name: schemas[name] for name in sorted(sent | given)}


def _list_operations(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for operations in document["paths"].values():
        yield from operations.values()


def _list_tags(document: Mapping[str, Any]) -> set[str]:
    return {tag for operation in _list_operations(document) for tag in operation["tags"]}


def _find_schemas(value: Any, schemas: Mapping[str, Any]) -> set[str]:
    """The names of all schemas that a value comes to by its references."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        for each in _walk(waiting.pop()):
            name = str(each.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found.add(name)
                waiting.append(schemas[name])
    return found
