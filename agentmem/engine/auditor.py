"""Which operations leave a row in memory_audit_log, and what it may hold at each level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentmem.core.changes import AuditEntry, Change, PromotionAudit, WriteAttempt
from agentmem.core.record import Record
from agentmem.core.records import Turn
from agentmem.core.scope import GLOBAL, Scope
from agentmem.settings.settings import Settings

MEMORY_TYPES = {
    "Turn": "episodic",
    "Conversation": "episodic",
    "Fact": "semantic",
    "Entity": "semantic",
    "Edge": "semantic",
    "Goal": "semantic",
    "User": "semantic",
    **dict.fromkeys(("Tool", "ToolInvocation", "Strategy", "Procedure", "Outcome", "Schedule"), "procedural"),
}


MAX_AUDITED_IDS = 50  # of the records that a row tells of


class Auditor:
    """Makes audit rows at levels `off`, `writes`, `reads` and `verbose`; None where the level asks for no row."""

    def __init__(self, settings: Settings) -> None:
        self.level = settings.audit_level
        active = settings.public_values()
        self.thresholds: Mapping[str, Any] = {}  # what recall works with; it stands in the rows of reads
        kept = ("recall_profile", "embedder", "audit_level", "seed", "recall")
        self.config_snapshot: Mapping[str, Any] = {
            "settings": settings.fingerprint(),
            **{name: active[name] for name in kept},
        }

    @property
    def audits_reads(self) -> bool:
        """Whether reads leave rows."""
        return self.level in ("reads", "verbose")

    def build_changes_entry(
        self,
        write: WriteAttempt,
        changes: Sequence[Change],
        memory_type: str,
        *,
        latency_ms: float,
        details: Mapping[str, Any] | None,
        promotion: PromotionAudit | None,
    ) -> AuditEntry | None:
        """The row of a write: how many records its own changes touch, the first 50 ids, at verbose their content."""
        own = [change for change in changes if change.operation == write.operation]
        records = [record for change in own for record in change.upserts]
        some = records[:MAX_AUDITED_IDS]
        return self.build_write_entry(
            write.operation,
            write.scope,
            memory_type=memory_type,
            operation_id=write.operation_id,
            count=len(records) + sum(len(change.deletes) for change in own),
            latency_ms=latency_ms,
            metadata={"ids": [record.id for record in some], **(details or {})},
            payload=[_dump_payload(record) for record in some] if self.level == "verbose" else None,
            promotion=promotion,
        )

    def build_write_entry(
        self,
        operation: str,
        scope: Scope,
        *,
        memory_type: str,
        operation_id: str = "",
        count: int | None = None,
        latency_ms: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        payload: Any = None,
        error: str | None = None,
        promotion: PromotionAudit | None = None,
    ) -> AuditEntry | None:
        """The row of a mutation; `payload` is kept at verbose only."""
        if self.level == "off":
            return None
        details = dict(metadata or {})
        if self.level == "verbose" and payload is not None:
            details["payload"] = payload
        limits = {} if promotion is None or promotion.thresholds is None else {"promotion": dict(promotion.thresholds)}
        return AuditEntry(
            operation=operation,
            memory_type=memory_type,
            scope=scope,
            operation_id=operation_id,
            target_channels=(GLOBAL if promotion else scope.channel,),
            result_count=count,
            latency_ms=latency_ms,
            success=error is None,
            error_message=error,
            config_snapshot={**self.config_snapshot, **limits},
            metadata=details,
            **({} if promotion is None else promotion.columns()),
        )

    def build_system_entry(
        self, operation: str, *, latency_ms: float, metadata: Mapping[str, Any]
    ) -> AuditEntry | None:
        """The row of what an operator did to the whole store; None at level `off`."""
        if self.level == "off":
            return None
        return AuditEntry(
            operation=operation,
            memory_type="system",
            scope=None,
            latency_ms=latency_ms,
            config_snapshot=self.config_snapshot,
            metadata=metadata,
        )

    def build_read_entry(
        self,
        operation: str,
        scope: Scope,
        *,
        memory_type: str,
        query: str | None = None,
        count: int | None = None,
        latency_ms: float | None = None,
        operation_id: str = "",
        metadata: Mapping[str, Any] | None = None,
        error: str | None = None,
    ) -> AuditEntry | None:
        """The row of a read, with the query's text; None below level `reads`."""
        if not self.audits_reads:
            return None
        return AuditEntry(
            operation=operation,
            memory_type=memory_type,
            scope=scope,
            operation_id=operation_id,
            target_channels=scope.readable_channels(),
            query_text=query,
            result_count=count,
            latency_ms=latency_ms,
            success=error is None,
            error_message=error,
            config_snapshot={**self.config_snapshot, **self.thresholds},
            metadata=dict(metadata or {}),
        )


def _dump_payload(record: Record) -> Any:
    """A turn's text, else the whole record."""
    return record.content if isinstance(record, Turn) else record.model_dump(mode="json")
