"""What is measured: the few verbs that the benchmarks need of a memory, and how they open one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast


class HasId(Protocol):
    """A record; only its id is looked at."""

    @property
    def id(self) -> str: ...


class BenchmarkBundle(Protocol):
    """What `remember` returns."""

    @property
    def turns(self) -> Sequence[HasId]: ...


class BenchmarkContext(Protocol):
    """What `context` returns; `records` are the (kind, id) rendered whole."""

    @property
    def text(self) -> str: ...

    @property
    def records(self) -> Sequence[tuple[str, str]]: ...


class BenchmarkMemory(Protocol):
    """A memory of one user, open."""

    async def store_turn(self, turn: Mapping[str, Any]) -> object: ...

    async def store_turns(self, turns: Sequence[Mapping[str, Any]]) -> object: ...

    async def flush(self) -> object: ...

    async def remember(self, query: str, *, top_k: int, reinforce: bool) -> BenchmarkBundle: ...

    async def context(self, query: str, *, max_tokens: int) -> BenchmarkContext: ...

    async def erase(self) -> object: ...

    def scoped(self, *, user_id: str) -> BenchmarkMemory: ...


# (user_id, settings that differ from the target's own) -> the opened memory
Opener = Callable[[str, Mapping[str, Any]], AbstractAsyncContextManager[BenchmarkMemory]]


_EMBEDDED_URLS = {"log_url": None, "graph_url": None, "session_url": None}


@dataclass(frozen=True)
class MemoryFactory:
    """An embedded memory under `home`; `settings` are overrides as `AsyncAgentMemory` takes them. It can be pickled.

    With `user_suffix` it is the servers that the settings name, for users whose names end with it, so that they are the
    benchmark's own. Without, what the settings say of servers is not heeded. `config` is the configuration file.
    """

    home: str
    embedder: str = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)
    user_suffix: str = ""
    config: str | None = None

    def __call__(self, user_id: str, settings: Mapping[str, Any]) -> AbstractAsyncContextManager[BenchmarkMemory]:
        """Open the memory of a user, to be used with `async with`."""
        from agentmem import AsyncAgentMemory

        place = {"recall_rate": 0} if self.user_suffix else _EMBEDDED_URLS
        chosen = {
            "home": self.home,
            "config": self.config,
            "embedder": self.embedder,
            **place,
            **self.settings,
            **settings,
        }
        name = f"{user_id} {self.user_suffix}" if self.user_suffix else user_id
        return cast(AbstractAsyncContextManager[BenchmarkMemory], AsyncAgentMemory(name, **chosen))
