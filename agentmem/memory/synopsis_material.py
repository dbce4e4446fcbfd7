"""What a synopsis is made from: the current records of one channel, the most telling first, and sentences of them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from agentmem.memory.buffer_messages import Message
from agentmem.memory.buffer_summary import extractive
from agentmem.model.clock import EPOCH, aware
from agentmem.model.decay import importance
from agentmem.model.outline import Bools, Ints, Outline
from agentmem.model.premises import fallen, with_premises
from agentmem.model.records import Fact, Goal, Key, Record, Turn, User
from agentmem.model.scope import Scope
from agentmem.model.synopsis import Sentence, Tier
from agentmem.resources import Resources
from agentmem.stores import Usage
from agentmem.text.names import slug

FACTS = "facts"  # who made a tier that no model wrote
TALKED = 20  # turns of a conversation that are read
TURN_CHARACTERS = 1000  # of each
TALK_CHARACTERS = 160
LONGEST = 300  # characters of a sentence
FEW = 16_384  # records, up to which a change of threads takes longer than looking at them
GOALS, GOALS_READ = 20, 1000
BEFORE = 15  # facts about the user that come before preferences
_COMMON = 101  # uses from which more of them say nothing
_THE_USER = frozenset({"user", "the-user"})


class Basis(NamedTuple):
    """What a part of a synopsis depends on: digests of the current records, and the position of the latest turn."""

    identity: str
    context: str
    turns: int
    visible: Bools

    def shows(self, outline: Outline, keys: Iterable[Key]) -> bool:
        """Whether all of these records are still current in the channel."""
        slots = [outline.slots.get(key, -1) for key in keys]
        return all(slot >= 0 and bool(self.visible[slot]) for slot in slots)


def basis(outline: Outline, channel: str, now: datetime) -> Basis:
    """The basis of a channel's synopsis now; the digests are empty where there is nothing of that kind."""
    visible = outline.view((channel,), now=now).mask
    facts = _digest(outline, visible, ("Fact", "User"))
    turns = outline.seqs[visible & (outline.kind == outline.kinds.find("Turn"))]
    goals = _digest(outline, visible, ("Goal",))
    return Basis(facts, f"{facts}.{goals}" if facts or goals else "", int(turns.max(initial=0)), visible)


async def bases(outline: Outline, channels: Iterable[str], now: datetime) -> dict[str, Basis]:
    """The basis of each of these channels; of a large memory on a thread, so that the loop is not held."""

    def all_of_them() -> dict[str, Basis]:
        return {channel: basis(outline, channel, now) for channel in channels}

    return all_of_them() if outline.size <= FEW else await asyncio.to_thread(all_of_them)


def _digest(outline: Outline, visible: Bools, kinds: Sequence[str]) -> str:
    slots = np.flatnonzero(visible & outline.kinds.among(kinds)[outline.kind])
    if not len(slots):
        return ""
    rows = np.stack((slots, outline.seqs[slots]))
    return blake2b(rows.tobytes(), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation of late: when its last turn was, its turns at hand, and what they say in short."""

    at: datetime
    turns: tuple[Turn, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Material:
    """What is known in one channel, each list with the most telling first."""

    profile: User | None = None
    about: Sequence[Fact] = ()
    preferences: Sequence[Fact] = ()
    others: Sequence[Fact] = ()
    lately: Sequence[Fact] = ()
    goals: Sequence[Goal] = ()
    talks: Sequence[Talk] = ()
    seqs: Mapping[Key, int] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether nothing is known."""
        lists = (self.about, self.preferences, self.others, self.lately, self.goals, self.talks)
        return self.profile is None and not any(lists)


async def gather(resources: Resources, scope: Scope, outline: Outline, found: Basis) -> Material:
    """Read what a synopsis of the scope's channel is made from; as much of it as the settings allow."""
    options, visible = resources.settings.synopsis, found.visible
    facts = _most(outline, visible & (outline.kind == outline.kinds.find("Fact")), options.facts)
    goals = np.flatnonzero(visible & (outline.kind == outline.kinds.find("Goal")))[-GOALS_READ:]
    users = np.flatnonzero(visible & (outline.kind == outline.kinds.find("User")))[:1]
    talks = _talks(outline, visible, options.conversations)
    slots = [int(slot) for slot in (*facts, *goals, *users, *(slot for talk in talks for slot in talk))]
    records = {record.key: record for record in await resources.log.by_slot(slots, scope)} if slots else {}
    known = [record for record in records.values() if isinstance(record, Fact)]
    ranked = await _ranked(resources, scope, [fact for fact in known if fact.confidence >= options.least_confidence])
    lasting = [fact for fact in ranked if not _of_the_moment(fact)]
    names = {*_THE_USER, slug(scope.user_id)}
    about = [fact for fact in lasting if slug(fact.subject or "user") in names]
    profiles = [record for record in records.values() if isinstance(record, User)]
    return Material(
        profile=profiles[0] if profiles else None,
        about=[fact for fact in about if fact.memory_type != "preference"],
        preferences=[fact for fact in about if fact.memory_type == "preference"],
        others=[fact for fact in lasting if slug(fact.subject or "user") not in names],
        lately=[fact for fact in ranked if _of_the_moment(fact)],
        goals=_goals(records.values()),
        talks=[told for talk in talks if (told := _talk(outline, talk, records)).turns],
        seqs={key: record.seq for key, record in records.items()},
    )  # fmt: skip


def _most(outline: Outline, mask: Bools, most: int) -> Ints:
    """The most salient slots, newest first among equals."""
    slots = np.flatnonzero(mask)
    weight = outline.salience[slots].astype(np.float64) * outline.confidence[slots]
    order = np.lexsort((-outline.seqs[slots], -weight))
    return np.asarray(slots[order[:most]])


def _talks(outline: Outline, visible: Bools, most: int) -> list[Ints]:
    """The last turns of the conversations of late, in their order, the latest conversation first."""
    turns = np.flatnonzero(visible & (outline.kind == outline.kinds.find("Turn")))
    latest: dict[int, int] = {}
    for slot in turns[np.argsort(outline.seqs[turns], kind="stable")][-1000:]:
        latest[int(outline.conversation[slot])] = int(outline.seqs[slot])
    codes = sorted(latest, key=lambda code: -latest[code])[:most]
    found = (turns[outline.conversation[turns] == code] for code in codes)
    return [slots[np.argsort(outline.position[slots], kind="stable")][-TALKED:] for slots in found]


def _talk(outline: Outline, slots: Ints, records: Mapping[Key, Record]) -> Talk:
    found = (records.get(("Turn", outline.ids[slot])) for slot in slots)
    turns = tuple(turn for turn in found if isinstance(turn, Turn))
    moments = [aware(moment) for turn in turns if (moment := turn.timestamp or turn.recorded_at) is not None]
    at = max(moments, default=EPOCH)
    said = [
        Message(role=(turn.speaker or turn.role)[:20], content=shown, timestamp=at)
        for turn in turns
        if (shown := turn.content[:TURN_CHARACTERS].strip())
    ]
    text = " ".join(extractive(said, TALK_CHARACTERS).split()) if said else ""
    return Talk(at, turns, text)


async def _ranked(resources: Resources, scope: Scope, facts: Sequence[Fact]) -> list[Fact]:
    """The facts that hold and whose premises do, by importance, salience and use."""

    async def read(ids: Sequence[str]) -> Sequence[Record]:
        return await resources.log.get("Fact", ids, scope)

    now = await resources.now(scope)
    resting = [fact for fact in facts if fact.depends_on]
    stale = fallen(await with_premises(resting, read), now) if resting else {}
    kept = [fact for fact in facts if fact.stale_since is None and fact.id not in stale]
    kept = [fact for fact in kept if fact.temporal_context != "past"]
    usage = await resources.log.usage([fact.key for fact in kept], scope) if kept else {}

    def place(fact: Fact) -> tuple[float, int, str]:
        weight = _weight(fact, usage.get(fact.key), now, resources) * fact.confidence * fact.trust
        return -round(weight, 6), -fact.seq, fact.id

    return sorted(kept, key=place)


def _weight(fact: Fact, usage: Usage | None, now: datetime, resources: Resources) -> float:
    used = 0 if usage is None else usage.access_count + usage.use_count
    familiar = min(1.0, math.log(used + 1) / math.log(_COMMON))
    stated = importance(fact.recorded_at or now, 0, fact.importance, now, resources.settings.decay)
    return stated + 0.3 * fact.salience + 0.3 * familiar


def _of_the_moment(fact: Fact) -> bool:
    return fact.memory_type == "context" or fact.tier == "short"


def _goals(records: Iterable[Record]) -> list[Goal]:
    goals = [record for record in records if isinstance(record, Goal) and record.open]
    goals.sort(key=lambda goal: (not goal.pursued_in, goal.goal_status != "active", -goal.priority, goal.seq))
    return goals[:GOALS]


# -- sentences without a model


def identity_of(material: Material) -> list[Sentence]:
    """Who the user is: the profile, what is known about the user, preferences, then what is known of others."""
    known = (*material.about[:BEFORE], *material.preferences, *material.about[BEFORE:], *material.others)
    return [*_of_profile(material.profile), *_claims(known)]


def context_of(material: Material) -> list[Sentence]:
    """What goes on: open goals, facts of the moment, then what was talked about."""
    goals = [Sentence(text=cut(goal_text(goal)), grounds=(goal.key,)) for goal in material.goals]
    talks = [
        Sentence(text=cut(f"On {day(talk.at)}: {talk.text}"), grounds=tuple(turn.key for turn in talk.turns))
        for talk in material.talks
        if talk.text
    ]
    return [*goals, *talks[:1], *_claims(material.lately), *talks[1:]]


def goal_text(goal: Goal) -> str:
    """What is to be reached, and by when."""
    blocked = "blocked" if goal.goal_status == "blocked" else ""
    told = "; ".join(part for part in (blocked, f"by {day(goal.deadline)}" if goal.deadline else "") if part)
    return f"Goal: {goal.description}{f' ({told})' if told else ''}"


def day(moment: datetime) -> str:
    """A date as `7 May 2023`."""
    return f"{moment.day} {moment:%B %Y}"


def cut(text: str) -> str:
    """On one line, and not too long."""
    plain = " ".join(text.split())
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 1].rstrip() + "…"


def tier(sentences: Sequence[Sentence], basis: str, turns: int, made: tuple[str, datetime]) -> Tier:
    """A tier of sentences that rest on what they name alone."""
    shown = tuple(dict.fromkeys(key for sentence in sentences for key in sentence.grounds))
    return Tier(sentences=tuple(sentences), shown=shown, basis=basis, turns=turns, made_by=made[0], made_at=made[1])


def fitting(sentences: Iterable[Sentence], room: int, counter: Callable[[str], int]) -> list[Sentence]:
    """As many sentences as fit into so many tokens, each once, in their order; one that is too long is passed over."""
    kept: list[Sentence] = []
    said: set[str] = set()
    for sentence in sentences:
        if sentence.text.casefold() in said:
            continue
        text = "\n".join(f"- {each.text}" for each in (*kept, sentence))
        if counter(text) <= room:
            kept.append(sentence)
            said.add(sentence.text.casefold())
    return kept


def _claims(facts: Iterable[Fact]) -> list[Sentence]:
    return [Sentence(text=cut(claim_text(fact)), grounds=(fact.key,)) for fact in facts]


def claim_text(fact: Fact) -> str:
    """The claim, and until when it holds where that is known."""
    return f"{fact.claim} (until {day(fact.valid_to)})" if fact.valid_to else fact.claim


def _of_profile(user: User | None) -> list[Sentence]:
    if user is None:
        return []
    fields = ("preferences", "expertise_areas", "communication_style")
    told = {name: getattr(user, name) for name in fields if getattr(user, name)}
    return [Sentence(text=cut(f"{name.replace('_', ' ')}: {_plain(value)}"), grounds=(user.key,))
            for name, value in told.items()]  # fmt: skip


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(each)}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
