"""Proof on the user's own data that other users change nothing: the same questions with and without many strangers.

All of it happens in a copy of the store, in a folder beside it that is removed at the end; the live store is only read.
The strangers are as near to the questions as can be: they hold the very text, more often, under the user's own ids,
conversations and channels.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from agentmem.admin.doctor import COPY_PREFIX, find_stale_copies
from agentmem.admin.export_import import export_user, import_user
from agentmem.core.clock import FrozenClock, Stopwatch
from agentmem.core.record import Key, Record
from agentmem.core.scope import Scope
from agentmem.core.telemetry import ProgressCallback, no_progress
from agentmem.engine.engine import Engine
from agentmem.errors import ConfigError, InvalidRecord
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.models.protocols import Embedder, TokenEmbedder, TokenVectors, Vectors
from agentmem.recall.bundle import MemoryBundle
from agentmem.settings.settings import Settings, load_settings
from agentmem.stores.values import Where

MAX_QUERIES = 24
MAX_QUERY_CHARS = 200  # characters of a query
MAX_STRANGER_USERS = 20  # strangers at most
BATCH_SIZE = 500  # turns stored at once
SAMPLED_KINDS = ("Turn", "Fact", "Entity", "Goal")


@dataclass(frozen=True, slots=True)
class IsolationReport:
    """How many questions were asked, whether all answers were the same, and what differed, in words."""

    queries: int
    identical: bool
    differences: tuple[str, ...]
    seconds: float


async def verify_isolation(
    engine: Engine,
    scope: Scope,
    *,
    strangers: int = 10_000,
    progress: ProgressCallback | None = None,
    scratch_urls: tuple[str, str] | None = None,
) -> IsolationReport:
    """Ask questions made of the user's own records, add `strangers` records of other users to a copy, ask again.

    Bundles are compared whole: records, scores to the last bit, reasons, context text. Reads across users by id are
    tried too. `progress` is told (what, done, of how many). No queries when the user has nothing. An embedded store is
    copied as a file, which needs as much free space again. On servers the user's memory is exported into
    `scratch_urls`, the log_url and graph_url of others that are migrated and hold nothing, and erased there in the end.
    """
    if strangers < 1:
        raise InvalidRecord(f"strangers must be 1 or more, got {strangers}", field="strangers")
    engine.check_open()
    watch, told = Stopwatch(engine.clock), progress or no_progress
    now = engine.clock.now()
    with _temporary_folder(engine.settings.temp_dir) as folder:
        if engine.graph_projection is None:
            await engine.admin.copy_to(folder / "memory.db")
            trial = _IsolationTrial(_build_settings(engine.settings, folder, now), scope, told)
        else:
            trial = _IsolationTrial(_build_scratch_settings(engine, folder, scratch_urls), scope, told)
            await trial.copy_user(engine)
        await trial.record_baseline()
        await trial.add_strangers(strangers)
        differences = await trial.compare_with_baseline()
        if engine.graph_projection is not None:
            await trial.erase_users()
    return IsolationReport(len(trial.baseline), not differences, tuple(differences), watch.milliseconds() / 1000)


def _build_settings(live_settings: Settings, folder: Path, now: datetime, **overrides: Any) -> Settings:
    elsewhere = dict.fromkeys(
        ("log_url", "graph_url", "session_url", "log_password_file", "graph_password_file", "session_password_file")
    )
    own = {
        "home": folder,
        "models": live_settings.model_folder,
        "embedder": "auto",
        "recall_rate": 0,
        "audit_level": "off",
    }
    return load_settings(
        live_settings, **{**elsewhere, **own, "clock": FrozenClock(now), "seed": "isolation", **overrides}
    )


def _build_scratch_settings(engine: Engine, folder: Path, scratch_urls: tuple[str, str] | None) -> Settings:
    """Settings for the other servers. Raises ConfigError where there are none, or they are those in use."""
    live = engine.settings
    if scratch_urls is None or live.log_url == scratch_urls[0] or live.graph_url == scratch_urls[1]:
        raise ConfigError(
            "strangers must not get into servers that are in use: give log_url and graph_url of others for the trial, "
            "migrated and empty (agentmem admin verify isolation --scratch-log-url … --scratch-graph-url …)"
        )
    identity = engine.vector_projections[0].embedder.identity
    return _build_settings(
        live, folder, engine.clock.now(), log_url=scratch_urls[0], graph_url=scratch_urls[1], embedder=identity
    )


@contextmanager
def _temporary_folder(parent: Path | None) -> Iterator[Path]:
    """A private folder on the same disk, removed at the end, with what killed runs left behind."""
    folder = Path(tempfile.mkdtemp(prefix=COPY_PREFIX, dir=parent))
    try:
        for old in find_stale_copies(parent, folder.stat().st_mtime) if parent is not None else ():
            shutil.rmtree(old, ignore_errors=True)
        yield folder
    finally:
        shutil.rmtree(folder)


@dataclass
class _IsolationTrial:
    settings: Settings
    scope: Scope
    progress: ProgressCallback
    keys: list[Key] = field(default_factory=list)
    baseline: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    entity_names: list[str] = field(default_factory=list)
    conversations: list[str] = field(default_factory=list)
    stranger_ids: list[str] = field(default_factory=list)
    vector_cache: dict[str, Any] = field(default_factory=dict)

    def _open_memory(self) -> AsyncAgentMemory:
        scope = self.scope
        return AsyncAgentMemory(
            scope.user_id,
            channel=scope.channel,
            agent_id=scope.agent_id,
            conversation_id=scope.conversation_id,
            session_id=scope.session_id,
            settings=self.settings,
        )

    def _cache_embeddings(self, memory: AsyncAgentMemory) -> None:
        # The same text is embedded once for all strangers: it is the same vector, and remote models cost money.
        for projection in memory.engine.vector_projections:
            kind = _CachedTokenEmbedder if isinstance(projection.embedder, TokenEmbedder) else _CachedEmbedder
            projection.embedder = kind(projection.embedder, self.vector_cache)

    async def copy_user(self, source: Engine) -> None:
        """Copy the user's memory to where the trial takes place."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as spool:
            await export_user(source, self.scope, spool.write)
            spool.seek(0)
            async with self._open_memory() as memory:
                await import_user(memory.engine, memory.scope, spool, self.progress)

    async def erase_users(self) -> None:
        """Erase the user and all strangers there."""
        async with self._open_memory() as memory:
            for name in (self.scope.user_id, *self.stranger_ids):
                await memory.scoped(user_id=name).erase()

    async def record_baseline(self) -> None:
        """Choose the questions and ask them while nobody was added."""
        async with self._open_memory() as memory:
            self._cache_embeddings(memory)
            await memory.flush()
            records = await _sample_records(memory)
            self.keys = [record.key for record in records]
            self.entity_names = [record.search_text() for record in records if record.kind == "Entity"]
            self.conversations = [place for record in records if (place := record.position_key()[0])]
            queries = dict.fromkeys(record.search_text()[:MAX_QUERY_CHARS].strip() for record in records)
            for done, query in enumerate(queries):
                self.progress("asking", done, len(queries))
                self.baseline[query] = _snapshot_bundle(await memory.remember(query, reinforce=False))

    async def add_strangers(self, count: int) -> None:
        """Store records of other users until there are `count`: facts, entities, and for the rest turns."""
        if not self.baseline:
            return
        self.stranger_ids = [
            f"stranger-{n} of {self.scope.user_id}"[:200] for n in range(min(MAX_STRANGER_USERS, 1 + count // 100))
        ]
        async with self._open_memory() as memory:
            self._cache_embeddings(memory)
            left = count
            for done, name in enumerate(self.stranger_ids):
                other = memory.scoped(user_id=name)
                share = -(-left // (len(self.stranger_ids) - done))
                facts = await self._add_facts(other, share // 2)
                await self._add_turns(other, share - facts, self.keys if done == 0 else ())
                await other.flush()
                left -= share
                self.progress("adding strangers", count - left, count)

    async def _add_facts(self, other: AsyncAgentMemory, limit: int) -> int:
        claims = [form for query in self.baseline for form in _query_variants(query)[:2]]
        names = self.entity_names[: limit // 4]
        for name in names:
            await other.upsert_entity({"name": name})
        for claim in claims[: limit - len(names)]:
            await other.learn_fact(claim)
        return len(names) + len(claims[: limit - len(names)])

    async def _add_turns(self, other: AsyncAgentMemory, count: int, keys: Sequence[Key]) -> None:
        texts = itertools.cycle([form for query in self.baseline for form in _query_variants(query)])
        ids = iter([name for kind, name in keys if kind == "Turn"])
        places = itertools.cycle(self.conversations or ["talk"])
        turns = [
            {"content": text, "conversation_id": place, "turn_id": next(ids, None)}
            for text, place, _ in zip(texts, places, range(count), strict=False)
        ]
        for start in range(0, len(turns), BATCH_SIZE):
            await other.store_turns(turns[start : start + BATCH_SIZE])

    async def compare_with_baseline(self) -> list[str]:
        """Ask the same questions among strangers; what differs, and what could be read across users, in words."""
        found: list[str] = []
        async with self._open_memory() as memory:
            self._cache_embeddings(memory)
            for done, (query, before) in enumerate(self.baseline.items()):
                self.progress("asking again", done, len(self.baseline))
                found += _diff_snapshots(query, before, _snapshot_bundle(await memory.remember(query, reinforce=False)))
            for name in self.stranger_ids[:2]:
                found += await self._find_foreign_records(memory.scoped(user_id=name))
            nobody = memory.scoped(user_id=f"nobody beside {self.scope.user_id}"[:200])
            found += await _probe_cross_user_reads(nobody, self.keys)
        return found

    async def _find_foreign_records(self, other: AsyncAgentMemory) -> list[str]:
        found = []
        for query in list(self.baseline)[:4]:
            bundle = await other.remember(query, reinforce=False)
            foreign = [item.record.id for item in bundle.items if item.record.user_id != other.scope.user_id]
            if foreign:
                found.append(f"{other.scope.user_id} was given record {foreign[0]!r} of another user for {query!r}")
        return found


async def _sample_records(memory: AsyncAgentMemory) -> list[Record]:
    """Searchable records the user may read, evenly spread over the journal; the same ones every time."""
    log, scope = memory.engine.log, memory.scope
    where = Where(kinds=SAMPLED_KINDS, channels=scope.readable_channels())
    total = await log.count(scope, where)
    places = sorted({total * n // MAX_QUERIES for n in range(MAX_QUERIES)}) if total else []
    records = [record for place in places for record in await log.find(scope, where, limit=1, offset=place)]
    return [record for record in records if record.search_text().strip()]


def _query_variants(query: str) -> list[str]:
    return [query, f"{query} {query}", f"{query} {query} {query}"]


def _snapshot_bundle(bundle: MemoryBundle) -> Mapping[str, Any]:
    """All that a bundle says, without what belongs to the single recall."""
    lists = ("turns", "facts", "entities", "strategies", "procedures", "goals", "documents")
    return {
        **{name: [(record.kind, record.id, record.seq) for record in getattr(bundle, name)] for name in lists},
        "ranking": [(item.record.key, item.score, item.why) for item in bundle.items],
        "thread_leads": [repr(lead) for lead in bundle.thread_leads],
        "user_context": repr(bundle.user_context),
        "notices": bundle.notices,
        "context": str(bundle),
    }


def _diff_snapshots(query: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    found = []
    for name, was in before.items():
        now = after[name]
        if was == now:
            continue
        if isinstance(was, list):
            pairs = itertools.zip_longest(was, now)
            rank, (old, new) = next((n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
            found.append(f"{query!r}: {name} differ at rank {rank}: {new} instead of {old}")
        else:
            found.append(f"{query!r}: {name} differs")
    return found


async def _probe_cross_user_reads(outsider: AsyncAgentMemory, keys: Sequence[Key]) -> list[str]:
    """Try every way of reading by id with the scope of somebody who has nothing."""
    engine, scope = outsider.engine, outsider.scope
    log, ids, kinds = engine.log, [name for _, name in keys], {kind for kind, _ in keys}
    zero = np.zeros(engine.vector_projections[0].embedder.dimensions, dtype=np.float32) + 0.1
    tried: dict[str, Any] = {
        "get": [record for kind in kinds for record in await log.read_records(kind, ids, scope)],
        "find": await log.find(scope, Where(ids=tuple(ids))),
        "by_slot": await log.read_by_ordinal(range(100), scope),
        "versions": [version for key in keys for version in await log.versions(key, scope)],
        "states": await log.snapshot_at(keys, scope, 2**40),
        "usage": await log.usage(keys, scope),
        "changes": await log.changes(scope, 0, 10),
        "words": await log.match(["the", "stranger"], scope),
        "neighbors": await engine.graph.neighbors(keys, scope),
        "edges": await engine.graph.edges(keys, scope),
        "nearest": (
            await engine.vector_projections[0].index.search(zero, scope, Where(), "whole", 10)
        ).ordinals.tolist(),
        "tokens": await engine.vector_projections[0].index.read_token_vectors(range(100), scope),
        "audit": await log.audit_rows(scope),
    }
    return [f"{name} answered somebody who has nothing" for name, answer in tried.items() if answer]


class _CachedEmbedder:
    """An embedder that asks the real one for each text once."""

    def __init__(self, inner: Embedder, cache: dict[str, Any]) -> None:
        self.inner, self.cache = inner, cache

    @property
    def identity(self) -> str:
        return self.inner.identity

    @property
    def dimensions(self) -> int:
        return self.inner.dimensions

    @property
    def granularities(self) -> tuple[str, ...]:
        return self.inner.granularities

    async def embed(self, texts: Sequence[str]) -> Vectors:
        keys = [f"{self.identity} {text}" for text in texts]
        missing = [text for key, text in dict(zip(keys, texts, strict=True)).items() if key not in self.cache]
        if missing:
            for text, vector in zip(missing, await self.inner.embed(missing), strict=True):
                self.cache[f"{self.identity} {text}"] = vector
        if not texts:
            return await self.inner.embed(texts)
        return np.stack([self.cache[key] for key in keys])

    async def close(self) -> None:
        await self.inner.close()


class _CachedTokenEmbedder(_CachedEmbedder):
    """The same with word pieces."""

    async def embed_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[TokenVectors]]:
        assert isinstance(self.inner, TokenEmbedder), "wrapped only where there are word pieces"
        keys = [f"{self.identity} pieces {text}" for text in texts]
        missing = list({text: None for key, text in zip(keys, texts, strict=True) if key not in self.cache})
        if missing:
            vectors, pieces = await self.inner.embed_tokens(missing)
            for text, vector, piece in zip(missing, vectors, pieces, strict=True):
                self.cache[f"{self.identity} pieces {text}"] = (vector, piece)
        if not texts:
            return await self.inner.embed_tokens(texts)
        found = [self.cache[key] for key in keys]
        return np.stack([vector for vector, _ in found]), [piece for _, piece in found]
