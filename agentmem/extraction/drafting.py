"""A model's reply becomes a draft: labels become ids, words are looked up, what does not hold is left out or doubted.

Only labels that were given are understood, so no reply can name a record of anybody else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from agentmem.extraction import Draft, EntityDraft, FactDraft, GlossDraft, RelationDraft, Window
from agentmem.extraction.clauses import denies, imagines, nearest_clauses, only_asks, widened
from agentmem.extraction.grounding import Ground, find_quote, refusal, settled, speaks_of_itself, turn_time
from agentmem.extraction.moments import Range, resolve
from agentmem.extraction.reply import (
    LONGEST_SENTENCE,
    AgentReply,
    EntityItem,
    FactItem,
    RelationItem,
    Reply,
    TurnItem,
)
from agentmem.model.records import RELATIONS, Fact, Turn
from agentmem.text.names import normalised_claim, slug
from agentmem.text.words import terms

CONTEXT_TURNS = 6
KNOWN_FACTS = 40
KNOWN_ENTITIES = 40

_NOBODY = frozenset(
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
_TYPE = re.compile(r"[a-z][a-z _-]{0,29}")
_KEPT_TYPES = frozenset(("agent", "user", "assistant"))
_KIND = re.compile(r"[A-Za-z][A-Za-z _-]{0,39}")
_WEAK = frozenset(
    terms(
        "user agent assistant every also still just really always never often time day week month year today new old "
        "good like love want get go make take use first last one two many much thing people year-old current usual"
    )
)
"""Words that two claims about different things share easily."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The short names by which a prompt calls the turns to read, the ones before and the known facts."""

    turns: Mapping[str, Turn]
    earlier: Mapping[str, Turn]
    facts: Mapping[str, Fact]

    @classmethod
    def of(cls, window: Window) -> Labels:
        """T1, T2, … for the turns, C1, C2, … for the last of those before, F1, F2, … for the first known facts."""
        return cls(
            {f"T{n}": turn for n, turn in enumerate(window.turns, 1)},
            {f"C{n}": turn for n, turn in enumerate(window.before[-CONTEXT_TURNS:], 1)},
            {f"F{n}": fact for n, fact in enumerate(window.facts[:KNOWN_FACTS], 1)},
        )


def drafted(reply: Reply, window: Window, prompt: str) -> Draft:
    """What people said, from the reply to the `prompt`: every turn gets a gloss, if an empty one."""
    work = _Drafting(Ground(window, prompt), Labels.of(window), private=False)
    work.notes += reply.dropped
    entities = list(work.entities(reply.entities))
    work.named = {slug(name) for entity in entities for name in (entity.name, *entity.aliases)}
    facts = work.facts(reply.facts)
    relations = tuple(work.relations(reply.relations))
    glosses = tuple(work.glosses(reply.turns))
    return Draft(
        facts=facts, entities=(*entities, *work.speakers.values()), relations=relations, glosses=glosses,
        notes=tuple(work.notes),
    )  # fmt: skip


def drafted_of_agent(reply: AgentReply, window: Window, prompt: str) -> Draft:
    """What the assistant said of itself: facts alone, private ones, and who speaks where one names them."""
    work = _Drafting(Ground(window, prompt), Labels.of(window), private=True)
    work.notes += reply.dropped
    facts = work.facts(reply.facts)
    return Draft(facts=facts, entities=tuple(work.speakers.values()), notes=tuple(work.notes))


@dataclass
class _Drafting:
    """One reply on its way; `named` are slugs of the entities that it names, `speakers` those who had to be added."""

    ground: Ground
    labels: Labels
    private: bool
    notes: list[str] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    speakers: dict[str, EntityDraft] = field(default_factory=dict)

    def facts(self, items: Iterable[FactItem]) -> tuple[FactDraft, ...]:
        """Each claim of a turn once; what is refused leaves a note."""
        kept: dict[tuple[str, str], FactDraft] = {}
        for item in items:
            turn = self._turn(item.turn, "fact")
            if turn is None:
                continue
            draft = self._fact(item, turn)
            if reason := refusal(draft, self.ground):
                self.notes.append(f"fact: {reason}")
                continue
            kept.setdefault((turn.id, normalised_claim(draft.claim)), self._linked(settled(draft, self.ground), item))
        return tuple(kept.values())

    def _fact(self, item: FactItem, turn: Turn) -> FactDraft:
        """The claim with its quote looked up and its times resolved; not yet judged."""
        when, until = self._said(item.when, turn), self._said(item.until, turn)
        at = turn_time(turn)
        # What is over is told by its label; an end in world time would retire the very fact that tells of it.
        ends = until[1] if until and item.temporal != "past" and at is not None and until[1] > at else None
        begins = when[0] if when else None
        return FactDraft(
            turn_id=turn.id, claim=item.claim, quote=item.quote, span=find_quote(self.ground.text_of(turn), item.quote),
            subject=item.subject or "other", certainty=item.certainty or "", temporal_context=item.temporal or "",
            memory_type=item.kind or "fact", negated=item.negated, valid_from=begins,
            valid_to=None if ends and begins and ends <= begins else ends, entities=tuple(item.entities),
            private=self.private,
        )  # fmt: skip

    def _said(self, text: str | None, turn: Turn) -> Range | None:
        """The range of time that a model's date stands for, None with a note for one that nobody said."""
        if text is None or text.strip().lower() in ("", "null", "none"):
            return None
        found = resolve(text)
        if found is None:
            self.notes.append("date: it cannot be read")
        elif self.ground.says(found, turn):
            return found
        else:
            self.notes.append("date: date not said")
        return None

    def _linked(self, draft: FactDraft, item: FactItem) -> FactDraft:
        """The fact with the entities and known facts that it names, those that hold."""
        entities = tuple(dict.fromkeys(name for name in draft.entities if self._is_entity(name, draft.turn_id)))
        if "order:" in draft.doubt:
            return replace(draft, entities=entities)
        replaces = self._known(item.replaces, draft, changes=True)
        ended = self._known(item.ended, draft, changes=True) if not replaces else ""
        premises = [self._known(label, draft) for label in item.depends_on]
        return replace(
            draft, entities=entities, replaces=replaces, ended=ended,
            wrong=bool(replaces) and item.why_replaced == "wrong",
            depends_on=tuple(dict.fromkeys(name for name in premises if name and name not in (replaces, ended))),
        )  # fmt: skip

    def _known(self, label: str | None, draft: FactDraft, *, changes: bool = False) -> str:
        """The id of a known fact; "" with a note for a label that was not given, or a fact that this one cannot end."""
        if not label or label.lower() in ("null", "none"):
            return ""
        fact = self.labels.facts.get(label)
        if fact is None:
            self.notes.append("link: label unknown")
            return ""
        if changes and not (_same_side(fact, self.private) and self._related(fact, draft)):
            self.notes.append("link: to a fact about something else")
            return ""
        return fact.id

    def _related(self, fact: Fact, draft: FactDraft) -> bool:
        """Whether two facts speak of the same thing, by a word of substance that is no name of who speaks."""
        said = set(terms(f"{draft.claim} {draft.quote}"))
        return not said.isdisjoint(set(terms(fact.claim)) - self.ground.speakers_terms - _WEAK)

    def _turn(self, label: str, what: str) -> Turn | None:
        turn = self.labels.turns.get(label)
        if turn is None:
            earlier = label in self.labels.earlier
            self.notes.append(f"{what}: {'of a turn that is context only' if earlier else 'turn unknown'}")
        return turn

    def entities(self, items: Iterable[EntityItem]) -> Iterator[EntityDraft]:
        """Each named entity once, with the aliases that were said."""
        seen: set[str] = set()
        for item in items:
            turn = self._turn(item.turn, "entity")
            if turn is None or slug(item.name) in seen:
                continue
            if slug(item.name) in _NOBODY or not self._named_in_part(item.name):
                self.notes.append("entity: it was not named")
                continue
            seen.add(slug(item.name))
            kind = item.type.strip().lower()
            yield EntityDraft(
                turn_id=turn.id, name=item.name, aliases=tuple(self._aliases(item)),
                type=kind if _TYPE.fullmatch(kind) and kind not in _KEPT_TYPES else "thing",
            )  # fmt: skip

    def _aliases(self, item: EntityItem) -> Iterator[str]:
        """Aliases whose every word was said, and that are the name of nobody else."""
        others = {slug(name) for entity in self.ground.window.entities for name in (entity.name, *entity.aliases)
                  if slug(item.name) not in {slug(one) for one in (entity.name, *entity.aliases)}}  # fmt: skip
        taken = others | _NOBODY | (self.ground.people - {slug(item.name)})
        for alias in item.aliases:
            if slug(alias) in taken or not all(map(self.ground.knows, alias.split())):
                self.notes.append("alias: it was not said, or is somebody else's name")
            elif slug(alias) != slug(item.name):
                yield alias

    def _named_in_part(self, name: str) -> bool:
        found = terms(name) or [name.casefold()]
        return sum(map(self.ground.knows, found)) * 2 >= len(found)

    def _is_entity(self, name: str, turn_id: str) -> bool:
        """Whether a name is an entity's of the draft, a known one's, or of somebody who speaks, who is then added."""
        sought = slug(name)
        known = (one for entity in self.ground.window.entities for one in (entity.name, *entity.aliases))
        if sought in self.named or sought in self.speakers or any(slug(one) == sought for one in known):
            return True
        if sought in self.ground.people and sought not in _NOBODY:
            self.speakers[sought] = EntityDraft(turn_id=turn_id, name=name, type="person")
            return True
        return False

    def relations(self, items: Iterable[RelationItem]) -> Iterator[RelationDraft]:
        """Relations between named entities that a statement of a person rests on."""
        for item in items:
            turn = self._turn(item.turn, "relation")
            if turn is None:
                continue
            if reason := self._unfit(item, turn):
                self.notes.append(f"relation: {reason}")
                continue
            upper = item.kind.upper().replace(" ", "_").replace("-", "_")
            kind = upper if upper in {edge.value for edge in RELATIONS} else item.kind
            yield RelationDraft(turn_id=turn.id, source=item.source, kind=kind, target=item.target, quote=item.quote)

    def _unfit(self, item: RelationItem, turn: Turn) -> str:
        """Why a relation does not count; "" when it does. There is no doubt about relations: they are left out."""
        text = self.ground.text_of(turn)
        span = find_quote(text, item.quote)
        ends = (item.source, item.target)
        if speaks_of_itself(turn) or turn.role == "system":
            return "it rests on a turn of the assistant"
        if span is None or self.ground.overlaps_own_lines(turn, span):
            return "ungrounded"
        if not _KIND.fullmatch(item.kind):
            return "its kind is no name"
        if slug(item.source) == slug(item.target) or not all(self._is_entity(name, turn.id) for name in ends):
            return "it is not between two that are named"
        claim = f"{item.source} {item.kind} {item.target}".replace("_", " ")
        clauses = nearest_clauses(widened(text, span), claim)
        if (
            only_asks(text, span, self.ground.asked(turn))
            or any(map(denies, clauses))
            or any(map(imagines, clauses))
            or self.ground.orders(turn)
        ):
            return "it was not said as something that is so"
        return ""

    def glosses(self, items: Iterable[TurnItem]) -> Iterator[GlossDraft]:
        """One for each turn, in order."""
        first = {item.turn: item for item in reversed(list(items))}
        self.notes += ["gloss: turn unknown" for label in first if label not in self.labels.turns]
        readable = {**self.labels.turns, **self.labels.earlier}
        for label, turn in self.labels.turns.items():
            item = first.get(label)
            if item is None:
                yield GlossDraft(turn_id=turn.id)
                continue
            leans = [readable[name].id for name in item.leans_on if name in readable and readable[name] is not turn]
            yield GlossDraft(
                turn_id=turn.id, standalone=self._sentence(item, turn), keys=tuple(self._keys(item, turn)),
                leans_on=tuple(dict.fromkeys(leans)),
            )  # fmt: skip

    def _sentence(self, item: TurnItem, turn: Turn) -> str:
        sentence = " ".join(item.standalone.split())
        if not sentence:
            return ""
        wrong = len(sentence) > LONGEST_SENTENCE or not sentence.isprintable()
        if wrong or self._invents(sentence, turn) or self.ground.orders(turn):
            self.notes.append("gloss: a sentence that does not hold, or is too long")
            return ""
        return sentence

    def _keys(self, item: TurnItem, turn: Turn) -> Iterator[str]:
        for key in () if self.ground.orders(turn) else item.keys:
            if self._invents(key, turn):
                self.notes.append("gloss: a key that was not said")
            else:
                yield key

    def _invents(self, text: str, turn: Turn) -> bool:
        return bool(self.ground.unsaid_numbers(text, turn) or self.ground.unknown_names(text))


def _same_side(fact: Fact, private: bool) -> bool:
    """What people say ends no fact of the assistant's own, nor the other way round."""
    return fact.channel.startswith("_self_") is private
