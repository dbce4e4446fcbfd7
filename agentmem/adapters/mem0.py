"""`Memory` and `AsyncMemory` as mem0 2.x has them, over a memory of this package. The package mem0ai is not needed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from agentmem.adapters.bridge import MemoryBridge
from agentmem.adapters.mem0_verbs import Mem0Verbs
from agentmem.core.telemetry import log_event
from agentmem.errors import ConfigError
from agentmem.facade.memory import AgentMemory
from agentmem.settings.overrides import PathText, SettingsOverrides
from agentmem.settings.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

IGNORED_CONFIG = ("vector_store", "llm", "embedder", "reranker", "history_db_path", "version")


def _wait_for(
    verb: Callable[Concatenate[Mem0Verbs, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Memory, P], T]:
    """The same verb, waiting for its result."""

    @wraps(verb)
    def call(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._bridge.run(verb(self._verbs, *args, **kwargs))

    return call


def _run_in_background(
    verb: Callable[Concatenate[Mem0Verbs, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, T]]:
    """The same verb, awaited on any event loop."""

    @wraps(verb)
    async def call(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._bridge.run_async(verb(self._verbs, *args, **kwargs))

    return call


class OpenedMem0:
    """What `Memory` and `AsyncMemory` have in common: one open memory.

    `path` is the folder it lies in; without it, the one of `AgentMemory`. `user_id` is who is meant where a call names
    no user. Settings are those of `AgentMemory`.
    """

    def __init__(
        self,
        path: PathText | None = None,
        /,
        *,
        user_id: str = "default",
        settings: Settings | None = None,
        **overrides: Unpack[SettingsOverrides],
    ) -> None:
        if path is not None:
            if not isinstance(path, str | os.PathLike):
                raise ConfigError("give a folder, or use from_config with mem0's configuration as a dict")
            overrides["home"] = path
        self._memory = AgentMemory(user_id, settings=settings, **overrides)
        self._bridge = MemoryBridge(self._memory)
        self._verbs = Mem0Verbs(self._bridge.memory, owns_home="home" in overrides)

    @classmethod
    def from_config(cls, config_dict: dict[str, Any]) -> Self:
        """A memory for mem0's configuration. Settings of `AgentMemory` are under `agentmem`.

        Vector store, models and files of mem0 are not used, which a warning in the log says. ConfigError for
        instructions, which say what must not be remembered, and for what mem0 does not know.
        """
        for name, value in config_dict.items():
            if name in IGNORED_CONFIG:
                log_event(logging.WARNING, "mem0_config_ignored", name=name)
            elif name != "agentmem" and value is not None:
                raise ConfigError(f"mem0 configuration: {name[:50]!r} is not served here; settings go under 'agentmem'")
        return cls(**config_dict.get("agentmem", {}))

    def close(self) -> None:
        """Close what is open; closing twice is fine. Later calls raise Closed."""
        self._memory.close()


class Memory(OpenedMem0):
    """mem0's `Memory`: the verbs of `Mem0Verbs` without `await`, from any thread."""

    add = _wait_for(Mem0Verbs.add)
    get = _wait_for(Mem0Verbs.get)
    get_all = _wait_for(Mem0Verbs.get_all)
    search = _wait_for(Mem0Verbs.search)
    update = _wait_for(Mem0Verbs.update)
    delete = _wait_for(Mem0Verbs.delete)
    delete_all = _wait_for(Mem0Verbs.delete_all)
    history = _wait_for(Mem0Verbs.history)
    reset = _wait_for(Mem0Verbs.reset)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncMemory(OpenedMem0):
    """mem0's `AsyncMemory`: the verbs of `Mem0Verbs`, from any event loop. As there, `close` is no coroutine."""

    add = _run_in_background(Mem0Verbs.add)
    get = _run_in_background(Mem0Verbs.get)
    get_all = _run_in_background(Mem0Verbs.get_all)
    search = _run_in_background(Mem0Verbs.search)
    update = _run_in_background(Mem0Verbs.update)
    delete = _run_in_background(Mem0Verbs.delete)
    delete_all = _run_in_background(Mem0Verbs.delete_all)
    history = _run_in_background(Mem0Verbs.history)
    reset = _run_in_background(Mem0Verbs.reset)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
