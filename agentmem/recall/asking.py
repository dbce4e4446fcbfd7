"""How recall asks a language model: patiently, about one question at a time, and never twice the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Protocol, TypeVar

from pydantic import BaseModel, Field

from agentmem.errors import ConfigError
from agentmem.providers import LLMRequest
from agentmem.providers.asking import Asker, Spending
from agentmem.providers.attempts import Patience
from agentmem.recall.technique import Options
from agentmem.text.blocks import load_blocks

M = TypeVar("M", bound=BaseModel)

PURPOSE = "recall"
MOST_ANSWERS = 1_000
LONGEST_QUESTION = 2_000
"""Characters of a query that a model is shown."""

LONGEST_TEXT = 300
"""Characters that are used of a sentence that a model wrote."""


class NoModel(ConfigError):
    """Something was switched on that needs a language model, and the settings name none."""

    def __init__(self) -> None:
        super().__init__("needs a language model: set llm (or recall_llm), as in llm='anthropic:claude-haiku-4-5'")


class Models(Protocol):
    """Where language models come from."""

    def asker(self, purpose: str, spending: Spending | None = None) -> Asker | None: ...


class LLMOptions(Options):
    """Settings of a technique that asks a language model: switched on by hand, with a longer deadline."""

    enabled: bool = False
    deadline: float = Field(default=5.0, gt=0)


class Asking:
    """Asks the model for recall, which is opened with the first question.

    The last 1,000 answers are kept, so that a question asked again (by `context` after `remember`, by `why_not`) gets
    the same answer and costs nothing. `spending` is the account, without caps: a recall asks a technique's question
    once.
    """

    def __init__(self, models: Callable[[], Models]) -> None:
        self.spending = Spending()
        self._models = models
        self._asker: Asker | None = None
        self._answers: OrderedDict[bytes, BaseModel] = OrderedDict()
        self._patience = Patience("the language model")

    async def ask(self, request: LLMRequest, model: type[M], patience: float | None = None) -> M:
        """The reply as a `model`. A model that was silent for `patience` seconds (None: any time) rests for 30 s.

        Raises NoModel when the settings name none, ModelUnavailable when it did not answer in time or rests, and what
        `Asker.ask` raises.
        """
        key = _digest(request, model)
        found = self._answers.get(key)
        if not isinstance(found, model):
            asker = self.asker()

            async def send() -> M:
                self._answers[key] = answer = await asker.ask(request, model)
                return answer

            found = await (send() if patience is None else self._patience.ask(send, patience))
            self._answers[key] = found
        self._answers.move_to_end(key)
        while len(self._answers) > MOST_ANSWERS:
            self._answers.popitem(last=False)
        return found

    def asker(self) -> Asker:
        """What asks. Raises NoModel when the settings name no model, ConfigError for one that cannot be opened."""
        if self._asker is None:
            self._asker = self._models().asker(PURPOSE, self.spending)
        if self._asker is None:
            raise NoModel
        return self._asker

    def forget(self) -> None:
        """Drop all answers, since nobody knows whose they were."""
        self._answers.clear()


def asked(technique: str, text: str, *, max_tokens: int, temperature: float) -> LLMRequest:
    """A technique's question about a query: its prompt is the block `system` of the `.md` file beside it."""
    system = load_blocks("agentmem.recall.techniques", f"{technique}.md")["system"]
    return LLMRequest(technique, system, quoted(text), max_tokens=max_tokens, temperature=temperature)


def quoted(text: str) -> str:
    """A user's question as data for a prompt."""
    return f"<question>\n{text[:LONGEST_QUESTION]}\n</question>"


def tidied(texts: list[str], most: int) -> list[str]:
    """At most so many of the sentences that a model wrote: white space made plain, none empty, long or twice."""
    plain = (" ".join(text.split())[:LONGEST_TEXT] for text in texts)
    return list(dict.fromkeys(text for text in plain if any(character.isalnum() for character in text)))[:most]


def _digest(request: LLMRequest, model: type[BaseModel]) -> bytes:
    parts = (request.purpose, model.__name__, request.system, request.content)
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
