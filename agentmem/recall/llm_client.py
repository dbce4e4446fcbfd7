"""How recall asks a language model: patiently, about one question at a time, and never twice the same."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Protocol, TypeVar

from pydantic import BaseModel, Field

from agentmem.core.lru import LruDict
from agentmem.errors import ConfigError
from agentmem.models.protocols import LLMRequest
from agentmem.models.retry import CircuitBreaker
from agentmem.models.structured_llm import Budget, StructuredLLM
from agentmem.recall.technique import DEADLINE, ENABLED, TechniqueOptions
from agentmem.text.templates import load_templates

M = TypeVar("M", bound=BaseModel)

PURPOSE = "recall"
LIST_WEIGHT = "Weight of its list; those of the question's own words weigh 1 each."
MAX_CACHED_REPLIES = 1_000
MAX_QUESTION_CHARS = 2_000
"""Characters of a query that a model is shown."""

MAX_MODEL_SENTENCE_CHARS = 300
"""Characters that are used of a sentence that a model wrote."""


class LLMNotConfigured(ConfigError):
    """Something was switched on that needs a language model, and the settings name none."""

    def __init__(self) -> None:
        super().__init__("needs a language model: set llm (or recall_llm), as in llm='anthropic:claude-haiku-4-5'")


class LLMSource(Protocol):
    """Where language models come from."""

    def for_purpose(self, purpose: str, budget: Budget | None = None) -> StructuredLLM | None: ...


class LLMTechniqueOptions(TechniqueOptions):
    """Settings of a technique that asks a language model: switched on by hand, with a longer deadline."""

    enabled: bool = Field(default=False, description=ENABLED)
    deadline: float = Field(default=5.0, gt=0, description=DEADLINE)
    weight: float = Field(default=1.0, gt=0, description=LIST_WEIGHT)


class CachedLLM:
    """Asks the model for recall, which is opened with the first question.

    The last 1,000 answers are kept, so that a question asked again (by `context` after `remember`, by `why_not`) gets
    the same answer and costs nothing. `budget` is the account, without caps: a recall asks a technique's question
    once.
    """

    def __init__(self, get_source: Callable[[], LLMSource]) -> None:
        self.budget = Budget()
        self._get_source = get_source
        self._llm: StructuredLLM | None = None
        self._replies: LruDict[bytes, BaseModel] = LruDict(MAX_CACHED_REPLIES)
        self._circuit_breaker = CircuitBreaker("the language model")

    async def ask(self, request: LLMRequest, reply_type: type[M], timeout: float | None = None) -> M:
        """The reply as a `reply_type`. A model that was silent for `timeout` seconds (None: any time) rests for 30 s.

        Raises LLMNotConfigured when the settings name none, ModelUnavailable when it did not answer in time or rests,
        and what `StructuredLLM.ask` raises.
        """
        key = _cache_key(request, reply_type)
        found = self._replies.get(key)
        if not isinstance(found, reply_type):
            asker = self.get_llm()

            async def send() -> M:
                self._replies[key] = answer = await asker.ask(request, reply_type)
                return answer

            found = await (send() if timeout is None else self._circuit_breaker.call(send, timeout))
        self._replies[key] = found
        return found

    def get_llm(self) -> StructuredLLM:
        """What asks. Raises LLMNotConfigured when the settings name no model, ConfigError for one that cannot be
        opened.
        """
        if self._llm is None:
            self._llm = self._get_source().for_purpose(PURPOSE, self.budget)
        if self._llm is None:
            raise LLMNotConfigured
        return self._llm

    def clear(self) -> None:
        """Drop all answers, since nobody knows whose they were."""
        self._replies.clear()


def build_technique_request(technique: str, text: str, *, max_tokens: int, temperature: float) -> LLMRequest:
    """A technique's question about a query: its prompt is the block `system` of the `.md` file beside it."""
    system = load_templates("agentmem.recall.techniques", f"{technique}.md")["system"]
    return LLMRequest(technique, system, wrap_question(text), max_tokens=max_tokens, temperature=temperature)


def wrap_question(text: str) -> str:
    """A user's question as data for a prompt."""
    return f"<question>\n{text[:MAX_QUESTION_CHARS]}\n</question>"


def normalize_sentences(texts: list[str], limit: int) -> list[str]:
    """At most so many of the sentences that a model wrote: white space made plain, none empty, long or twice."""
    plain = (" ".join(text.split())[:MAX_MODEL_SENTENCE_CHARS] for text in texts)
    return list(dict.fromkeys(text for text in plain if any(character.isalnum() for character in text)))[:limit]


def _cache_key(request: LLMRequest, reply_type: type[BaseModel]) -> bytes:
    parts = (request.purpose, reply_type.__name__, request.system, request.content)
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
