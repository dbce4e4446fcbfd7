"""Turns and conversations: verbatim, in order, stored before anything else happens to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, get_args

import numpy as np

from agentmem.core.arguments import check_arguments
from agentmem.core.changes import Change, JournalEntry, WriteAttempt, derive_change_id, hash_request
from agentmem.core.clock import EPOCH, add_time, derive_id, to_utc
from agentmem.core.input_fields import SourceLocation, check_title
from agentmem.core.messages import MessageReader, dump_message, is_message
from agentmem.core.plain_values import describe_value, replace_in_field, replace_surrogates
from agentmem.core.record import Record
from agentmem.core.records import Conversation, Turn, build_record, parse_role
from agentmem.core.scope import check_identifier
from agentmem.errors import Conflict, InvalidRecord, NotFound
from agentmem.memory.announcements import Announced, build_announcements, strengthen_repeated
from agentmem.memory.context import ForgetReceipt, MemoryContext
from agentmem.memory.evidence import record_answers
from agentmem.memory.read_audit import audit_read
from agentmem.stores.values import Where

MAX_TURNS_PER_WRITE = 1000  # turns in one transaction
MAX_CONVERSATION_TURNS = 10_000  # that are read when no limit is given
MAX_WINDOW_HOURS = 24 * 365 * 1000  # hours
MAX_LIVE_TURNS = 50  # more turns at once are an import, not a running session
IMPORTED_MARK = "imported"  # the mark in the metadata of turns that came from a file
LIMITED_MARK = "limited_key"  # of turns by a key of one channel or agent: they change nothing in other channels
OWN_MARKS = frozenset({IMPORTED_MARK, LIMITED_MARK})
OnError = Literal["raise", "skip"]
NO_TEXT = "has no text"
MAX_TIME_AHEAD = timedelta(days=366)  # of a turn: clocks differ, and stories run ahead; typing errors are further
TURN_FIELDS = frozenset(
    {
        "role",
        "content",
        "turn_id",
        "speaker",
        "timestamp",
        "conversation_id",
        "conversation_title",
        "metadata",
        "index",
        "agent_id",
        "session_id",
        "token_count",
        "model",
        "embedding",
    }
)


@dataclass(frozen=True, slots=True)
class PreparedTurn:
    """A turn as the caller gave it: the checked record, its ids, and the fingerprint of its arguments.

    The fingerprint leaves out the title, which is of the conversation: a turn sent again with one stays the same turn.
    """

    turn: Turn
    turn_id: str | None
    conversation_id: str
    request_hash: str
    conversation_title: str = ""


@dataclass(frozen=True, slots=True)
class SkippedTurn:
    """A turn that was not stored: its position in what was given, why, and the field that is wrong, if one is."""

    index: int
    reason: str
    field: str | None = None


class StoredTurns(list[Turn]):
    """The turns as stored, in the order given. `skipped` are those left out, because they were wrong or had no text."""

    skipped: tuple[SkippedTurn, ...] = ()


@check_arguments
@dataclass
class EpisodicMemory:
    """What was said, when and by whom."""

    _context: MemoryContext

    async def store(
        self,
        turns: Sequence[Turn | Mapping[str, Any] | str | object],
        *,
        idempotency_key: str | None = None,
        on_error: OnError = "raise",
    ) -> StoredTurns:
        """Store up to 1,000 turns in one transaction and return them as stored, in the order given.

        A turn whose `turn_id` is already stored with the same payload is left out and its stored Turn returned; with
        another payload it is a Conflict. One that was erased since stays erased and is left out of the answer.
        Raises InvalidRecord before anything is written; with `on_error="skip"`, what is wrong is left out instead.
        A message without any text, such as one of thinking alone, is left out in either case.
        """
        if on_error not in get_args(OnError):
            raise InvalidRecord(f"on_error must be raise or skip, got {describe_value(on_error)}", field="on_error")
        given, skipped = self._prepare_turns(turns, on_error)
        stored = StoredTurns()
        try:
            stored.extend(await self._store_prepared(given, idempotency_key))
        except (Conflict, InvalidRecord):
            if on_error == "raise":
                raise
            for index, item in given.items():  # find the ones that are to blame
                key = None if idempotency_key is None else f"{idempotency_key}:{index}"
                try:
                    stored.extend(await self._store_prepared({index: item}, key))
                except (Conflict, InvalidRecord) as error:
                    skipped.append(SkippedTurn(index, str(error), getattr(error, "field", None)))
        stored.skipped = tuple(sorted(skipped, key=lambda each: each.index))
        return stored

    async def store_beside(
        self, turns: Sequence[Mapping[str, Any]], build_more: Callable[[WriteAttempt], Sequence[Change]]
    ) -> None:
        """Store turns, and in the same transaction what `build_more` makes."""
        await self._store_prepared(self._prepare_turns(turns, "raise", len(turns))[0], None, build_more)

    async def _store_prepared(
        self,
        prepared: Mapping[int, PreparedTurn],
        idempotency_key: str | None,
        build_more: Callable[[WriteAttempt], Sequence[Change]] | None = None,
    ) -> list[Turn]:
        if not prepared and build_more is None:
            return []
        engine, scope, given = self._context.engine, self._context.scope, list(prepared.values())
        written, order = dict[str, JournalEntry](), list[str]()
        announced = list[Announced]()

        async def build(write: WriteAttempt) -> list[Change]:
            hidden = dict[str, str]()
            if write.is_retry:  # perhaps because an id is taken in another channel
                elsewhere, hidden = await self._find_taken(given)
                written.update(elsewhere)
            changes = self._build_changes(write, given, hidden, idempotency_key)
            order[:] = [change.change_id for change in changes]
            fresh = {change.change_id: change for change in changes if change.change_id not in written}
            announced[:] = await build_announcements(self._context, list(fresh.values()), silent_mark=IMPORTED_MARK)
            more = build_more(write) if build_more else ()
            return [*fresh.values(), *(each.change for each in announced), *more]

        seen = engine.session.is_shared or engine.settings.current_md  # by other programs, or by people
        live = self._cache_turns if seen and len(given) <= MAX_LIVE_TURNS else None
        details = {"turns": len(given)}
        entries = await engine.write_all(scope, "store", build, kind="Turn", details=details, after_commit=live)
        written.update({entry.change_id: entry for entry in entries})
        await strengthen_repeated(self._context, announced, written)
        turns = _collect_turns([written[change_id] for change_id in order])
        await record_answers(engine, scope, turns)
        return turns

    def _prepare_turns(
        self, turns: Sequence[object], on_error: OnError, limit: int = MAX_TURNS_PER_WRITE
    ) -> tuple[dict[int, PreparedTurn], list[SkippedTurn]]:
        """The turns that can be stored, by their position, and those that cannot."""
        if isinstance(turns, str | Mapping) or not isinstance(turns, Sequence):
            raise InvalidRecord("turns must be a list of turns", field="turns")
        if len(turns) > limit:
            raise InvalidRecord(
                f"turns: at most {limit} at once (one transaction), got {len(turns)}; send them in parts",
                field="turns",
            )
        prepared, skipped, reader = dict[int, PreparedTurn](), list[SkippedTurn](), MessageReader()
        for index, turn in enumerate(turns):
            try:
                fields = self._read_fields(turn, reader, SourceLocation(f"turns[{index}]"))
                if fields is None:
                    skipped.append(SkippedTurn(index, NO_TEXT))
                else:
                    prepared[index] = self._prepare_turn(fields)
            except InvalidRecord as error:
                if on_error == "raise":
                    place = f"turns[{index}]: " if len(turns) > 1 and not str(error).startswith("turns[") else ""
                    raise InvalidRecord(f"{place}{error}", field=error.field) from error
                skipped.append(SkippedTurn(index, str(error), error.field))
        return prepared, skipped

    async def _find_taken(self, prepared: Sequence[PreparedTurn]) -> tuple[dict[str, JournalEntry], dict[str, str]]:
        """Find out which of the given turn ids name turns of other channels.

        Returns, by change id, the writes of those that the scope can read, and, by turn id, the alias to use for those
        that it cannot. Raises Conflict for a readable turn of the same id with another payload.
        """
        log, scope = self._context.engine.log, self._context.scope
        by_id = {item.turn_id: item for item in prepared if item.turn_id is not None}
        visible, hidden = dict[str, JournalEntry](), dict[str, str]()
        for turn in await log.read_records("Turn", list(by_id), scope):
            if turn.channel not in scope.readable_channels():
                hidden[turn.id] = self._context.alias_id("Turn", turn.id)
                for projection in self._context.engine.vector_projections:  # the vector given belongs to the alias
                    projection.precomputed.pop((scope.user_id, turn.id), None)
                continue
            stored_there = derive_change_id(replace(scope, channel=turn.channel), "store_turn", turn.id)
            entry = await log.find_applied(stored_there, by_id[turn.id].request_hash, scope)
            if entry is None:
                raise Conflict(f"turn_id {turn.id!r} is taken by another turn in channel {turn.channel!r}")
            visible[derive_change_id(scope, "store_turn", turn.id)] = entry
        return visible, hidden

    async def _cache_turns(self, entries: Sequence[JournalEntry]) -> None:
        from agentmem.memory.working.memory import WorkingMemory

        await WorkingMemory(self._context).cache_turns(
            _collect_turns([entry for entry in entries if not entry.already_applied])
        )

    def _build_changes(
        self,
        write: WriteAttempt,
        prepared: Sequence[PreparedTurn],
        aliases: Mapping[str, str],
        idempotency_key: str | None,
    ) -> list[Change]:
        """A Change for each turn; `aliases` are the ids to store those under whose own is taken."""
        ids, scope = self._context.engine.ids, self._context.scope
        seen: dict[str, str] = {}
        # a key means the whole list
        together = "" if idempotency_key is None else hash_request(turns=[item.request_hash for item in prepared])
        out = []
        for position, item in enumerate(prepared):
            if item.turn_id is not None and seen.setdefault(item.turn_id, item.request_hash) != item.request_hash:
                raise InvalidRecord(f"turn_id {item.turn_id!r} is given twice with different content", field="turn_id")
            if item.turn_id is not None:
                change_id = derive_change_id(scope, "store_turn", item.turn_id)
            elif idempotency_key is not None:
                change_id = derive_id(derive_change_id(scope, "store_turns", idempotency_key), str(position))
                item = replace(item, request_hash=together)
            else:
                change_id = ids.new_id() if position else write.change_id
            alias = aliases.get(item.turn_id or "")
            added = {"id": alias or item.turn_id or ids.new_id(), "conversation_id": item.conversation_id}
            if alias and item.turn_id:
                added["given_id"] = item.turn_id
            turn = item.turn.model_copy(update={**added, "timestamp": item.turn.timestamp or write.now})
            self._register_precomputed_vector(turn)
            out.append(
                Change(
                    scope=scope,
                    operation=write.operation,
                    operation_id=write.operation_id,
                    change_id=change_id,
                    upserts=(turn,),
                    inserts_if_absent=(_begin_conversation(turn, item.conversation_title, scope.agent_id),),
                    expected_versions={turn.key: None},
                    request_hash=item.request_hash,
                )
            )
        return out

    def _register_precomputed_vector(self, turn: Turn) -> None:
        if turn.embedding is None:
            return
        vector = np.asarray(turn.embedding, dtype=np.float32)
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length == 0:
            raise InvalidRecord("embedding must be finite numbers, not all zero", field="embedding")
        for projection in self._context.engine.vector_projections[:1]:
            if projection.embedder.dimensions == len(vector):
                projection.precomputed[self._context.scope.user_id, turn.id] = vector / length

    def _read_fields(self, turn: object, reader: MessageReader, location: SourceLocation) -> dict[str, Any] | None:
        """The fields of a turn given as text, a Turn, a mapping or a vendor's message; None for one without text."""
        if isinstance(turn, str):
            return {"content": replace_surrogates(turn)}
        if isinstance(turn, Turn):
            fields = {name: getattr(turn, name) for name in turn.model_fields_set if name in TURN_FIELDS}
            fields |= {"turn_id": turn.id} if turn.id else {}
            if turn.index < 0:
                fields.pop("index", None)
            return fields
        given = dump_message(turn)
        if not isinstance(given, Mapping):
            raise InvalidRecord(f"turn must be text, a Turn or a mapping, got {type(turn).__name__}", field="turn")
        if not is_message(given):
            return {name: replace_in_field(name, value) for name, value in given.items() if value is not None}
        fields = replace_in_field("message", reader.read_fields(given, location))
        return fields if fields["content"] else None

    def _prepare_turn(self, fields: dict[str, Any]) -> PreparedTurn:
        for name in fields:
            if name not in TURN_FIELDS:
                raise InvalidRecord(
                    f"turn has no field {name!r}; it may have {', '.join(sorted(TURN_FIELDS))}", field=str(name)
                )
        if "content" not in fields:
            raise InvalidRecord("turn.content is missing: the text of the turn", field="content")
        turn_id = fields.pop("turn_id", None)
        if turn_id is not None:
            check_identifier(turn_id, "turn_id")
        title = check_title(fields.pop("conversation_title", ""), "conversation_title")
        if "role" in fields:
            fields["role"] = parse_role(fields["role"])
        scope = self._context.scope
        defaults = {"channel": scope.channel, "agent_id": scope.agent_id, "session_id": scope.session_id}
        if scope.own_channels is not None:
            fields["metadata"] = {**fields.get("metadata", {}), LIMITED_MARK: True}
        record = build_record(Turn, **{**defaults, **fields})
        if "conversation_id" in fields:
            conversation_id = check_identifier(record.conversation_id, "conversation_id")
        else:
            conversation_id = self._context.ensure_conversation_id()
        self._check_timestamp(record)
        return PreparedTurn(record, turn_id, conversation_id, _hash_request(record, fields), title)

    def _check_timestamp(self, turn: Turn) -> None:
        """Raise InvalidRecord for a turn said long after now: it would count as the newest for ever."""
        latest = add_time(self._context.engine.clock.now(), MAX_TIME_AHEAD)
        if turn.timestamp is not None and turn.timestamp > latest:
            raise InvalidRecord(
                f"timestamp must lie at most {MAX_TIME_AHEAD.days} days ahead of now, got {turn.timestamp.isoformat()}",
                field="timestamp",
            )

    @audit_read
    async def get_conversation(self, conversation_id: str, *, limit: int = MAX_CONVERSATION_TURNS) -> list[Turn]:
        """The turns of a conversation in order; NotFound when this scope has nothing of such a conversation."""
        return await self._list_turns(conversation_id, limit)

    async def _list_turns(self, conversation_id: str, limit: int = MAX_CONVERSATION_TURNS) -> list[Turn]:
        where = Where(
            kinds=("Turn",), channels=self._context.scope.readable_channels(), conversation_id=conversation_id
        )
        found = await self._context.engine.log.find(self._context.scope, where, order="position", limit=limit)
        turns = [turn for turn in found if isinstance(turn, Turn) and turn.superseded_at is None]
        if not turns and (await self._context.get_one(Conversation, conversation_id)).superseded_at is not None:
            raise NotFound(f"conversation {conversation_id!r} was forgotten")
        return turns

    @audit_read
    async def recent_turns(
        self, limit: int = 10, *, hours: Annotated[float | None, "How far back from now."] = None
    ) -> list[Turn]:
        """The latest turns of the readable channels by time, oldest first."""
        if hours is not None and not 0 < hours < MAX_WINDOW_HOURS:
            raise InvalidRecord(f"hours must be above 0 and below {MAX_WINDOW_HOURS:,}, got {hours}", field="hours")
        since = None if hours is None else add_time(self._context.engine.clock.now(), -timedelta(hours=hours))
        where = Where(
            kinds=("Turn",), channels=self._context.scope.readable_channels(), status=("active",), since=since
        )
        return [turn for turn in reversed(await self._list_latest(where, limit)) if isinstance(turn, Turn)]

    async def _list_latest(self, where: Where, limit: int) -> list[Record]:
        """The latest records by world time, those of the same moment by the order in which they were stored."""
        log, scope = self._context.engine.log, self._context.scope
        found = await log.find(scope, where, order="time", descending=True, limit=limit)
        edge = found[-1].valid_interval()[0] if len(found) == limit and found else None
        if edge is not None:  # what shares the moment of the cut was chosen by id
            same = replace(where, since=edge, until=add_time(edge, timedelta(microseconds=1)))
            found = [record for record in found if record.valid_interval()[0] != edge]
            found += await log.find(scope, same, order="seq", descending=True, limit=limit - len(found))
        return sorted(found, key=lambda record: (record.valid_interval()[0] or EPOCH, record.seq), reverse=True)

    @audit_read
    async def read_thread(self, conversation_id: str, center_turn: str, radius: int = 3) -> list[Turn]:
        """The turn of this id and up to `radius` turns on either side, in order."""
        if radius < 0:
            raise InvalidRecord(f"radius must be 0 or more, got {radius}", field="radius")
        turns = await self._list_turns(conversation_id)
        center_turn = (await self._context.resolve_ids("Turn", [center_turn]))[0]
        for at, turn in enumerate(turns):
            if turn.id == center_turn:
                return turns[max(0, at - radius) : at + radius + 1]
        raise NotFound(f"no turn {describe_value(center_turn)} in conversation {conversation_id!r}")

    @audit_read
    async def conversations(self, limit: int = 100) -> list[Conversation]:
        """The conversations of the readable channels, latest first.

        One whose record lies in a channel that this scope cannot read begins with its first readable turn.
        """
        where = Where(kinds=("Conversation",), channels=self._context.scope.readable_channels(), status=("active",))
        found = [item for item in await self._list_latest(where, limit) if isinstance(item, Conversation)]
        found += await self._list_conversations_by_turns()
        found.sort(key=lambda item: (item.started_at or EPOCH, item.seq), reverse=True)
        return found[:limit]

    async def _list_conversations_by_turns(self) -> list[Conversation]:
        """Conversations with readable turns whose record lies in a channel that the scope cannot read."""
        engine, scope = self._context.engine, self._context.scope
        columns = await engine.read_columns(scope)
        turns = columns.build_visibility_mask(
            scope.readable_channels(), now=await engine.now(scope), kinds=("Turn",)
        ).mask
        ids = [columns.conversations.values[code] for code in np.unique(columns.conversation[turns]).tolist()]
        ordinals = {
            name: columns.ordinals_by_key[key]
            for name in ids
            if (key := ("Conversation", name)) in columns.ordinals_by_key
        }
        readable = columns.channels.mask_for(scope.readable_channels())
        hidden = [name for name, ordinal in ordinals.items() if not readable[columns.channel[ordinal]]]
        out = []
        for name in hidden:
            first = (await self.get_conversation(name, limit=1))[:1]
            out += [
                Conversation(id=name, user_id=turn.user_id, channel=turn.channel, started_at=turn.timestamp)
                for turn in first
            ]
        return out

    async def start_session(
        self, session_id: str, title: str = "", *, idempotency_key: str | None = None
    ) -> Conversation:
        """Begin a conversation of this id that has no turns yet. The title is one line of at most 200 characters."""
        scope, named = self._context.scope, check_title(title, "title")

        async def make(write: WriteAttempt) -> Change:
            return write.build_change(
                Conversation(
                    id=session_id, channel=scope.channel, title=named, started_at=write.now, agent_id=scope.agent_id
                )
            )

        given = {"session_id": session_id, **({"title": named} if named else {})}  # keys used before titles still count
        return await self._context.write(
            Conversation, "start_session", make, idempotency_key=idempotency_key, given=given
        )

    async def delete_conversation(
        self, conversation_id: str, *, hard: bool = False, idempotency_key: str | None = None
    ) -> ForgetReceipt:
        """Forget a conversation with all its turns; `hard` erases them. See `forget`."""
        from agentmem.memory.erasure import Erasure

        return await Erasure(self._context).forget_id(
            conversation_id, hard=hard, idempotency_key=idempotency_key, kind="Conversation"
        )

    async def clear_channel(self, *, hard: bool = False, idempotency_key: str | None = None) -> ForgetReceipt:
        """Forget everything in the active channel, turns, facts and all else but the profile; `hard` erases it.

        What is forgotten softly comes back with `undo` of the receipt's operation. Other channels are unchanged, but
        records that rest only on erased ones are erased too. Raises NotFound when the channel is empty, InvalidRecord
        when it holds more than 10,000 records.
        """
        from agentmem.memory.erasure import ChannelErasure
        from agentmem.memory.working.memory import WorkingMemory

        channel = self._context.scope.channel
        receipt = await ChannelErasure(self._context, hard).forget_id(
            channel, hard=hard, idempotency_key=idempotency_key
        )
        await WorkingMemory(self._context).drop_channel(channel)
        return receipt


def _collect_turns(entries: Sequence[JournalEntry]) -> list[Turn]:
    return [stored.record for entry in entries for stored in entry.upserts if isinstance(stored.record, Turn)]


def _begin_conversation(turn: Turn, title: str, agent_id: str | None) -> Conversation:
    """The record of the conversation of a turn, for where the turn is its first."""
    return Conversation(
        id=turn.conversation_id, channel=turn.channel, title=title, started_at=turn.timestamp, agent_id=agent_id
    )


def _hash_request(record: Turn, fields: Mapping[str, Any]) -> str:
    # What was given, without what was filled in: the same turn sent again, or imported, has the same fingerprint.
    when: datetime | None = record.timestamp if fields.get("timestamp") is not None else None
    metadata = {name: value for name, value in record.metadata.items() if name not in OWN_MARKS}
    return hash_request(
        role=record.role,
        content=record.content,
        speaker=record.speaker,
        timestamp=None if when is None else to_utc(when).isoformat(),
        metadata=metadata,
        conversation_id=fields.get("conversation_id"),
        index=fields.get("index"),
    )
