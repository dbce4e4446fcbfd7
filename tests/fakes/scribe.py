"""A language model for tests: it reads a window as a book says, and can be away, silly or dear."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from agentmem import AsyncAgentMemory
from agentmem.models.protocols import LLMReply, LLMRequest
from agentmem.models.registry import LLMRegistry
from agentmem.text.tokenizer import estimate_tokens

SPEC = "scribe:test"
TurnReply = Mapping[str, Any]  # facts, entities, relations (without the turn's label), standalone, keys


class FakeExtractionLLM:
    """Answers extraction from `replies_by_text`, by the text of a turn; verdicts from `verdicts`, by the two claims.

    Links are labels or texts of known facts.
    `intercept` may raise, or give the text of a reply in place of the right one, for a request.
    """

    identity = SPEC

    def __init__(
        self,
        replies_by_text: Mapping[str, TurnReply] | None = None,
        *,
        verdicts: Mapping[tuple[str, str], str] | None = None,
        intercept: Callable[[LLMRequest], str | None] | None = None,
    ) -> None:
        self.replies_by_text = dict(replies_by_text or {})
        self.verdicts = dict(verdicts or {})
        self.intercept = intercept
        self.requests: list[LLMRequest] = []

    async def complete(self, request: LLMRequest) -> LLMReply:
        self.requests.append(request)
        text = self.intercept(request) if self.intercept is not None else None
        if text is None:
            data = json.loads(request.content[request.content.index("{") :].split("\n\nYour last reply")[0])
            text = json.dumps(self._verdicts(data) if request.purpose == "verdict" else self._read(data))
        tokens = estimate_tokens(request.system + request.content)
        return LLMReply(text, tokens, 0, estimate_tokens(text), "test")

    async def close(self) -> None:
        return None

    def _read(self, data: Mapping[str, Any]) -> dict[str, Any]:
        known = {text: label for label, text in data["known_facts"].items()}
        reply: dict[str, Any] = {"turns": [], "facts": [], "entities": [], "relations": []}
        for turn in data["turns"]:
            said = self.replies_by_text.get(turn["text"], {})
            label = turn["label"]
            gloss = {"standalone": said.get("standalone", ""), "keys": said.get("keys", []), "leans_on": []}
            reply["turns"].append({"turn": label, **gloss})
            for name in ("facts", "entities", "relations"):
                for item in said.get(name, ()):
                    quote = {} if name == "entities" else {"quote": turn["text"]}
                    linked = {
                        field: [
                            known.get(claim, claim)
                            for claim in item[field]
                            if {claim, known.get(claim)} & {*known.values()}
                        ]
                        for field in ("ends", "rests_on")
                        if field in item
                    }
                    reply[name].append({"turn": label, **quote, **item, **linked})
        return reply

    def _verdicts(self, data: Mapping[str, Any]) -> dict[str, Any]:
        told = []
        for new, known in data["pairs"]:
            pair = (data["new"][new], data["known"][known]["claim"])
            told.append({"new": new, "known": known, "verdict": self.verdicts.get(pair, "unrelated"), "wrong": False})
        return {"verdicts": told}


def install_extraction_llm(memory: AsyncAgentMemory, scribe: FakeExtractionLLM) -> AsyncAgentMemory:
    """The memory, opened with `llm` SPEC, with this model behind it."""
    memory.engine.llms = LLMRegistry(memory.engine.settings, {SPEC: scribe})
    return memory
