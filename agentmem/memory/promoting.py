"""Promotion: a fading memory is kept for long, and what a project knows well is made known in every channel."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agentmem.errors import AgentMemError, Conflict, InvalidRecord, NotFound
from agentmem.events import WARNING, tell
from agentmem.memory import first_of
from agentmem.memory.facts import Facts, holds, with_sources
from agentmem.memory.vault import Kept, note_of, remove_notes, write_note
from agentmem.model.changes import Change, Promotion, Write, fingerprint
from agentmem.model.records import Entity, Fact, Status
from agentmem.model.scope import GLOBAL
from agentmem.stores import Usage

LONG, EVERYWHERE = "long", "global"
TARGETS = (LONG, EVERYWHERE)


@dataclass(frozen=True, slots=True)
class Promoted:
    """A promotion: the fact as it stands now, and its `copy` where it was made known in every channel.

    `operation_id` is "" where nothing was left to do. `note` says what became of the page in the vault, where that is
    worth telling.
    """

    fact: Fact
    copy: Fact | None = None
    operation_id: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Ruling:
    """Who decides on a promotion: the thresholds of a job, and the token of its lease; nothing for a person."""

    thresholds: Mapping[str, Any] | None = None
    fence: int | None = None


BY_HAND = Ruling()


@dataclass
class Promoting(Facts):
    """Promoting facts."""

    async def promote_to_global(self, fact_id: str, reason: str, *, idempotency_key: str | None = None) -> Fact:
        """Make a project's fact known in every channel and return its copy in `_global`, linked to the original.

        Where the claim stands there already, that fact gains the sources and is returned. Promoted before, nothing
        changes while the copy holds. InvalidRecord for facts of private and shared channels (`_self_…`, `_swarm`,
        `_global`), and for one that holds no longer.
        """
        done = await self.spread(fact_id, reason, key=idempotency_key)
        assert done.copy is not None
        return done.copy

    async def spread(
        self, fact_id: str, reason: str, *, key: str | None = None, ruling: Ruling = BY_HAND
    ) -> Promoted:  # fmt: skip
        """See `promote_to_global`; by a person or by a job."""
        old = await self._current(fact_id)
        if old.channel.startswith("_"):
            raise InvalidRecord(f"fact_id: a fact of channel {old.channel} cannot be promoted", field="fact_id")

        async def make(write: Write) -> Change | None:
            fact = await self._current(fact_id)
            if fact.confidence < (ruling.thresholds or {}).get("confidence", 0.0):
                raise Conflict(f"fact {fact_id!r} is less sure than when it was looked at")
            if (copy := await self._copied(fact)) is not None and key is None:
                found[:] = [copy, fact]
                return None
            return await self._spreading(write, fact, reason)

        found: list[Fact] = []
        used = (await self.seat.resources.log.usage([old.key], self.seat.scope)).get(old.key, Usage("Fact", old.id))
        entry = await self.seat.resources.write(
            self.seat.scope, "promote", make, kind="Fact", key=key, payload=fingerprint(id=fact_id, reason=reason),
            details={"reason": reason}, fence=ruling.fence, promotion=Promotion(
                old.channel, old.confidence, used.access_count, used.conversations, ruling.thresholds
            ),
        )  # fmt: skip
        if entry is not None:
            found = [stored.record for stored in entry.puts if isinstance(stored.record, Fact)]
        if len(found) < 2:
            raise NotFound("this write was done before and its Fact erased since")
        return Promoted(found[1], found[0], "" if entry is None else entry.operation_id)

    async def _copied(self, fact: Fact) -> Fact | None:
        """The copy in `_global`, if it stands there."""
        if not fact.promoted_to:
            return None
        found = await self.seat.resources.log.get("Fact", [fact.promoted_to], self.seat.scope)
        return next((copy for copy in found if isinstance(copy, Fact) and copy.superseded_at is None), None)

    async def _spreading(self, write: Write, fact: Fact, reason: str) -> Change:
        """The Change that makes a fact known everywhere: the copy comes first, the original second."""
        if not holds(fact, write.now):
            raise InvalidRecord(f"fact_id: fact {fact.id!r} does not hold any more", field="fact_id")
        alone: dict[str, Any] = {
            "id": self.seat.resources.ids.new(), "channel": GLOBAL, "status": Status.ACTIVE, "tier": LONG,
            "promoted_from": fact.id, "promoted_to": None, "supersedes": None, "superseded_by": None, "vault_path": "",
            "reason": "",
        }  # fmt: skip
        copy = fact.model_copy(update=alone)
        expects = {fact.key: fact.seq}
        if (known := await self._same(copy)) is not None:
            copy = with_sources(known, fact)
            expects[known.key] = known.seq
        marked = fact.model_copy(
            update={"status": Status.PROMOTED, "tier": LONG, "promoted_to": copy.id, "reason": reason}
        )
        return write.change(copy, marked, expects=expects)

    async def keep(self, fact_id: str, reason: str, *, key: str | None = None, ruling: Ruling = BY_HAND) -> Promoted:
        """Keep a fact for long: it fades no more, and where the settings name a vault, a note of it is written there.

        Kept before, only a note that is missing is written. InvalidRecord for one that holds no longer.
        """
        fact = await self._current(fact_id)
        kept, trouble = await self._noted(fact, reason)

        async def make(write: Write) -> Change | None:
            now = await self._current(fact_id)
            if not holds(now, write.now):
                raise InvalidRecord(f"fact_id: fact {fact_id!r} does not hold any more", field="fact_id")
            lasting = now.tier == LONG and now.status is Status.PROMOTED
            more = {"tier": LONG, "status": Status.PROMOTED, "vault_path": kept.path if kept else now.vault_path}
            new = now.model_copy(update={**more, "reason": now.reason if lasting else reason})
            found[:] = [now]
            return None if new == now and key is None else write.change(new, expects={now.key: now.seq})

        found: list[Fact] = []
        thresholds = {} if ruling.thresholds is None else {"thresholds": dict(ruling.thresholds)}
        try:
            entry = await self.seat.resources.write(
                self.seat.scope, "keep", make, kind="Fact", key=key, payload=fingerprint(id=fact_id, reason=reason),
                details={"reason": reason, **thresholds}, fence=ruling.fence,
            )  # fmt: skip
        except AgentMemError:
            await self._withdraw(fact_id, begun=kept is not None and not kept.edited)
            raise
        if entry is not None:
            found = [first_of(entry, Fact)]
        edited = f"{kept.path}: left as somebody edited it" if kept is not None and kept.edited else ""
        return Promoted(found[0], None, "" if entry is None else entry.operation_id, trouble or edited)

    async def _noted(self, fact: Fact, reason: str) -> tuple[Kept | None, str]:
        """The note of a fact in the vault, and why there is none where there should be one.

        It is written before the fact says where it stands: a note that was begun is found again by its name.
        """
        resources, user_id = self.seat.resources, self.seat.scope.user_id
        vault = resources.settings.vault
        if vault is None or fact.channel.startswith("_self_") or not holds(fact, resources.clock.now()):
            return None, ""  # a private channel is for its agent alone
        about = await resources.log.get("Entity", fact.entity_ids, self.seat.scope)
        entities = [entity for entity in about if isinstance(entity, Entity) and entity.superseded_at is None]
        note = note_of(fact, user_id, entities, reason, resources.clock.now())
        try:
            return await asyncio.to_thread(write_note, vault, user_id, note, missing=bool(fact.vault_path)), ""
        except OSError as error:
            tell(WARNING, "note_not_written", user_id=user_id, error=type(error).__name__)
            return None, f"no note of fact {fact.id}: the vault cannot be written: {error.strerror or error}"

    async def _withdraw(self, fact_id: str, *, begun: bool) -> None:
        """Take the note back where its fact was erased while it was written, or retired before it had one."""
        resources, scope = self.seat.resources, self.seat.scope
        vault, now = resources.settings.vault, resources.clock.now()
        found = await resources.log.get("Fact", [fact_id], scope) if vault is not None else []
        needed = [fact for fact in found if isinstance(fact, Fact) and (fact.vault_path or holds(fact, now))]
        if vault is not None and not needed and (begun or not found):
            with suppress(OSError):  # the error that brought us here is told
                await asyncio.to_thread(remove_notes, vault, scope.user_id, [fact_id])
