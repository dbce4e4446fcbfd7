"""What an audit row may hold at each level."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from agentmem import Fact
from agentmem.core.changes import PromotionAudit, WriteAttempt
from agentmem.core.scope import Scope
from agentmem.engine.auditor import Auditor
from agentmem.settings.settings import load_settings

SCOPE = Scope("alice", "roof", agent_id="bot")


def auditor(level: str) -> Auditor:
    return Auditor(load_settings(embedder="hash", audit_level=level))


@pytest.mark.parametrize(
    "level, writes, reads",
    [("off", False, False), ("writes", True, False), ("reads", True, True), ("verbose", True, True)],
)
def test_which_operations_leave_a_row(level: str, writes: bool, reads: bool) -> None:
    made = auditor(level)
    assert (made.build_write_entry("store", SCOPE, memory_type="episodic") is not None) is writes
    assert (made.build_read_entry("retrieve", SCOPE, memory_type="recall", query="x") is not None) is reads
    assert made.audits_reads is reads


def test_payloads_are_kept_at_verbose_only() -> None:
    write = WriteAttempt(SCOPE, "x", "operation", "change", "", datetime.now(UTC))
    facts = [Fact(id=str(number), claim=f"claim {number}") for number in range(60)]
    changes, told = [write.build_change(*facts), replace(write, operation="y").build_change(*facts)], {"n": 1}
    for level, length in (("reads", 0), ("verbose", 50)):
        row = auditor(level).build_changes_entry(
            write, changes, "semantic", latency_ms=1.0, details=told, promotion=None
        )
        assert row is not None
        assert (row.result_count, len(row.metadata["ids"]), row.metadata["n"]) == (60, 50, 1)
        assert len(row.metadata.get("payload", ())) == length
    for level, held in (("writes", False), ("verbose", True)):
        row = auditor(level).build_write_entry(
            "x", SCOPE, memory_type="semantic", payload=["secret"], metadata={"n": 1}
        )
        assert row is not None
        assert ("payload" in row.metadata) is held
        assert row.metadata["n"] == 1


def test_a_row_says_who_where_and_under_which_settings() -> None:
    made = auditor("reads")
    made.thresholds = {"ranking": {"pool": 50}}
    write = made.build_write_entry("store", SCOPE, memory_type="episodic", error="Conflict", count=0)
    read = made.build_read_entry("retrieve", SCOPE, memory_type="recall", query="x", count=2)
    assert write is not None
    assert read is not None
    assert (write.target_channels, read.target_channels) == (("roof",), ("roof", "_self_bot", "_swarm", "_global"))
    assert (write.success, write.error_message, write.query_text) == (False, "Conflict", None)
    assert (read.success, read.error_message, read.query_text) == (True, None, "x")
    assert set(write.config_snapshot) >= {"settings", "embedder", "audit_level", "recall_profile", "recall", "seed"}
    assert read.config_snapshot == {**write.config_snapshot, "ranking": {"pool": 50}}


def test_a_promotion_fills_its_columns() -> None:
    row = auditor("writes").build_write_entry(
        "promote", SCOPE, memory_type="semantic", promotion=PromotionAudit("roof", 0.9, 3, 2)
    )
    assert row is not None
    assert row.target_channels == ("_global",)
    assert (row.promoted_from_channel, row.promotion_confidence) == ("roof", 0.9)
    assert (row.promotion_access_count, row.promotion_conversation_count) == (3, 2)
