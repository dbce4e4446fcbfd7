"""One way to speak to both relational stores: what runs inside a transaction is a coroutine, written once.

A file answers at once, so a coroutine over it never suspends and is finished on the thread that has the connection; one
over a server is awaited. Statements have the same names and parameters in both dialects, `agentmem/stores/<dialect>`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from agentmem.core.record import Key
from agentmem.core.scope import Operator, Scope

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
Principal: TypeAlias = Scope | Operator | str  # a user by scope or by id, or all users


class Keys(tuple[Key, ...]):
    """Records by kind and id, as one value of a statement: a list of pairs in a file, two arrays on a server."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs in conditions that are put together: a parameter, a condition for a list, and long unique values."""

    parameter: str
    in_list: str
    shorten_key: Callable[[str], str]


class SqlConnection(Protocol):
    """A connection inside a transaction.

    `statement` is `file.name`. Values are bound by name; those that a statement does not name are passed over. Lists,
    mappings, moments and `Keys` are bound as each dialect takes them.
    """

    @property
    def dialect(self) -> Dialect: ...

    def text(self, statement: str, /) -> str:
        """The SQL of a statement."""
        ...

    async def select(self, text: str, values: Mapping[str, Any], /) -> list[Row]:
        """The rows of a query that was put together."""
        ...

    async def rows(self, statement: str, /, **values: Any) -> list[Row]:
        """The rows of a statement."""
        ...

    async def rows_of(self, *statements: str, **values: Any) -> list[list[Row]]:
        """The rows of several statements with the same values, in one round trip."""
        ...

    async def dicts(self, statement: str, /, **values: Any) -> list[dict[str, Any]]:
        """The rows of a statement, by column."""
        ...

    async def value(self, statement: str, /, **values: Any) -> Any:
        """The first column of the first row; None without one."""
        ...

    async def run(self, statement: str, /, **values: Any) -> None:
        """Run a statement that returns nothing. On a server, an error shows with the next rows."""
        ...

    async def run_each(self, statement: str, rows: Sequence[Mapping[str, Any]], /, **values: Any) -> None:
        """Run a statement for each row, or once with an array for each name of the rows; nothing without rows."""
        ...

    async def change(self, statement: str, /, **values: Any) -> int:
        """Run a statement; how many rows it changed."""
        ...

    async def set_user(self, user_id: str, /) -> None:
        """Go on with the rows of another user."""
        ...

    async def lock_user(self, user_id: str, /) -> None:
        """Wait for the user's writers, and keep others waiting up to the end of the transaction."""
        ...


Work: TypeAlias = Callable[[Any], Coroutine[Any, Any, T]]


class SqlDatabase(Protocol):
    """Transactions of one user, or of an operator over all. Work may run again where the connection broke."""

    def query(
        self, principal: Principal, work: Work[T], *, timeout_seconds: float | None = None, by_key: bool = False
    ) -> Awaitable[T]:
        """Run work that only reads. A server plans what reads `by_key` once, whatever the values are."""
        ...

    def commit(
        self, principal: Principal, work: Work[T], *, timeout_seconds: float | None = None, durable: bool = True
    ) -> Awaitable[T]:
        """Run work and commit. What is not `durable` waits for no disk."""
        ...

    async def close(self) -> None:
        """Close the connections; a second call does nothing."""
        ...


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing but a file to its end."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise RuntimeError("work inside a transaction on a file waited for something else")
