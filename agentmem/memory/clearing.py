"""Clearing a channel: what `forget` does to one id, done to all that one channel holds."""

from __future__ import annotations

from dataclasses import dataclass

from agentmem.errors import InvalidRecord
from agentmem.memory.erasure import Erasure
from agentmem.model.records import KINDS, Record, Status
from agentmem.stores import Where

MAX_CHANNEL_RECORDS = 10_000  # records


@dataclass
class ChannelErasure(Erasure):
    """Takes the name of a channel for an id: every record in it is meant, but for the user's profile."""

    hard: bool = False

    async def _find_targets(self, record_id: str, kind: str | None = None) -> list[Record]:
        live = tuple(status.value for status in Status if status is not Status.FORGOTTEN)
        where = Where(
            kinds=tuple(name for name in KINDS if name != "User"), channels=(record_id,),
            status=None if self.hard else live,
        )  # fmt: skip
        found = list[Record]()
        async for page in self._context.iter_pages(where):
            found += page
            if len(found) > MAX_CHANNEL_RECORDS:
                raise InvalidRecord(
                    f"channel {record_id!r} holds more than {MAX_CHANNEL_RECORDS:,} records, too many for one "
                    f"operation; "
                    "delete its conversations first",
                    field="channel",
                )
        return found

    async def _resolve_kind(self, record_id: str) -> str:
        return "Turn"
