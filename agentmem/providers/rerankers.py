"""Models that read a question and a text together and say how well the text answers it.

A vendor's module `agentmem/providers/<vendor>.py` offers one by defining
`def reranker(model: str, options: RerankerOptions) -> Reranker`; `open_reranker("vendor:model", options)` calls it.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agentmem.errors import ConfigError
from agentmem.providers import list_vendors, quote_vendor
from agentmem.providers.asking import StructuredLLM

_KIND, _NONE = "reranker", "none"


class Reranker(Protocol):
    """Gives each text a score for a question, higher for better; scores of different questions are not comparable.

    `identity` is `vendor:model`.
    """

    @property
    def identity(self) -> str: ...

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """A finite score for each text, in order; [] for none.

        Raises ModelUnavailable when the model cannot be reached (try again later), InvalidModelOutput when it answered
        with something unusable, ConfigError when it cannot be used as it is set up, and Closed after `close`.
        """
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RerankerOptions:
    """What any reranker may need: `models_dir` is the folder of local weights, `threads` how many texts a local model
    reads at a time, `llm_factory` gives what asks the language model, None for none."""

    models_dir: Path
    threads: int = 1
    llm_factory: Callable[[], StructuredLLM | None] = lambda: None


def open_reranker(spec: str, options: RerankerOptions) -> Reranker | None:
    """The reranker named by `spec`: `vendor:model`, `vendor/model` or a vendor alone; None for `none` and "".

    Nothing is loaded or sent before the first text. Raises ConfigError for an unknown vendor, with the vendors there
    are.
    """
    cut = next((at for at, character in enumerate(spec) if character in ":/"), len(spec))
    vendor, model = spec[:cut].strip(), spec[cut + 1 :].strip()
    if vendor in ("", _NONE) and not model:
        return None
    if vendor.isidentifier() and importlib.util.find_spec(f"agentmem.providers.{vendor}"):
        module: Any = importlib.import_module(f"agentmem.providers.{vendor}")
        if hasattr(module, _KIND):
            found: Reranker = getattr(module, _KIND)(model, options)
            return found
    known = ", ".join([_NONE, *list_vendors(_KIND)])
    asked = quote_vendor(vendor)
    raise ConfigError(f"reranker: no vendor{asked}; known are {known}; write it as in 'local:/path/to/it'")
