"""What the subsystems of one view share: open stores, their scope, and how they read records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Unpack

from agentmem.core.changes import Change, JournalEntry, WriteAttempt, derive_change_id, hash_request
from agentmem.core.clock import derive_id
from agentmem.core.plain_values import describe_value
from agentmem.core.record import Key, Record
from agentmem.core.records import KINDS, R
from agentmem.core.scope import Scope
from agentmem.engine.auditor import MAX_AUDITED_IDS
from agentmem.engine.engine import AuditOptions, Engine, WriteOptions
from agentmem.errors import InvalidRecord, NotFound
from agentmem.stores.values import ErasureScan, Where

ID_BATCH_SIZE = 500  # ids asked for in one go
RECORD_PAGE_SIZE = 1000  # records read in one go
KINDS_WITH_CALLER_IDS = ("Turn", "Entity", "Goal")  # kinds whose ids callers may choose


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """What was forgotten. `hard`: erased, with what rested on it alone (`derived`), and searched for (`scan`)."""

    operation_id: str
    ids: tuple[str, ...]
    hard: bool
    at: datetime
    derived: tuple[str, ...] = ()
    scan: ErasureScan | None = None


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """Everything of a user was erased. `scan.leftovers` is empty; `scan.deferred` names what waits."""

    operation_id: str
    user_id: str
    at: datetime
    scan: ErasureScan = field(default_factory=lambda: ErasureScan(()))


@dataclass(frozen=True, slots=True)
class Diff:
    """What memory gained, lost and changed between two moments, each in journal order."""

    learned: tuple[Record, ...]
    retired: tuple[Record, ...]
    changed: tuple[tuple[Record, Record], ...]


@dataclass
class MemoryContext:
    """Where the subsystems of one view sit: shared resources, and the scope they act in, which turns move on.

    `is_facade` is whether callers of the package ask here: what they read leaves audit rows, what we read does not.
    """

    engine: Engine
    scope: Scope
    is_facade: bool = False

    def ensure_conversation_id(self) -> str:
        """The conversation that goes on here; a new one begins when there is none."""
        if self.scope.conversation_id is None:
            self.scope = replace(self.scope, conversation_id=self.engine.ids.new_id())
        assert self.scope.conversation_id is not None
        return self.scope.conversation_id

    def start_session(self, session_id: str) -> None:
        """Go on in another session, without a conversation yet."""
        self.scope = replace(self.scope, session_id=session_id, conversation_id=None)

    async def write(
        self,
        cls: type[R],
        operation: str,
        build: Callable[[WriteAttempt], Awaitable[Change | R]],
        *,
        idempotency_key: str | None,
        given: Mapping[str, Any],
    ) -> R:
        """Write, and return the first record of a class that the write put.

        `build` returns the record where there is nothing to change; under an `idempotency_key` a version that changes
        nothing then notes that the key was used. `given` are the arguments of the verb: the key with others is a
        Conflict. NotFound when it was done before and the record was erased since.
        """
        unchanged: list[R] = []

        async def make(write: WriteAttempt) -> Change | None:
            made = await build(write)
            if isinstance(made, Change):
                return made
            unchanged[:] = [made]
            return None if idempotency_key is None else write.build_change(made, expected_versions={made.key: made.seq})

        entry = await self.write_entry(cls.__name__, operation, make, idempotency_key, given)
        return unchanged[0] if entry is None else get_written_record(entry, cls)

    async def write_entry(
        self,
        kind: str,
        operation: str,
        build: Callable[[WriteAttempt], Awaitable[Change | None]],
        idempotency_key: str | None,
        given: Mapping[str, Any],
        **options: Unpack[AuditOptions],
    ) -> JournalEntry | None:
        """Write in the context's scope; None when `build` found nothing to do. See `write` and `Engine.write_all`."""
        guarded = WriteOptions(idempotency_key=idempotency_key, request_hash=hash_request(**given), **options)
        return await self.engine.write(self.scope, operation, build, kind=kind, **guarded)

    async def get_one(self, cls: type[R], record_id: str) -> R:
        """Return the current record of a class and id that the scope may read; NotFound otherwise."""
        kind = cls.__name__
        stored = await self.engine.log.read_records(kind, [record_id], self.scope)
        found = [record for record in stored if record.channel in self.scope.readable_channels()]
        for record in found or (await self._find_aliased([kind], [record_id])).values():
            if isinstance(record, cls):
                return record
        raise NotFound(f"no {kind} {record_id!r} in the channels {', '.join(self.scope.readable_channels())}")

    async def find_by_id(self, record_id: str) -> list[Record]:
        """Return the current records of this id, of any kind, that the scope may read; [] when there is none."""
        where = Where(kinds=tuple(KINDS), ids=(record_id,), channels=self.scope.readable_channels())
        found = await self.engine.log.find(self.scope, where, limit=len(KINDS))
        return found or list((await self._find_aliased(KINDS_WITH_CALLER_IDS, [record_id])).values())

    # -- ids that callers choose

    def alias_id(self, kind: str, given_id: str, channel: str | None = None) -> str:
        """Return the id under which a record is stored when the given id is taken where its writer cannot read.

        An id is unique within a user, but a caller must neither learn of a record in another agent's channel nor be
        refused because of it. The alias depends on the channel (the active one when None), so a retry finds it again.
        """
        return derive_id(self.scope.user_id, "alias", kind, channel or self.scope.channel, given_id)

    async def require_conversation(self, conversation_id: str) -> dict[Key, int]:
        """Return the journal position of a conversation, for a write to expect; InvalidRecord when there is none."""
        if found := await self.find_conversation(conversation_id):
            return found
        raise InvalidRecord(
            f"conversation_id: no conversation {conversation_id!r} is stored; store a turn of it first",
            field="conversation_id",
        )

    async def find_conversation(self, conversation_id: str) -> dict[Key, int]:
        """Return the journal position of a conversation that the scope can read; {} when there is none.

        That is its record, or one of its turns where the record lies in a channel that the scope cannot read.
        """
        readable = self.scope.readable_channels()
        found = await self.engine.log.read_records("Conversation", [conversation_id], self.scope)
        if not any(record.channel in readable for record in found):
            where = Where(kinds=("Turn",), channels=readable, conversation_id=conversation_id)
            found = await self.engine.log.find(self.scope, where, limit=1)
        return {record.key: record.seq for record in found}

    async def with_own_id(self, draft: R) -> R:
        """Return the draft under the id to store it by: an alias where its own is taken in a channel not readable."""
        kind = type(draft).__name__
        stored = await self.engine.log.read_records(kind, [draft.id], self.scope) if draft.id else []
        if all(record.channel in self.scope.readable_channels() for record in stored):
            return draft
        return draft.model_copy(update={"id": self.alias_id(kind, draft.id), "given_id": draft.id})

    async def resolve_ids(self, kind: str, given_ids: Sequence[str]) -> list[str]:
        """Return the stored ids of a kind for ids as a caller knows them; an unknown id is returned unchanged."""
        if not given_ids:
            return []
        stored = await self.engine.log.read_records(kind, list(dict.fromkeys(given_ids)), self.scope)
        known = {record.id for record in stored if record.channel in self.scope.readable_channels()}
        aliased = await self._find_aliased([kind], [name for name in given_ids if name not in known])
        return [aliased[kind, name].id if (kind, name) in aliased else name for name in given_ids]

    async def resolve_id(self, record_id: str) -> str:
        """Return the stored id for an id of any kind as a caller knows it; an unknown id is returned unchanged."""
        found = await self.find_by_id(record_id)
        return found[0].id if found else record_id

    async def _find_aliased(self, kinds: Sequence[str], given_ids: Sequence[str]) -> dict[Key, Record]:
        """Return the readable records stored under an alias of these ids, by kind and given id.

        Where several channels have one, the record of the channel read first counts.
        """
        found: dict[Key, Record] = {}
        for kind in kinds if given_ids else ():
            aliases = {
                self.alias_id(kind, name, channel): (kind, name)
                for channel in reversed(self.scope.readable_channels())
                for name in given_ids
            }
            for record in await self.engine.log.read_records(kind, list(aliases), self.scope):
                if kind in KINDS_WITH_CALLER_IDS and record.channel in self.scope.readable_channels():
                    found[aliases[record.id]] = record
        return found

    async def iter_pages(self, where: Where) -> AsyncIterator[list[Record]]:
        """Current records that match, in any channel of the user unless `where` names some, by kind and id.

        A write between two pages never hides or repeats a record that exists throughout.
        """
        for kind in tuple(KINDS) if where.kinds is None else where.kinds:
            page, rest = list[Record](), replace(where, kinds=(kind,))
            while page := await self.engine.log.find(self.scope, rest, order="id", limit=RECORD_PAGE_SIZE):
                yield page
                if len(page) < RECORD_PAGE_SIZE:
                    break
                rest = replace(rest, after_id=page[-1].id)

    async def list_page(
        self, kinds: Sequence[str], after: Record | tuple[int, str, str] | None, limit: int
    ) -> list[Record]:
        """A page of current records of the readable channels, by `seq`; see `AsyncAgentMemory.list_records`."""
        unknown = sorted(set(kinds) - set(KINDS))
        if unknown or isinstance(kinds, str):
            known = ", ".join(sorted(KINDS))
            raise InvalidRecord(f"kinds must be some of {known}, got {unknown or kinds!r}", field="kinds")
        if not 1 <= limit <= RECORD_PAGE_SIZE:
            raise InvalidRecord(f"limit must be 1 to {RECORD_PAGE_SIZE:,}, got {limit}", field="limit")
        place = (after.seq, *after.key) if isinstance(after, Record) else after
        where = Where(kinds=tuple(kinds) or None, channels=self.scope.readable_channels(), after=place)
        return await self.engine.log.find(self.scope, where, limit=limit)

    async def list_readable(self, kind: str, *, channels: Sequence[str] | None = None) -> list[Record]:
        """Every current record of a kind in the readable channels, in order of `seq`."""
        where = Where(kinds=(kind,), channels=tuple(channels or self.scope.readable_channels()))
        return sorted(
            [record async for page in self.iter_pages(where) for record in page], key=lambda record: record.seq
        )

    async def require_existing(self, field: str, kind: str, ids: Sequence[str]) -> dict[Key, int]:
        """Return the journal position of these records, for a write to expect; see `resolve_existing_ids`."""
        return (await self.resolve_existing_ids(field, kind, ids))[1]

    async def resolve_existing_ids(
        self, field: str, kind: str, given_ids: Sequence[str]
    ) -> tuple[list[str], dict[Key, int]]:
        """Return the stored ids for ids as a caller knows them, and the journal position of each record.

        A write expects the records there. Raises InvalidRecord naming the field unless every id is stored in a channel
        that the scope may read.
        """
        readable = self.scope.readable_channels()
        stored = await self.engine.log.read_records(kind, given_ids, self.scope) if given_ids else []
        found = {record.id: record for record in stored if record.channel in readable}
        missing = [name for name in given_ids if name not in found]
        found |= {name: record for (_, name), record in (await self._find_aliased([kind], missing)).items()}
        for name in missing:
            if name not in found:
                raise InvalidRecord(f"{field}: no {kind} {describe_value(name)} is stored; store it first", field=field)
        return [found[name].id for name in given_ids], {record.key: record.seq for record in found.values()}

    async def record_usage(
        self, ids: Sequence[str], context_tags: Sequence[str] = (), *, idempotency_key: str | None = None
    ) -> int:
        """Count a use of these records, once per `idempotency_key`; returns how many were found in the readable
        channels.

        `context_tags` say what the conversation is about: a fact used in another field than its own becomes stronger.
        """
        for field_name, names in (("ids", ids), ("context_tags", context_tags)):
            if isinstance(names, str):
                raise InvalidRecord(f"{field_name} must be a list of strings, got a string", field=field_name)
        keys = await self._find_readable_keys(list(dict.fromkeys(ids)))
        engine = self.engine
        use_id = (
            engine.ids.new_id()
            if idempotency_key is None
            else derive_change_id(self.scope, "observe_usage", idempotency_key)
        )
        tags = tuple(context_tags)
        await engine.log.record_usage(
            keys, self.scope, use_id, used=True, used_at=engine.clock.now(), context_tags=tags
        )
        row = engine.auditor.build_write_entry(
            "observe_usage",
            self.scope,
            memory_type="semantic",
            count=len(keys),
            metadata={"tags": tags[:20], "ids": [name for _, name in keys[:MAX_AUDITED_IDS]]},
        )
        await engine.write_audit(row)
        return len(keys)

    async def _find_readable_keys(self, ids: Sequence[str]) -> list[Key]:
        """The keys of the current records of these ids that the scope may read, in the order asked."""
        usable = tuple(kind for kind in KINDS if kind != "Gloss")  # a turn's bears the turn's id
        found: list[Key] = []
        for start in range(0, len(ids), ID_BATCH_SIZE):
            some = tuple(ids[start : start + ID_BATCH_SIZE])
            where = Where(kinds=usable, ids=some, channels=self.scope.readable_channels())
            seen = await self.engine.log.find(self.scope, where, limit=len(some) * len(usable))
            keys = [(record.id, record.key) for record in seen]
            known = {name for name, _ in keys}
            aliased = await self._find_aliased(KINDS_WITH_CALLER_IDS, [name for name in some if name not in known])
            keys += [(name, record.key) for (_, name), record in aliased.items()]
            place = {name: number for number, name in enumerate(some)}
            found += [key for _, key in sorted(keys, key=lambda item: (place[item[0]], item[1]))]
        return found


def get_written_record(entry: JournalEntry | None, cls: type[R]) -> R:
    """The first record of a class that a write put; NotFound when it was done before and the record erased since."""
    for stored in () if entry is None else entry.upserts:
        if isinstance(stored.record, cls):
            return stored.record
    raise NotFound(f"this write was done before and its {cls.__name__} erased since")
