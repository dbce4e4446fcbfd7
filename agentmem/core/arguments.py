"""Arguments of public verbs against their annotations, before anything runs."""

from __future__ import annotations

import builtins
import inspect
import logging
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property, wraps
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from agentmem.core.plain_values import HalfSurrogate, check_plain, describe_value, replace_in_field
from agentmem.core.scope import MAX_IDENTIFIER_CHARS
from agentmem.core.telemetry import log_event
from agentmem.errors import InvalidRecord

C = TypeVar("C", bound=type)
_NAMES: Mapping[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    datetime: "a datetime",
    timedelta: "a timedelta",
    type(None): "None",
}


def check_arguments(cls: C) -> C:
    """Make the public methods of a class raise InvalidRecord for arguments that do not fit their annotations.

    Omitted arguments and open annotations are not checked. Numbers are not read from text, and a text is not a list of
    its letters.
    """
    for name, method in list(vars(cls).items()):
        if not name.startswith("_") and inspect.isfunction(method):
            setattr(cls, name, _check_calls(method))
    return cls


def _check_calls(method: Callable[..., Any]) -> Callable[..., Any]:
    parameters = VerbParameters(method)
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def call_async(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            args, kwargs = parameters.read(args, kwargs)
            return await method(self, *args, **kwargs)

        return call_async

    @wraps(method)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = parameters.read(args, kwargs)
        return method(self, *args, **kwargs)

    return call


class VerbParameters:
    """The parameters of a method, read from its annotations at its first call."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self._adapters: dict[str, TypeAdapter[Any] | None] = {}

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, checked. Half of a surrogate pair in a text becomes U+FFFD, with a warning in the log.

        In ids and names it is refused: two of them would become the same.
        """
        try:
            self.check(args, kwargs)
        except HalfSurrogate as error:
            log_event(logging.WARNING, "half_surrogate_replaced", verb=self._method.__name__, field=error.field)
            named = zip(self._positional, args, strict=False)
            args = (*(replace_in_field(name, value) for name, value in named), *args[len(self._positional) :])
            kwargs = {name: replace_in_field(name, value) for name, value in kwargs.items()}
            self.check(args, kwargs)
        return args, kwargs

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise InvalidRecord for the first argument that does not fit, naming its parameter."""
        for name, value in (*zip(self._positional, args, strict=False), *kwargs.items()):
            if value is not None or name not in self._defaulting_to_none:
                self._check_one(name, value)

    @cached_property
    def annotations(self) -> dict[str, Any]:
        """The annotation of each parameter, those of keyword fields among them; Any where a name is not at hand."""
        written = inspect.unwrap(self._method)  # a decorator is in another module, with other names
        hints = typing.get_type_hints(written, written.__globals__, _ModuleNames(written.__globals__))
        hints.pop("return", None)
        for name, hint in list(hints.items()):
            if typing.get_origin(hint) is typing.Unpack:
                del hints[name]
                hints |= typing.get_type_hints(typing.get_args(hint)[0])
        return hints

    @cached_property
    def _positional(self) -> list[str]:
        return list(inspect.signature(self._method).parameters)[1:]

    @cached_property
    def _defaulting_to_none(self) -> frozenset[str]:
        parameters = inspect.signature(self._method).parameters.items()
        return frozenset(name for name, parameter in parameters if parameter.default is None)

    def _check_one(self, name: str, value: Any) -> None:
        annotation = self.annotations.get(name, Any)
        if name not in self._adapters:
            self._adapters[name] = _make_adapter(annotation)
        if not _fits(value, annotation, self._adapters[name]):
            wanted = describe_annotation(annotation)
            raise InvalidRecord(f"{name} must be {wanted}, got {describe_value(value)}", field=name)
        if name.endswith("_id") and isinstance(value, str) and len(value) > MAX_IDENTIFIER_CHARS:
            raise InvalidRecord(f"{name} must have at most {MAX_IDENTIFIER_CHARS} characters", field=name)
        if name != "query" and annotation is not Any and not _takes_record(annotation):  # any text may be asked
            check_plain(value, name)
        elif isinstance(value, Mapping):  # the fields of a record, under their own names
            for field, item in value.items():
                check_plain(item, str(field) if _takes_record(annotation) else name)


def _make_adapter(annotation: Any) -> TypeAdapter[Any] | None:
    try:
        return TypeAdapter(annotation)
    except (PydanticSchemaGenerationError, PydanticUserError):  # a protocol, or a class of our own
        return None


def _fits(value: Any, annotation: Any, adapter: TypeAdapter[Any] | None) -> bool:
    if adapter is None:
        return True
    if isinstance(value, Mapping) and not any(_is_mapping(each) for each in _list_members(annotation)):
        return annotation is Any  # pydantic would read a record from it
    if isinstance(value, Decimal):
        return annotation is Any  # pydantic would take it for a float, with which it cannot be reckoned
    if isinstance(value, str) and any(typing.get_origin(each) is typing.Literal for each in _list_members(annotation)):
        return True  # the verb says which words there are, where it may depend on the record
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def _is_mapping(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _takes_record(annotation: Any) -> bool:
    """Whether a record may be given, or a list of them: its fields are checked where it is built."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return True
    return any(map(_takes_record, typing.get_args(annotation)))


def _list_members(annotation: Any) -> Iterator[Any]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        yield from typing.get_args(annotation)
    else:
        yield annotation


def describe_annotation(annotation: Any) -> str:
    """An annotation in words: "a whole number or None", "a list of text"."""
    return " or ".join(dict.fromkeys(_describe_member(each) for each in _list_members(annotation)))


def _describe_member(annotation: Any) -> str:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return f"one of {', '.join(map(str, args))}"
    if origin is tuple:
        return f"a tuple of {', '.join(describe_annotation(each) for each in args if each is not ...)}"
    if _is_mapping(annotation):
        return "a mapping"
    if isinstance(origin, type) and issubclass(origin, typing.Collection):
        return f"a list of {describe_annotation(args[0])}"
    if origin is not None:
        return "a function"
    name = getattr(annotation, "__name__", str(annotation))
    return _NAMES.get(annotation) or f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


class _ModuleNames(dict[str, Any]):
    """The names that annotations of a module may use; one that is imported for the type checker alone is Any."""

    def __init__(self, module_globals: Mapping[str, Any]) -> None:
        super().__init__()
        self._globals = module_globals

    def __missing__(self, name: str) -> Any:
        if name.startswith("__"):  # what debuggers look for in a frame
            raise KeyError(name)
        return self._globals.get(name, getattr(builtins, name, Any))
