"""What lets verbs that are coroutines be called without `await`, over one background event loop per process."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from agentmem.model.loop import LOOP

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")


class Blocking(Generic[S]):
    """Wraps an object whose verbs are coroutines."""

    def __init__(self, inner: S) -> None:
        self._inner = inner


def blocking(
    verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The same verb, waiting for its result; signature, types and docstring carry over."""

    @wraps(verb)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return LOOP.run(verb(self._inner, *args, **kwargs))

    return call
