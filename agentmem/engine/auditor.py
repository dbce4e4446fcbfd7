"""Which operations leave a row in memory_audit_log, and what it may hold at each level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentmem.core.changes import AuditEntry, PromotionAudit
from agentmem.core.record import Record
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

    def dump_payload(self, records: Sequence[Record]) -> Any:
        """What `build_write_entry` keeps of the first 50 records at verbose; None, and no work, at other levels."""
        return (
            [record.model_dump(mode="json") for record in records[:MAX_AUDITED_IDS]]
            if self.level == "verbose"
            else None
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
