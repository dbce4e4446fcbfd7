"""The values of lists that grow at their end, kept in the process: an agent reads its session whole at each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentmem.core.lru import LruDict
from agentmem.core.scope import Scope
from agentmem.stores.protocols import LogStore
from agentmem.stores.values import Head, Where

MAX_LISTS = 64  # kept in a process, by the last read
MAX_CHARS = 1_000_000  # of a list that is kept

ListKey = tuple[str, str, str]  # user, channel and path


@dataclass(frozen=True, slots=True)
class CachedList:
    """The values of a list as JSON, parted by commas, how many they are, and where the journal was then."""

    text: str
    count: int
    head: Head

    def is_of(self, head: Head) -> bool:
        """Whether the journal that now stands at `head` once stood where this was read, with nothing erased since."""
        return head.erasures == self.head.erasures and head.operation_id_after == self.head.operation_id


class ValueCache:
    """Reads lists, and of those that it knows only what was added. Each read checks what is kept against the log."""

    def __init__(self) -> None:
        self._lists: LruDict[ListKey, CachedList] = LruDict(MAX_LISTS)

    def forget(self, user_id: str) -> None:
        """Drop the lists of a user."""
        for key in [key for key in self._lists if key[0] == user_id]:
            del self._lists[key]

    async def read(self, log: LogStore, scope: Scope, key: ListKey, where: Where, limit: int) -> str:
        """All values that match, oldest first, as the text of a JSON list."""
        known = self._lists.get(key)
        head = await log.head(scope, 0 if known is None else known.head.seq)
        if known is not None and known.is_of(head):
            if head.seq != known.head.seq:
                known = await self._read_added(log, scope, replace(known, head=head), known.head.seq, where, limit)
        else:
            known = None
        if known is None:
            known = _join("", 0, [text for _, text in await log.find_field(scope, where, "value", limit=limit)], head)
        if len(known.text) <= MAX_CHARS:
            self._lists[key] = known
        else:
            self._lists.pop(key, None)
        return f"[{known.text}]"

    async def _read_added(
        self, log: LogStore, scope: Scope, known: CachedList, since: int, where: Where, limit: int
    ) -> CachedList | None:
        """The list with what was added behind a position; None where something else happened to it."""
        found = await log.find_field(scope, replace(where, after=(since + 1, "", "")), "value", limit=limit)
        added = [text for _, text in found]
        count = await log.count(scope, where)
        return _join(known.text, known.count, added, known.head) if count == known.count + len(added) else None


def _join(text: str, count: int, added: Sequence[str], head: Head) -> CachedList:
    return CachedList(",".join([*([text] if count else []), *added]), count + len(added), head)
