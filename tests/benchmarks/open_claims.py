"""How many open claims are told, doubtful or refused: true ones, and the same with another verb.

    python -m tests.benchmarks.open_claims DATA.json [LINES_FOLDER]

`DATA.json` is a LoCoMo-shaped file with `observations`, each a sentence and its turn. `LINES_FOLDER/<id>.jsonl` adds
those of a model, as for `tests.benchmarks.enriched`. The lies have a verb that may not follow in the place of the first
word behind the name; some are broken sentences.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentmem.core.lifecycle import DOUBTFUL
from agentmem.core.records import Turn
from agentmem.extraction.drafts import Window
from agentmem.extraction.reply_parser import parse_reply
from agentmem.extraction.reply_schema import ExtractionReply

UNSAID_VERBS = """
hates kissed sued hired fired insulted betrayed punched blamed married envies avoids trusts dated dumped divorced
arrested attacked robbed cheated owes promoted bullied threatened rejected adopted rescued kidnapped slapped loves
misses admires fears ignored tricked paid bribed poisoned abandoned stole sold quit lost won broke
"""
NO_FULL_VERBS = "is was are were has have had will would can could may might must should does did"


def read_turns(data: Path) -> dict[tuple[str, str], tuple[dict[str, Any], dict[str, Any] | None]]:
    """Each turn by conversation and id, with the one before it."""
    found: dict[tuple[str, str], tuple[dict[str, Any], dict[str, Any] | None]] = {}
    for conversation in json.loads(data.read_text())["conversations"]:
        before = None
        for turn in conversation["turns"]:
            found[conversation["id"], turn["dia_id"]] = (turn, before)
            before = turn
    return found


def read_claims(data: Path, lines: Path | None) -> Iterator[tuple[tuple[str, str], str]]:
    """True claims, each with the turn that says it."""
    for conversation in json.loads(data.read_text())["conversations"]:
        for seen in conversation.get("observations", ()):
            if len(seen["evidence"]) == 1:
                yield (conversation["id"], seen["evidence"][0]), seen["text"]
        file = None if lines is None else lines / f"{conversation['id']}.jsonl"
        for line in file.read_text().splitlines() if file is not None and file.exists() else ():
            told = json.loads(line)
            for fact in told["facts"]:
                yield (conversation["id"], told["id"]), fact["claim"]


def to_turn(said: dict[str, Any], index: int) -> Turn:
    """A turn of the file as a record."""
    picture = f" [shares a picture: {said['caption']}]" if said.get("caption") else ""
    at = datetime.fromisoformat(said["timestamp"]).replace(tzinfo=UTC)
    content, speaker = said["text"] + picture, said["speaker"]
    return Turn(id=str(index), conversation_id="c", index=index, timestamp=at, content=content, speaker=speaker)


def judge(said: dict[str, Any], before: dict[str, Any] | None, claim: str) -> str:
    """What becomes of a claim that quotes all of a turn: told, doubtful or refused."""
    context = () if before is None else (to_turn(before, 1),)
    window = Window(conversation_id="c", channel="_global", turns=(to_turn(said, 2),), context_turns=context)
    item = {"turn": "T1", "quote": said["text"], "about": claim.split(maxsplit=1)[0].removesuffix("'s"), "claim": claim}
    item |= {"tense": "current", "certainty": "explicit"}
    facts = parse_reply(ExtractionReply.model_validate({"turns": [], "facts": [item]}), window, "").facts
    return "refused" if not facts else "doubtful" if facts[0].certainty == DOUBTFUL else "told"


def replace_verb(claim: str, pick: random.Random) -> str:
    """The claim with another verb behind its first name; "" where none stands there."""
    found = re.match(r"([A-Z]\w+) (\w+) (.*)", claim)
    if found is None or found[2] in NO_FULL_VERBS.split():
        return ""
    return f"{found[1]} {pick.choice(UNSAID_VERBS.split())} {found[3]}"


def main() -> None:
    """Print the figures of both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("lines", type=Path, nargs="?")
    given = parser.parse_args()
    turns, pick = read_turns(given.data), random.Random(3)
    true = [(where, claim) for where, claim in read_claims(given.data, given.lines) if where in turns]
    false = [(where, lie) for where, claim in true if (lie := replace_verb(claim, pick))]
    for name, claims in (("true claims", true), ("with another verb", false)):
        counts = Counter(judge(*turns[where], claim) for where, claim in claims)
        shares = ", ".join(f"{kind} {counts[kind] / len(claims):.3f}" for kind in ("told", "doubtful", "refused"))
        print(f"{name}, {len(claims)}: {shares}")


if __name__ == "__main__":
    main()
