"""Checks of a store that a file and a server answer alike: each is a question to which a healthy store has no rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, NamedTuple

from agentmem.core.clock import add_time, from_micros, to_micros
from agentmem.core.scope import SYSTEM_USER, Operator
from agentmem.stores.admin import (
    DEAD_LETTER_ATTEMPTS,
    INVARIANTS,
    WORDS_FIX,
    Finding,
    format_other_tokenizer,
    requeue_hint,
)
from agentmem.stores.sql.connection import Principal, Row
from agentmem.stores.vectors.search import projection_name
from agentmem.text.tokenizer import tokenizer_fingerprint

DOCTOR_OPERATOR = Operator("doctor")
LONG_LEASE_SECONDS = 3600.0
MAX_FUTURE_OFFSET = timedelta(minutes=5)
MAX_EXAMPLES = 20  # rows that a statement returns of what is wrong
MAX_SHOWN_TURNS = 5
# the sample whose edges are made again, and how large a user in it may be
EDGE_SAMPLE_USERS, MAX_EDGE_SAMPLE_RECORDS = 20, 20_000
GRAPH_FIX = "run: agentmem admin rebuild --what graph --all-users"


class ReaderLimits(NamedTuple):
    """The name of the reader without a model, and how many characters it and a model read of one turn."""

    rules: str
    max_rule_chars: int
    max_model_chars: int


@dataclass
class SqlDiagnostics(ABC):
    """One look at one store. `findings` are in the order of the checks; `meta` is what the store records of itself."""

    now: datetime
    readers: ReaderLimits | None = None
    findings: list[Finding] = field(default_factory=list)
    meta: dict[str, str] = field(default_factory=dict)

    restore_fix: ClassVar[str]
    lag_fix: ClassVar[str]
    future_check: ClassVar[str]

    @abstractmethod
    async def _rows(self, statement: str, principal: Principal = SYSTEM_USER, /, **values: Any) -> list[Row]:
        """The rows of a statement of `diagnostics.sql`."""

    @abstractmethod
    async def _count_wrong_edges(self, user_id: str) -> int:
        """How many edges of a user differ from those that the records state."""

    def add_finding(
        self, check: str, detail: str, fix: str = "", *, level: Literal["ok", "warning", "error"] = "ok"
    ) -> None:
        """Note a finding."""
        self.findings.append(Finding(level, check, detail, fix))

    async def _check_store_id(self) -> None:
        self.meta = dict(await self._rows("meta"))
        if store_id := self.meta.get("store_id"):
            self.add_finding("store_id", f"{store_id}, opened {self.meta.get('openings', '?')} times")
        else:
            self.add_finding("store_id", "the store has no id", self.restore_fix, level="error")

    async def _check_invariants(self) -> None:
        wrong = 0
        for name, problem in INVARIANTS.items():
            if rows := await self._rows(name, DOCTOR_OPERATOR):
                wrong += 1
                count = f"{len(rows)}{' or more' if len(rows) == MAX_EXAMPLES else ''}"
                fix = "report this with the program's version; then " + self.restore_fix
                detail = f"{problem}: {count}, such as {format_examples(rows)}"
                self.add_finding("invariants", detail, fix, level="error")
        if not wrong:
            ((users,),) = await self._rows("user_count", DOCTOR_OPERATOR)
            self.add_finding("invariants", f"journal, versions, records and slots agree for {users:,} users")

    async def _check_lag(self) -> None:
        for identity in (self.meta[name] for name in ("embedder", "embedder_next") if self.meta.get(name)):
            projection = projection_name(identity)
            behind = await self._rows("behind", DOCTOR_OPERATOR, projection=projection)
            ahead = await self._rows("ahead", DOCTOR_OPERATOR, projection=projection)
            if ahead:
                examples = format_examples(row[:2] for row in ahead)
                detail = f"{projection} is ahead of the log for {ahead[0][2]:,} users: {examples}"
                self.add_finding("lag", detail, "run: agentmem admin rebuild --what vectors --all-users", level="error")
            if behind:
                _, _, users, changes = behind[0]
                examples = format_examples(row[:2] for row in behind)
                detail = f"{projection} lacks {changes:,} changes of {users:,} users: {examples}"
                self.add_finding("lag", detail, self.lag_fix, level="warning")
            if not (ahead or behind):
                self.add_finding("lag", f"{projection} is complete")

        if cleared := await self._rows("cleared_graphs", DOCTOR_OPERATOR):
            detail = f"the graph was cleared and not made again: {format_examples(cleared)}"
            self.add_finding("lag", detail, GRAPH_FIX, level="error")

    async def _check_graph(self) -> None:
        users = await self._rows("users", DOCTOR_OPERATOR)
        small = [user_id for user_id, ordinals in users if ordinals <= MAX_EDGE_SAMPLE_RECORDS]
        sample = small[:: max(1, -(-len(small) // EDGE_SAMPLE_USERS))]
        wrong = [(user_id, count) for user_id in sample if (count := await self._count_wrong_edges(user_id))]
        if wrong:
            detail = f"edges differ from the records: {format_examples(wrong)}"
            self.add_finding("graph", detail, GRAPH_FIX, level="error")
        else:
            self.add_finding("graph", f"edges agree with the records ({len(sample)} users looked at)")

    async def _check_parked(self) -> None:
        if found := await self._rows("dead_letters", DOCTOR_OPERATOR, attempts=DEAD_LETTER_ATTEMPTS):
            examples = format_examples(row[:3] for row in found)
            detail = f"{found[0][4]:,} changes were passed over: {examples}; {found[0][3]}"
            self.add_finding("parked", detail, requeue_hint([row[0] for row in found]), level="warning")
        else:
            self.add_finding("parked", "no change was passed over")

    async def _find_other_tokenizer(self) -> bool:
        """Whether words were read by another tokenizer, as a finding."""
        ((users,),) = await self._rows("other_tokenizer", DOCTOR_OPERATOR, tokenizer=tokenizer_fingerprint())
        if users:
            self.add_finding("words", format_other_tokenizer(users), WORDS_FIX, level="warning")
        return bool(users)

    async def _check_future(self) -> None:
        until = to_micros(add_time(self.now, MAX_FUTURE_OFFSET))
        if found := await self._rows("ahead_of_time", DOCTOR_OPERATOR, until=until):
            user_id, last, users = found[0]
            detail = f"{users:,} users were written to in the future, {user_id} at {from_micros(last).isoformat()}"
            fix = "set the clock of what wrote it; record time goes on from there"
            self.add_finding(self.future_check, detail, fix, level="warning")
        else:
            self.add_finding(self.future_check, "no record is from the future")

    async def _check_leases(self) -> None:
        if found := await self._rows("long_leases", seconds=LONG_LEASE_SECONDS):
            detail = "; ".join(f"{name} is held by {owner} for {left:,} s more" for name, owner, left in found)
            fix = "if that process is gone, the lease ends by itself then"
            self.add_finding("leases", detail, fix, level="warning")
        else:
            self.add_finding("leases", "none is held for long")

    async def _check_reading(self) -> None:
        """Find turns longer than what their reader, which their gloss names, reads of one."""
        if self.readers is None:
            return
        found = await self._rows("unread_ends", DOCTOR_OPERATOR, **self.readers._asdict())
        if not found:
            self.add_finding("reading", "no turn was read only in part")
            return
        named = ", ".join(f"{turn} of {user}" for user, turn, *_ in found[:MAX_SHOWN_TURNS])
        count = found[0][3]
        detail = f"turns read only in part: {count:,} ({named}{' …' * (count > MAX_SHOWN_TURNS)})"
        fix = "store the rest as turns of its own"
        if any(row[2] for row in found):
            most = f"{self.readers.max_model_chars:,} characters"
            fix = f"set a model, which reads {most}, and run: agentmem consolidate --reread"
        self.add_finding("reading", detail, fix, level="warning")


def format_examples(rows: Iterable[Sequence[Any]]) -> str:
    """The first three rows in a line."""
    return "; ".join(" ".join(map(str, row)) for row in list(rows)[:3])
