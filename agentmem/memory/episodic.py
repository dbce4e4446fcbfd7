"""Turns and conversations: verbatim, in order, stored before anything else happens to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from agentmem.errors import Conflict, InvalidRecord, NotFound
from agentmem.memory import Seat
from agentmem.memory.answers import ForgetReceipt
from agentmem.memory.swarm import Commit, with_announcements
from agentmem.model.changes import Change, JournalEntry, fingerprint, keyed_change_id
from agentmem.model.clock import EPOCH, Stopwatch, aware, derived_id
from agentmem.model.records import Conversation, Record, Turn, build
from agentmem.model.scope import checked_name
from agentmem.stores import Where

AT_ONCE = 1000  # turns in one transaction
LONGEST_WINDOW = 24 * 365 * 1000  # hours
LIVE = 50  # more turns at once are an import, not a running session
IMPORTED = "imported"  # the mark in the metadata of turns that came from a file
FIELDS = frozenset({
    "role", "content", "turn_id", "speaker", "timestamp", "conversation_id", "metadata", "index", "agent_id",
    "session_id", "token_count", "model", "embedding",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Given:
    """A turn as the caller gave it: the checked record, its ids, and the fingerprint of its arguments.

    `stored_id` is the id to store it under; "" for the turn_id given, or for a new id.
    """

    turn: Turn
    turn_id: str | None
    conversation_id: str
    payload: str
    stored_id: str = ""


@dataclass
class Episodic:
    """What was said, when and by whom."""

    seat: Seat

    async def store(self, turns: Sequence[Turn | Mapping[str, Any] | str], *, key: str | None = None) -> list[Turn]:
        """Store up to 1,000 turns in one transaction and return them as stored, in the order given.

        A turn whose `turn_id` is already stored with the same payload is left out and its stored Turn returned; with
        another payload it is a Conflict. One that was erased since stays erased and is left out of the answer.
        Raises InvalidRecord before anything is written.
        """
        resources, watch = self.seat.resources, Stopwatch(self.seat.resources.clock)
        given = self._check_turns(turns)
        if not given:
            return []
        operation_id = resources.ids.new()
        audit = resources.auditor.write(
            "store", self.seat.scope, memory_type="episodic", operation_id=operation_id, count=len(given),
            latency_ms=watch.milliseconds(), metadata={"turns": len(given)},
            payload=[item.turn.content for item in given],
        )  # fmt: skip
        seen = resources.session.shared or resources.settings.current_md  # by other programs, or by people
        live = self._at_hand if seen and len(given) <= LIVE else None

        async def commit(all_of_it: Sequence[Change]) -> list[JournalEntry]:
            return await resources.commit(self.seat.scope, all_of_it, audit, live)

        changes = self._changes(given, key, operation_id)
        try:
            return await self._commit(changes, {}, commit)
        except Conflict as error:
            if not error.stale:
                raise
            visible, hidden = await self._find_taken(given)
            if not visible and not hidden:
                raise
        aliased = [replace(item, stored_id=hidden.get(item.turn_id or "", item.stored_id)) for item in given]
        return await self._commit(self._changes(aliased, key, operation_id), visible, commit)

    def _check_turns(self, turns: Sequence[Turn | Mapping[str, Any] | str]) -> list[Given]:
        if isinstance(turns, str | Mapping) or not isinstance(turns, Sequence):
            raise InvalidRecord("turns must be a list of turns", field="turns")
        if len(turns) > AT_ONCE:
            raise InvalidRecord(
                f"turns: at most {AT_ONCE} at once (one transaction), got {len(turns)}; send them in parts",
                field="turns",
            )
        return [self._given(turn) for turn in turns]

    async def _commit(
        self, changes: Sequence[Change], stored: Mapping[str, JournalEntry], commit: Commit
    ) -> list[Turn]:  # fmt: skip
        """Commit changes but for those in `stored`, which are written already, and return the turns of all in order."""
        missing = {change.change_id: change for change in changes if change.change_id not in stored}
        entries = []
        if missing:
            entries = await with_announcements(self.seat, list(missing.values()), commit, silent=IMPORTED)
        by_change = {**stored, **{entry.change_id: entry for entry in entries}}
        return _turns([by_change[change.change_id] for change in changes])

    async def _find_taken(self, given: Sequence[Given]) -> tuple[dict[str, JournalEntry], dict[str, str]]:
        """Find out which of the given turn ids name turns of other channels.

        Returns, by change id, the writes of those that the scope can read, and, by turn id, the alias to use for those
        that it cannot. Raises Conflict for a readable turn of the same id with another payload.
        """
        log, scope = self.seat.resources.log, self.seat.scope
        by_id = {item.turn_id: item for item in given if item.turn_id is not None}
        visible, hidden = dict[str, JournalEntry](), dict[str, str]()
        for turn in await log.get("Turn", list(by_id), scope):
            if turn.channel not in scope.readable():
                hidden[turn.id] = self.seat.alias_id("Turn", turn.id)
                for projection in self.seat.resources.vectors:  # the vector given belongs to the alias
                    projection.given.pop((scope.user_id, turn.id), None)
                continue
            stored_there = keyed_change_id(replace(scope, channel=turn.channel), "store_turn", turn.id)
            entry = await log.applied(stored_there, by_id[turn.id].payload, scope)
            if entry is None:
                raise Conflict(f"turn_id {turn.id!r} is taken by another turn in channel {turn.channel!r}")
            visible[keyed_change_id(scope, "store_turn", turn.id)] = entry
        return visible, hidden

    async def _at_hand(self, entries: Sequence[JournalEntry]) -> None:
        from agentmem.memory.working import Working

        await Working(self.seat).saw(_turns([entry for entry in entries if not entry.repeated]))

    def _changes(self, given: Sequence[Given], key: str | None, operation_id: str) -> list[Change]:
        ids, scope, now = self.seat.resources.ids, self.seat.scope, self.seat.resources.clock.now()
        seen: dict[str, str] = {}
        # a key stands for the whole list
        together = "" if key is None else fingerprint(turns=[item.payload for item in given])
        out = []
        for position, item in enumerate(given):
            if item.turn_id is not None and seen.setdefault(item.turn_id, item.payload) != item.payload:
                raise InvalidRecord(f"turn_id {item.turn_id!r} is given twice with different content", field="turn_id")
            if item.turn_id is not None:
                change_id = keyed_change_id(scope, "store_turn", item.turn_id)
            elif key is not None:
                change_id = derived_id(keyed_change_id(scope, "store_turns", key), str(position))
                item = replace(item, payload=together)
            else:
                change_id = ids.new() if position else operation_id
            stored_id = item.stored_id or item.turn_id or ids.new()
            added = {"id": stored_id, "conversation_id": item.conversation_id}
            if item.stored_id and item.turn_id:
                added["given_id"] = item.turn_id
            turn = item.turn.model_copy(update={**added, "timestamp": item.turn.timestamp or now})
            self._keep_vector(turn)
            conversation = Conversation(
                id=turn.conversation_id, channel=turn.channel, started_at=turn.timestamp, agent_id=scope.agent_id
            )
            out.append(
                Change(
                    scope=scope,
                    operation="store",
                    operation_id=operation_id,
                    change_id=change_id,
                    puts=(turn,),
                    ensures=(conversation,),
                    expects={turn.key: None},
                    payload=item.payload,
                )
            )
        return out

    def _keep_vector(self, turn: Turn) -> None:
        if turn.embedding is None:
            return
        vector = np.asarray(turn.embedding, dtype=np.float32)
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length == 0:
            raise InvalidRecord("embedding must be finite numbers, not all zero", field="embedding")
        for projection in self.seat.resources.vectors[:1]:
            if projection.embedder.dimensions == len(vector):
                projection.given[self.seat.scope.user_id, turn.id] = vector / length

    def _given(self, turn: Turn | Mapping[str, Any] | str) -> Given:
        if isinstance(turn, str):
            turn = {"content": turn}
        if isinstance(turn, Turn):
            fields = {name: getattr(turn, name) for name in turn.model_fields_set if name in FIELDS}
            fields |= {"turn_id": turn.id} if turn.id else {}
            if turn.index < 0:
                fields.pop("index", None)
        elif isinstance(turn, Mapping):
            fields = {name: value for name, value in turn.items() if value is not None}
        else:
            raise InvalidRecord(f"turn must be text, a Turn or a mapping, got {type(turn).__name__}", field="turn")
        for name in fields:
            if name not in FIELDS:
                raise InvalidRecord(
                    f"turn has no field {name!r}; it may have {', '.join(sorted(FIELDS))}", field=str(name)
                )
        if "content" not in fields:
            raise InvalidRecord("turn.content is missing: the text of the turn", field="content")
        turn_id = fields.pop("turn_id", None)
        if turn_id is not None:
            checked_name(turn_id, "turn_id")
        scope = self.seat.scope
        defaults = {"channel": scope.channel, "agent_id": scope.agent_id, "session_id": scope.session_id}
        record = build(Turn, **{**defaults, **fields})
        if "conversation_id" in fields:
            conversation_id = checked_name(record.conversation_id, "conversation_id")
        else:
            conversation_id = self.seat.conversation()
        return Given(record, turn_id, conversation_id, _said(record, fields))

    async def get_conversation(self, conversation_id: str, *, limit: int = 10_000) -> list[Turn]:
        """The turns of a conversation in order; NotFound when this scope has nothing of such a conversation."""
        where = Where(kinds=("Turn",), channels=self.seat.scope.readable(), conversation_id=conversation_id)
        found = await self.seat.resources.log.find(self.seat.scope, where, order="position", limit=limit)
        turns = [turn for turn in found if isinstance(turn, Turn) and turn.superseded_at is None]
        if not turns and (await self.seat.one("Conversation", conversation_id)).superseded_at is not None:
            raise NotFound(f"conversation {conversation_id!r} was forgotten")
        return turns

    async def recent_turns(self, limit: int = 10, *, hours: float | None = None) -> list[Turn]:
        """The latest turns of the readable channels by time, oldest first; `hours` back from now when given."""
        if hours is not None and not 0 < hours < LONGEST_WINDOW:
            raise InvalidRecord(f"hours must be above 0 and below {LONGEST_WINDOW:,}, got {hours}", field="hours")
        since = None if hours is None else self.seat.resources.clock.now() - timedelta(hours=hours)
        where = Where(kinds=("Turn",), channels=self.seat.scope.readable(), status=("active",), since=since)
        return [turn for turn in reversed(await self._latest(where, limit)) if isinstance(turn, Turn)]

    async def _latest(self, where: Where, limit: int) -> list[Record]:
        """The latest records by world time, those of the same moment by the order in which they were stored."""
        log, scope = self.seat.resources.log, self.seat.scope
        found = await log.find(scope, where, order="time", descending=True, limit=limit)
        edge = found[-1].span()[0] if len(found) == limit and found else None
        if edge is not None:  # what shares the moment of the cut was chosen by id
            same = replace(where, since=edge, until=edge + timedelta(microseconds=1))
            found = [record for record in found if record.span()[0] != edge]
            found += await log.find(scope, same, order="seq", descending=True, limit=limit - len(found))
        return sorted(found, key=lambda record: (record.span()[0] or EPOCH, record.seq), reverse=True)

    async def read_thread(self, conversation_id: str, center_turn: str, radius: int = 3) -> list[Turn]:
        """The turn of this id and up to `radius` turns on either side, in order."""
        if radius < 0:
            raise InvalidRecord(f"radius must be 0 or more, got {radius}", field="radius")
        turns = await self.get_conversation(conversation_id)
        center_turn = (await self.seat.resolve_ids("Turn", [center_turn]))[0]
        for at, turn in enumerate(turns):
            if turn.id == center_turn:
                return turns[max(0, at - radius) : at + radius + 1]
        raise NotFound(f"no turn {center_turn!r} in conversation {conversation_id!r}")

    async def conversations(self, limit: int = 100) -> list[Conversation]:
        """The conversations of the readable channels, latest first.

        One whose record lies in a channel that this scope cannot read begins with its first readable turn.
        """
        where = Where(kinds=("Conversation",), channels=self.seat.scope.readable(), status=("active",))
        found = [item for item in await self._latest(where, limit) if isinstance(item, Conversation)]
        found += await self._without_readable_record()
        found.sort(key=lambda item: (item.started_at or EPOCH, item.seq), reverse=True)
        return found[:limit]

    async def _without_readable_record(self) -> list[Conversation]:
        """Conversations with readable turns whose record lies in a channel that the scope cannot read."""
        resources, scope = self.seat.resources, self.seat.scope
        outline = await resources.outline(scope)
        turns = outline.view(scope.readable(), now=await resources.now(scope), kinds=("Turn",)).mask
        ids = [outline.conversations.values[code] for code in np.unique(outline.conversation[turns]).tolist()]
        slots = {name: outline.slots[key] for name in ids if (key := ("Conversation", name)) in outline.slots}
        readable = outline.channels.among(scope.readable())
        hidden = [name for name, slot in slots.items() if not readable[outline.channel[slot]]]
        out = []
        for name in hidden:
            first = (await self.get_conversation(name, limit=1))[:1]
            out += [
                Conversation(id=name, user_id=turn.user_id, channel=turn.channel, started_at=turn.timestamp)
                for turn in first
            ]
        return out

    async def delete_conversation(
        self, conversation_id: str, *, hard: bool = False, idempotency_key: str | None = None
    ) -> ForgetReceipt:
        """Forget a conversation with all its turns; `hard` erases them. See `forget`."""
        from agentmem.memory.erasure import Erasure

        return await Erasure(self.seat).forget_id(conversation_id, hard=hard, key=idempotency_key, kind="Conversation")

    async def clear_channel(self, *, hard: bool = False, idempotency_key: str | None = None) -> ForgetReceipt:
        """Forget everything in the active channel, turns, facts and all else but the profile; `hard` erases it.

        What is forgotten softly comes back with `undo` of the receipt's operation. Nothing of another channel is
        touched, but what rests on erased records alone goes with them. Raises NotFound when the channel is empty,
        InvalidRecord when it holds more than 10,000 records.
        """
        from agentmem.memory.clearing import ChannelErasure
        from agentmem.memory.working import Working

        channel = self.seat.scope.channel
        receipt = await ChannelErasure(self.seat, hard).forget_id(channel, hard=hard, key=idempotency_key)
        await Working(self.seat).left(channel)
        return receipt


def _turns(entries: Sequence[JournalEntry]) -> list[Turn]:
    return [stored.record for entry in entries for stored in entry.puts if isinstance(stored.record, Turn)]


def _said(record: Turn, fields: Mapping[str, Any]) -> str:
    # What was given, without what was filled in: the same turn sent again, or imported, has the same fingerprint.
    when: datetime | None = record.timestamp if fields.get("timestamp") is not None else None
    metadata = {name: value for name, value in record.metadata.items() if name != IMPORTED}
    return fingerprint(
        role=record.role, content=record.content, speaker=record.speaker,
        timestamp=None if when is None else aware(when).isoformat(), metadata=metadata,
        conversation_id=fields.get("conversation_id"), index=fields.get("index"),
    )  # fmt: skip
