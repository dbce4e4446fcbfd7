"""A language model played from a file: what somebody careful took from each turn of a life, without knowing its truth.

`reading.jsonl` of a folder has a line for each turn that states something: its `id` and its `facts`, each with what the
prompt asks for, except that `about` is `user` or a name. `ends` and `rests_on` name a slot, or a slot and its value
("home=Leipzig"), of what the memory holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentmem.models.protocols import LLMReply, LLMRequest
from agentmem.text.tokenizer import estimate_tokens

READING_FILE = "reading.jsonl"
_NOTHING: Mapping[str, Mapping[str, Any]] = {
    "extract agent": {"facts": []},
    "verdict": {"verdicts": []},
}


class CarefulReader:
    """Answers requests to read turns with what the file says of them; has nothing to say to others."""

    identity = "reader:careful"

    def __init__(self, folder: Path, life: Sequence[Mapping[str, Any]]) -> None:
        lines = (folder / READING_FILE).read_text(encoding="utf-8").splitlines()
        facts = {row["id"]: row["facts"] for row in map(json.loads, lines)}
        self._facts = {" ".join(row["text"].split()): facts.get(row["id"], []) for row in life if row["role"] == "user"}
        self.tokens: list[tuple[int, int, int]] = []
        """For each window read: tokens of the fixed part, of the window, of the reply."""

    async def complete(self, request: LLMRequest) -> LLMReply:
        """The reply as JSON."""
        nothing = _NOTHING.get(request.purpose)
        reply = nothing or self._read(json.JSONDecoder().raw_decode(request.content, request.content.index("{"))[0])
        text = json.dumps(reply, ensure_ascii=False)
        spent = estimate_tokens(request.system), estimate_tokens(request.content), estimate_tokens(text)
        if request.purpose == "extract":
            self.tokens.append(spent)
        return LLMReply(text, spent[0] + spent[1], 0, spent[2], self.identity)

    async def close(self) -> None:
        """Nothing to let go of."""

    def _read(self, data: Mapping[str, Any]) -> dict[str, Any]:
        labels = {name.partition(" (")[0].casefold(): label for label, name in data["people"].items()}
        labels["user"] = labels["the user"]
        facts = [
            self._label(fact, turn["label"], labels, data["known_facts"])
            for turn in data["turns"]
            if turn["role"] == "user"
            for fact in self._facts.get(" ".join(turn["text"].split()), ())
        ]
        return {"facts": facts, "entities": [], "relations": [], "turns": []}

    @staticmethod
    def _label(
        fact: Mapping[str, Any], turn: str, labels: Mapping[str, str], known: Mapping[str, str]
    ) -> dict[str, Any]:
        linked = {
            field: [label for label, text in known.items() if f".{fact[field].replace('=', ' = ')}" in text]
            for field in ("ends", "rests_on")
            if field in fact
        }
        defaults = {"tense": "current", "op": "is", "certainty": "explicit"}
        about = labels.get(fact["about"].casefold(), fact["about"])
        return {**defaults, **fact, "turn": turn, "about": about, **linked}
