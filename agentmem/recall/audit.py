"""The trail that recalls leave: their audit rows, their receipts, and the questions one may ask of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from agentmem.core.arguments import check_arguments
from agentmem.core.clock import Stopwatch, to_utc
from agentmem.core.record import Key, Record
from agentmem.core.scope import Scope, check_identifier, self_channel
from agentmem.core.telemetry import DEBUG, WARNING, log_event
from agentmem.engine.engine import Engine
from agentmem.errors import AgentMemError, NotFound, StoreUnavailable
from agentmem.memory.context import MemoryContext
from agentmem.memory.evidence import record_access, track_shown
from agentmem.memory.semantic.belief_digest import read_digest
from agentmem.recall.bundle import MemoryBundle
from agentmem.recall.context import Context
from agentmem.recall.pipeline import RecallLayer
from agentmem.recall.receipt import Receipt, WhyNot, from_json, to_json
from agentmem.recall.request import RecallRequest


@dataclass(frozen=True)
class RecallAudit:
    """What one recall leaves: a receipt in the process, and where the audit level asks for it a row and a kept receipt.

    What was erased while the recall was under way is told by none of them.
    """

    engine: Engine
    scope: Scope
    operation: str
    request: RecallRequest
    stopwatch: Stopwatch
    erasure_count: int
    seen_seq: int | None

    @classmethod
    async def begin(cls, engine: Engine, scope: Scope, operation: str, request: RecallRequest) -> RecallAudit:
        """To be called before anything is read."""
        watch, erasures = Stopwatch(engine.clock), engine.erasure_counts[scope.user_id]
        seen = (await engine.log.head(scope)).seq if engine.auditor.audits_reads else None
        return cls(engine, scope, operation, request, watch, erasures, seen)

    def publish(self, bundle: MemoryBundle) -> None:
        """Keep the receipt in this process for a while, and tell that there was a recall."""
        engine, receipt = self.engine, bundle.receipt
        if engine.erasure_counts[self.scope.user_id] == self.erasure_count:
            engine.cache_receipt(receipt.id, receipt)
        engine.latency_stats.add("recall", receipt.milliseconds)
        log_event(
            DEBUG,
            "recalled",
            user_id=self.scope.user_id,
            receipt_id=receipt.id,
            items=len(bundle.items),
            notices=len(bundle.notices),
            ms=receipt.milliseconds,
        )

    def publish_context(self, packed: Context) -> None:
        """Count how long a context took. The first strategy that it tells counts as found, as in a recall."""
        self.engine.latency_stats.add("recall", self.stopwatch.milliseconds())
        if any(record.kind == "Strategy" for record in packed.shown):
            from agentmem.memory.procedural.strategies import put_failed_last, remember_suggestion

            remember_suggestion(self.engine, self.scope, put_failed_last(packed.shown)[0].id)

    async def reinforce(
        self, fitting: Sequence[Key], shown: Iterable[Record], values: Iterable[tuple[Key, str]] = ()
    ) -> str:
        """Count what fits as accessed, and wait for what the answer says of what was shown.

        `values` are those of beliefs that were told besides, with the keys of their facts. Where that cannot be written
        the answer is given all the same: the notice that tells so, else "".
        """
        track_shown(self.engine, self.scope, self.request.query, shown, values)
        try:
            await record_access(self.engine, self.scope, fitting)
        except StoreUnavailable as error:
            return f"That this was recalled could not be noted: {error}"
        return ""

    async def write_row(self, receipt: Receipt | None, *, shown: Iterable[str] = (), error: str | None = None) -> None:
        """Write the row: what was delivered, from where, how long it took; of a context the ids of what it shows."""
        engine, request = self.engine, self.request
        auditor = engine.auditor
        if not auditor.audits_reads or error == StoreUnavailable.__name__:  # to ask the log again would double the wait
            return
        ids = list(dict.fromkeys(shown))
        details: dict[str, Any] = {"shown": ids} if ids else {}
        if receipt is not None:
            details = {
                "receipt": receipt.id,
                "delivered": [name for _, name in receipt.delivered],
                "cross_channel": [[*key, channel] for key, channel in receipt.elsewhere.items()],
                "trace": [[line.technique, round(line.milliseconds, 3), line.error] for line in receipt.trace],
            }
            if auditor.level == "verbose":
                details["candidates"] = receipt.as_dict()["candidates"]
        row = auditor.build_read_entry(
            self.operation,
            self.scope.with_channels(request.channels),
            memory_type="recall",
            query=request.search_text,
            count=len(receipt.delivered) if receipt else None if error else len(ids),
            latency_ms=self.stopwatch.milliseconds(),
            metadata=details,
            error=error,
        )
        if row is None:
            return
        if await engine.write_read_audit(replace(row, seen_seq=self.seen_seq)) and receipt is not None:
            await self._write_receipt(receipt)

    async def _write_receipt(self, receipt: Receipt) -> None:
        """Keep a receipt beside its row. That this fails costs nobody an answer: the process has it for a while."""
        log, scope = self.engine.log, self.scope
        try:
            text = await asyncio.to_thread(to_json, receipt)
            await log.write_receipt(scope, receipt.id, text, receipt.at, self.seen_seq)
        except AgentMemError as error:
            log_event(
                WARNING, "receipt not kept", user_id=scope.user_id, receipt_id=receipt.id, error=type(error).__name__
            )


@check_arguments
@dataclass
class AuditView:
    """What was done, and why a recall answered as it did."""

    context: MemoryContext
    recall: RecallLayer

    async def query(
        self,
        *,
        operation: str | None = None,
        memory_type: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        session_id: str | None = None,
        success: bool | None = None,
        limit: int = 100,
    ) -> list[dict[str, Any]]:
        """Rows of memory_audit_log about this user, newest first, filtered by what is given; [] when none match.

        The view of an agent leaves out rows about the private channels of other agents. A view without an agent, which
        is the user's or an auditor's, has all rows.
        """
        agent = self.context.scope.agent_id
        filters: dict[str, Any] = {
            "operation": operation,
            "memory_type": memory_type,
            "since": since,
            "until": until,
            "session_id": session_id,
            "success": success,
            "limit": limit,
            "own_channel": None if agent is None else self_channel(agent),
        }
        given = {name: value for name, value in filters.items() if value is not None}
        for name in ("since", "until"):
            if name in given:
                given[name] = to_utc(given[name], name)
        return await self.context.engine.log.audit_rows(self.context.scope, **given)

    async def receipt(self, receipt_id: str) -> Receipt:
        """The receipt of a recall: one of the last 1,000 of this process, at audit levels reads and verbose any one.

        Raises NotFound when it was neither, is past retention, was erased with what it names, or is of a recall that
        read channels which this scope does not.
        """
        engine, scope = self.context.engine, self.context.scope
        found = engine.receipts.get(check_identifier(receipt_id, "receipt_id"))
        if found is None and (kept := await engine.log.find_receipt(receipt_id, scope)) is not None:
            found = from_json(kept)
        if not isinstance(found, Receipt) or not _may_read(scope, found):
            raise NotFound(
                f"no receipt {receipt_id!r} of these channels; the last 1,000 recalls of a process are kept,"
                " and at audit levels reads and verbose all of them"
            )
        return found

    async def metrics(self) -> dict[str, object]:
        """What each technique took and gave in the recalls of this process, of all its users, without any text."""
        return self.recall.metrics.as_dict()

    async def why_not(self, receipt_id: str, record_id: str) -> WhyNot:
        """Why a record was not delivered: not visible, found too weak (ranks and scores by list), or cut."""
        return await self.recall.why_not(await self.receipt(receipt_id), await self.context.resolve_id(record_id))

    async def replay(self, receipt_id: str) -> MemoryBundle:
        """The bundle that a recall delivered, rendered again from its receipt with the records as they were then."""
        receipt = await self.receipt(receipt_id)
        scope = self.context.scope.with_channels(receipt.request.channels)
        known = replace(self.context, scope=scope, is_facade=False)
        return await self.recall.replay(receipt, (await read_digest(known, receipt.at, receipt.at)).standings)


def _may_read(scope: Scope, receipt: Receipt) -> bool:
    """Whether all that a recall read may be read in this scope: its query and its records are of these channels."""
    read = receipt.scope.with_channels(receipt.request.channels).readable_channels()
    return receipt.scope.user_id == scope.user_id and set(read) <= set(scope.readable_channels())
