"""Import of a chat export: conversations from ChatGPT or Claude become memory, and a question finds them.

Install:  pip install "agentmem-graph[local]"
Run:      python docs/examples/import_chat.py conversations.json "Where does my sister live?"

Both vendors send a `conversations.json` in a ZIP archive when you export your data: give either. Other formats are
read, too (see docs/import.md). Without a file a small sample is imported. The program prints how many turns it read,
how many of them were new, and what memory finds for the question. A second run adds nothing: turns keep the ids of the
export. Memory is one file in the folder AGENTMEM_HOME (~/.agentmem).
"""

# ruff: noqa: T201

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agentmem import AgentMemory

QUESTION = "Where does my sister live?"
SAMPLE = """[{"id": "sample-1", "current_node": "n3", "mapping": {
  "n2": {"parent": null, "message": {"id": "m2", "author": {"role": "user"}, "create_time": 1767607200.0,
    "content": {"content_type": "text", "parts": ["My sister Anna lives in Lisbon. What can we do there in May?"]}}},
  "n3": {"parent": "n2", "message": {"id": "m3", "author": {"role": "assistant"}, "create_time": 1767607260.0,
    "content": {"content_type": "text", "parts": ["Take the tram to Alfama, and a boat on the Tejo."]}}}}}]"""


def main(arguments: Sequence[str] = ()) -> None:
    """Import the file named by the first argument (a sample), then ask the question that is the second."""
    question = arguments[1] if len(arguments) > 1 else QUESTION
    if arguments:
        import_and_ask(Path(arguments[0]), question)
        return
    with tempfile.TemporaryDirectory() as folder:
        sample = Path(folder) / "conversations.json"
        sample.write_text(SAMPLE, encoding="utf-8")
        import_and_ask(sample, question)


def import_and_ask(path: Path, question: str) -> None:
    """Import a file for alice; print the counts and what is found for the question."""
    with AgentMemory("alice") as memory:
        report = memory.import_file(path)
        found = memory.remember(question)
    print(f"{report.turns} turns read, {report.new_turns} of them new\n\n{question}\n{found}")


if __name__ == "__main__":
    main(sys.argv[1:])
