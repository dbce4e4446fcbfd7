"""Which embedders a store is served with: what it has recorded, and the one being built beside it; their vectors."""

from __future__ import annotations

from agentmem.core.clock import Clock
from agentmem.engine.vector_projection import VectorProjection
from agentmem.models.protocols import Embedder, EmbedderOptions
from agentmem.models.registry import open_embedder, resolve_auto
from agentmem.settings.settings import Settings
from agentmem.stores.protocols import LogStore
from agentmem.stores.registry import OpenIndex


def build_embedder_options(settings: Settings) -> EmbedderOptions:
    """What the settings say to any embedder."""
    return EmbedderOptions(
        models_dir=settings.model_folder,
        threads=settings.threads,
        timeout=settings.model_timeout,
        dimensions=settings.dimensions,
        base_url=settings.base_url,
        log_errors=settings.log_model_errors,
    )


async def open_recorded_embedders(settings: Settings, log: LogStore, notices: list[str]) -> list[Embedder]:
    """The recorded embedder, then the one being built beside it. A new store records what the settings resolve to."""
    options = build_embedder_options(settings)
    meta = await log.meta()
    spec = settings.embedder
    recorded = meta.get("embedder")
    if recorded is None:
        chosen = open_embedder(resolve_auto(options) if spec == "auto" else spec, options)
        recorded = (await log.init_meta({"embedder": chosen.identity}))["embedder"]
        if spec == "auto" and recorded.startswith("hash:"):
            notices.append(
                "No local model was found, so text is matched by its words (embedder hash). "
                "Install one with: pip install 'agentmem-graph[local]', then: agentmem rebuild --embedder local"
            )
    elif spec != "auto":
        wanted = open_embedder(spec, options).identity
        if wanted != recorded:
            notices.append(
                f"This store was built with {recorded} and keeps it; to change: agentmem rebuild --embedder {wanted}"
            )
    names = dict.fromkeys([recorded] + ([meta["embedder_next"]] if meta.get("embedder_next") else []))
    return [open_embedder(name, options) for name in names]


async def open_projection(
    embedder: Embedder, open_vector_index: OpenIndex, log: LogStore, clock: Clock, settings: Settings
) -> VectorProjection:
    """The vectors of an embedder, neither written nor served yet."""
    budget = settings.vector_cache_mb * 1024 * 1024
    index = await open_vector_index(embedder.identity, embedder.dimensions, budget)
    return VectorProjection(embedder, index, log, clock, keep_tokens=settings.recall_profile == "best")
