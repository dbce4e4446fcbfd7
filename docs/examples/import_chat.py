"""Import of a chat export: conversations from ChatGPT or Claude become memory, and a question finds them.

Install:  pip install "agentmem-graph[local]"
Run:      python docs/examples/import_chat.py conversations.json "Where does my sister live?"

Both vendors send a `conversations.json` when you export your data. Any other file goes to the importer as it is: lists
of messages, or agentmem's own lines (see docs/cli.md, import). Without a file a small sample is imported. The program
prints how many turns it read, how many of them were new, and what memory finds for the question. A second run adds
nothing: turns keep the ids of the export. Memory is one file in the folder AGENTMEM_HOME (~/.agentmem).
"""

# ruff: noqa: T201

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentmem import AsyncAgentMemory
from agentmem.core.telemetry import no_progress
from agentmem.importers.importer import Importer

QUESTION = "Where does my sister live?"
SAMPLE = """[{"id": "sample-1", "current_node": "n3", "mapping": {
  "n2": {"parent": null, "message": {"id": "m2", "author": {"role": "user"}, "create_time": 1767607200.0,
    "content": {"content_type": "text", "parts": ["My sister Anna lives in Lisbon. What can we do there in May?"]}}},
  "n3": {"parent": "n2", "message": {"id": "m3", "author": {"role": "assistant"}, "create_time": 1767607260.0,
    "content": {"content_type": "text", "parts": ["Take the tram to Alfama, and a boat on the Tejo."]}}}}}]"""


def main(arguments: Sequence[str] = ()) -> None:
    """Import the file named by the first argument (a sample), then ask the question that is the second."""
    text = Path(arguments[0]).read_text(encoding="utf-8") if arguments else SAMPLE
    asyncio.run(import_and_ask(text, arguments[1] if len(arguments) > 1 else QUESTION))


async def import_and_ask(text: str, question: str) -> None:
    """Import what a file holds for alice; print the counts and what is found for the question."""
    async with AsyncAgentMemory("alice") as memory:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "conversations.json"
            path.write_text(convert_export(text), encoding="utf-8")
            report = await Importer().import_files(memory, [path], no_progress)
        found = await memory.remember(question)
        print(f"{report.turns} turns read, {report.new_turns} of them new\n\n{question}\n{found}")


def convert_export(text: str) -> str:
    """An export as one conversation a line, in the form `messages` of the importer; any other text as it is."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    known = [one for one in found if "mapping" in one or "chat_messages" in one] if isinstance(found, list) else []
    return "\n".join(json.dumps(convert_conversation(one)) for one in known) or text


def convert_conversation(source: Mapping[str, Any]) -> dict[str, Any]:
    """A conversation of Claude (`chat_messages`) or of ChatGPT (`mapping`) as an id and a list of messages."""
    if "mapping" in source:
        return {"id": source.get("conversation_id") or source["id"], "messages": list(walk_mapping(source))[::-1]}
    found = source["chat_messages"]
    messages = [build_message(m["uuid"], m["sender"], m.get("text") or m["content"], m) for m in found]
    return {"id": source["uuid"], "messages": messages}


def walk_mapping(source: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what was said on the branch that the user saw last, from its end to its beginning."""
    node = source["mapping"].get(source["current_node"])
    while node is not None:
        message = node.get("message") or {}
        role = message.get("author", {}).get("role")
        if role in ("user", "assistant"):  # others are the vendor's instructions and results of its tools
            parts = [part for part in message["content"].get("parts", ()) if isinstance(part, str)]
            yield build_message(message["id"], role, "\n".join(parts), message)
        node = source["mapping"].get(node.get("parent"))


def build_message(turn_id: str, role: str, content: str, source: Mapping[str, Any]) -> dict[str, Any]:
    """A message with the fields that the importer knows."""
    at = source.get("created_at") or source.get("create_time")
    return {"turn_id": turn_id, "role": role, "content": content, "created_at": at}


if __name__ == "__main__":
    main(sys.argv[1:])
