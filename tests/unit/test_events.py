"""What the package logs: ids, counts and times with the caller's request id, and no text of a memory."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import structlog

from agentmem import AgentMemory, AsyncAgentMemory


async def test_events_carry_the_request_id_and_no_text(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="agentmem")
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        with structlog.contextvars.bound_contextvars(request_id="r-17"):
            await memory.store_turn("The heron is asleep.")
            bundle = await memory.remember("what does the heron do?")
    stored, recalled = (json.loads(record.getMessage()) for record in caplog.records if record.name == "agentmem")
    assert (stored["event"], stored["user_id"], stored["changes"]) == ("stored", "ann", 1)
    assert (recalled["event"], recalled["receipt_id"]) == ("recalled", bundle.receipt.id)
    assert {stored["request_id"], recalled["request_id"]} == {"r-17"}
    assert "heron" not in caplog.text


def test_nothing_is_said_unless_somebody_listens(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with AgentMemory("ann", home=home, embedder="hash") as memory:
        memory.store_turn("The heron is asleep.")
        memory.remember("heron")
    assert capfd.readouterr() == ("", "")
