"""The sources of a synopsis: the current records of one channel, the most informative first, and their sentences."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from agentmem.core.columns import Bools, Ints, RecordColumns
from agentmem.core.lifecycle import importance
from agentmem.core.local_time import LocalTime
from agentmem.core.record import Key, Record
from agentmem.core.records import Fact, Goal, SynopsisSection, SynopsisSentence, User
from agentmem.core.scope import Scope
from agentmem.core.truth_maintenance import find_stale
from agentmem.engine.engine import Engine
from agentmem.memory.context import MemoryContext
from agentmem.memory.premises import read_grounds
from agentmem.memory.semantic.belief_lines import BeliefLine, build_belief_lines
from agentmem.memory.semantic.belief_view import BeliefView
from agentmem.memory.user_zone import read_local_time
from agentmem.stores.values import RecordUsage
from agentmem.text.normalization import slugify
from agentmem.text.plain_line import to_plain_line

MADE_FROM_FACTS = "facts"  # who made a tier that no model wrote
MAX_SENTENCE_CHARS = 300  # characters of a sentence
MAX_RECORDS_ON_LOOP = 16_384  # records, up to which a change of threads takes longer than looking at them
MAX_GOALS, MAX_GOALS_READ = 20, 1000
MAX_FACTS_BEFORE_PREFERENCES = 15  # facts about the user that come before preferences
_USAGE_SATURATION = 101  # uses from which more of them say nothing
_USER_NAMES = frozenset({"user", "the-user"})


class SourceSnapshot(NamedTuple):
    """What a part of a synopsis depends on: digests of the current records, and the position of the latest turn."""

    identity_digest: str
    context_digest: str
    last_turn_seq: int
    visible: Bools

    def has_all(self, columns: RecordColumns, keys: Iterable[Key]) -> bool:
        """Whether all of these records are still current in the channel."""
        ordinals = [columns.ordinals_by_key.get(key, -1) for key in keys]
        return all(ordinal >= 0 and bool(self.visible[ordinal]) for ordinal in ordinals)


def take_snapshot(columns: RecordColumns, channel: str, now: datetime) -> SourceSnapshot:
    """The basis of a channel's synopsis now; the digests are empty where there is nothing of that kind."""
    visible = columns.build_visibility_mask((channel,), now=now).mask
    facts = _compute_digest(columns, visible, ("Fact", "User"))
    turns = columns.seqs[visible & (columns.kind == columns.kinds.find_code("Turn"))]
    goals = _compute_digest(columns, visible, ("Goal",))
    return SourceSnapshot(facts, f"{facts}.{goals}" if facts or goals else "", int(turns.max(initial=0)), visible)


async def take_snapshots(columns: RecordColumns, channels: Iterable[str], now: datetime) -> dict[str, SourceSnapshot]:
    """The basis of each of these channels; of a large memory on a thread, so that the loop is not held."""

    def all_of_them() -> dict[str, SourceSnapshot]:
        return {channel: take_snapshot(columns, channel, now) for channel in channels}

    return all_of_them() if columns.size <= MAX_RECORDS_ON_LOOP else await asyncio.to_thread(all_of_them)


def _compute_digest(columns: RecordColumns, visible: Bools, kinds: Sequence[str]) -> str:
    ordinals = np.flatnonzero(visible & columns.kinds.mask_for(kinds)[columns.kind])
    if not len(ordinals):
        return ""
    rows = np.stack((ordinals, columns.seqs[ordinals]))
    return blake2b(rows.tobytes(), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class SynopsisSources:
    """What is known in one channel, each list with the most informative first. `beliefs` are facts that fill slots."""

    profile: User | None = None
    beliefs: Sequence[BeliefLine] = ()
    about_user: Sequence[Fact] = ()
    preferences: Sequence[Fact] = ()
    about_others: Sequence[Fact] = ()
    recent_facts: Sequence[Fact] = ()
    goals: Sequence[Goal] = ()
    versions: Mapping[Key, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        lists = (
            self.beliefs,
            self.about_user,
            self.preferences,
            self.about_others,
            self.recent_facts,
            self.goals,
        )
        return self.profile is None and not any(lists)


async def read_sources(
    engine: Engine, scope: Scope, columns: RecordColumns, snapshot: SourceSnapshot
) -> SynopsisSources:
    """Read what a synopsis of the scope's channel is made from; as much of it as the settings allow."""
    options, visible = engine.settings.synopsis, snapshot.visible
    facts = _select_most_salient(columns, visible & (columns.kind == columns.kinds.find_code("Fact")), options.facts)
    goals = np.flatnonzero(visible & (columns.kind == columns.kinds.find_code("Goal")))[-MAX_GOALS_READ:]
    users = np.flatnonzero(visible & (columns.kind == columns.kinds.find_code("User")))[:1]
    ordinals = [int(ordinal) for ordinal in (*facts, *goals, *users)]
    records = {record.key: record for record in await engine.log.read_by_ordinal(ordinals, scope)} if ordinals else {}
    local = await read_local_time(MemoryContext(engine, scope))
    records = {key: local.relocate(record) for key, record in records.items()}
    known = [record for record in records.values() if isinstance(record, Fact)]
    sure = [fact for fact in known if fact.confidence >= options.least_confidence]
    ranked = await _rank_facts(engine, scope, [fact for fact in sure if not fact.slot])
    lasting = [fact for fact in ranked if not _is_transient(fact)]
    names = {*_USER_NAMES, slugify(scope.user_id)}
    about = [fact for fact in lasting if slugify(fact.subject or "user") in names]
    profiles = [record for record in records.values() if isinstance(record, User)]
    return SynopsisSources(
        profile=profiles[0] if profiles else None,
        beliefs=await _read_belief_lines(engine, scope, local),
        about_user=[fact for fact in about if fact.memory_type != "preference"],
        preferences=[fact for fact in about if fact.memory_type == "preference"],
        about_others=[fact for fact in lasting if slugify(fact.subject or "user") not in names],
        recent_facts=[fact for fact in ranked if _is_transient(fact)],
        goals=_select_goals(records.values()),
        versions={key: record.seq for key, record in records.items()},
    )


def _select_most_salient(columns: RecordColumns, mask: Bools, limit: int) -> Ints:
    """The most salient ordinals, newest first among equals."""
    ordinals = np.flatnonzero(mask)
    weight = columns.salience[ordinals].astype(np.float64) * columns.confidence[ordinals]
    order = np.lexsort((-columns.seqs[ordinals], -weight))
    return np.asarray(ordinals[order[:limit]])


async def _read_belief_lines(engine: Engine, scope: Scope, local: LocalTime) -> list[BeliefLine]:
    """What is believed in the scope's channel, without what is private."""
    states = await BeliefView(MemoryContext(engine, scope)).beliefs()
    shown = [state.relocate(local) for state in states]
    lines = build_belief_lines(shown, await engine.now(scope), engine.settings.slots)
    return [line for line in lines if not line.is_private]


async def _rank_facts(engine: Engine, scope: Scope, facts: Sequence[Fact]) -> list[Fact]:
    """The facts that hold and whose premises do, by importance, salience and use."""
    now = await engine.now(scope)
    resting = [fact for fact in facts if fact.depends_on]
    stale = (
        find_stale(await read_grounds(resting, engine.log, scope, scope.readable_channels()), now) if resting else {}
    )
    kept = [fact for fact in facts if fact.stale_since is None and fact.id not in stale]
    kept = [fact for fact in kept if fact.temporal_context != "past"]
    usage = await engine.log.usage([fact.key for fact in kept], scope) if kept else {}

    def place(fact: Fact) -> tuple[float, int, str]:
        weight = _weight(fact, usage.get(fact.key), now, engine) * fact.confidence * fact.trust
        return -round(weight, 6), -fact.seq, fact.id

    return sorted(kept, key=place)


def _weight(fact: Fact, usage: RecordUsage | None, now: datetime, engine: Engine) -> float:
    used = 0 if usage is None else usage.access_count + usage.use_count
    familiar = min(1.0, math.log(used + 1) / math.log(_USAGE_SATURATION))
    stated = importance(fact.recorded_at or now, 0, fact.importance, now, engine.settings.decay)
    return stated + 0.3 * fact.salience + 0.3 * familiar


def _is_transient(fact: Fact) -> bool:
    return fact.memory_type == "context" or fact.tier == "short"


def _select_goals(records: Iterable[Record]) -> list[Goal]:
    goals = [record for record in records if isinstance(record, Goal) and record.is_open]
    goals.sort(key=lambda goal: (not goal.pursued_in, goal.goal_status != "active", -goal.priority, goal.seq))
    return goals[:MAX_GOALS]


# -- sentences without a model


def identity_sentences(sources: SynopsisSources) -> list[SynopsisSentence]:
    """Who the user is: the profile, what is believed of the user and others, then other facts and preferences."""
    known = (
        *sources.about_user[:MAX_FACTS_BEFORE_PREFERENCES],
        *sources.preferences,
        *sources.about_user[MAX_FACTS_BEFORE_PREFERENCES:],
        *sources.about_others,
    )
    beliefs = belief_sentences([line for line in sources.beliefs if line.section != "planned"])
    return [*_profile_sentences(sources.profile), *beliefs, *_claim_sentences(known)]


def context_sentences(sources: SynopsisSources) -> list[SynopsisSentence]:
    """What goes on: open goals, plans, then facts of the moment."""
    goals = [SynopsisSentence(text=truncate(render_goal(goal)), grounds=(goal.key,)) for goal in sources.goals]
    plans = belief_sentences([line for line in sources.beliefs if line.section == "planned"])
    return [*goals, *plans, *_claim_sentences(sources.recent_facts)]


def belief_sentences(lines: Iterable[BeliefLine]) -> list[SynopsisSentence]:
    """Lines of beliefs as sentences; those that nothing is known of any more and plans say so."""
    words = {"unknown": "Not known any more: ", "planned": "Planned: "}
    return [
        SynopsisSentence(text=truncate(f"{words.get(line.section, '')}{line.text}"), grounds=line.keys)
        for line in lines
    ]


def render_goal(goal: Goal) -> str:
    """What is to be reached, and by when."""
    blocked = "blocked" if goal.goal_status == "blocked" else ""
    told = "; ".join(part for part in (blocked, f"by {render_date(goal.deadline)}" if goal.deadline else "") if part)
    return f"Goal: {goal.description}{f' ({told})' if told else ''}"


def render_date(moment: datetime) -> str:
    """A date as `7 May 2023`."""
    return f"{moment.day} {moment:%B %Y}"


def truncate(text: str) -> str:
    """On one line, and not too long."""
    plain = to_plain_line(text)
    return plain if len(plain) <= MAX_SENTENCE_CHARS else plain[: MAX_SENTENCE_CHARS - 1].rstrip() + "…"


def build_section(
    sentences: Sequence[SynopsisSentence], digest: str, last_turn_seq: int, made: tuple[str, datetime]
) -> SynopsisSection:
    """A tier of sentences that rest on what they name alone."""
    shown = tuple(dict.fromkeys(key for sentence in sentences for key in sentence.grounds))
    return SynopsisSection(
        sentences=tuple(sentences), shown=shown, basis=digest, turns=last_turn_seq, made_by=made[0], made_at=made[1]
    )


def fit_to_budget(
    sentences: Iterable[SynopsisSentence], max_tokens: int, counter: Callable[[str], int]
) -> list[SynopsisSentence]:
    """As many sentences as fit into so many tokens, each once, in their order; one that is too long is passed over."""
    kept: list[SynopsisSentence] = []
    said: set[str] = set()
    for sentence in sentences:
        if sentence.text.casefold() in said:
            continue
        text = "\n".join(f"- {each.text}" for each in (*kept, sentence))
        if counter(text) <= max_tokens:
            kept.append(sentence)
            said.add(sentence.text.casefold())
    return kept


def _claim_sentences(facts: Iterable[Fact]) -> list[SynopsisSentence]:
    return [SynopsisSentence(text=truncate(render_claim(fact)), grounds=(fact.key,)) for fact in facts]


def render_claim(fact: Fact) -> str:
    """The claim, and until when it holds where that is known."""
    return f"{fact.claim} (until {render_date(fact.valid_to)})" if fact.valid_to else fact.claim


def _profile_sentences(user: User | None) -> list[SynopsisSentence]:
    if user is None:
        return []
    fields = ("preferences", "expertise_areas", "communication_style")
    told = {name: getattr(user, name) for name in fields if getattr(user, name)}
    return [
        SynopsisSentence(text=truncate(f"{name.replace('_', ' ')}: {_render_value(value)}"), grounds=(user.key,))
        for name, value in told.items()
    ]


def _render_value(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_render_value(each)}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
