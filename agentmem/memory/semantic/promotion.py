"""Promotion: a fading memory is kept for long, and what a project knows well is made known in every channel."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agentmem.core.arguments import check_arguments
from agentmem.core.changes import Change, PromotionAudit, WriteAttempt
from agentmem.core.record import Status
from agentmem.core.records import Entity, Fact
from agentmem.core.scope import GLOBAL, is_self_channel
from agentmem.core.telemetry import WARNING, log_event
from agentmem.errors import AgentMemError, Conflict, InvalidRecord, NotFound
from agentmem.memory.context import get_written_record
from agentmem.memory.semantic.facts import Facts, is_current, merge_sources
from agentmem.memory.vault import NoteWriteResult, build_note, remove_notes, write_note
from agentmem.stores.values import RecordUsage

LONG_TERM, ALL_CHANNELS = "long", "global"
PROMOTION_TARGETS = (LONG_TERM, ALL_CHANNELS)


@dataclass(frozen=True, slots=True)
class PromotionResult:
    """A promotion: the present fact, and its `copy` where it was made known in every channel.

    `operation_id` is "" where nothing was left to do. `note` reports on the page in the vault, if needed.
    """

    fact: Fact
    copy: Fact | None = None
    operation_id: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class PromotionAuthority:
    """Who decides on a promotion: the thresholds of a job, and the token of its lease; nothing for a person."""

    thresholds: Mapping[str, Any] | None = None
    fence: int | None = None


MANUAL_AUTHORITY = PromotionAuthority()


@check_arguments
@dataclass
class FactPromotion(Facts):
    """Promoting facts."""

    async def promote_to_global(self, fact_id: str, reason: str, *, idempotency_key: str | None = None) -> Fact:
        """Make a project's fact known in every channel and return its copy in `_global`, linked to the original.

        If the claim is already there, that fact gains the sources and is returned. A repeated call changes nothing
        while the copy holds. InvalidRecord for facts of private and shared channels (`_self_…`, `_swarm`, `_global`),
        and for one that no longer holds.
        """
        done = await self.copy_to_global(fact_id, reason, idempotency_key=idempotency_key)
        assert done.copy is not None
        return done.copy

    async def copy_to_global(
        self,
        fact_id: str,
        reason: str,
        *,
        idempotency_key: str | None = None,
        authority: PromotionAuthority = MANUAL_AUTHORITY,
    ) -> PromotionResult:
        """See `promote_to_global`; by a person or by a job."""
        old = await self._context.get_one(Fact, fact_id)
        if old.channel.startswith("_"):
            raise InvalidRecord(f"fact_id: a fact of channel {old.channel} cannot be promoted", field="fact_id")

        async def make(write: WriteAttempt) -> Change | None:
            fact = await self._context.get_one(Fact, fact_id)
            if fact.confidence < (authority.thresholds or {}).get("confidence", 0.0):
                raise Conflict(f"fact {fact_id!r} is less sure than when it was looked at")
            if (copy := await self._find_global_copy(fact)) is not None and idempotency_key is None:
                found[:] = [copy, fact]
                return None
            return await self._build_global_copy_change(write, fact, reason)

        found: list[Fact] = []
        used = (await self._context.engine.log.usage([old.key], self._context.scope)).get(
            old.key, RecordUsage("Fact", old.id)
        )
        entry = await self._context.write_entry(
            "Fact",
            "promote",
            make,
            idempotency_key,
            {"id": fact_id, "reason": reason},
            details={"reason": reason},
            fence=authority.fence,
            promotion=PromotionAudit(
                old.channel, old.confidence, used.access_count, used.conversations, authority.thresholds
            ),
        )
        if entry is not None:
            found = [stored.record for stored in entry.upserts if isinstance(stored.record, Fact)]
        if len(found) < 2:
            raise NotFound("this write was done before and its Fact erased since")
        return PromotionResult(found[1], found[0], "" if entry is None else entry.operation_id)

    async def _find_global_copy(self, fact: Fact) -> Fact | None:
        """The copy in `_global`, if it exists."""
        if not fact.promoted_to:
            return None
        found = await self._context.engine.log.read_records("Fact", [fact.promoted_to], self._context.scope)
        return next((copy for copy in found if isinstance(copy, Fact) and copy.superseded_at is None), None)

    async def _build_global_copy_change(self, write: WriteAttempt, fact: Fact, reason: str) -> Change:
        """The Change that makes a fact known everywhere: the copy comes first, the original second."""
        if not is_current(fact, write.now):
            raise InvalidRecord(f"fact_id: fact {fact.id!r} does not hold any more", field="fact_id")
        alone: dict[str, Any] = {
            "id": self._context.engine.ids.new_id(),
            "channel": GLOBAL,
            "status": Status.ACTIVE,
            "tier": LONG_TERM,
            "promoted_from": fact.id,
            "promoted_to": None,
            "supersedes": None,
            "superseded_by": None,
            "vault_path": "",
            "reason": "",
        }
        copy = fact.model_copy(update=alone)
        expects = {fact.key: fact.seq}
        if (known := await self._find_duplicate(copy)) is not None:
            copy = merge_sources(known, fact)
            expects[known.key] = known.seq
        marked = fact.model_copy(
            update={"status": Status.PROMOTED, "tier": LONG_TERM, "promoted_to": copy.id, "reason": reason}
        )
        return write.build_change(copy, marked, expected_versions=expects)

    async def promote_to_long_term(
        self,
        fact_id: str,
        reason: str,
        *,
        idempotency_key: str | None = None,
        authority: PromotionAuthority = MANUAL_AUTHORITY,
    ) -> PromotionResult:
        """Keep a fact for long: it fades no more, and where the settings name a vault, a note of it is written there.

        Kept before, only a note that is missing is written. InvalidRecord for one that holds no longer.
        """
        fact = await self._context.get_one(Fact, fact_id)
        kept, trouble = await self._write_vault_note(fact, reason)

        async def make(write: WriteAttempt) -> Change | None:
            current = await self._context.get_one(Fact, fact_id)
            if not is_current(current, write.now):
                raise InvalidRecord(f"fact_id: fact {fact_id!r} does not hold any more", field="fact_id")
            lasting = current.tier == LONG_TERM and current.status is Status.PROMOTED
            vault_path = kept.path if kept else current.vault_path
            more = {"tier": LONG_TERM, "status": Status.PROMOTED, "vault_path": vault_path}
            new = current.model_copy(update={**more, "reason": current.reason if lasting else reason})
            found[:] = [current]
            return (
                None
                if new == current and idempotency_key is None
                else write.build_change(new, expected_versions={current.key: current.seq})
            )

        found: list[Fact] = []
        thresholds = {} if authority.thresholds is None else {"thresholds": dict(authority.thresholds)}
        try:
            entry = await self._context.write_entry(
                "Fact",
                "keep",
                make,
                idempotency_key,
                {"id": fact_id, "reason": reason},
                details={"reason": reason, **thresholds},
                fence=authority.fence,
            )
        except AgentMemError:
            await self._withdraw_vault_note(fact_id, note_written=kept is not None and not kept.edited)
            raise
        if entry is not None:
            found = [get_written_record(entry, Fact)]
        edited = f"{kept.path}: left as somebody edited it" if kept is not None and kept.edited else ""
        return PromotionResult(found[0], None, "" if entry is None else entry.operation_id, trouble or edited)

    async def _write_vault_note(self, fact: Fact, reason: str) -> tuple[NoteWriteResult | None, str]:
        """The note of a fact in the vault, and the reason if it is missing.

        It is written before the fact names it: an interrupted note is found again by its name.
        """
        engine, user_id = self._context.engine, self._context.scope.user_id
        vault = engine.settings.vault
        if vault is None or is_self_channel(fact.channel) or not is_current(fact, engine.clock.now()):
            return None, ""  # a private channel is for its agent alone
        about = await engine.log.read_records("Entity", fact.entity_ids, self._context.scope)
        entities = [entity for entity in about if isinstance(entity, Entity) and entity.superseded_at is None]
        note = build_note(fact, user_id, entities, reason, engine.clock.now())
        try:
            return await asyncio.to_thread(write_note, vault, user_id, note, only_if_missing=bool(fact.vault_path)), ""
        except OSError as error:
            log_event(WARNING, "note_not_written", user_id=user_id, error=type(error).__name__)
            return None, f"no note of fact {fact.id}: the vault cannot be written: {error.strerror or error}"

    async def _withdraw_vault_note(self, fact_id: str, *, note_written: bool) -> None:
        """Take the note back where its fact was erased while it was written, or retired before it had one."""
        engine, scope = self._context.engine, self._context.scope
        vault, now = engine.settings.vault, engine.clock.now()
        found = await engine.log.read_records("Fact", [fact_id], scope) if vault is not None else []
        needed = [fact for fact in found if isinstance(fact, Fact) and (fact.vault_path or is_current(fact, now))]
        if vault is not None and not needed and (note_written or not found):
            with suppress(OSError):  # the error that led here is raised
                await asyncio.to_thread(remove_notes, vault, scope.user_id, [fact_id])
