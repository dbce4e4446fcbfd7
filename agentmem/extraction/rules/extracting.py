"""A window read by the rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agentmem.extraction import Draft, EntityDraft, FactDraft, RelationDraft, Window
from agentmem.extraction.rules import known, patterns, times
from agentmem.extraction.rules.names import Named, aliases_of, kin_of, named
from agentmem.extraction.rules.readings import NAME, Reading
from agentmem.extraction.rules.sentences import Clause, clauses, hedged, plain_part, sentences
from agentmem.extraction.rules.statements import reading_of
from agentmem.extraction.rules.voice import cut, trimmed
from agentmem.model.records import Turn
from agentmem.text.names import claim_hash, slug

EXTRACTOR = "rules:1"

_NOT_PEOPLE = frozenset({"assistant", "tool", "system", "function", "developer"})
_CORRECTS = re.compile(r"\b(?:actually|i meant|i mean|sorry|no)\b", re.IGNORECASE)
_SETTING = re.compile(
    r"(?:^|\W)(?:For|At|After|On|In|During|With|Besides|Back|Over) (?!fact|the meantime|another note|me\b)"
)
_AND_DID = re.compile(r",?\s+(?:and|then|and then)\s+(?:also |even |just |then |finally )?")
_RESTRICTED = re.compile(r"\s+(?:that|which|who|when|whenever|where)\b")
_STANDS_IN = {"rule:home": "LOCATED_IN", "rule:employer": "WORKS_FOR"}


@dataclass(frozen=True, slots=True)
class _Speaker:
    """Who speaks: how claims call them, and the name if there is one."""

    subject: str
    name: str


def extract(window: Window) -> Draft:
    """The plain statements of a window's turns as claims, and the people, places and things that they name.

    Turns of assistants and tools give nothing, nor do questions, wishes, conditions and words of others. No glosses.
    """
    facts: list[FactDraft] = []
    entities: list[EntityDraft] = []
    relations: list[RelationDraft] = []
    for turn in window.turns:
        if turn.role.lower() not in _NOT_PEOPLE:
            one = _Turn(turn, window)
            stated = one.facts()
            facts += stated
            entities += one.entities(stated)
            relations += one.relations(stated)
    return Draft(facts=tuple(facts), entities=_distinct(entities), relations=tuple(relations))


class _Turn:
    """One turn of a window."""

    def __init__(self, turn: Turn, window: Window) -> None:
        self.turn, self.window = turn, window
        self.speaker = _speaker(turn)
        spoken = {turn.speaker for turn in (*window.before, *window.turns) if turn.speaker} | set(window.participants)
        talking = frozenset(slug(name) for name in spoken)
        self.sentences = sentences(plain_part(turn.content))
        self.kin = tuple(kin_of(self.sentences, talking))
        self.named = tuple(named(self.sentences, self.kin, talking))

    def facts(self) -> list[FactDraft]:
        """The claims of the turn, each once."""
        out: dict[str, FactDraft] = {}
        for fact in (*self._kin_facts(), *self._stated()):
            out.setdefault(claim_hash(fact.claim), fact)
        return list(out.values())

    def _kin_facts(self) -> Iterator[FactDraft]:
        for kin in self.kin:
            article = "an" if kin.relation[0] in "aeiou" else "a"
            if not re.search(r"\b(?:late|ex)\b", kin.relation):
                says = f"has {article} {kin.relation} named {kin.name}"
                yield self._draft((kin.start, kin.end), Reading("kin", says, "current"), times.Time())

    def _stated(self) -> Iterator[FactDraft]:
        """What the clauses state, and after that what their subject did besides ("I joined a gym and bought shoes")."""
        for clause in clauses(self.turn.content):
            statement = cut(clause.body)
            fact = self._fact(clause, statement, len(statement))
            if fact is None:
                continue
            yield fact
            more = _AND_DID.match(clause.body, len(statement))
            if more and fact.temporal_context == "past" and patterns.is_past(clause.body[more.end() :]):
                second = cut("I " + clause.body[more.end() :])
                fact = self._fact(replace(clause, lead=""), second, len(clause.lead) + more.end() + len(second) - 2)
                if fact is not None and fact.temporal_context == "past":
                    yield fact

    def _fact(self, clause: Clause, statement: str, length: int) -> FactDraft | None:
        """The claim of a statement that ends so many characters behind the clause's lead; None where no rule fits."""
        if not statement or hedged(statement):
            return None
        now = self.turn.timestamp
        inside, before = times.split(statement, now), times.of_lead(clause.lead, now)
        if inside is None or before is None or (inside[1].words and before.words):
            return None
        time = inside[1] if inside[1] != times.Time() else before
        reading = reading_of(trimmed(inside[0]), time, now)
        if reading is None or (_SETTING.search(clause.lead) and reading.tense != "past"):
            return None
        if reading.kind == "preference" and _RESTRICTED.match(clause.body, len(statement)):
            return None  # "I like films that make me laugh" are not all films
        changed = "moved" in reading.says or re.search(r"\bnow\b", f"{clause.lead} {statement}", re.IGNORECASE)
        corrects = not changed and _CORRECTS.search(f"{clause.lead} {statement[:12]}") is not None
        span = clause.start, clause.start + len(clause.lead) + length
        return self._draft(span, reading, time, corrects=corrects)

    def _draft(self, span: tuple[int, int], reading: Reading, time: times.Time, *, corrects: bool = False) -> FactDraft:
        speaker, past = self.speaker, reading.tense == "past"
        words = time.words.split(" as of ", 1)[0] if past else time.words
        claim = " ".join(part for part in (_subject(speaker, reading), reading.says, words) if part)
        taken = known.replaced(reading, claim, speaker.subject, self.window.facts)
        return FactDraft(
            turn_id=self.turn.id, claim=claim, quote=self.turn.content[span[0] : span[1]], span=span,
            subject=speaker.name or "user", certainty="explicit", temporal_context=reading.tense,
            memory_type=reading.kind, negated=reading.negated,
            valid_from=time.begins if reading.tense != "future" else None, entities=self._names_in(claim),
            replaces=taken, wrong=bool(taken and corrects),
            ended="" if taken else known.ended(reading, speaker.subject, self.window.facts),
            tags=(f"rule:{reading.rule}",),
        )  # fmt: skip

    def _names_in(self, claim: str) -> tuple[str, ...]:
        names = [self.speaker.name, *(kin.name for kin in self.kin), *(one.name for one in self.named)]
        return tuple(dict.fromkeys(name for name in names if name and re.search(rf"\b{re.escape(name)}\b", claim)))

    def entities(self, facts: Sequence[FactDraft]) -> list[EntityDraft]:
        """Who and what the turn names, and the speaker where a claim is about them."""
        known_types = {slug(entity.name): entity.type for entity in self.window.entities}
        others = aliases_of(self.sentences)
        found = [Named(kin.name, "pet" if kin.pet else "person", kin.start, kin.end) for kin in self.kin]
        if self.speaker.name and facts:
            found.insert(0, Named(self.speaker.name, "person", 0, 0))
        out = []
        for one in (*found, *self.named):
            if one.name in others.values():
                continue
            alias = others.get(slug(one.name))
            kind = known_types.get(slug(one.name), one.type)
            out.append(EntityDraft(turn_id=self.turn.id, name=one.name, type=kind, aliases=(alias,) if alias else ()))
        return out

    def relations(self, facts: Sequence[FactDraft]) -> list[RelationDraft]:
        """Of the speaker, where they have a name, to those whom they call theirs, and to where they live and work."""
        out = [(kin.relation, kin.name, self.turn.content[kin.start : kin.end]) for kin in self.kin]
        for fact in facts:
            kind = _STANDS_IN.get(fact.tags[0])
            where = re.match(rf".*?\b(?:in|to|at) (?:the )?({NAME})", fact.claim)
            if kind and where and fact.temporal_context == "current" and where[1] in fact.entities:
                out.append((kind, where[1], fact.quote))
        return [
            RelationDraft(turn_id=self.turn.id, source=self.speaker.name, kind=kind, target=target, quote=quote)
            for kind, target, quote in out
            if self.speaker.name
        ]


def _subject(speaker: _Speaker, reading: Reading) -> str:
    if reading.subject == "'s":
        return f"{speaker.subject}'s"
    if reading.subject.startswith("+"):
        return f"{speaker.subject} and {reading.subject[1:]}"
    return f"{speaker.subject}'s {reading.subject.removeprefix('their ')}" if reading.subject else speaker.subject


def _speaker(turn: Turn) -> _Speaker:
    name = " ".join((turn.speaker or "").split())
    return _Speaker(name, name) if re.fullmatch(NAME, name) and len(name) <= 60 else _Speaker("The user", "")


def _distinct(entities: Sequence[EntityDraft]) -> tuple[EntityDraft, ...]:
    """Each entity of the window once, by the type that says most, with every alias; nothing that is part of another."""
    out: dict[str, EntityDraft] = {}
    for one in entities:
        old = out.get(slug(one.name), one)
        kind = one.type if old.type == "thing" else old.type
        out[slug(one.name)] = replace(old, type=kind, aliases=tuple(dict.fromkeys((*old.aliases, *one.aliases))))
    words = {word for name in out for word in name.split("-") if name != word}
    return tuple(one for name, one in out.items() if one.type != "thing" or name not in words)
