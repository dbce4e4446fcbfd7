"""What somebody else does between two steps of a verb, so that a test makes a collision instead of hoping for one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

Action = Callable[[], Awaitable[Any]]


def run_once_before(
    patch: pytest.MonkeyPatch, target: Any, name: str, action: Action, condition: Callable[..., bool] | None = None
) -> list[str]:
    """Do something once before a coroutine function is called (so that `condition` holds); calls by `action` itself
    pass.

    The list is filled when it was done, so that a test can tell that the collision took place.
    """
    real, done = getattr(target, name), list[str]()

    async def instead(*given: Any, **named: Any) -> Any:
        if not done and (condition is None or condition(*given, **named)):
            done.append(name)
            await action()
        return await real(*given, **named)

    patch.setattr(target, name, instead)
    return done


def run_once_before_append(patch: pytest.MonkeyPatch, resources: Any, operation: str, action: Action) -> list[str]:
    """Do something once when a write of this operation has been built and is about to be appended to the log."""
    return run_once_before(
        patch, resources.log, "append", action, lambda changes, *_: changes[0].operation == operation
    )
