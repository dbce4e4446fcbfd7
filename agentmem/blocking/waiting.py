"""What lets verbs that are coroutines be called without `await`, over one background event loop per process."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from agentmem.model.loop import BACKGROUND_LOOP

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")


class SyncFacade(Generic[S]):
    """Wraps an object whose verbs are coroutines."""

    def __init__(self, inner: S) -> None:
        self._inner = inner


def async_to_sync(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The same verb, waiting for its result; signature, types and docstring carry over."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return BACKGROUND_LOOP.run(method(self._inner, *args, **kwargs))

    return call
