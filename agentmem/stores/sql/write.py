"""The part of a write to a log that needs no lock, the same on every store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agentmem.core.changes import AuditEntry, Change
from agentmem.core.clock import Clock
from agentmem.core.lifecycle import LifecyclePolicy
from agentmem.errors import InvalidRecord
from agentmem.stores.due_updates import DEFAULT_POLICY
from agentmem.stores.write_plan import check_records
from agentmem.text.tokenizer import TextFeatures, extract_features_and_terms


class PreparedWrite:
    """The work of one `append`: `prepare` before the user's lock is taken; a store adds what is done under it.

    `hook` is called at each step, `policy` says when records are due for a job.
    """

    def __init__(
        self,
        changes: Sequence[Change],
        audit: AuditEntry | None,
        fence: int | None,
        clock: Clock,
        hook: Callable[[str], None],
        policy: LifecyclePolicy = DEFAULT_POLICY,
    ) -> None:
        self.changes = changes
        self.user_id = changes[0].scope.user_id
        self._audit = audit
        self._fence = fence
        self._clock = clock
        self._hook = hook
        self._policy = policy
        self._text_features: dict[int, tuple[TextFeatures, Mapping[str, int]]] = {}

    def prepare(self) -> None:
        """Check the records and read their texts. Raises InvalidRecord."""
        for change in self.changes:
            if change.scope.user_id != self.user_id:
                raise InvalidRecord("one write belongs to one user", field="user_id")
            check_records(self.user_id, (*change.upserts, *change.inserts_if_absent))
            for record in (*change.upserts, *change.inserts_if_absent):
                if text := record.search_text():
                    self._text_features[id(record)] = extract_features_and_terms(text)
