"""The part of a write to a log that needs no lock, the same on every store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agentmem.errors import InvalidRecord
from agentmem.model.changes import Audit, Change
from agentmem.model.clock import Clock
from agentmem.model.dues import Laws
from agentmem.stores.draft import check_records
from agentmem.stores.fading import DEFAULT
from agentmem.text.features import Features, read_words


class Appending:
    """The work of one `append`: `prepare` before the user's lock is taken; a store adds what is done under it.

    `hook` is told each step, `laws` say when records are due for a job.
    """

    def __init__(
        self, changes: Sequence[Change], audit: Audit | None, fence: int | None, clock: Clock,
        hook: Callable[[str], None], laws: Laws = DEFAULT,
    ) -> None:  # fmt: skip
        self.changes = changes
        self.user_id = changes[0].scope.user_id
        self._audit = audit
        self._fence = fence
        self._clock = clock
        self._hook = hook
        self._laws = laws
        self._read: dict[int, tuple[Features, Mapping[str, int]]] = {}

    def prepare(self) -> None:
        """Check the records and read their texts. Raises InvalidRecord."""
        for change in self.changes:
            if change.scope.user_id != self.user_id:
                raise InvalidRecord("one write belongs to one user", field="user_id")
            check_records(self.user_id, (*change.puts, *change.ensures))
            for record in (*change.puts, *change.ensures):
                if text := record.searchable():
                    self._read[id(record)] = read_words(text)
