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

from agentmem.errors import InvalidRecord, StoreError
from agentmem.memory import Seat
from agentmem.memory.synopsis_material import (
    FACTS,
    Basis,
    Material,
    bases,
    context_of,
    fitting,
    gather,
    identity_of,
    tier,
)
from agentmem.model.changes import Change, JournalEntry, Write
from agentmem.model.clock import aware, derived_id
from agentmem.model.outline import Outline
from agentmem.model.records import Key, build
from agentmem.model.scope import GLOBAL, Scope
from agentmem.model.synopsis import Sentence, Synopsis, Tier
from agentmem.settings_parts import SynopsisOptions
from agentmem.text.tokens import Counter, quarter

TIERS = ("identity", "context")
REFRESHED = 0.1  # of its time to live has passed before an access renews it


@dataclass
class Synopses:
    """The synopsis of the channels that a scope may read: what each says, the active one first, within the budget."""

    seat: Seat

    async def read(self, max_tokens: int | None = None, counter: Counter | None = None) -> Synopsis:
        """Who the user is and what goes on lately, in at most `max_tokens` tokens (the setting when None).

        Without facts, goals and conversations it is empty. No model is asked: what one wrote is used while all that it
        was written from stands as it stood. `counter` gives the tokens of a text; a quarter of its characters if None.
        """
        options, scope = self.seat.resources.settings.synopsis, self.seat.scope
        most = options.max_tokens if max_tokens is None else max_tokens
        if most < 1:
            raise InvalidRecord(f"max_tokens must be at least 1, got {max_tokens}", field="max_tokens")
        outline, now = await self.seat.resources.outline(scope), await self.seat.resources.now(scope)
        found = await bases(outline, scope.readable(), now)
        parts = [_Part(self.seat, name, outline, each, now) for name, each in found.items() if each.visible.any()]
        tiers = await asyncio.gather(*(part.tiers() for part in parts))
        return joined(scope, [dict(zip(TIERS, each, strict=True)) for each in tiers], options, most, counter)


@dataclass(frozen=True)
class _Part:
    """What one channel contributes, and where that is kept."""

    seat: Seat
    channel: str
    outline: Outline
    basis: Basis
    now: datetime

    async def tiers(self) -> list[Tier]:
        """Both tiers, made anew where neither the session store nor the log has one that still holds."""
        kept = await asyncio.gather(*(self._kept(name) for name in TIERS))
        if all(kept):
            return [found for found in kept if found is not None]
        stored = await self._stored()
        made: dict[str, Tier] | None = None
        out = []
        for name, found in zip(TIERS, kept, strict=True):
            if found is None:
                found = getattr(stored, name) if stored is not None else None
                if found is None or not holds(found, self.basis, name, self._fresh_for(name, self.now)):
                    made = made or await self._assembled()
                    found = made[name]
                await self._keep(name, found)
            out.append(found)
        return out

    def _key(self, name: str) -> str:
        return _key(self.channel, name)

    def _ttl(self, name: str) -> float:
        options = self.seat.resources.settings.synopsis
        return options.identity_ttl if name == "identity" else options.context_ttl

    def _fresh_for(self, name: str, now: datetime) -> datetime:
        return aware(now) - timedelta(seconds=min(self._ttl(name), 1e9))

    async def _kept(self, name: str) -> Tier | None:
        found = await self._cached(name)
        self.seat.resources.lookups.add("synopsis", found is not None)
        return found

    async def _cached(self, name: str) -> Tier | None:
        """The tier in the session store, while it holds; read now and then, it stays."""
        resources, scope = self.seat.resources, self.seat.scope
        try:
            value = await resources.session.get(scope, self._key(name))
        except StoreError:
            return None
        try:
            found, kept_at = Tier.model_validate(value["tier"]), aware(datetime.fromisoformat(value["at"]))
        except (ValidationError, KeyError, TypeError, ValueError):  # absent, or another program's
            return None
        if not holds(found, self.basis, name, self._fresh_for(name, self.now)):
            return None
        if not self.basis.shows(self.outline, found.shown):
            return None
        late = (self.now - kept_at).total_seconds() > REFRESHED * self._ttl(name)
        if late and resources.settings.synopsis.refresh_on_access:
            await self._keep(name, found)
        return found

    async def _keep(self, name: str, found: Tier) -> None:
        """Put a tier into the session store; best effort. What was erased meanwhile does not come back by this."""
        resources, scope = self.seat.resources, self.seat.scope
        value = {"tier": found.model_dump(mode="json"), "at": self.now.isoformat()}
        with suppress(StoreError):
            await resources.session.set(scope, self._key(name), value, ttl=self._ttl(name))
            if (await resources.log.head(scope)).seq != self.outline.seq:
                await resources.session.delete(scope, self._key(name))

    async def _stored(self) -> Synopsis | None:
        found = await stored(self.seat, self.channel)
        if found is None or found.superseded_at is not None or found.seq > self.outline.seq:
            return None
        return found if self.basis.shows(self.outline, found.grounds()) else None

    async def _assembled(self) -> dict[str, Tier]:
        resources = self.seat.resources
        scope = scope_of(self.seat.scope.user_id, self.channel)
        return assembled(
            await gather(resources, scope, self.outline, self.basis), self.basis, self.now, resources.settings.synopsis
        )


def holds(found: Tier, now: Basis, name: str, since: datetime) -> bool:
    """Whether a tier says what is known now. Turns that came since make the context old only with its time."""
    if name == "identity":
        return found.basis == now.identity and bool(found.made_by)
    fresh = found.turns == now.turns or (found.made_at is not None and found.made_at > since)
    return found.basis == now.context and bool(found.made_by) and fresh


def assembled(material: Material, found: Basis, now: datetime, options: SynopsisOptions) -> dict[str, Tier]:
    """Both tiers from facts alone, the same for the same facts."""
    rooms = shares(options.max_tokens, options)
    made = (FACTS, now)
    identity = fitting(identity_of(material), rooms["identity"], quarter)
    context = fitting(context_of(material), rooms["context"], quarter)
    return {
        "identity": tier(identity, found.identity, found.turns, made),
        "context": tier(context, found.context, found.turns, made),
    }


def shares(max_tokens: int, options: SynopsisOptions) -> dict[str, int]:
    """How many tokens each tier may take."""
    identity = int(max_tokens * options.identity_share)
    return {"identity": identity, "context": max_tokens - identity}


def joined(
    scope: Scope, parts: Sequence[dict[str, Tier]], options: SynopsisOptions, max_tokens: int, counter: Counter | None
) -> Synopsis:
    """The parts of several channels as one synopsis of at most so many tokens: of each in turn the next sentence."""
    count, rooms = counter or quarter, shares(max_tokens, options)
    found: dict[str, Tier] = {}
    for name in TIERS:
        tiers = [part[name] for part in parts if part[name].sentences]
        rows = zip_longest(*(each.sentences for each in tiers))
        kept = fitting([sentence for row in rows for sentence in row if sentence is not None], rooms[name], count)
        found[name] = _of(tiers, kept)
    made = build(Synopsis, user_id=scope.user_id, channel=scope.channel, **found)
    while made.text and count(made.text) > max_tokens:  # the headings take some, too
        name = "context" if made.context.sentences else "identity"
        found[name] = _of([found[name]], found[name].sentences[:-1])
        made = build(Synopsis, user_id=scope.user_id, channel=scope.channel, **found)
    return made


def _of(tiers: Sequence[Tier], sentences: Sequence[Sentence]) -> Tier:
    """A tier of some of the sentences of others."""
    if not tiers:
        return Tier()
    makers = dict.fromkeys(each.made_by for each in tiers)
    return Tier(
        sentences=tuple(sentences), shown=tuple(dict.fromkeys(key for each in tiers for key in each.shown)),
        turns=max(each.turns for each in tiers), made_by=", ".join(makers),
        made_at=min((each.made_at for each in tiers if each.made_at is not None), default=None),
    )  # fmt: skip


def _key(channel: str, name: str) -> str:
    # The documents' keys, identity:{user} and context:{user}; the store adds the user behind the first part.
    return name if channel == GLOBAL else f"{name}:{quote(channel, safe='')}"


# -- what is stored


def scope_of(user_id: str, channel: str) -> Scope:
    """The scope that writes to a channel of a user and reads nothing else."""
    agent = channel.removeprefix("_self_") if channel.startswith("_self_") else None
    return Scope(user_id, channel, agent, channels=(channel,))


def synopsis_id(user_id: str, channel: str) -> str:
    """The id of the synopsis of a channel."""
    return derived_id(user_id, "synopsis", channel)


async def stored(seat: Seat, channel: str) -> Synopsis | None:
    """The synopsis of a channel that the log holds; None when there is none."""
    user_id = seat.scope.user_id
    found = await seat.resources.log.get("Synopsis", [synopsis_id(user_id, channel)], seat.scope)
    return found[0] if found and isinstance(found[0], Synopsis) else None


async def store(
    seat: Seat, tiers: dict[str, Tier], expects: dict[Key, int], *, unless: Callable[[], Awaitable[bool]], fence: int
) -> JournalEntry | None:
    """Keep the synopsis of the seat's channel; None when `unless` says that what it was made from is no more."""
    scope = seat.scope

    async def put(write: Write) -> Change | None:
        if await unless():
            return None
        old = await stored(seat, scope.channel)
        new = build(Synopsis, id=synopsis_id(scope.user_id, scope.channel), channel=scope.channel, **tiers)
        if old is not None and old.superseded_at is None and (old.identity, old.context) == (new.identity, new.context):
            return None
        return write.change(new, expects={**expects, new.key: old.seq if old is not None else None})

    entry = await seat.resources.write(scope, "synopsis", put, kind="Synopsis", fence=fence)
    if entry is not None:  # what was put together before is not read any more
        with suppress(StoreError):
            for name in TIERS:
                await seat.resources.session.delete(scope, _key(scope.channel, name))
    return entry


async def synopses_written(seat: Seat) -> list[Key]:
    """The synopses of every channel that were ever stored: what is erased may stand in any version of any of them."""
    outline = await seat.resources.outline(seat.scope)
    keys = [("Synopsis", synopsis_id(seat.scope.user_id, channel)) for channel in sorted(outline.channels.values)]
    found: Any = await seat.resources.log.touched_since(keys, seat.scope, 0) if keys else {}
    return list(found)
