"""Which model a spec means: vendors are modules of one folder, found by name and loaded when needed.

A vendor's module `agentmem/models/providers/<vendor>.py` offers one by defining
`def reranker(model: str, options: RerankerOptions) -> Reranker`; `open_reranker("vendor:model", options)` calls it.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agentmem.core.plain_values import describe_value
from agentmem.core.redaction import is_command
from agentmem.errors import ConfigError
from agentmem.models import providers
from agentmem.models.given_models import is_given, to_embedder, to_llm
from agentmem.models.protocols import LLM, LLMOptions, Reranker, RerankerOptions
from agentmem.models.structured_llm import Budget, StructuredLLM
from agentmem.settings.settings import Settings

if TYPE_CHECKING:
    from agentmem.models.protocols import Embedder, EmbedderOptions


_AUTO = "auto"
_LOCAL_SPEC = "local:all-MiniLM-L6-v2"
_LEXICAL_SPEC = "hash:v1"
_NONE = "none"
_EXAMPLES = {"embedder": _LOCAL_SPEC, "llm": "anthropic:claude-haiku-4-5", "reranker": "local:/path/to/it"}

LOCAL_SERVERS: Mapping[str, str] = MappingProxyType(
    {
        "llamacpp": "http://localhost:8080/v1",
        "lmstudio": "http://localhost:1234/v1",
        "ollama": "http://localhost:11434/v1",
        "vllm": "http://localhost:8000/v1",
    }
)
"""Servers of language models that speak OpenAI's protocol, and where each listens by itself."""

PURPOSE_SETTINGS: Mapping[str, str] = MappingProxyType(
    {name: f"{name}_llm" for name in ("extraction", "verdict", "recall", "synopsis")}
)
"""What models are asked for, and the setting that names the one for it; without a word there, `llm` is asked."""


def open_embedder(spec: str, options: EmbedderOptions) -> Embedder:
    """The embedder named by `spec`: `vendor:model`, `vendor/model`, a vendor alone, or an embedder's identity.

    `auto` takes the local model when its weights are there and the lexical one otherwise, never a remote one. Nothing
    is loaded or sent before the first text. Raises ConfigError for an unknown vendor, with the vendors there are, and
    for dimensions that contradict `options`.
    """
    for name, given in options.given.items():
        if spec in (name, name.replace("/", ":", 1), getattr(given, "identity", None), f"{name}:{options.dimensions}"):
            return to_embedder(name, given, options.dimensions)
    vendor, model, dimensions = _parse_spec(spec)
    if vendor == _AUTO:
        if model or dimensions:
            raise ConfigError(
                f"embedder: 'auto' takes no model, got {describe_value(spec)}; name the vendor, as in '{_LOCAL_SPEC}'"
            )
        return open_embedder(resolve_auto(options), options)
    if dimensions is not None:
        if options.dimensions not in (None, dimensions):
            raise ConfigError(f"embedder {spec!r} has {dimensions} dimensions, but {options.dimensions} are asked for")
        options = replace(options, dimensions=dimensions)
    embedder: Embedder = _get_opener("embedder", vendor)(model, options)
    return embedder


def open_llm(spec: str, options: LLMOptions) -> LLM | None:
    """The language model named by `spec`: `vendor:model`, `vendor/model` or a vendor alone; None for `none` and "".

    For `command:` the model is a whole command line. Nothing is loaded or sent before the first request. Raises
    ConfigError for an unknown vendor, with the vendors there are, and for a key or an SDK that is missing.
    """
    vendor, model = _split_spec(spec)
    if vendor in ("", _NONE) and not model:
        return None
    if vendor in LOCAL_SERVERS:
        return _open_local_llm(vendor, model, options)
    llm: LLM = _get_opener("llm", vendor)(model, options)
    return llm


def _open_local_llm(server: str, model: str, options: LLMOptions) -> LLM:
    from agentmem.models.providers import openai

    if not model:
        raise ConfigError(f"llm: name the model that {server} serves, as in '{server}:llama3.1'")
    if options.base_url is not None:
        with suppress(ConfigError):  # no key; without the SDK it is raised below
            return openai.llm(model, options, server)
    # The key of the vendor goes to no server at a default address.
    address = options.base_url or LOCAL_SERVERS[server]
    return openai.llm(model, replace(options, base_url=address, api_key=options.api_key or "none"), server)


def resolve_auto(options: EmbedderOptions) -> str:
    """The spec that `auto` means on this machine; looks at files only, imports no runtime and uses no network."""
    from agentmem.models.providers import local

    return _LOCAL_SPEC if local.is_ready(options) else _LEXICAL_SPEC


def list_vendors(kind: str = "embedder") -> list[str]:
    """The vendors whose module offers embeddings (`embedder`) or a language model (`llm`), in alphabetical order."""
    if kind == "llm":
        return sorted([*_list_modules(kind), *LOCAL_SERVERS])
    return _list_modules(kind)


def _list_modules(kind: str) -> list[str]:
    names = sorted(module.name for module in pkgutil.iter_modules(providers.__path__))
    return [name for name in names if hasattr(importlib.import_module(f"{providers.__name__}.{name}"), kind)]


def _split_spec(spec: str) -> tuple[str, str]:
    cut = next((at for at, character in enumerate(spec) if character in ":/"), len(spec))
    return spec[:cut].strip(), spec[cut + 1 :].strip()


def _parse_spec(spec: str) -> tuple[str, str, int | None]:
    vendor, model = _split_spec(spec)
    front, colon, last = model.rpartition(":")
    is_number = bool(colon) and last.isascii() and last.isdigit()
    return (vendor, front, int(last)) if is_number else (vendor, model, None)


def _get_opener(kind: str, vendor: str) -> Callable[[str, Any], Any]:
    """What the vendor's module defines under the name of the kind."""
    # Only an identifier: a name with dots would reach modules outside of this folder.
    if vendor.isidentifier() and importlib.util.find_spec(f"{providers.__name__}.{vendor}"):
        module = importlib.import_module(f"{providers.__name__}.{vendor}")
        if hasattr(module, kind):
            opener: Callable[[str, Any], Any] = getattr(module, kind)
            return opener
    known = ", ".join([_AUTO if kind == "embedder" else _NONE, *list_vendors(kind)])
    raise ConfigError(f"{kind}: no vendor{quote_vendor(vendor)}; known are {known}; write it as in '{_EXAMPLES[kind]}'")


def quote_vendor(vendor: str) -> str:
    """A vendor's name for a message; nothing of what is no name, for it may be a whole command line."""
    return f" {vendor!r}" if vendor.isidentifier() else ""


def open_reranker(spec: str, options: RerankerOptions) -> Reranker | None:
    """The reranker named by `spec`: `vendor:model`, `vendor/model` or a vendor alone; None for `none` and "".

    Nothing is loaded or sent before the first text. Raises ConfigError for an unknown vendor, with the vendors there
    are.
    """
    vendor, model = _split_spec(spec)
    if vendor in ("", _NONE) and not model:
        return None
    reranker: Reranker = _get_opener("reranker", vendor)(model, options)
    return reranker


class LLMRegistry:
    """Opens each model once, however many purposes it serves. `open_llms` are models that are open already, by spec."""

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

    def describe_endpoint(self, purpose: str) -> str:
        """How the model of a purpose was asked for JSON, where that was found out; "" otherwise."""
        endpoint = getattr(self._llms.get(self.spec(purpose)), "endpoint", None)
        return "" if endpoint is None else f"asked for {endpoint.rung}"

    def build_budget(self) -> Budget:
        """A fresh account with the caps of the settings."""
        settings = self._settings
        return Budget(max_calls=settings.max_calls, max_tokens=settings.max_tokens, max_cost=settings.max_cost)

    def _get_or_open(self, spec: str) -> LLM | None:
        settings = self._settings
        if settings.is_given(spec) and spec not in self._llms:
            self._llms[spec] = to_llm(spec, settings.model_objects[spec])
        if spec not in self._llms:
            options = LLMOptions(
                timeout=settings.llm_timeout,
                concurrency=settings.llm_concurrency,
                base_url=settings.llm_base_url,
                work_dir=settings.home,
                log_errors=settings.log_model_errors,
            )
            self._llms[spec] = open_llm(spec, options)
        return self._llms[spec]

    async def close(self) -> None:
        """Close what was opened."""
        for llm in self._llms.values():
            if llm is not None and not is_given(llm, self._settings):
                await llm.close()
