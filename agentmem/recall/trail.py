"""The trail that recalls leave: their audit rows, their receipts, and the questions one may ask of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from agentmem.errors import AgentMemError, NotFound, StoreUnavailable
from agentmem.events import DEBUG, WARNING, tell
from agentmem.memory import Seat
from agentmem.model.clock import Stopwatch, aware
from agentmem.model.scope import Scope, self_channel
from agentmem.recall.bundle import MemoryBundle
from agentmem.recall.kept_receipt import from_json, to_json
from agentmem.recall.layer import RecallLayer
from agentmem.recall.query import Request
from agentmem.recall.receipt import Receipt, WhyNot
from agentmem.resources import Resources


@dataclass(frozen=True)
class Trail:
    """What one recall leaves: a receipt in the process, and where the audit level asks for it a row and a kept receipt.

    What was erased while the recall was under way is told by none of them.
    """

    resources: Resources
    scope: Scope
    operation: str
    request: Request
    watch: Stopwatch
    erasures: int
    seen: int | None

    @classmethod
    async def begin(cls, resources: Resources, scope: Scope, operation: str, request: Request) -> Trail:
        """To be called before anything is read."""
        watch, erasures = Stopwatch(resources.clock), resources.erasures[scope.user_id]
        seen = (await resources.log.head(scope)).seq if resources.auditor.reads else None
        return cls(resources, scope, operation, request, watch, erasures, seen)

    def hold(self, bundle: MemoryBundle) -> None:
        """Keep the receipt in this process for a while, and tell that there was a recall."""
        resources, receipt = self.resources, bundle.receipt
        if resources.erasures[self.scope.user_id] == self.erasures:
            resources.keep_receipt(receipt.id, receipt)
        resources.timings.add("recall", receipt.milliseconds)
        tell(DEBUG, "recalled", user_id=self.scope.user_id, receipt_id=receipt.id, items=len(bundle.items),
             notices=len(bundle.notices), ms=receipt.milliseconds)  # fmt: skip

    async def reinforced(self, bundle: MemoryBundle) -> MemoryBundle:
        """Count what was delivered; where that cannot be written, the answer is given all the same, with a notice."""
        resources, receipt = self.resources, bundle.receipt
        try:
            await resources.log.touch(receipt.delivered, self.scope, receipt.id, at=resources.clock.now())
        except StoreUnavailable as error:
            return replace(bundle, notices=(*bundle.notices, f"That this was recalled could not be noted: {error}"))
        return bundle

    async def end(self, receipt: Receipt | None, *, error: str | None = None) -> None:
        """Write the row: what was delivered, from where, how long it took."""
        resources, request = self.resources, self.request
        auditor = resources.auditor
        if not auditor.reads or error == StoreUnavailable.__name__:  # to ask the log again would double the wait
            return
        details: dict[str, Any] = {}
        if receipt is not None:
            details = {
                "receipt": receipt.id, "delivered": [name for _, name in receipt.delivered],
                "cross_channel": [[*key, channel] for key, channel in receipt.elsewhere.items()],
                "trace": [[line.technique, round(line.milliseconds, 3), line.error] for line in receipt.trace],
            }  # fmt: skip
            if auditor.level == "verbose":
                details["candidates"] = receipt.as_dict()["candidates"]
        row = auditor.read(
            self.operation, self.scope.reading(request.channels), memory_type="recall", query=request.query,
            count=None if receipt is None else len(receipt.delivered), latency_ms=self.watch.milliseconds(),
            metadata=details, error=error,
        )  # fmt: skip
        if row is not None:
            await resources.log.audit([replace(row, seen=self.seen)])
            if receipt is not None:
                await self._keep(receipt)

    async def _keep(self, receipt: Receipt) -> None:
        """Keep a receipt beside its row. That this fails costs nobody an answer: the process has it for a while."""
        log, scope = self.resources.log, self.scope
        try:
            text = await asyncio.to_thread(to_json, receipt)
            await log.keep_receipt(scope, receipt.id, text, receipt.at, self.seen)
        except AgentMemError as error:
            tell(WARNING, "receipt not kept", user_id=scope.user_id, receipt_id=receipt.id, error=type(error).__name__)


@dataclass
class AuditView:
    """What was done, and why a recall answered as it did."""

    seat: Seat
    recall: RecallLayer

    async def query(
        self, *, operation: str | None = None, memory_type: str | None = None, since: datetime | None = None,
        until: datetime | None = None, session_id: str | None = None, success: bool | None = None, limit: int = 100,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Rows of memory_audit_log about this user, newest first, filtered by what is given; [] when none match.

        The view of an agent leaves out rows about the private channels of other agents. A view without an agent, which
        is the user's or an auditor's, has all rows.
        """
        agent = self.seat.scope.agent_id
        filters: dict[str, Any] = {
            "operation": operation, "memory_type": memory_type, "since": since, "until": until,
            "session_id": session_id, "success": success, "limit": limit,
            "own_channel": None if agent is None else self_channel(agent),
        }  # fmt: skip
        given = {name: value for name, value in filters.items() if value is not None}
        for name in ("since", "until"):
            if name in given:
                given[name] = aware(given[name], name)
        return await self.seat.resources.log.audit_rows(self.seat.scope, **given)

    async def receipt(self, receipt_id: str) -> Receipt:
        """The receipt of a recall: one of the last 1,000 of this process, at audit levels reads and verbose any one.

        Raises NotFound when it was neither, is past retention, or was erased with what it names.
        """
        resources, scope = self.seat.resources, self.seat.scope
        found = resources.receipts.get(receipt_id)
        if found is None and (kept := await resources.log.receipt(receipt_id, scope)) is not None:
            found = from_json(kept)
        if not isinstance(found, Receipt) or not _may_see(scope, found.scope):
            raise NotFound(
                f"no receipt {receipt_id!r} of this user; the last 1,000 recalls of a process are kept,"
                " and at audit levels reads and verbose all of them"
            )
        return found

    async def metrics(self) -> dict[str, object]:
        """What each technique took and gave in the recalls of this process, of all its users, without any text."""
        return self.recall.metrics.as_dict()

    async def why_not(self, receipt_id: str, record_id: str) -> WhyNot:
        """Why a record was not delivered: not visible, found too weak (ranks and scores by list), or cut."""
        return await self.recall.why_not(await self.receipt(receipt_id), await self.seat.resolve_id(record_id))

    async def replay(self, receipt_id: str) -> MemoryBundle:
        """The bundle that a recall delivered, rendered again from its receipt with the records as they were then."""
        return await self.recall.replay(await self.receipt(receipt_id))


def _may_see(scope: Scope, seen: Scope) -> bool:
    """Whether what was recalled from one place may be told in another: not what an agent keeps to itself."""
    private = {channel for channel in seen.readable() if channel.startswith("_self_")}
    return seen.user_id == scope.user_id and private <= set(scope.readable())
