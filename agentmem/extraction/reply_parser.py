"""A model's reply becomes a draft: labels become ids, words are looked up, what does not hold is left out or doubted.

Only labels that were given are understood, so no reply can name a record of anybody else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from agentmem.core.records import RELATION_KINDS, Fact, Turn
from agentmem.core.scope import is_self_channel
from agentmem.extraction.claims import expand_to_clauses, is_hypothetical, is_negated, is_only_question, nearest_clauses
from agentmem.extraction.drafts import EntityDraft, ExtractionDraft, FactDraft, RelationDraft, TurnSummaryDraft, Window
from agentmem.extraction.grounding import (
    GroundingContext,
    align_quote,
    is_assistant_turn,
    normalize_draft,
    rejection_reason,
    turn_time,
)
from agentmem.extraction.reply_schema import (
    MAX_SENTENCE_CHARS,
    AgentExtractionReply,
    EntityItem,
    ExtractionReply,
    FactItem,
    RelationItem,
    TurnItem,
)
from agentmem.text.normalization import normalize_claim, slugify
from agentmem.text.temporal import TimeRange, parse_date_range
from agentmem.text.tokenizer import tokenize

MAX_CONTEXT_TURNS = 6
MAX_KNOWN_FACTS = 40
MAX_KNOWN_ENTITIES = 40

_NON_ENTITY_SLUGS = frozenset(
    (
        "user",
        "the-user",
        "users",
        "agent",
        "the-agent",
        "assistant",
        "the-assistant",
        "ai",
        "me",
        "i",
        "myself",
        "you",
        "we",
        "us",
    )
)
_ENTITY_TYPE = re.compile(r"[a-z][a-z _-]{0,29}")
_RESERVED_TYPES = frozenset(("agent", "user", "assistant"))
_RELATION_KIND = re.compile(r"[A-Za-z][A-Za-z _-]{0,39}")
_GENERIC_TERMS = frozenset(
    tokenize(
        "user agent assistant every also still just really always never often time day week month year today new old "
        "good like love want get go make take use first last one two many much thing people year-old current usual"
    )
)
"""Words that two claims about different things share easily."""


@dataclass(frozen=True, slots=True)
class LabelMap:
    """The short names by which a prompt calls the turns to read, the ones before and the known facts."""

    turns: Mapping[str, Turn]
    context_turns: Mapping[str, Turn]
    facts: Mapping[str, Fact]

    @classmethod
    def from_window(cls, window: Window) -> LabelMap:
        """T1, T2, … for the turns, C1, C2, … for the last of those before, F1, F2, … for the first known facts."""
        return cls(
            {f"T{n}": turn for n, turn in enumerate(window.turns, 1)},
            {f"C{n}": turn for n, turn in enumerate(window.context_turns[-MAX_CONTEXT_TURNS:], 1)},
            {f"F{n}": fact for n, fact in enumerate(window.known_facts[:MAX_KNOWN_FACTS], 1)},
        )


def parse_reply(reply: ExtractionReply, window: Window, prompt: str) -> ExtractionDraft:
    """What people said, from the reply to the `prompt`: every turn gets a gloss, if an empty one."""
    work = _ReplyParser(GroundingContext(window, prompt), LabelMap.from_window(window), agent_private=False)
    work.notes += reply.notes
    entities = list(work.parse_entities(reply.entities))
    work.entity_slugs = {slugify(name) for entity in entities for name in (entity.name, *entity.aliases)}
    facts = work.parse_facts(reply.facts)
    relations = tuple(work.parse_relations(reply.relations))
    glosses = tuple(work.parse_summaries(reply.turns))
    return ExtractionDraft(
        facts=facts,
        entities=(*entities, *work.speaker_entities.values()),
        relations=relations,
        summaries=glosses,
        notes=tuple(work.notes),
    )


def parse_agent_reply(reply: AgentExtractionReply, window: Window, prompt: str) -> ExtractionDraft:
    """What the assistant said of itself: facts alone, private ones, and who speaks where one names them."""
    work = _ReplyParser(GroundingContext(window, prompt), LabelMap.from_window(window), agent_private=True)
    work.notes += reply.notes
    facts = work.parse_facts(reply.facts)
    return ExtractionDraft(facts=facts, entities=tuple(work.speaker_entities.values()), notes=tuple(work.notes))


@dataclass
class _ReplyParser:
    """One reply on its way; `entity_slugs` are slugs of the entities that it names, `speaker_entities` those who had
    to be added.
    """

    grounding: GroundingContext
    labels: LabelMap
    agent_private: bool
    notes: list[str] = field(default_factory=list)
    entity_slugs: set[str] = field(default_factory=set)
    speaker_entities: dict[str, EntityDraft] = field(default_factory=dict)

    def parse_facts(self, items: Iterable[FactItem]) -> tuple[FactDraft, ...]:
        """Each claim of a turn once; what is refused leaves a note."""
        kept: dict[tuple[str, str], FactDraft] = {}
        for item in items:
            turn = self._find_turn(item.turn, "fact")
            if turn is None:
                continue
            draft = self._parse_fact(item, turn)
            if reason := rejection_reason(draft, self.grounding):
                self.notes.append(f"fact: {reason}")
                continue
            kept.setdefault(
                (turn.id, normalize_claim(draft.claim)), self._link(normalize_draft(draft, self.grounding), item)
            )
        return tuple(kept.values())

    def _parse_fact(self, item: FactItem, turn: Turn) -> FactDraft:
        """The claim with its quote looked up and its times resolved; not yet judged."""
        when, until = self._resolve_stated_time(item.when, turn), self._resolve_stated_time(item.until, turn)
        at = turn_time(turn)
        # What is over is told by its label; an end in world time would retire the very fact that tells of it.
        ends = until[1] if until and item.temporal != "past" and at is not None and until[1] > at else None
        begins = when[0] if when else None
        return FactDraft(
            turn_id=turn.id,
            claim=item.claim,
            quote=item.quote,
            span=align_quote(self.grounding.text_of(turn), item.quote),
            subject=item.subject or "other",
            certainty=item.certainty or "",
            temporal_context=item.temporal or "",
            memory_type=item.kind or "fact",
            negated=item.negated,
            valid_from=begins,
            valid_to=None if ends and begins and ends <= begins else ends,
            entities=tuple(item.entities),
            agent_private=self.agent_private,
        )

    def _resolve_stated_time(self, text: str | None, turn: Turn) -> TimeRange | None:
        """The range of time that a model's date stands for, None with a note for one that nobody said."""
        if text is None or text.strip().lower() in ("", "null", "none"):
            return None
        found = parse_date_range(text)
        if found is None:
            self.notes.append("date: it cannot be read")
        elif self.grounding.is_time_stated(found, turn):
            return found
        else:
            self.notes.append("date: date not said")
        return None

    def _link(self, draft: FactDraft, item: FactItem) -> FactDraft:
        """The fact with the entities and known facts that it names, those that hold."""
        entities = tuple(dict.fromkeys(name for name in draft.entities if self._ensure_entity(name, draft.turn_id)))
        if "order:" in draft.review_reason:
            return replace(draft, entities=entities)
        replaces = self._resolve_fact_label(item.replaces, draft, modifies=True)
        ended = self._resolve_fact_label(item.ended, draft, modifies=True) if not replaces else ""
        premises = [self._resolve_fact_label(label, draft) for label in item.depends_on]
        return replace(
            draft,
            entities=entities,
            supersedes_id=replaces,
            ends_fact_id=ended,
            is_correction=bool(replaces) and item.why_replaced == "wrong",
            depends_on=tuple(dict.fromkeys(name for name in premises if name and name not in (replaces, ended))),
        )

    def _resolve_fact_label(self, label: str | None, draft: FactDraft, *, modifies: bool = False) -> str:
        """The id of a known fact; "" with a note for a label that was not given, or a fact that this one cannot end."""
        if not label or label.lower() in ("null", "none"):
            return ""
        fact = self.labels.facts.get(label)
        if fact is None:
            self.notes.append("link: label unknown")
            return ""
        if modifies and not (_has_same_owner(fact, self.agent_private) and self._is_related(fact, draft)):
            self.notes.append("link: to a fact about something else")
            return ""
        return fact.id

    def _is_related(self, fact: Fact, draft: FactDraft) -> bool:
        """Whether two facts speak of the same thing, by a word of substance that is no name of who speaks."""
        said = set(tokenize(f"{draft.claim} {draft.quote}"))
        return not said.isdisjoint(set(tokenize(fact.claim)) - self.grounding.speaker_terms - _GENERIC_TERMS)

    def _find_turn(self, label: str, item_kind: str) -> Turn | None:
        turn = self.labels.turns.get(label)
        if turn is None:
            earlier = label in self.labels.context_turns
            self.notes.append(f"{item_kind}: {'of a turn that is context only' if earlier else 'turn unknown'}")
        return turn

    def parse_entities(self, items: Iterable[EntityItem]) -> Iterator[EntityDraft]:
        """Each named entity once, with the aliases that were said."""
        seen: set[str] = set()
        for item in items:
            turn = self._find_turn(item.turn, "entity")
            if turn is None or slugify(item.name) in seen:
                continue
            if slugify(item.name) in _NON_ENTITY_SLUGS or not self._is_partly_named(item.name):
                self.notes.append("entity: it was not named")
                continue
            seen.add(slugify(item.name))
            kind = item.type.strip().lower()
            yield EntityDraft(
                turn_id=turn.id,
                name=item.name,
                aliases=tuple(self._parse_aliases(item)),
                type=kind if _ENTITY_TYPE.fullmatch(kind) and kind not in _RESERVED_TYPES else "thing",
            )

    def _parse_aliases(self, item: EntityItem) -> Iterator[str]:
        """Aliases whose every word was said, and that are the name of nobody else."""
        others = {
            slugify(name)
            for entity in self.grounding.window.known_entities
            for name in (entity.name, *entity.aliases)
            if slugify(item.name) not in {slugify(one) for one in (entity.name, *entity.aliases)}
        }
        taken = others | _NON_ENTITY_SLUGS | (self.grounding.speaker_slugs - {slugify(item.name)})
        for alias in item.aliases:
            if slugify(alias) in taken or not all(map(self.grounding.is_known_name, alias.split())):
                self.notes.append("alias: it was not said, or is somebody else's name")
            elif slugify(alias) != slugify(item.name):
                yield alias

    def _is_partly_named(self, name: str) -> bool:
        found = tokenize(name) or [name.casefold()]
        return sum(map(self.grounding.is_known_name, found)) * 2 >= len(found)

    def _ensure_entity(self, name: str, turn_id: str) -> bool:
        """Whether a name is an entity's of the draft, a known one's, or of somebody who speaks, who is then added."""
        sought = slugify(name)
        known = (one for entity in self.grounding.window.known_entities for one in (entity.name, *entity.aliases))
        if (
            sought in self.entity_slugs
            or sought in self.speaker_entities
            or any(slugify(one) == sought for one in known)
        ):
            return True
        if sought in self.grounding.speaker_slugs and sought not in _NON_ENTITY_SLUGS:
            self.speaker_entities[sought] = EntityDraft(turn_id=turn_id, name=name, type="person")
            return True
        return False

    def parse_relations(self, items: Iterable[RelationItem]) -> Iterator[RelationDraft]:
        """Relations between named entities that a statement of a person rests on."""
        for item in items:
            turn = self._find_turn(item.turn, "relation")
            if turn is None:
                continue
            if reason := self._relation_rejection_reason(item, turn):
                self.notes.append(f"relation: {reason}")
                continue
            upper = item.kind.upper().replace(" ", "_").replace("-", "_")
            kind = upper if upper in {edge.value for edge in RELATION_KINDS} else item.kind
            yield RelationDraft(turn_id=turn.id, source=item.source, kind=kind, target=item.target, quote=item.quote)

    def _relation_rejection_reason(self, item: RelationItem, turn: Turn) -> str:
        """Why a relation does not count; "" when it does. There is no doubt about relations: they are left out."""
        text = self.grounding.text_of(turn)
        span = align_quote(text, item.quote)
        ends = (item.source, item.target)
        if is_assistant_turn(turn) or turn.role == "system":
            return "it rests on a turn of the assistant"
        if span is None or self.grounding.overlaps_recalled_lines(turn, span):
            return "ungrounded"
        if not _RELATION_KIND.fullmatch(item.kind):
            return "its kind is no name"
        if slugify(item.source) == slugify(item.target) or not all(self._ensure_entity(name, turn.id) for name in ends):
            return "it is not between two that are named"
        claim = f"{item.source} {item.kind} {item.target}".replace("_", " ")
        clauses = nearest_clauses(expand_to_clauses(text, span), claim)
        if (
            is_only_question(text, span, self.grounding.question_spans(turn))
            or any(map(is_negated, clauses))
            or any(map(is_hypothetical, clauses))
            or self.grounding.has_prompt_injection(turn)
        ):
            return "it was not said as something that is so"
        return ""

    def parse_summaries(self, items: Iterable[TurnItem]) -> Iterator[TurnSummaryDraft]:
        """One for each turn, in order."""
        first = {item.turn: item for item in reversed(list(items))}
        self.notes += ["gloss: turn unknown" for label in first if label not in self.labels.turns]
        readable = {**self.labels.turns, **self.labels.context_turns}
        for label, turn in self.labels.turns.items():
            item = first.get(label)
            if item is None:
                yield TurnSummaryDraft(turn_id=turn.id)
                continue
            leans = [readable[name].id for name in item.leans_on if name in readable and readable[name] is not turn]
            yield TurnSummaryDraft(
                turn_id=turn.id,
                standalone=self._parse_sentence(item, turn),
                keys=tuple(self._parse_keys(item, turn)),
                context_turn_ids=tuple(dict.fromkeys(leans)),
            )

    def _parse_sentence(self, item: TurnItem, turn: Turn) -> str:
        sentence = " ".join(item.standalone.split())
        if not sentence:
            return ""
        wrong = len(sentence) > MAX_SENTENCE_CHARS or not sentence.isprintable()
        if wrong or self._is_invented(sentence, turn) or self.grounding.has_prompt_injection(turn):
            self.notes.append("gloss: a sentence that does not hold, or is too long")
            return ""
        return sentence

    def _parse_keys(self, item: TurnItem, turn: Turn) -> Iterator[str]:
        for key in () if self.grounding.has_prompt_injection(turn) else item.keys:
            if self._is_invented(key, turn):
                self.notes.append("gloss: a key that was not said")
            else:
                yield key

    def _is_invented(self, text: str, turn: Turn) -> bool:
        return bool(self.grounding.ungrounded_numbers(text, turn) or self.grounding.ungrounded_names(text))


def _has_same_owner(fact: Fact, agent_private: bool) -> bool:
    """What people say ends no fact of the assistant's own, nor the other way round."""
    return is_self_channel(fact.channel) is agent_private
