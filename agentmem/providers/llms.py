"""The language models that the settings name, one for each purpose, opened when they are first asked."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from agentmem.providers import LLM, LLMOptions, open_llm
from agentmem.providers.asking import Budget, StructuredLLM
from agentmem.redaction import is_command
from agentmem.settings import Settings

PURPOSE_SETTINGS: Mapping[str, str] = MappingProxyType({
    "extraction": "extraction_llm",
    "verdict": "verdict_llm",
    "recall": "recall_llm",
    "synopsis": "synopsis_llm",
})  # fmt: skip
"""What models are asked for, and the setting that names the one for it; without a word there, `llm` is asked."""


class LLMRegistry:
    """Opens each model once, however many purposes it serves. `given` are models that are open already, by spec."""

    def __init__(self, settings: Settings, open_llms: Mapping[str, LLM] | None = None) -> None:
        self._settings = settings
        self._llms: dict[str, LLM | None] = dict(open_llms or {})

    def spec(self, purpose: str) -> str:
        """The model that the settings name for a purpose; `none` for none."""
        return getattr(self._settings, PURPOSE_SETTINGS[purpose]) or self._settings.llm

    def model_name(self, purpose: str) -> str:
        """The spec of a purpose's model for records and reports: of a `command:` line only that it is one."""
        spec = self.spec(purpose)
        return "command" if is_command(spec) else spec

    def for_purpose(self, purpose: str, budget: Budget | None = None) -> StructuredLLM | None:
        """One that asks the model for this purpose, on this account; None when the settings name no model.

        Raises ConfigError for a model that cannot be opened.
        """
        llm = self._get_or_open(self.spec(purpose))
        if llm is None:
            return None
        return StructuredLLM(llm, budget or Budget(), self._settings.llm_concurrency)

    def build_budget(self) -> Budget:
        """A fresh account with the caps of the settings."""
        settings = self._settings
        return Budget(max_calls=settings.max_calls, max_tokens=settings.max_tokens, max_cost=settings.max_cost)

    def _get_or_open(self, spec: str) -> LLM | None:
        if spec not in self._llms:
            settings = self._settings
            options = LLMOptions(
                timeout=settings.model_timeout, concurrency=settings.llm_concurrency, base_url=settings.llm_base_url,
                work_dir=settings.home, log_errors=settings.log_model_errors,
            )  # fmt: skip
            self._llms[spec] = open_llm(spec, options)
        return self._llms[spec]

    async def close(self) -> None:
        """Close what was opened."""
        for llm in self._llms.values():
            if llm is not None:
                await llm.close()
