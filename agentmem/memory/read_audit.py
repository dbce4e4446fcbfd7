"""An audit row for each verb that gives stored records out, at the levels `reads` and `verbose`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from agentmem.core.record import Record
from agentmem.core.scope import Scope
from agentmem.engine.auditor import MAX_AUDITED_IDS
from agentmem.engine.engine import Engine

P = ParamSpec("P")
T = TypeVar("T")

READ = "read"
"""The `memory_type` of rows for reads other than recalls."""


def audit_read(
    verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Make a verb leave a row under its name: how many records it gave out, and the ids of the first 50."""

    @wraps(verb)
    async def read(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        found = await verb(self, *args, **kwargs)
        if self._context.is_facade:
            await write_read_row(self._context.engine, self._context.scope, verb.__name__, found)
        return found

    return read


async def write_read_row(engine: Engine, scope: Scope, operation: str, found: Any = (), **details: Any) -> None:
    """Leave a row about what an operation gives out, where the audit level asks for one."""
    if not engine.auditor.audits_reads:
        return
    records = list(_iter_records(found))
    ids = list(dict.fromkeys(record.id for record in records))
    told = {"ids": ids[:MAX_AUDITED_IDS], **details}
    await engine.write_read_audit(
        engine.auditor.build_read_entry(operation, scope, memory_type=READ, count=len(ids), metadata=told)
    )


def _iter_records(found: Any) -> Iterator[Record]:
    """The records in what a verb returns: alone, in lists, in mappings, in objects of ours."""
    if isinstance(found, Record):
        yield found
        yield from _iter_records(getattr(found, "beliefs", ()))  # of a profile
    elif isinstance(found, Mapping):
        for item in found.values():
            yield from _iter_records(item)
    elif isinstance(found, (list, tuple)):
        for item in found:
            yield from _iter_records(item)
    elif dataclasses.is_dataclass(found) and not isinstance(found, type):
        for field in dataclasses.fields(found):
            yield from _iter_records(getattr(found, field.name))
