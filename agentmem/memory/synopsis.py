"""The synopsis as it is read: from the session store, else from the log, else put together from facts. No model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from agentmem.core.changes import Change, JournalEntry, WriteAttempt
from agentmem.core.clock import add_time, derive_id, to_utc
from agentmem.core.columns import RecordColumns
from agentmem.core.record import Key
from agentmem.core.records import Synopsis, SynopsisSection, SynopsisSentence, build_record
from agentmem.core.scope import GLOBAL, Scope, channel_scope
from agentmem.errors import InvalidRecord, StoreError
from agentmem.memory.context import MemoryContext
from agentmem.memory.synopsis_sources import (
    MADE_FROM_FACTS,
    SourceSnapshot,
    SynopsisSources,
    build_section,
    context_sentences,
    fit_to_budget,
    identity_sentences,
    read_sources,
    take_snapshots,
)
from agentmem.settings.sections import SynopsisOptions
from agentmem.text.tokenizer import TokenCounter, estimate_tokens

SECTIONS = ("identity", "context")
REFRESH_AFTER_TTL_FRACTION = 0.1  # of its time to live has passed before an access renews it


@dataclass
class Synopses:
    """The synopsis of the channels that a scope may read: what each says, the active one first, within the budget."""

    _context: MemoryContext

    async def read(self, max_tokens: int | None = None, counter: TokenCounter | None = None) -> Synopsis:
        """Who the user is and what is current, in at most `max_tokens` tokens (the setting when None).

        Empty without facts, goals and conversations. Calls no model: a model's text is used while its sources are
        unchanged. `counter` gives the tokens of a text; a quarter of its characters if None.
        """
        options, scope = self._context.engine.settings.synopsis, self._context.scope
        most = options.max_tokens if max_tokens is None else max_tokens
        if most < 1:
            raise InvalidRecord(f"max_tokens must be at least 1, got {max_tokens}", field="max_tokens")
        columns, now = await self._context.engine.read_columns(scope), await self._context.engine.now(scope)
        found = await take_snapshots(columns, scope.readable_channels(), now)
        parts = [
            _ChannelSynopsis(self._context, name, columns, each, now)
            for name, each in found.items()
            if each.visible.any()
        ]
        tiers = await asyncio.gather(*(part.read_sections() for part in parts))
        return merge_channels(scope, [dict(zip(SECTIONS, each, strict=True)) for each in tiers], options, most, counter)


@dataclass(frozen=True)
class _ChannelSynopsis:
    """What one channel contributes, and where that is kept."""

    _context: MemoryContext
    channel: str
    columns: RecordColumns
    snapshot: SourceSnapshot
    now: datetime

    async def read_sections(self) -> list[SynopsisSection]:
        """Both tiers, built again when neither the session store nor the log has a valid one."""
        kept = await asyncio.gather(*(self._find_cached(name) for name in SECTIONS))
        if all(kept):
            return [found for found in kept if found is not None]
        stored = await self._find_stored()
        made: dict[str, SynopsisSection] | None = None
        out = []
        for name, found in zip(SECTIONS, kept, strict=True):
            if found is None:
                found = getattr(stored, name) if stored is not None else None
                if found is None or not is_fresh(found, self.snapshot, name, self._fresh_since(name, self.now)):
                    made = made or await self._assemble()
                    found = made[name]
                await self._write_cache(name, found)
            out.append(found)
        return out

    def _session_key(self, name: str) -> str:
        return _build_session_key(self.channel, name)

    def _ttl(self, name: str) -> float:
        options = self._context.engine.settings.synopsis
        return options.identity_ttl if name == "identity" else options.context_ttl

    def _fresh_since(self, name: str, now: datetime) -> datetime:
        return add_time(to_utc(now), -timedelta(seconds=min(self._ttl(name), 1e9)))

    async def _find_cached(self, name: str) -> SynopsisSection | None:
        found = await self._read_cache(name)
        self._context.engine.cache_stats.add("synopsis", found is not None)
        return found

    async def _read_cache(self, name: str) -> SynopsisSection | None:
        """The tier in the session store, while it holds; read now and then, it stays."""
        engine, scope = self._context.engine, self._context.scope
        try:
            value = await engine.session.get(scope, self._session_key(name))
        except StoreError:
            return None
        try:
            found, kept_at = SynopsisSection.model_validate(value["tier"]), to_utc(datetime.fromisoformat(value["at"]))
        except (ValidationError, KeyError, TypeError, ValueError):  # absent, or another program's
            return None
        if not is_fresh(found, self.snapshot, name, self._fresh_since(name, self.now)):
            return None
        if not self.snapshot.has_all(self.columns, found.shown):
            return None
        late = (self.now - kept_at).total_seconds() > REFRESH_AFTER_TTL_FRACTION * self._ttl(name)
        if late and engine.settings.synopsis.refresh_on_access:
            await self._write_cache(name, found)
        return found

    async def _write_cache(self, name: str, section: SynopsisSection) -> None:
        """Put a tier into the session store; best effort. What was erased meanwhile does not come back by this."""
        engine, scope = self._context.engine, self._context.scope
        value = {"tier": section.model_dump(mode="json"), "at": self.now.isoformat()}
        with suppress(StoreError):
            await engine.session.set(scope, self._session_key(name), value, ttl=self._ttl(name))
            if (await engine.log.head(scope)).seq != self.columns.seq:
                await engine.session.delete(scope, self._session_key(name))

    async def _find_stored(self) -> Synopsis | None:
        found = await find_stored_synopsis(self._context, self.channel)
        if found is None or found.superseded_at is not None or found.seq > self.columns.seq:
            return None
        return found if self.snapshot.has_all(self.columns, found.source_keys()) else None

    async def _assemble(self) -> dict[str, SynopsisSection]:
        engine = self._context.engine
        scope = channel_scope(self._context.scope.user_id, self.channel).with_channels([self.channel])
        return assemble_sections(
            await read_sources(engine, scope, self.columns, self.snapshot),
            self.snapshot,
            self.now,
            engine.settings.synopsis,
        )


def is_fresh(section: SynopsisSection, current: SourceSnapshot, name: str, since: datetime) -> bool:
    """Whether a tier says what is known now. Turns that came since make the context old only with its time."""
    if name == "identity":
        return section.basis == current.identity_digest and bool(section.made_by)
    fresh = section.turns == current.last_turn_seq or (section.made_at is not None and section.made_at > since)
    return section.basis == current.context_digest and bool(section.made_by) and fresh


def assemble_sections(
    sources: SynopsisSources, snapshot: SourceSnapshot, now: datetime, options: SynopsisOptions
) -> dict[str, SynopsisSection]:
    """Both tiers from facts alone, the same for the same facts."""
    rooms = split_token_budget(options.max_tokens, options)
    made = (MADE_FROM_FACTS, now)
    identity = fit_to_budget(identity_sentences(sources), rooms["identity"], estimate_tokens)
    context = fit_to_budget(context_sentences(sources), rooms["context"], estimate_tokens)
    return {
        "identity": build_section(identity, snapshot.identity_digest, snapshot.last_turn_seq, made),
        "context": build_section(context, snapshot.context_digest, snapshot.last_turn_seq, made),
    }


def split_token_budget(max_tokens: int, options: SynopsisOptions) -> dict[str, int]:
    """How many tokens each tier may take."""
    identity = int(max_tokens * options.identity_share)
    return {"identity": identity, "context": max_tokens - identity}


def merge_channels(
    scope: Scope,
    parts: Sequence[dict[str, SynopsisSection]],
    options: SynopsisOptions,
    max_tokens: int,
    counter: TokenCounter | None,
) -> Synopsis:
    """The parts of several channels as one synopsis of at most so many tokens: of each in turn the next sentence."""
    count, rooms = counter or estimate_tokens, split_token_budget(max_tokens, options)
    found: dict[str, SynopsisSection] = {}
    for name in SECTIONS:
        tiers = [part[name] for part in parts if part[name].sentences]
        rows = zip_longest(*(each.sentences for each in tiers))
        kept = fit_to_budget([sentence for row in rows for sentence in row if sentence is not None], rooms[name], count)
        found[name] = _combine_sections(tiers, kept)
    made = build_record(Synopsis, user_id=scope.user_id, channel=scope.channel, **found)
    while made.text and count(made.text) > max_tokens:  # the headings take some, too
        name = "context" if made.context.sentences else "identity"
        found[name] = _combine_sections([found[name]], found[name].sentences[:-1])
        made = build_record(Synopsis, user_id=scope.user_id, channel=scope.channel, **found)
    return made


def _combine_sections(sections: Sequence[SynopsisSection], sentences: Sequence[SynopsisSentence]) -> SynopsisSection:
    """A tier of some of the sentences of others."""
    if not sections:
        return SynopsisSection()
    makers = dict.fromkeys(each.made_by for each in sections)
    return SynopsisSection(
        sentences=tuple(sentences),
        shown=tuple(dict.fromkeys(key for each in sections for key in each.shown)),
        turns=max(each.turns for each in sections),
        made_by=", ".join(makers),
        made_at=min((each.made_at for each in sections if each.made_at is not None), default=None),
    )


def _build_session_key(channel: str, name: str) -> str:
    # The documents' keys, identity:{user} and context:{user}; the store adds the user behind the first part.
    return name if channel == GLOBAL else f"{name}:{quote(channel, safe='')}"


# -- what is stored


def synopsis_id(user_id: str, channel: str) -> str:
    """The id of the synopsis of a channel."""
    return derive_id(user_id, "synopsis", channel)


async def find_stored_synopsis(context: MemoryContext, channel: str) -> Synopsis | None:
    """The synopsis of a channel that the log holds; None when there is none."""
    user_id = context.scope.user_id
    found = await context.engine.log.read_records("Synopsis", [synopsis_id(user_id, channel)], context.scope)
    return found[0] if found and isinstance(found[0], Synopsis) else None


async def write_synopsis(
    context: MemoryContext,
    sections: dict[str, SynopsisSection],
    expected_versions: dict[Key, int],
    *,
    is_obsolete: Callable[[], Awaitable[bool]],
    fence: int,
) -> JournalEntry | None:
    """Store the synopsis of the context's channel; None when `is_obsolete` says that its sources have changed."""
    scope = context.scope

    async def put(write: WriteAttempt) -> Change | None:
        if await is_obsolete():
            return None
        old = await find_stored_synopsis(context, scope.channel)
        new = build_record(Synopsis, id=synopsis_id(scope.user_id, scope.channel), channel=scope.channel, **sections)
        if old is not None and old.superseded_at is None and (old.identity, old.context) == (new.identity, new.context):
            return None
        return write.build_change(
            new, expected_versions={**expected_versions, new.key: old.seq if old is not None else None}
        )

    entry = await context.engine.write(scope, "synopsis", put, kind="Synopsis", fence=fence)
    if entry is not None:  # what was put together before is not read any more
        with suppress(StoreError):
            for name in SECTIONS:
                await context.engine.session.delete(scope, _build_session_key(scope.channel, name))
    return entry


async def list_synopsis_keys(context: MemoryContext) -> list[Key]:
    """All synopses ever stored, of every channel: any version may hold erased text."""
    columns = await context.engine.read_columns(context.scope)
    keys = [("Synopsis", synopsis_id(context.scope.user_id, channel)) for channel in sorted(columns.channels.values)]
    found: Any = await context.engine.log.changed_keys_since(keys, context.scope, 0) if keys else {}
    return list(found)
