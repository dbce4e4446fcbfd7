"""Routes made from verbs: a parameter's name, type, default and sentence are written once, in the verb's signature."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field, create_model

from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.auth import Reader, ViewFields, ViewQuery, Writer, open_view
from agentmem.server.callers import Caller
from agentmem.server.rest.fields import IdempotencyKey, Moment

_HEADER_FIELD = "idempotency_key"


class VerbRouter(APIRouter):
    """Routes over verbs of the memory and of one part of it, such as `goals`."""

    def __init__(self, tag: str, part: str = "") -> None:
        super().__init__(prefix="/v1", tags=[tag])
        self._part = part

    def verb(
        self,
        route: str,
        verb: Callable[..., Any],
        operation: str = "",
        /,
        *,
        caller: Any = None,
        answer: Callable[[Any], Any] | None = None,
        status_code: int | None = None,
        drop_null: bool = False,
        **wire: Any,
    ) -> None:
        """Add `METHOD /path` for a verb, which is called `operation` (the verb's name if empty) in OpenAPI.

        The first parameters of the verb come from the path, the others from the query, or from the body of POST, PATCH
        and PUT. `wire` gives a parameter another type over HTTP, or a type and a default; None leaves it out. With
        `drop_null`, null in the body means the same as leaving out. `answer` builds what is sent from what the verb
        returns. `caller` is who may ask: by default a `Reader` for GET, else a `Writer`.
        """
        method, path = route.split()
        operation = operation or verb.__name__
        part = "" if vars(AsyncAgentMemory).get(verb.__name__) is verb else self._part
        in_path = re.findall(r"{(\w+)}", path)
        plain = inspect.unwrap(verb)
        returned = typing.get_type_hints(answer or plain)["return"]
        fields = dict(list(_read_fields(plain, wire).items())[len(in_path) :])
        names = set(fields) - {_HEADER_FIELD}
        defaults = {name: chosen[1] for name, chosen in wire.items() if isinstance(chosen, tuple)}
        body = _build_body(operation, fields) if method in ("POST", "PATCH", "PUT") else None

        async def call(request: Request, caller: Caller, view: ViewFields, **given: Any) -> Any:
            path_values = [given.pop(name) for name in in_path]
            if body is not None:
                given |= defaults | view.model_dump(include=names, exclude_unset=True, exclude_none=drop_null)
            memory = open_view(request, caller, view)
            owner = getattr(memory, part) if part else memory
            found = await getattr(owner, verb.__name__)(*path_values, **given)
            return found if answer is None else answer(found)

        arguments = {
            "request": _Parameter(Request),
            "caller": _Parameter(caller or (Reader if method == "GET" else Writer)),
            "view": _Parameter(body or ViewQuery),
            **dict.fromkeys(in_path, _Parameter(str)),
            **{name: field for name, field in fields.items() if body is None or name == _HEADER_FIELD},
        }
        parameters = [field.build_argument(name) for name, field in arguments.items()]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        self.add_api_route(
            path,
            call,
            methods=[method],
            name=operation,
            description=inspect.cleandoc(plain.__doc__ or "").partition("\n\n")[0],
            response_model=None if returned is type(None) else returned,
            status_code=status_code or _choose_status(method, path, returned),
        )


@dataclass(frozen=True, slots=True)
class _Parameter:
    """What a request may hold: its type on the wire, its default and a sentence about it."""

    wire: Any
    default: Any = inspect.Parameter.empty
    sentence: str | None = None

    def build_argument(self, name: str) -> inspect.Parameter:
        """As an argument of the function that answers."""
        described = self.wire if self.sentence is None else Annotated[self.wire, Query(description=self.sentence)]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=self.default, annotation=described)

    def build_field(self) -> tuple[Any, Any]:
        """As a field of a body."""
        is_required = self.default is inspect.Parameter.empty
        return self.wire, Field(... if is_required else self.default, description=self.sentence)


def _read_fields(plain: Callable[..., Any], wire: Mapping[str, Any]) -> dict[str, _Parameter]:
    """The parameters of a verb. Keyword fields may be left out, and then null stands for None."""
    hints = typing.get_type_hints(plain, include_extras=True)
    found: dict[str, _Parameter] = {}
    for name, parameter in list(inspect.signature(plain).parameters.items())[1:]:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            keywords = typing.get_type_hints(typing.get_args(hints[name])[0], include_extras=True)
            found |= {key: _read_field(hint, None, wire.get(key), or_null=True) for key, hint in keywords.items()}
        elif name == _HEADER_FIELD:
            found[name] = _Parameter(IdempotencyKey, None)
        else:
            found[name] = _read_field(hints[name], parameter.default, wire.get(name))
    if unknown := wire.keys() - found.keys():
        raise TypeError(f"{plain.__qualname__} has no parameter {', '.join(unknown)}")
    return {name: field for name, field in found.items() if name not in wire or wire[name] is not None}


def _read_field(hint: Any, default: Any, wire: Any, *, or_null: bool = False) -> _Parameter:
    sentence = None
    if typing.get_origin(hint) is Annotated:
        hint, sentence, *_ = typing.get_args(hint)
    if isinstance(wire, tuple):
        wire, default = wire
    chosen = wire or _convert_to_wire(hint)
    return _Parameter(chosen | None if or_null else chosen, default, sentence)


def _convert_to_wire(hint: Any) -> Any:
    """The type that a request has for a parameter's type."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is datetime:
        return Moment
    if origin in (typing.Union, types.UnionType):
        return typing.Union[tuple(map(_convert_to_wire, args))]  # noqa: UP007  made from a tuple
    if origin in (Sequence, Mapping):
        return types.GenericAlias(list if origin is Sequence else dict, args)
    return hint


def _build_body(operation: str, fields: Mapping[str, _Parameter]) -> type[ViewFields]:
    known = {_HEADER_FIELD, *ViewFields.model_fields}
    own: dict[str, Any] = {name: field.build_field() for name, field in fields.items() if name not in known}
    title = operation.title().replace("_", "") + "Body"
    return create_model(title, __base__=ViewFields, __module__=__name__, **own) if own else ViewFields


def _choose_status(method: str, path: str, returned: Any) -> int:
    if returned is type(None):
        return 204
    return 201 if method == "POST" and "{" not in path else 200
