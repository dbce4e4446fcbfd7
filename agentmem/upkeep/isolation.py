"""Proof on the user's own data that other users change nothing: the same questions with and without many strangers.

All of it happens in a copy of the store, in a folder beside it that is removed at the end; the live store is only read.
The strangers are as near to the questions as can be: they hold the very text, more often, under the user's own ids,
conversations and channels.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from agentmem.agent_memory import AsyncAgentMemory
from agentmem.errors import ConfigError, InvalidRecord
from agentmem.model.clock import Stopwatch
from agentmem.model.records import Key, Record
from agentmem.model.scope import Scope
from agentmem.providers import Embedder, TokenEmbedder, TokenVectors, Vectors
from agentmem.recall.bundle import MemoryBundle
from agentmem.resources import Resources
from agentmem.settings import Settings, load_settings
from agentmem.stores import Where
from agentmem.upkeep.portable import export_user, import_user

QUERIES = 24
LONGEST = 200  # characters of a query
PEOPLE = 20  # strangers at most
BATCH = 500  # turns stored at once
KINDS = ("Turn", "Fact", "Entity", "Goal")
COPIES = "verify-"  # how the folders of copies begin
LEFT_BEHIND = 3600.0  # seconds without a change after which a copy belongs to nobody
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class IsolationReport:
    """How many questions were asked, whether all answers were the same, and what differed, in words."""

    queries: int
    identical: bool
    differences: tuple[str, ...]
    seconds: float


async def verify_isolation(
    resources: Resources, scope: Scope, *, strangers: int = 10_000, progress: Progress | None = None,
    scratch: tuple[str, str] | None = None,
) -> IsolationReport:  # fmt: skip
    """Ask questions made of the user's own records, add `strangers` records of other users to a copy, ask again.

    Bundles are compared whole: records, scores to the last bit, reasons, context text. Reads across users by id are
    tried too. `progress` is told (what, done, of how many). No queries when the user has nothing. An embedded store is
    copied as a file, which needs as much free space again. On servers the user's memory is exported into `scratch`, the
    log_url and graph_url of others that are migrated and hold nothing, and erased there in the end.
    """
    if strangers < 1:
        raise InvalidRecord(f"strangers must be 1 or more, got {strangers}", field="strangers")
    resources.check_open()
    watch, told = Stopwatch(resources.clock), progress or _silent
    now = resources.clock.now()
    with _folder(resources.settings.spool) as folder:
        if resources.following is None:
            await resources.upkeep.copy_to(folder / "memory.db")
            trial = _Trial(_settings(resources.settings, folder, now), scope, told)
        else:
            trial = _Trial(_scratch(resources, folder, scratch), scope, told)
            await trial.move_in(resources)
        await trial.ask_first()
        await trial.add_strangers(strangers)
        differences = await trial.ask_again()
        if resources.following is not None:
            await trial.move_out()
    return IsolationReport(len(trial.before), not differences, tuple(differences), watch.milliseconds() / 1000)


def _silent(what: str, done: int, total: int) -> None:
    """For callers who do not watch."""


@dataclass(frozen=True)
class _Frozen:
    """A clock that stands, so that nothing differs by the time that passed between the two rounds."""

    moment: datetime

    def now(self) -> datetime:
        return self.moment


def _settings(live: Settings, folder: Path, now: datetime, **places: Any) -> Settings:
    elsewhere = dict.fromkeys((
        "log_url", "graph_url", "session_url", "log_password_file", "graph_password_file", "session_password_file"
    ))  # fmt: skip
    own = {"home": folder, "models": live.model_folder, "embedder": "auto", "recall_rate": 0, "audit_level": "off"}
    return load_settings(live, **{**elsewhere, **own, "clock": _Frozen(now), "seed": "isolation", **places})


def _scratch(resources: Resources, folder: Path, scratch: tuple[str, str] | None) -> Settings:
    """Settings for the other servers. Raises ConfigError where there are none, or they are those in use."""
    live = resources.settings
    if scratch is None or live.log_url == scratch[0] or live.graph_url == scratch[1]:
        raise ConfigError(
            "strangers must not get into servers that are in use: give log_url and graph_url of others for the trial, "
            "migrated and empty (agentmem verify isolation --scratch-log-url … --scratch-graph-url …)"
        )
    identity = resources.vectors[0].embedder.identity
    return _settings(
        live, folder, resources.clock.now(), log_url=scratch[0], graph_url=scratch[1], embedder=identity
    )  # fmt: skip


@contextmanager
def _folder(beside: Path | None) -> Iterator[Path]:
    """A private folder on the same disk, removed at the end, with what killed runs left behind."""
    folder = Path(tempfile.mkdtemp(prefix=COPIES, dir=beside))
    try:
        for old in left_behind(beside, folder.stat().st_mtime) if beside is not None else ():
            shutil.rmtree(old, ignore_errors=True)
        yield folder
    finally:
        shutil.rmtree(folder)


def left_behind(beside: Path, now: float) -> list[Path]:
    """Copies that nobody has changed for an hour: their makers were killed. `now` is in seconds since 1970."""
    found = []
    for folder in sorted(beside.glob(f"{COPIES}*")):
        latest = max((file.stat().st_mtime for file in (folder, *folder.glob("*"))), default=now)
        if now - latest > LEFT_BEHIND:
            found.append(folder)
    return found


@dataclass
class _Trial:
    settings: Settings
    scope: Scope
    told: Progress
    keys: list[Key] = field(default_factory=list)
    before: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    entities: list[str] = field(default_factory=list)
    conversations: list[str] = field(default_factory=list)
    people: list[str] = field(default_factory=list)
    embedded: dict[str, Any] = field(default_factory=dict)

    def _memory(self) -> AsyncAgentMemory:
        scope = self.scope
        return AsyncAgentMemory(
            scope.user_id, channel=scope.channel, agent_id=scope.agent_id, conversation_id=scope.conversation_id,
            session_id=scope.session_id, settings=self.settings,
        )  # fmt: skip

    def _cached(self, memory: AsyncAgentMemory) -> None:
        # The same text is embedded once for all strangers: it is the same vector, and remote models cost money.
        for projection in memory.resources.vectors:
            kind = _CachedTokens if isinstance(projection.embedder, TokenEmbedder) else _Cached
            projection.embedder = kind(projection.embedder, self.embedded)

    async def move_in(self, live: Resources) -> None:
        """Copy the user's memory to where the trial takes place."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as spool:
            await export_user(live, self.scope, spool.write)
            spool.seek(0)
            async with self._memory() as memory:
                await import_user(memory.resources, memory.scope, spool, self.told)

    async def move_out(self) -> None:
        """Erase the user and all strangers there."""
        async with self._memory() as memory:
            for name in (self.scope.user_id, *self.people):
                await memory.scoped(user_id=name).erase()

    async def ask_first(self) -> None:
        """Choose the questions and ask them while nobody was added."""
        async with self._memory() as memory:
            self._cached(memory)
            await memory.flush()
            records = await _sampled(memory)
            self.keys = [record.key for record in records]
            self.entities = [record.searchable() for record in records if record.kind == "Entity"]
            self.conversations = [place for record in records if (place := record.place()[0])]
            queries = dict.fromkeys(record.searchable()[:LONGEST].strip() for record in records)
            for done, query in enumerate(queries):
                self.told("asking", done, len(queries))
                self.before[query] = _told_by(await memory.remember(query, reinforce=False))

    async def add_strangers(self, count: int) -> None:
        """Store records of other users until there are `count`: facts, entities, and for the rest turns."""
        if not self.before:
            return
        self.people = [f"stranger-{n} of {self.scope.user_id}"[:200] for n in range(min(PEOPLE, 1 + count // 100))]
        async with self._memory() as memory:
            self._cached(memory)
            left = count
            for done, name in enumerate(self.people):
                other = memory.scoped(user_id=name)
                share = -(-left // (len(self.people) - done))
                facts = await self._learn(other, share // 2)
                await self._talk(other, share - facts, self.keys if done == 0 else ())
                await other.flush()
                left -= share
                self.told("adding strangers", count - left, count)

    async def _learn(self, other: AsyncAgentMemory, most: int) -> int:
        claims = [form for query in self.before for form in _forms(query)[:2]]
        names = self.entities[: most // 4]
        for name in names:
            await other.upsert_entity({"name": name})
        for claim in claims[: most - len(names)]:
            await other.learn_fact(claim)
        return len(names) + len(claims[: most - len(names)])

    async def _talk(self, other: AsyncAgentMemory, count: int, keys: Sequence[Key]) -> None:
        texts = itertools.cycle([form for query in self.before for form in _forms(query)])
        ids = iter([name for kind, name in keys if kind == "Turn"])
        places = itertools.cycle(self.conversations or ["talk"])
        turns = [
            {"content": text, "conversation_id": place, "turn_id": next(ids, None)}
            for text, place, _ in zip(texts, places, range(count), strict=False)
        ]
        for start in range(0, len(turns), BATCH):
            await other.store_turns(turns[start : start + BATCH])

    async def ask_again(self) -> list[str]:
        """Ask the same questions among strangers; what differs, and what could be read across users, in words."""
        found: list[str] = []
        async with self._memory() as memory:
            self._cached(memory)
            for done, (query, before) in enumerate(self.before.items()):
                self.told("asking again", done, len(self.before))
                found += _compared(query, before, _told_by(await memory.remember(query, reinforce=False)))
            for name in self.people[:2]:
                found += await self._of_others(memory.scoped(user_id=name))
            nobody = memory.scoped(user_id=f"nobody beside {self.scope.user_id}"[:200])
            found += await _read_across(nobody, self.keys)
        return found

    async def _of_others(self, other: AsyncAgentMemory) -> list[str]:
        found = []
        for query in list(self.before)[:4]:
            bundle = await other.remember(query, reinforce=False)
            foreign = [item.record.id for item in bundle.items if item.record.user_id != other.scope.user_id]
            if foreign:
                found.append(f"{other.scope.user_id} was given record {foreign[0]!r} of another user for {query!r}")
        return found


async def _sampled(memory: AsyncAgentMemory) -> list[Record]:
    """Searchable records the user may read, evenly spread over the journal; the same ones every time."""
    log, scope = memory.resources.log, memory.scope
    where = Where(kinds=KINDS, channels=scope.readable())
    total = await log.count(scope, where)
    places = sorted({total * n // QUERIES for n in range(QUERIES)}) if total else []
    records = [record for place in places for record in await log.find(scope, where, limit=1, offset=place)]
    return [record for record in records if record.searchable().strip()]


def _forms(query: str) -> list[str]:
    return [query, f"{query} {query}", f"{query} {query} {query}"]


def _told_by(bundle: MemoryBundle) -> Mapping[str, Any]:
    """All that a bundle says, without what belongs to the single recall."""
    lists = ("turns", "facts", "entities", "strategies", "procedures", "goals")
    return {
        **{name: [(record.kind, record.id, record.seq) for record in getattr(bundle, name)] for name in lists},
        "ranking": [(item.record.key, item.score, item.why) for item in bundle.items],
        "thread_leads": [repr(lead) for lead in bundle.thread_leads],
        "user_context": repr(bundle.user_context),
        "notices": bundle.notices,
        "context": str(bundle),
    }


def _compared(query: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
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


async def _read_across(nobody: AsyncAgentMemory, keys: Sequence[Key]) -> list[str]:
    """Try every way of reading by id with the scope of somebody who has nothing."""
    resources, scope = nobody.resources, nobody.scope
    log, ids, kinds = resources.log, [name for _, name in keys], {kind for kind, _ in keys}
    zero = np.zeros(resources.vectors[0].embedder.dimensions, dtype=np.float32) + 0.1
    tried: dict[str, Any] = {
        "get": [record for kind in kinds for record in await log.get(kind, ids, scope)],
        "find": await log.find(scope, Where(ids=tuple(ids))),
        "by_slot": await log.by_slot(range(100), scope),
        "versions": [version for key in keys for version in await log.versions(key, scope)],
        "states": await log.states(keys, scope, 2**40),
        "usage": await log.usage(keys, scope),
        "changes": await log.changes(scope, 0, 10),
        "words": await log.match(["the", "stranger"], scope),
        "neighbours": await resources.graph.neighbours(keys, scope),
        "edges": await resources.graph.edges(keys, scope),
        "nearest": (await resources.vectors[0].index.nearest(zero, scope, Where(), "whole", 10)).slots.tolist(),
        "tokens": await resources.vectors[0].index.tokens(range(100), scope),
        "audit": await log.audit_rows(scope),
    }
    return [f"{name} answered somebody who has nothing" for name, answer in tried.items() if answer]


class _Cached:
    """An embedder that asks the real one for each text once."""

    def __init__(self, inner: Embedder, known: dict[str, Any]) -> None:
        self.inner, self.known = inner, known

    @property
    def identity(self) -> str:
        return self.inner.identity

    @property
    def dimensions(self) -> int:
        return self.inner.dimensions

    @property
    def grains(self) -> tuple[str, ...]:
        return self.inner.grains

    async def embed(self, texts: Sequence[str]) -> Vectors:
        keys = [f"{self.identity} {text}" for text in texts]
        missing = [text for key, text in dict(zip(keys, texts, strict=True)).items() if key not in self.known]
        if missing:
            for text, vector in zip(missing, await self.inner.embed(missing), strict=True):
                self.known[f"{self.identity} {text}"] = vector
        if not texts:
            return await self.inner.embed(texts)
        return np.stack([self.known[key] for key in keys])

    async def close(self) -> None:
        await self.inner.close()


class _CachedTokens(_Cached):
    """The same with word pieces."""

    async def embed_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[TokenVectors]]:
        assert isinstance(self.inner, TokenEmbedder), "wrapped only where there are word pieces"
        keys = [f"{self.identity} pieces {text}" for text in texts]
        missing = list({text: None for key, text in zip(keys, texts, strict=True) if key not in self.known})
        if missing:
            vectors, pieces = await self.inner.embed_tokens(missing)
            for text, vector, piece in zip(missing, vectors, pieces, strict=True):
                self.known[f"{self.identity} pieces {text}"] = (vector, piece)
        if not texts:
            return await self.inner.embed_tokens(texts)
        found = [self.known[key] for key in keys]
        return np.stack([vector for vector, _ in found]), [piece for _, piece in found]


__all__ = ["IsolationReport", "left_behind", "verify_isolation"]
