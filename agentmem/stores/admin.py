"""The store's face for upkeep: the raw journal, copies, sizes, repairs. Memory itself never calls it.

Times are microseconds since 1970 here, because what is exported must come back to the microsecond.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from agentmem.core.record import Key
from agentmem.core.scope import Operator, Scope


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check looked at. `fix` says what to do about a warning or an error; empty when all is well."""

    level: Literal["ok", "warning", "error"]
    check: str
    detail: str
    fix: str = ""


DEAD_LETTER_ATTEMPTS = 3
"""Tries after which what keeps failing is passed over: before, it is only waiting for the next one."""


WORDS_FIX = "run: agentmem admin rebuild --what words --all-users"


def format_other_tokenizer(users: int) -> str:
    """What to say of users whose words were read by another tokenizer, by an upgrade of ours or of its stemmer."""
    return f"words of {users:,} users were read by another version's tokenizer; some queries find them less well"


def requeue_hint(names: Collection[str]) -> str:
    """What to do about things that were passed over, by the names they were parked under."""
    kinds = sorted({name.partition("/")[0] for name in names})
    steps = [
        "agentmem consolidate --retry-parked, or with --llm none to read by rules"
        if kind == "consolidate"
        else f"agentmem admin rebuild --what {kind} --all-users"
        for kind in kinds
    ]
    return "run: " + "; ".join(steps)


# What a check counts, by the name of its statement: each should find nothing.
INVARIANTS = {
    "journal_gaps": "the journal has gaps or does not end at its head",
    "changes_of_nobody": "changes without a user",
    "versions_of_nothing": "versions without a change",
    "records_without_version": "current records without their version",
    "records_out_of_date": "current records older than their last version",
    "records_missing": "records that should be current and are not",
    "slots_shared": "slots that two records share",
    "records_in_two_slots": "records in two slots",
    "slots_beyond": "slots beyond the user's counter",
    "erased_but_kept": "erased records that are still there",
}


class RawVersion(NamedTuple):
    """One row of the journal: an after-image as JSON text, or None where the record left; `erased`: nothing is kept."""

    slot: int
    kind: str
    id: str
    channel: str
    recorded_at: int
    format: int
    record: str | None
    erased: bool


class RawChange(NamedTuple):
    """One change with all that the journal holds of it; `payload` is the fingerprint of the arguments as given."""

    seq: int
    change_id: str
    operation_id: str
    operation: str
    actor: str
    cause: str
    payload: str
    at: int
    versions: tuple[RawVersion, ...]


class RawUsage(NamedTuple):
    """How a record was used, to the microsecond."""

    kind: str
    id: str
    access_count: int
    use_count: int
    last_accessed: int | None
    strength: float
    conversations: tuple[str, ...]
    review_priority: float
    last_review_at: int | None
    review_count: int
    cross_domain_count: int
    due_at: int | None
    due_for: str = ""


class JournalCounters(NamedTuple):
    """How far a user's journal goes: last `seq`, next free ordinal, erasures so far, and the latest record time."""

    head: int
    slots: int
    erasures: int
    last_at: int


class ProjectionLag(NamedTuple):
    """A user whose projection is behind, and by how many changes; `lag` is negative when it is ahead of the log."""

    user_id: str
    projection: str
    lag: int


class StoreAdmin(Protocol):
    """What a backend offers for looking after it."""

    async def journal_counters(self, scope: Scope) -> JournalCounters:
        """All zero for a user never seen."""
        ...

    async def raw_changes(self, scope: Scope, after_seq: int, limit: int) -> list[RawChange]:
        """The journal after a position as it is stored, in `seq` order."""
        ...

    async def raw_usage(self, scope: Scope, after: tuple[str, str], limit: int) -> list[RawUsage]:
        """Usage rows after a (kind, id), in that order."""
        ...

    async def import_changes(self, scope: Scope, changes: Sequence[RawChange]) -> None:
        """Put raw changes back, with positions, ordinals, times and ids as they were, in one transaction.

        Current records, words and graph follow. They must continue the user's journal without a gap, otherwise
        Conflict; a record that does not fit is InvalidRecord. Nothing is written then.
        """
        ...

    async def import_usage(self, scope: Scope, rows: Sequence[RawUsage]) -> None: ...

    async def set_counters(self, scope: Scope, counters: JournalCounters) -> None:
        """Set the counters of a user whose journal was put back whole; Conflict when it ends elsewhere.

        Records that fade and for which no moment was put back are due at once, so that a job looks at them.
        """
        ...

    async def rebuild_terms(self, scope: Scope) -> int:
        """Make the user's word index again from current records; how many records it holds."""
        ...

    async def requeue_dead_letters(self, projection: str, scope: Scope) -> int:
        """Forget which changes of the user were parked, so that they are tried again; how many those were."""
        ...

    async def lagging_projections(
        self, projections: Collection[str], operator: Operator, limit: int = 100
    ) -> list[ProjectionLag]:
        """Users of whom a projection is not exactly at the head of the journal, furthest behind first."""
        ...

    async def heads(
        self, operator: Operator, users: Collection[str] | None = None, *, after: str = "", limit: int = 1000
    ) -> dict[str, int]:
        """The last journal position of these users, or (None) of all that ever wrote, erased ones too, by name.

        At most `limit` of them, those after `after`; users who never wrote are left out.
        """
        ...

    async def operations_at(self, operator: Operator, seqs: Mapping[str, int]) -> dict[str, str]:
        """The operation of the change at a position of each of these users' journals; those without one left out."""
        ...

    async def tombstones(self, scope: Scope, after: Key = ("", ""), limit: int = 1000) -> dict[Key, datetime]:
        """A page of the user's tombstones, those after a key by kind and id, with when each was erased last."""
        ...

    async def switch_embedder(self, identity: str, max_lag: int = 0) -> bool:
        """Make an embedder the recorded one, when its vectors lack at most `max_lag` changes of all users; else False.

        One transaction: no write comes between the look and the switch. Conflict when another embedder is being built;
        StoreUnavailable when a server's writers do not make way within seconds.
        """
        ...

    async def start_embedder(self, identity: str) -> None:
        """Record which embedder is being built beside the one in use, in place of any other."""
        ...

    async def drop_embedders(self, keep: Collection[str]) -> list[str]:
        """Take out the vectors of every embedder but these; returns the identities taken out."""
        ...

    async def counts(self, scope: Scope) -> Mapping[str, Mapping[str, int]]:
        """How many of what the user has: by kind, status and channel, words, passages by embedder."""
        ...

    async def sizes(self) -> dict[str, int]:
        """Bytes on disk, by part of the store."""
        ...

    async def compact(self) -> bool:
        """Give unused space back to the file system; False when a reader kept the write-ahead log from being cut.

        A server does so by itself: True at once.
        """
        ...

    async def copy_to(self, path: Path) -> None:
        """Copy the whole store, consistent, while others read and write it. ConfigError where it is a server's."""
        ...
