"""What all views of one memory share: its settings, the stores that they open, and the jobs that run beside it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from agentmem.core.scope import Scope
from agentmem.engine.engine import Engine, open_engine
from agentmem.errors import Closed
from agentmem.recall.options import parse_options
from agentmem.recall.pipeline import RecallLayer
from agentmem.recall.request import RateLimiter
from agentmem.settings.settings import Settings

if TYPE_CHECKING:
    from agentmem.jobs.background import BackgroundJobs


class EngineHandle:
    """Settings, and what they open once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.opened: tuple[Engine, RecallLayer] | None = None
        self.background: BackgroundJobs | None = None

    async def open(self, user_id: str) -> None:
        """Open the stores; twice is fine. Raises what `open_engine` raises.

        Jobs in the background begin with what waits of this user.
        """
        if self.opened is None:
            settings = self.settings
            # before anything is opened
            parse_options(settings.recall, settings.recall_profile, settings.describe_origin)
            engine = await open_engine(settings)
            layer = RecallLayer(
                engine,
                settings.recall,
                profile=settings.recall_profile,
                settings_fingerprint=settings.fingerprint(),
                rate_limiter=RateLimiter(settings.recalls_per_second, settings.recall_burst),
                reranker=engine.reranker,
                decay=settings.decay,
                synopsis=settings.synopsis,
            )
            engine.erasure_callbacks.append(layer.drop_user_caches)
            if engine.graph_projection is not None:
                from agentmem.memory.repeated_erasures import repair_after_restore

                engine.graph_projection.erase_again = partial(repair_after_restore, engine)
                await engine.graph_projection.verify(Scope(user_id))
            engine.auditor.thresholds = {"ranking": layer.options.ranking.model_dump(mode="json")}
            self.opened = (engine, layer)
            if settings.background:
                from agentmem.jobs.background import BackgroundJobs

                self.background = BackgroundJobs(engine)
                self.background.note_turns(user_id)

    async def close(self) -> None:
        """Close what is open, after what waits in the background; closing twice is fine."""
        if self.background is not None:
            await self.background.stop()
        if self.opened is not None:
            await self.opened[0].close()

    def get(self) -> tuple[Engine, RecallLayer]:
        """What is open; Closed before `open`."""
        if self.opened is None:
            raise Closed("this memory is not open: use `async with AsyncAgentMemory(…)`, or await memory.open()")
        return self.opened
