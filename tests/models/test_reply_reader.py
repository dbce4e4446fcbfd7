"""What models send instead of plain JSON, and what is read of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from agentmem.models.protocols import LLMReply, LLMRequest
from agentmem.models.structured_llm import Budget, StructuredLLM, TruncatedReply


class Pet(BaseModel):
    name: str
    legs: int = 4


class Note(BaseModel):
    text: str


class Zoo(BaseModel):
    notes: list[Note] = []
    pets: list[Pet] = []


PETS = [{"name": "Rex {the 1st], they say", "legs": 4}, {"name": "Ada's owl", "legs": 2}]
TEXT = json.dumps({"notes": [], "pets": PETS})
LISTED = json.dumps(PETS)

READ = {
    "plain": TEXT,
    "byte order mark": "\ufeff" + TEXT,
    "thoughts": f'<think>\nA draft: {{"pets": []}}, or {{x}}.\n</think>\n\n{TEXT}',
    "the end of thoughts": f"So I list the [pets]...\n</think>\n{TEXT}",
    "prose before": f"Sure! It's all {{here}}: {TEXT}",
    "prose after": f"{TEXT}\n\nI left out [the] rest.",
    "fence in prose": f"Here you are:\n```json\n{TEXT}\n```\nAnything else?",
    "twice": f"{TEXT}\n{TEXT}",
    "draft first": f'{{"pets": []}} No, rather: {TEXT}',
    "trailing commas": TEXT.replace("}]}", "},],}"),
    "Python literals": str({"notes": [], "pets": PETS}),
    "raw control characters": TEXT.replace("the 1st", "the\n1st"),
    "unescaped quotes": TEXT.replace("{the", '"{the"'),
    "list at the root": LISTED,
    "list in prose": f"These: {LISTED}.",
    "wrapped": f'{{"result": {TEXT}}}',
    "wrapped beside more": f'{{"status": "ok", "data": {TEXT}}}',
    "list under another name": f'{{"memories": {LISTED}}}',
}
CUT = {
    "inside of an item": (TEXT[:-30], 1),
    "before the end": (TEXT[:-2], 2),
    "inside of a wrapper": (f'{{"result": {TEXT[:-30]}', 1),
    "list at the root": (LISTED[:-5], 1),
    "nothing whole": (TEXT[:40], 0),
    "in thoughts and prose": (f"<think>Hm</think>Well: {TEXT[:-30]}", 1),
}


class Parrot:
    identity = "test:parrot"

    def __init__(self, text: str, is_truncated: bool = False) -> None:
        self.text, self.is_truncated, self.asked = text, is_truncated, 0

    async def complete(self, request: LLMRequest) -> LLMReply:
        self.asked += 1
        return LLMReply(self.text, 1, 0, 1, self.identity, self.is_truncated)

    async def close(self) -> None:
        """Nothing is held."""


async def ask(model: Parrot) -> Zoo:
    return await StructuredLLM(model, Budget()).ask(LLMRequest("read", "", "Which pets?"), Zoo)


def squeeze(zoo: Zoo) -> Any:
    return [(each.name.replace("\n", " ").replace('"', ""), each.legs) for each in zoo.pets]


@pytest.mark.parametrize("shape", READ)
async def test_json_is_taken_out_of_a_reply_at_once(shape: str) -> None:
    model = Parrot(READ[shape])
    assert squeeze(await ask(model)) == [(pet["name"], pet["legs"]) for pet in PETS]
    assert model.asked == 1


@pytest.mark.parametrize("is_truncated", [True, False])
@pytest.mark.parametrize("shape", CUT)
async def test_what_was_cut_off_is_kept_up_to_the_last_whole_item(shape: str, is_truncated: bool) -> None:
    text, whole = CUT[shape]
    model = Parrot(text, is_truncated)
    with pytest.raises(
        TruncatedReply, match="truncated at 1024 tokens" if is_truncated else "ends in the middle"
    ) as cut:
        await ask(model)
    assert isinstance(cut.value.partial, Zoo)
    assert len(cut.value.partial.pets) == whole
    assert model.asked == (1 if is_truncated else 2)


async def test_a_whole_reply_counts_though_the_text_after_it_was_cut() -> None:
    assert len((await ask(Parrot(f"{TEXT} And the", is_truncated=True))).pets) == 2
