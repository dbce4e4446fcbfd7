"""What one memory and its scoped views share: the open stores, and recall over them."""

from __future__ import annotations

from agentmem.errors import Closed
from agentmem.recall.layer import RecallLayer
from agentmem.recall.options import parse_options
from agentmem.recall.rate import RateLimiter
from agentmem.resources import Engine, open_engine
from agentmem.settings import Settings


class EngineHandle:
    """Settings, and what they open once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.opened: tuple[Engine, RecallLayer] | None = None

    async def open(self) -> None:
        """Open the stores; twice is fine. Raises what `open_engine` raises."""
        if self.opened is None:
            settings = self.settings
            # before anything is opened
            parse_options(settings.recall, settings.recall_profile, settings.describe_origin)
            engine = await open_engine(settings)
            layer = RecallLayer(
                engine, settings.recall, profile=settings.recall_profile, settings_fingerprint=settings.fingerprint(),
                rate_limiter=RateLimiter(settings.recalls_per_second, settings.recall_burst), reranker=engine.reranker,
                decay=settings.decay, synopsis=settings.synopsis,
            )  # fmt: skip
            engine.erasure_callbacks.append(layer.drop_user_caches)
            engine.auditor.thresholds = {"ranking": layer.options.ranking.model_dump(mode="json")}
            self.opened = (engine, layer)

    def get(self) -> tuple[Engine, RecallLayer]:
        """What is open; Closed before `open`."""
        if self.opened is None:
            raise Closed("this memory is not open: use `async with AsyncAgentMemory(…)`, or await memory.open()")
        return self.opened
