"""Looking after a whole store: all diagnostics, sizes, compaction."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agentmem.admin.check_llm import check_llms
from agentmem.core.clock import Stopwatch, SystemClock, from_micros, to_micros
from agentmem.core.scope import Scope
from agentmem.engine.engine import Engine
from agentmem.engine.opening import advise_on_fallback, build_embedder_options
from agentmem.errors import AgentMemError, StoreError
from agentmem.extraction.grounding import MAX_TURN_CHARS
from agentmem.extraction.plain.extractor import EXTRACTOR
from agentmem.extraction.plain.turn_text import MAX_READ_CHARS
from agentmem.models.protocols import parse_dimensions
from agentmem.models.registry import open_embedder
from agentmem.settings.settings import Settings
from agentmem.stores.admin import Finding
from agentmem.stores.sql.diagnostics import ReaderLimits
from agentmem.stores.values import Where

COPY_PREFIX = "verify-"  # how the folders of copies begin
STALE_COPY_SECONDS = 3600.0  # seconds without a change after which a copy is abandoned

MIN_FREE_BYTES = 100 * 1024 * 1024
EMBEDDER_TIMEOUT_SECONDS = 30.0
READERS = ReaderLimits(EXTRACTOR, MAX_READ_CHARS, MAX_TURN_CHARS)


async def diagnose(settings: Settings) -> list[Finding]:
    """Check the stores, their schema, invariants, lag, clock, leases, the session cache and the embedder.

    Of an embedded store also files, permissions and the disk; of servers also versions, roles, audit partitions,
    indexes, and whether the graph and the log are of one mind. One finding per thing looked at, in a fixed order: `ok`,
    `warning` or `error`, what and why, and the fix. Works on a damaged store, which is a finding and no exception, and
    while others use it. The embedder is asked for one vector, each language model to read one sentence.
    """
    if settings.log_server_url is not None:
        findings, meta = await _check_servers(settings, settings.log_server_url)
    else:
        findings, meta = await asyncio.to_thread(_check_embedded_store, settings)
    if settings.session_server_url is not None:
        findings.append(await _check_session(settings, settings.session_server_url))
    if meta.get("embedder"):
        findings.append(await _check_embedder(settings, meta))
    return findings + await check_llms(settings, settings.clock or SystemClock())


def _check_embedded_store(settings: Settings) -> tuple[list[Finding], dict[str, str]]:
    from agentmem.stores.sqlite.diagnostics import diagnose  # lazy: loads the driver
    from agentmem.stores.sqlite.file_guard import read_guard

    path = settings.database
    if not path.exists() and (guard := read_guard(path)) is not None:
        detail = f"{path} is missing, but it held store {guard.store_id} with {guard.commits:,} commits"
        return [Finding("error", "store", detail, "put it back, or restore a backup")], {}
    if not path.exists():
        fix = "it is made when something is stored; if there should be one, check home and log_url"
        return [Finding("warning", "store", f"there is none at {path}", fix)], {}
    findings = _check_files(settings)
    if any(finding.level == "error" for finding in findings):
        return findings, {}
    found = diagnose(path, settings.session_file, (settings.clock or SystemClock()).now(), READERS)
    return findings + found.findings, found.meta


def _check_files(settings: Settings) -> list[Finding]:
    """The files from outside: reachable, private, on a local disk with room."""
    from agentmem.stores.sqlite.database import NETWORK_FILE_SYSTEMS, check_permissions, file_system

    path, folder = settings.database, settings.database.resolve().parent
    if not path.is_file() or not os.access(path, os.R_OK):
        fix = f"give its owner the right to read it: chmod 600 {path}"
        return [Finding("error", "store", f"{path} is not a readable file", fix)]
    findings = [Finding("ok", "store", str(path))]
    if not os.access(path, os.W_OK):
        findings.append(Finding("warning", "store", f"{path} cannot be written", f"run: chmod 600 {path}"))
    files = [path] if settings.session_file is None else [path, settings.session_file]
    shared = [line for file in files for line in check_permissions(file)]
    if (mode := folder.stat().st_mode & 0o777) & 0o077:
        shared.append(f"others can look into {folder} (mode {mode:o}); run: chmod 700 {folder}")
    for line in shared:
        detail, _, fix = line.partition("; ")
        findings.append(Finding("warning", "permissions", detail, fix))
    if not shared:
        findings.append(Finding("ok", "permissions", "only the owner can read the files"))
    if (kind := file_system(folder)) in NETWORK_FILE_SYSTEMS:
        fix = "move the files to a local disk and set AGENTMEM_HOME"
        findings.append(Finding("error", "disk", f"{folder} is on a network file system ({kind}): locks fail", fix))
    elif (free := shutil.disk_usage(folder).free) < MIN_FREE_BYTES:
        findings.append(Finding("warning", "disk", f"{free:,} bytes are free", "make room before the next write fails"))
    else:
        findings.append(Finding("ok", "disk", f"{free:,} bytes are free"))
    return findings + _check_stale_copies(folder)


def _check_stale_copies(folder: Path) -> list[Finding]:
    now = to_micros(SystemClock().now()) / 1e6
    return [
        Finding("warning", "copies", f"{copy} holds a copy that a killed verification left", f"run: rm -r {copy}")
        for copy in find_stale_copies(folder, now)
    ]


async def _check_servers(settings: Settings, log_url: str) -> tuple[list[Finding], dict[str, str]]:
    from agentmem.stores.postgres import diagnostics as log  # lazy: an extra

    seen = await log.diagnose(log_url, (settings.clock or SystemClock()).now(), READERS)
    store_id, graph_url = seen.meta.get("store_id"), settings.graph_server_url
    if store_id is None or graph_url is None:
        return seen.findings, seen.meta
    from agentmem.stores.neo4j import diagnostics as graph  # lazy: an extra

    embedder = seen.meta.get("embedder") if settings.graph_vectors else None
    found = await graph.diagnose(
        graph_url,
        store_id,
        partial(log.heads, log_url),
        partial(log.heads_after, log_url),
        partial(log.operations_at, log_url),
        dimensions=parse_dimensions(embedder) if embedder else None,
    )
    return seen.findings + found, seen.meta


async def _check_session(settings: Settings, url: str) -> Finding:
    """The Redis that is the session cache: there, and set to let go of keys when its memory is full."""
    from agentmem.stores import redis  # lazy: an extra

    session = await redis.open_session(url, settings.clock or SystemClock())
    try:
        server = await session.server_info()
    except StoreError as error:
        fix = "memory goes on without short-lived values; start it, or check session_url and session_password_file"
        return Finding("warning", "session", str(error), fix)
    finally:
        await session.close()
    detail = f"Redis {server['version']} answers, maxmemory-policy {server['policy']}"
    if server["policy"] == "noeviction":
        fix = "set maxmemory-policy allkeys-lru, so that a full cache lets go of keys"
        return Finding("warning", "session", detail, fix)
    return Finding("ok", "session", detail)


async def _check_embedder(settings: Settings, meta: Mapping[str, str]) -> Finding:
    recorded = meta["embedder"]
    try:
        model = open_embedder(recorded, build_embedder_options(settings))
        try:
            async with asyncio.timeout(EMBEDDER_TIMEOUT_SECONDS):
                vectors = await model.embed(["doctor"])
        finally:
            await model.close()
    except TimeoutError:
        fix = "recall goes on by words; check the model or its server"
        return Finding("error", "embedder", f"{recorded} did not answer within {EMBEDDER_TIMEOUT_SECONDS:.0f} s", fix)
    except AgentMemError as error:
        fix = "recall goes on by words; install what is missing, or run: agentmem admin rebuild --embedder hash"
        return Finding("error", "embedder", f"{recorded}: {error}", fix)
    if settings.embedder == "auto" and (advice := advise_on_fallback(meta, build_embedder_options(settings))):
        detail, _, fix = advice.partition(". ")
        return Finding("warning", "embedder", detail, fix)
    return Finding("ok", "embedder", f"{recorded} answers with {vectors.shape[1]} dimensions")


async def check_log(engine: Engine) -> None:
    """Raise StoreUnavailable when the log does not answer."""
    await engine.log.meta()


async def read_stats(engine: Engine, scope: Scope) -> dict[str, Any]:
    """Counts, sizes in bytes and lag, ready for JSON, always with the same keys in the same order.

    All of the user's channels count. `last_activity` is ISO text, None for a user never seen.
    """
    engine.check_open()
    store = engine.admin
    counts, reach = await store.counts(scope), await store.journal_counters(scope)
    session = engine.settings.session_file
    sizes = await store.sizes()
    building = (await engine.log.meta()).get("embedder_next")
    return {
        "user_id": scope.user_id,
        "records": dict(counts["kind"]),
        "status": dict(counts["status"]),
        "channels": dict(counts["channel"]),
        "conversations": await engine.log.count(scope, Where(kinds=("Conversation",))),
        "journal": dict(counts["journal"]),
        "words": dict(counts["words"]),
        "vectors": dict(counts["passages"]),
        "bytes": {**sizes, "session": session.stat().st_size if session and session.exists() else 0},
        "lag": await engine.lag(scope),
        "embedder": engine.vector_projections[0].embedder.identity,
        "embedder_next": building,
        "store_id": engine.store_id,
        "last_activity": from_micros(reach.last_at).isoformat() if reach.head else None,
    }


@dataclass(frozen=True, slots=True)
class CompactReport:
    """Bytes on disk before and after; rows folded and dropped. `pending`: a reader kept the log from being cut."""

    bytes_before: int
    bytes_after: int
    rows: Mapping[str, int]
    pending: bool = False


async def compact(engine: Engine) -> CompactReport:
    """Compact the store while it is in use. Needs as much free space as the store itself takes.

    Raises StoreUnavailable for lack of space, or when another process writes for more than 10 s.
    """
    engine.check_open()
    store, watch = engine.admin, Stopwatch(engine.clock)
    before = await store.sizes()
    rows = await engine.log.maintain(engine.clock.now(), engine.settings.audit_days)
    cut = await store.compact()
    after = await store.sizes()
    told = {"bytes_before": _sum_bytes(before), "bytes_after": _sum_bytes(after), **rows}
    await engine.write_audit(
        engine.auditor.build_system_entry("compact", latency_ms=watch.milliseconds(), metadata=told)
    )
    return CompactReport(_sum_bytes(before), _sum_bytes(after), rows, pending=not cut)


def _sum_bytes(sizes: Mapping[str, int]) -> int:
    return sizes["store"] + sizes["write_ahead_log"]


def find_stale_copies(parent: Path, now: float) -> list[Path]:
    """Copies unchanged for an hour: their processes were killed. `now` is in seconds since 1970."""
    found = []
    for folder in sorted(parent.glob(f"{COPY_PREFIX}*")):
        latest = max((file.stat().st_mtime for file in (folder, *folder.glob("*"))), default=now)
        if now - latest > STALE_COPY_SECONDS:
            found.append(folder)
    return found
