"""A language model that answers what was recorded for it, by purpose, and keeps what it was asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentmem.models.protocols import LLMReply, LLMRequest
from agentmem.models.structured_llm import Budget, StructuredLLM

Answer = str | Exception | Mapping[str, Any] | Sequence[Any]


class RecordedLLM:
    """`answers` are given one after another, the last again and again; `by_purpose` has lists of its own."""

    identity = "recorded:test"

    def __init__(self, *answers: Answer, by_purpose: Mapping[str, Sequence[Answer]] | None = None) -> None:
        self.requests: list[LLMRequest] = []
        self._answers = {"": list(answers), **{name: list(given) for name, given in (by_purpose or {}).items()}}

    async def complete(self, request: LLMRequest) -> LLMReply:
        """The next answer for the purpose; an exception is raised."""
        self.requests.append(request)
        answers = self._answers.get(request.purpose, self._answers[""])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return LLMReply(text, input_tokens=100, cached_tokens=0, output_tokens=10, model="test")

    async def close(self) -> None:
        """Nothing to let go of."""

    def structured(self, budget: Budget | None = None) -> StructuredLLM:
        """An asker of this model."""
        return StructuredLLM(self, budget or Budget())
