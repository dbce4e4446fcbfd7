"""What one memory and its scoped views share: the open stores, and recall over them."""

from __future__ import annotations

from agentmem.errors import Closed
from agentmem.recall.layer import RecallLayer
from agentmem.recall.options import read_options
from agentmem.recall.rate import RateLimit
from agentmem.resources import Resources, open_resources
from agentmem.settings import Settings


class Opening:
    """Settings, and what they open once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.parts: tuple[Resources, RecallLayer] | None = None

    async def open(self) -> None:
        """Open the stores; twice is fine. Raises what `open_resources` raises."""
        if self.parts is None:
            settings = self.settings
            read_options(settings.recall, settings.recall_profile, settings.where)  # before anything is opened
            resources = await open_resources(settings)
            layer = RecallLayer(
                resources, settings.recall, profile=settings.recall_profile, digest=settings.digest(),
                limit=RateLimit(settings.recalls_per_second, settings.recall_burst), reranker=resources.reranker,
                decay=settings.decay, synopsis=settings.synopsis,
            )  # fmt: skip
            resources.on_erasure.append(layer.forget)
            resources.auditor.thresholds = {"ranking": layer.options.ranking.model_dump(mode="json")}
            self.parts = (resources, layer)

    def get(self) -> tuple[Resources, RecallLayer]:
        """What is open; Closed before `open`."""
        if self.parts is None:
            raise Closed("this memory is not open: use `async with AsyncAgentMemory(…)`, or await memory.open()")
        return self.parts
