"""Documents by namespace and name: put, read, listed, searched, and lists of them that grow at the end.

They belong to the active channel alone: what another channel keeps under the same name is another document.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import numpy as np

from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.clock import add_time, derive_id
from agentmem.core.columns import Floats, Ints
from agentmem.core.documents import Document, Namespace, build_path, check_namespace, dump_value
from agentmem.core.plain_values import describe_value, has_visible
from agentmem.core.record import Record, Status
from agentmem.core.records import Turn, build_record
from agentmem.core.scope import Scope
from agentmem.errors import InvalidRecord, ScopeError
from agentmem.memory.context import MemoryContext
from agentmem.memory.episodic import EpisodicMemory
from agentmem.memory.read_audit import audit_read, write_read_row
from agentmem.memory.value_cache import ValueCache
from agentmem.stores.values import SENTENCE, WHOLE, Where

PAGE_SIZE = 200  # documents read at a time
MAX_WRITES = 10_000  # documents written in one transaction
MAX_DOCUMENTS = 1_000_000  # of a namespace that is read or cleared whole
KEPT = (Status.ACTIVE.value, Status.ARCHIVED.value)  # those in recall, and those kept out of it
KIND = Document.__name__
NEVER = datetime.max.replace(tzinfo=UTC)
Matches = Callable[[Any], bool]  # whether a value is wanted
Name = tuple[Sequence[str], str]  # a namespace, and the name in it
Plan: TypeAlias = "Callable[[Mapping[str, Document]], tuple[Sequence[DocumentDraft], Sequence[str]]]"
"""What to write, and the names to delete, given the documents of a namespace by name."""


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """A document to be written: any value of JSON's types under a name.

    `texts` are what searches find it by. With `in_recall`, `remember` finds it by them, too. It lives `ttl_minutes`
    after it was written or refreshed; None is for ever.
    """

    namespace: Sequence[str]
    name: str
    value: object
    texts: Sequence[str] = ()
    ttl_minutes: float | None = None
    in_recall: bool = True


@dataclass(frozen=True, slots=True)
class DocumentMatch:
    """A document that a search found, and its best cosine with the query."""

    document: Document
    score: float


@dataclass
class Documents:
    """What programs keep under names, exactly as given."""

    _context: MemoryContext

    # -- writing

    async def put(
        self,
        namespace: Sequence[str],
        name: str,
        value: object,
        *,
        texts: Sequence[str] = (),
        ttl_minutes: float | None = None,
        in_recall: bool = True,
    ) -> Document:
        """Store a value of JSON's types under a name, in place of the one that is there; see `DocumentDraft`.

        Raises InvalidRecord naming the field, before anything is written.
        """
        return (await self.write([DocumentDraft(namespace, name, value, texts, ttl_minutes, in_recall)]))[0]

    async def write(self, puts: Sequence[DocumentDraft], deletes: Sequence[Name] = ()) -> list[Document]:
        """Write and delete documents in one transaction; returns those written, in the order given.

        Of a name that is put twice the last value counts. A deleted document's turn is forgotten; deleting what is not
        there does nothing. Raises InvalidRecord naming the field.
        """
        if len(puts) + len(deletes) > MAX_WRITES:
            message = f"puts: at most {MAX_WRITES:,} documents at once, got {len(puts) + len(deletes):,}"
            raise InvalidRecord(message, field="puts")
        fresh = [self._build(draft) for draft in puts]
        gone = [self._derive_id(check_namespace(namespace), name) for namespace, name in deletes]

        async def build(write: WriteAttempt) -> list[Change]:
            now, before = write.now, await self._read(record.id for record in fresh)
            changes = [write.build_change(_stamp(record, before.get(record.id), now)) for record in fresh]
            if held := await self._read(gone):
                changes.append(await self._build_removal(write, list(held.values())))
            return self._number(changes)

        entries = await self._context.engine.write_all(
            self._context.scope,
            "put_documents",
            build,
            kind=KIND,
            details={"documents": len(fresh) + len(gone)},
            is_detached=True,
        )
        return [record for entry in entries for record in _documents_of(each.record for each in entry.upserts)]

    async def edit(self, namespace: Sequence[str], plan: Plan) -> list[Document]:
        """Read all documents of a namespace, and write and delete what `plan` makes of them, as one step.

        When another program changes one of those meanwhile, the namespace is read and planned again. What `plan` raises
        is raised, and nothing is written. Returns the documents written.
        """
        path = check_namespace(namespace)

        async def build(write: WriteAttempt) -> list[Change]:
            found = await self._find(self._where(path), MAX_DOCUMENTS)
            before = {each.name: each for each in found if each.namespace == path}
            drafts, names = plan(before)
            seqs = {name: each.seq for name, each in before.items()}
            puts = [
                _stamp(self._build(replace(draft, namespace=path)), before.get(draft.name), write.now)
                for draft in drafts
            ]
            changes = [write.build_change(each, expected_versions={each.key: seqs.get(each.name)}) for each in puts]
            if gone := [before[name] for name in names]:
                changes.append(await self._build_removal(write, gone))
            return self._number(changes)

        entries = await self._context.engine.write_all(self._context.scope, "edit_documents", build, kind=KIND)
        return [record for entry in entries for record in _documents_of(each.record for each in entry.upserts)]

    async def append(
        self,
        namespace: Sequence[str],
        values: Sequence[object],
        *,
        turns: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> list[Document]:
        """Add values at the end of a namespace, in one transaction and under new names; returns them in order.

        `turns` are turns, as `store_turns` takes them, that say in words what the values of these positions hold: they
        are stored with them, and forgotten with them.
        """
        if len(values) > MAX_WRITES:
            raise InvalidRecord(f"values: at most {MAX_WRITES:,} at once, got {len(values):,}", field="values")
        path, ids, spoken = check_namespace(namespace), self._context.engine.ids, turns or {}
        fresh = [self._build(DocumentDraft(path, ids.new_id(), value)) for value in values]
        named = {place: {**turn, "turn_id": ids.new_id()} for place, turn in spoken.items()}
        fresh = [
            each.model_copy(update={"turn_id": named[place]["turn_id"]}) if place in named else each
            for place, each in enumerate(fresh)
        ]

        def build_more(write: WriteAttempt) -> list[Change]:
            return self._number([write.build_change(_stamp(record, None, write.now)) for record in fresh])

        if fresh:
            await EpisodicMemory(self._context).store_beside([named[place] for place in sorted(named)], build_more)
        return fresh

    async def pop(self, namespace: Sequence[str]) -> Document | None:
        """Take the last document out of a namespace, and return it; None when it is empty."""
        where, popped = self._where(check_namespace(namespace)), list[Document]()

        async def build(write: WriteAttempt) -> Change | None:
            popped[:] = await self._find(where, 1)
            return await self._build_removal(write, popped) if popped else None

        await self._context.engine.write(self._context.scope, "pop_document", build, kind=KIND)
        return popped[0] if popped else None

    async def clear(self, namespace: Sequence[str]) -> int:
        """Delete every document in a namespace and below it, with their turns; returns how many."""
        where, gone = self._where(check_namespace(namespace)), list[Document]()

        async def build(write: WriteAttempt) -> Change | None:
            gone[:] = await self._find(where, MAX_DOCUMENTS)
            return await self._build_removal(write, gone) if gone else None

        await self._context.engine.write(self._context.scope, "clear_documents", build, kind=KIND)
        return len(gone)

    async def delete(self, namespace: Sequence[str], name: str) -> None:
        """Delete a document; it stays in history until it is erased. Nothing happens when there is none."""
        await self.write([], [(namespace, name)])

    async def refresh(self, documents: Sequence[Document]) -> None:
        """Let documents with a time to live live that long from now on; those changed or gone meanwhile stay so."""
        wanted = {each.id: each.seq for each in documents if each.ttl_minutes is not None}

        async def build(write: WriteAttempt) -> list[Change]:
            now, found = write.now, await self._read(wanted)
            same = [each for each in found.values() if each.seq == wanted[each.id]]
            return self._number(
                [
                    write.build_change(
                        each.model_copy(update={"expires_at": _expires_at(each, now)}),
                        expected_versions={each.key: each.seq},
                    )
                    for each in same
                ]
            )

        if wanted:
            await self._context.engine.write_all(self._context.scope, "refresh_documents", build, kind=KIND)

    async def remove_expired(self, documents: Sequence[Document] | None = None) -> list[Document]:
        """Delete the documents of the active channel, or those given, whose time to live has passed; returns them."""
        now, gone = await self._context.engine.now(self._context.scope), list[Document]()
        if documents is None:
            every = replace(self._where(()), ends_after=None)
            documents = [each async for page in self._iter_pages(every) for each in page]
        ids = [each.id for each in documents if each.is_expired(now)]

        async def build(write: WriteAttempt) -> Change | None:
            gone[:] = [each for each in (await self._read(ids)).values() if each.is_expired(now)]
            return await self._build_removal(write, gone) if gone else None

        if ids:
            await self._context.engine.write(self._context.scope, "expire_documents", build, kind=KIND)
        return gone

    # -- reading

    @audit_read
    async def get(self, namespace: Sequence[str], name: str) -> Document | None:
        """The document of this name; None when there is none, or its time to live has passed."""
        return (await self.read_many([(namespace, name)]))[0]

    async def read_many(self, names: Sequence[Name]) -> list[Document | None]:
        """The document of each name, None where there is none."""
        ids = [self._derive_id(check_namespace(namespace), name) for namespace, name in names]
        found, now = await self._read(ids), self._context.engine.clock.now()
        return [None if each is None or each.is_expired(now) else each for each in map(found.get, ids)]

    @audit_read
    async def find(
        self,
        namespace: Sequence[str] = (),
        *,
        matches: Matches | None = None,
        limit: int | None = 10,
        offset: int = 0,
        newest_first: bool = True,
    ) -> list[Document]:
        """Documents in a namespace and below it, the last written ones first; all without a limit. [] for none.

        `matches` tells which values are wanted; `offset` of the documents are left out.
        """
        _check_page(limit, offset)
        where = self._where(check_namespace(namespace, may_be_empty=True))
        reach = MAX_DOCUMENTS if limit is None else offset + limit
        if matches is not None:
            return await self._find_matching(where, matches, range(offset, reach), newest_first=newest_first)
        found = await self._context.engine.log.find(
            self._context.scope, where, descending=newest_first, limit=reach - offset, offset=offset
        )
        return _documents_of(found)

    async def _find_matching(
        self, where: Where, matches: Matches, places: range, *, newest_first: bool
    ) -> list[Document]:
        """Those of these places among the documents whose values match; values are read in ever larger parts."""
        log, scope, chosen = self._context.engine.log, self._context.scope, list[int]()
        seen, size = 0, PAGE_SIZE if newest_first else MAX_DOCUMENTS
        while len(chosen) < places.stop:
            found = await log.find_field(scope, where, "value", limit=size)
            fresh = found[: len(found) - seen]
            chosen += [ordinal for ordinal, text in reversed(fresh) if matches(json.loads(text))]
            if len(found) < size:
                break
            seen, size = len(found), 8 * size
        ordered = chosen if newest_first else chosen[::-1]
        return _documents_of(await log.read_by_ordinal(ordered[places.start : places.stop], scope))

    async def read_values(self, namespace: Sequence[str], limit: int | None = None) -> list[Any]:
        """The values of the last `limit` documents in a namespace and below it, or of all; oldest first, [] for none.

        It costs a fifth of `find`, and is for lists that `append` made: what has a time to live is left out.
        """
        _check_page(limit, 0)
        path, scope, engine = check_namespace(namespace), self._scope(), self._context.engine
        where = replace(self._where(path), ends_after=NEVER)
        if limit is None:
            cache, key = engine.get_shared(ValueCache), (scope.user_id, scope.channel, build_path(path))
            found = json.loads(await cache.read(engine.log, scope, key, where, MAX_DOCUMENTS))
        else:
            values = await engine.log.find_field(scope, where, "value", limit=limit)
            found = json.loads(f"[{','.join(text for _, text in values)}]")
        await write_read_row(engine, scope, "read_values", documents=len(found))
        return list(found)

    @audit_read
    async def search(
        self,
        query: str,
        namespace: Sequence[str] = (),
        *,
        matches: Matches | None = None,
        limit: int = 10,
        offset: int = 0,
    ) -> list[DocumentMatch]:
        """Documents in a namespace and below it by the best cosine of one of their texts with the query, best first.

        Only those with texts are found. [] for none, and without a vector index.
        """
        _check_page(limit, offset)
        path = build_path(check_namespace(namespace, may_be_empty=True))
        engine, scope = self._context.engine, self._scope()
        await engine.sync_projections(scope)  # what was just put is to be found
        columns, now = await engine.read_columns(scope), engine.clock.now()
        ordinals, scores = await self._rank(query, scope, columns.size)
        out, at, size = list[DocumentMatch](), 0, 2 * (limit + offset)
        while at < len(ordinals) and len(out) < limit + offset:
            some = [int(ordinal) for ordinal in ordinals[at : at + size]]
            for record in _documents_of(await engine.log.read_by_ordinal(some, scope)):
                fits = record.dedup_key().startswith(path) and record.status.value in KEPT
                if fits and not record.is_expired(now) and (matches is None or matches(record.load())):
                    out.append(DocumentMatch(record, float(scores[columns.ordinals_by_key[record.key]])))
            at, size = at + size, 2 * size
        return out[offset : offset + limit]

    @audit_read
    async def list_namespaces(self, namespace: Sequence[str] = ()) -> list[Namespace]:
        """Every namespace that has documents, a namespace itself and those below it, sorted; [] for none."""
        where = self._where(check_namespace(namespace, may_be_empty=True))
        found = await self._context.engine.log.find_field(self._scope(), where, "namespace", limit=MAX_DOCUMENTS)
        return sorted(tuple(json.loads(each)) for each in {text for _, text in found})

    async def _rank(self, query: str, scope: Scope, size: int) -> tuple[Ints, Floats]:
        """Ordinals of documents by their best cosine, best first, and the best cosine by ordinal, shape (size,)."""
        best, projections = np.full(size, -np.inf, dtype=np.float32), self._context.engine.vector_projections
        if projections and query.strip():
            served, where = projections[0], Where(kinds=(KIND,), channels=(scope.channel,))
            vector = (await served.embedder.embed([query]))[0]
            for grain in await served.index.score_all(vector, scope, where, [WHOLE, SENTENCE]):
                known = grain.ordinals < size  # what is newer comes with the next search
                np.maximum.at(best, grain.ordinals[known], grain.scores[known])
        found = np.flatnonzero(best > -np.inf)
        return found[np.argsort(-best[found], kind="stable")], best

    # -- parts

    def _scope(self) -> Scope:
        """The scope to read in; ScopeError where the active channel is none that it reads."""
        scope = self._context.scope
        if scope.channel not in scope.readable_channels():
            raise ScopeError(f"documents lie in the active channel {scope.channel!r}, which this view does not read")
        return scope

    def _where(self, namespace: Namespace) -> Where:
        prefix = build_path(namespace) or None
        channels, now = (self._scope().channel,), self._context.engine.clock.now()
        return Where(kinds=(KIND,), channels=channels, status=KEPT, dedup_prefix=prefix, ends_after=now)

    def _derive_id(self, namespace: Namespace, name: object) -> str:
        if not isinstance(name, str) or not name or "\x00" in name:
            message = f"name must be a text that is not empty and has no NUL, got {describe_value(name)}"
            raise InvalidRecord(message, field="name")
        return derive_id(KIND, self._context.scope.channel, *namespace, name)  # the same in every user's memory

    def _build(self, draft: DocumentDraft) -> Document:
        namespace, texts = check_namespace(draft.namespace), tuple(filter(has_visible, draft.texts))
        return build_record(
            Document,
            id=self._derive_id(namespace, draft.name),
            channel=self._context.scope.channel,
            namespace=namespace,
            name=draft.name,
            value=dump_value(draft.value),
            texts=texts,
            ttl_minutes=draft.ttl_minutes,
            status=Status.ACTIVE if draft.in_recall and texts else Status.ARCHIVED,
        )

    def _number(self, changes: Iterable[Change]) -> list[Change]:
        """The changes of one operation with an id each: so each has its own place in the journal."""
        new_id = self._context.engine.ids.new_id
        return [replace(each, change_id=new_id()) if place else each for place, each in enumerate(changes)]

    async def _find(self, where: Where, limit: int) -> list[Document]:
        return _documents_of(
            await self._context.engine.log.find(self._context.scope, where, descending=True, limit=limit)
        )

    async def _read(self, ids: Iterable[str]) -> dict[str, Document]:
        found = await self._context.engine.log.read_records(KIND, list(ids), self._scope())
        return {each.id: each for each in _documents_of(found) if each.status.value in KEPT}

    async def _iter_pages(
        self, where: Where, newest_first: bool = True, size: int = PAGE_SIZE
    ) -> AsyncIterator[list[Document]]:
        offset, log = 0, self._context.engine.log
        while page := await log.find(self._context.scope, where, descending=newest_first, limit=size, offset=offset):
            yield _documents_of(page)
            if len(page) < size:
                return
            offset, size = offset + size, PAGE_SIZE

    async def _build_removal(self, write: WriteAttempt, gone: Sequence[Document]) -> Change:
        """The Change that deletes documents and forgets their turns, softly."""
        spoken = [each.turn_id for each in gone if each.turn_id]
        turns = await self._context.engine.log.read_records(Turn.__name__, spoken, self._scope()) if spoken else []
        retired = {"status": Status.FORGOTTEN, "superseded_at": write.now, "reason": "its message was removed"}
        return write.build_change(
            *(turn.model_copy(update=retired) for turn in turns if turn.status is not Status.FORGOTTEN),
            deletes=[each.key for each in gone],
            expected_versions={record.key: record.seq for record in (*gone, *turns)},
        )


def _documents_of(records: Iterable[Record]) -> list[Document]:
    return [record for record in records if isinstance(record, Document)]


def _stamp(record: Document, before: Document | None, now: datetime) -> Document:
    """The document as it is written now, in place of the one before."""
    lives_on = before is not None and not before.is_expired(now)
    times = {"created_at": before.created_at if before and lives_on else now, "updated_at": now}
    return record.model_copy(update={**times, "expires_at": _expires_at(record, now)})


def _expires_at(record: Document, now: datetime) -> datetime | None:
    return None if record.ttl_minutes is None else add_time(now, timedelta(minutes=record.ttl_minutes))


def _check_page(limit: int | None, offset: int) -> None:
    for name, number in (("limit", 0 if limit is None else limit), ("offset", offset)):
        if type(number) is not int or number < 0:
            raise InvalidRecord(f"{name} must be 0 or more, got {describe_value(number)}", field=name)
