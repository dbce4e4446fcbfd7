"""Turns become knowledge: what turns say is read, grounded in their words, and settled with what is known.

An extractor reads a `Window` and gives an `ExtractionDraft`; nothing in a draft is stored yet, and whoever made it is
not trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from agentmem.beliefs.belief import Mark, Operation
from agentmem.beliefs.slots import Slot
from agentmem.core.records import Entity, Fact, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Turns to be extracted together, in order, and what is known around them.

    `context_turns` are the turns of the same conversation just before, for reading only. `known_facts` and
    `known_entities` are those that were known in scope before, the most related first; a draft may name their ids.
    `participants` are the names of who speaks. `agent_id` is whose private channel takes what the assistant says of
    itself, None for nobody's. `slots` are the application's own. `day_first` tells how 05/07/2026 is read, None for the
    language of the text.
    """

    conversation_id: str
    channel: str
    turns: tuple[Turn, ...]
    context_turns: tuple[Turn, ...] = ()
    known_facts: tuple[Fact, ...] = ()
    known_entities: tuple[Entity, ...] = ()
    participants: tuple[str, ...] = ()
    agent_id: str | None = None
    slots: Mapping[str, Slot] = field(default_factory=dict)
    day_first: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactDraft:
    """A claim that a turn makes, in the third person and understood alone.

    `quote` is the stretch of the turn that it rests on, at `span` in characters once it was found there.
    `review_reason` says why a person should look at it first; "" where nobody need. `entities` are names, each of
    an EntityDraft or a known entity. `certainty` is explicit, implied, inferred or uncertain. `valid_from` and
    `valid_to` are world time, None where the turn does not say, `time_words` what it says of that and no date;
    `negated` tells that it denies something. `supersedes_id` is the id of the known fact that it replaces: with
    `is_correction` because that was wrong, else because the world changed. `slot`, `value`, `operation` and `mark`
    make it a claim about a slot, which the decision table settles. `ends_fact_ids` are the ids of known facts that
    came to their end, `doubts_fact_ids` of those that may have. `depends_on` are ids of known facts, and names of
    drafts before this one, without which this one would not hold; `name` is the draft's own. `agent_private` puts
    it in the agent's own channel, and with `is_general` it changes what is believed in every channel, where that is
    told of.
    """

    turn_id: str
    claim: str
    quote: str
    span: tuple[int, int] | None = None
    subject: str = "user"
    certainty: str = ""
    temporal_context: str = ""
    memory_type: str = "fact"
    negated: bool = False
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    time_words: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    supersedes_id: str = ""
    is_correction: bool = False
    ends_fact_ids: tuple[str, ...] = ()
    doubts_fact_ids: tuple[str, ...] = ()
    agent_private: bool = False
    is_general: bool = False
    tags: tuple[str, ...] = ()
    review_reason: str = ""
    slot: str = ""
    value: str = ""
    operation: Operation = "is"
    mark: Mark = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityDraft:
    """Somebody or something that a turn names. `type` is a lower-case word: person, place, organisation, thing, …"""

    turn_id: str
    name: str
    type: str = "thing"
    aliases: tuple[str, ...] = ()
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationDraft:
    """A relation between two entities by name; `kind` is a name of EdgeKind's relations, or the caller's own word."""

    turn_id: str
    source: str
    kind: str
    target: str
    quote: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSummaryDraft:
    """See `Gloss`. `context_turn_ids` are ids of the other turns that it took something from."""

    turn_id: str
    standalone: str = ""
    keys: tuple[str, ...] = ()
    context_turn_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionDraft:
    """What an extractor found in a window. `notes` say what was left out and why, for reports; they hold no text."""

    facts: tuple[FactDraft, ...] = ()
    entities: tuple[EntityDraft, ...] = ()
    relations: tuple[RelationDraft, ...] = ()
    summaries: tuple[TurnSummaryDraft, ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple)
