"""CrewAI: where its `Memory` keeps its records.

CrewAI makes the vectors and decides what is worth keeping; here its records lie as documents, exactly as given.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import numpy as np
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
from crewai.memory.types import MemoryRecord, ScopeInfo
from crewai.memory.utils import normalize_scope_path
from numpy.typing import NDArray

from agentmem.adapters.bridge import MemoryBridge
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.facade.memory import AgentMemory
from agentmem.memory.documents import DocumentDraft, Documents

RECORDS = ("crewai_memory",)
SAMPLE_SIZE = 20  # records among which the length of vectors is looked for first
Match: TypeAlias = "tuple[MemoryRecord, float]"
Value: TypeAlias = "Mapping[str, Any]"  # a record in JSON, its vector in base64


class AgentMemStorage:
    """A `StorageBackend` for `Memory(storage=AgentMemStorage(memory))`.

    With `in_recall` (the default), `remember` finds the texts of records that are not private, too. Calls without
    `await`, which are all that CrewAI itself makes, need an `AgentMemory`.
    """

    def __init__(self, memory: AgentMemory | AsyncAgentMemory, *, in_recall: bool = True) -> None:
        self._bridge, self._in_recall = MemoryBridge(memory), in_recall

    @property
    def _documents(self) -> Documents:
        return self._bridge.memory.documents

    def save(self, records: list[MemoryRecord]) -> None:
        """Store records, in one transaction. Raises EmbeddingDimensionMismatchError for vectors of another length."""
        self._bridge.run(self._save(records))

    async def asave(self, records: list[MemoryRecord]) -> None:
        """The same, awaited."""
        await self._bridge.finish(self._save(records))

    def update(self, record: MemoryRecord) -> None:
        """Put a record in place of the one with its id; without a vector it keeps the vector that is there."""
        self._bridge.run(self._update(record))

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """The record with an id; None when there is none."""
        found = self._bridge.run(self._documents.get(RECORDS, record_id)) if record_id else None
        return None if found is None else _load(found.load())

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[Match]:
        """Records of a scope and those below it by the cosine of their vectors with the query's, best first.

        A record fits when it has one of the categories, and all of the metadata.
        """
        fits = _build_filter(scope_prefix, categories, metadata_filter)
        values = self._bridge.run(self._documents.read_values(RECORDS))
        return _rank([each for each in values if fits(each)], query_embedding, limit, min_score)

    async def asearch(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[Match]:
        """The same, awaited."""
        fits = _build_filter(scope_prefix, categories, metadata_filter)
        values = await self._bridge.run_async(self._documents.read_values(RECORDS))
        return _rank([each for each in values if fits(each)], query_embedding, limit, min_score)

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Delete the records that meet all of what is given, and return how many; all records for nothing given."""
        fits = _build_filter(scope_prefix, categories, metadata_filter, record_ids, older_than)
        return self._bridge.run(self._delete(fits))

    async def adelete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """The same, awaited."""
        fits = _build_filter(scope_prefix, categories, metadata_filter, record_ids, older_than)
        return await self._bridge.finish(self._delete(fits))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Delete all records of a scope and those below it."""
        self.delete(scope_prefix)

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Records of a scope and those below it, the last made ones first."""
        if limit <= 0 or offset < 0:
            return []
        found = sorted(self._list(scope_prefix), key=_read_moment, reverse=True)
        return [_load(each) for each in found[offset : offset + limit]]

    def count(self, scope_prefix: str | None = None) -> int:
        """How many records a scope and those below it have."""
        return len(self._list(scope_prefix))

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """How many records of a scope have each category."""
        return dict(Counter(name for each in self._list(scope_prefix) for name in each["categories"]))

    def list_scopes(self, parent: str = "/") -> list[str]:
        """The scopes right below one, sorted."""
        return _find_children(self._list(parent), parent)

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """What a scope and those below it hold."""
        values = sorted(self._list(scope), key=_read_moment)
        return ScopeInfo(
            path=normalize_scope_path(scope),
            record_count=len(values),
            categories=sorted({name for each in values for name in each["categories"]}),
            oldest_record=_load(values[0]).created_at if values else None,
            newest_record=_load(values[-1]).created_at if values else None,
            child_scopes=_find_children(values, scope),
        )

    def _list(self, scope_prefix: str | None) -> list[Value]:
        fits = _build_filter(scope_prefix)
        return [each for each in self._bridge.run(self._documents.read_values(RECORDS)) if fits(each)]

    async def _save(self, records: Sequence[MemoryRecord]) -> None:
        lengths = [len(each.embedding) for each in records if each.embedding]
        if lengths:
            stored = await self._find_length() or lengths[0]
            for length in lengths:
                _check_length(stored, length)
        await self._documents.write([self._draft(each) for each in {each.id: each for each in records}.values()])

    async def _find_length(self) -> int:
        """The length of the stored vectors; 0 for none."""
        for limit in (SAMPLE_SIZE, None):
            vectors = map(_read_vector, await self._documents.read_values(RECORDS, limit))
            if length := next((len(each) for each in vectors if len(each)), 0):
                return length
        return 0

    async def _update(self, record: MemoryRecord) -> None:
        found = await self._documents.get(RECORDS, record.id)
        before = None if found is None else _load(found.load()).embedding
        await self._save([record if record.embedding else record.model_copy(update={"embedding": before})])

    async def _delete(self, fits: Callable[[Value], bool]) -> int:
        gone = [each["id"] for each in await self._documents.read_values(RECORDS) if fits(each)]
        await self._documents.edit(RECORDS, lambda there: ([], [name for name in gone if name in there]))
        return len(gone)

    def _draft(self, record: MemoryRecord) -> DocumentDraft:
        packed = base64.b64encode(np.array(record.embedding or [], np.float64).tobytes()).decode()
        value = {**record.model_dump(mode="json"), "embedding": packed}
        return DocumentDraft(
            RECORDS, record.id, value, [record.content], in_recall=self._in_recall and not record.private
        )


def _read_vector(value: Value) -> NDArray[np.float64]:
    return np.frombuffer(base64.b64decode(value["embedding"]), np.float64)


def _read_moment(value: Value) -> datetime:
    return _as_utc(datetime.fromisoformat(value["created_at"]))


def _load(value: Value) -> MemoryRecord:
    return MemoryRecord.model_validate({**value, "embedding": _read_vector(value).tolist() or None})


def _as_utc(moment: datetime) -> datetime:
    """The moment with a zone; CrewAI means UTC where there is none."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _find_children(values: Iterable[Value], parent: str) -> list[str]:
    """The scopes right below one, of records that it and those below it hold."""
    begin = normalize_scope_path(parent).rstrip("/") + "/"
    below = {normalize_scope_path(each["scope"])[len(begin) :].split("/")[0] for each in values}
    return sorted(begin + name for name in below if name)


def _build_filter(
    scope_prefix: str | None = None,
    categories: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    record_ids: Sequence[str] | None = None,
    older_than: datetime | None = None,
) -> Callable[[Value], bool]:
    """What tells whether a record meets all that is given; [] of categories is the same as none."""
    begin, wanted = normalize_scope_path(scope_prefix or "/").rstrip("/") + "/", (metadata or {}).items()

    def fits(value: Value) -> bool:
        return (
            (normalize_scope_path(value["scope"]).rstrip("/") + "/").startswith(begin)
            and (not categories or any(each in value["categories"] for each in categories))
            and all(name in value["metadata"] and value["metadata"][name] == each for name, each in wanted)
            and (record_ids is None or value["id"] in record_ids)
            and (older_than is None or _read_moment(value) < _as_utc(older_than))
        )

    return fits


def _check_length(stored: int, length: int) -> None:
    if length != stored:
        raise EmbeddingDimensionMismatchError(stored, length)


def _rank(values: Iterable[Value], query: Sequence[float], limit: int, min_score: float) -> list[Match]:
    """The records with vectors by cosine, best first, the earlier one first where two are equal."""
    known = [(value, vector) for value in values if len(vector := _read_vector(value))]
    if not known or limit <= 0:
        return []
    _check_length(len(known[0][1]), len(query))
    vectors, wanted = np.stack([vector for _, vector in known]), np.array(query)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(wanted)
    scores = np.divide(vectors @ wanted, lengths, out=np.zeros(len(known)), where=lengths > 0)
    best = [at for at in np.argsort(-scores, kind="stable") if scores[at] >= min_score][:limit]
    return [(_load(known[at][0]), float(scores[at])) for at in best]
