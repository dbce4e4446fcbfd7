"""Which embedders a store is served with: what it has recorded, and the one being built beside it; their vectors."""

from __future__ import annotations

from collections.abc import Mapping

from agentmem.core.clock import Clock
from agentmem.core.telemetry import INFO, log_event
from agentmem.engine.vector_projection import VectorProjection
from agentmem.models.protocols import Embedder, EmbedderOptions
from agentmem.models.registry import open_embedder, resolve_auto
from agentmem.settings.settings import Settings
from agentmem.stores.protocols import LogStore
from agentmem.stores.registry import OpenIndex

FALLBACK = "embedder_fallback"
"""The name in a store's metadata of the embedder that `auto` fell back to."""
CHANGE_COMMAND = "agentmem admin rebuild --embedder local"


def build_embedder_options(settings: Settings) -> EmbedderOptions:
    """What the settings say to any embedder."""
    return EmbedderOptions(
        models_dir=settings.model_folder,
        threads=settings.threads,
        timeout=settings.model_timeout,
        dimensions=settings.dimensions,
        base_url=settings.base_url,
        log_errors=settings.log_model_errors,
        given=settings.model_objects,
    )


async def open_recorded_embedders(settings: Settings, log: LogStore, notices: list[str]) -> list[Embedder]:
    """The recorded embedder, then the one being built beside it. A new store records what the settings resolve to."""
    options = build_embedder_options(settings)
    meta = await log.meta()
    spec = settings.embedder
    recorded = meta.get("embedder")
    if recorded is None:
        chosen = open_embedder(resolve_auto(options) if spec == "auto" else spec, options).identity
        fallback = {FALLBACK: chosen} if spec == "auto" and chosen.startswith("hash:") else {}
        meta = await log.init_meta({"embedder": chosen, **fallback})
        recorded = meta["embedder"]
    if spec != "auto":
        wanted = open_embedder(spec, options).identity
        if wanted != recorded:
            notices.append(
                f"This store was built with {recorded} and keeps it; "
                f"to change: agentmem admin rebuild --embedder {wanted}"
            )
    elif advice := advise_on_fallback(meta, options):
        notices.append(advice)
        log_event(INFO, "matching_by_words", embedder=recorded, advice=advice)
    names = dict.fromkeys([recorded] + ([meta["embedder_next"]] if meta.get("embedder_next") else []))
    return [open_embedder(name, options) for name in names]


def advise_on_fallback(meta: Mapping[str, str], options: EmbedderOptions) -> str | None:
    """What to do about a store that matches by words because no model was there; None for any other."""
    if FALLBACK not in meta or meta[FALLBACK] != meta.get("embedder"):
        return None
    if resolve_auto(options).startswith("local"):
        return f"This store matches text by its words (embedder hash). A local model is here now; run: {CHANGE_COMMAND}"
    return (
        "No local model was found, so text is matched by its words (embedder hash). "
        f"Install one with: pip install 'agentmem-graph[local]', then run: {CHANGE_COMMAND}"
    )


async def open_projection(
    embedder: Embedder, open_vector_index: OpenIndex, log: LogStore, clock: Clock, settings: Settings
) -> VectorProjection:
    """The vectors of an embedder, neither written nor served yet."""
    budget = settings.vector_cache_mb * 1024 * 1024
    index = await open_vector_index(embedder.identity, embedder.dimensions, budget)
    return VectorProjection(embedder, index, log, clock, keep_tokens=settings.recall_profile == "best")
