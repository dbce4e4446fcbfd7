"""The rule extractor: beliefs, entities and relations from plain talk without a model, precision before recall."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agentmem.beliefs.slots import PEOPLE_SLOTS, PREFERENCE_SLOTS, USER_SUBJECT
from agentmem.core.records import Turn
from agentmem.extraction.drafts import EntityDraft, ExtractionDraft, FactDraft, RelationDraft, Window
from agentmem.extraction.plain.claim_sentences import write_sentence
from agentmem.extraction.plain.names import NAME_PATTERN, NameMention, find_aliases, find_names
from agentmem.extraction.plain.reader import PlainReader
from agentmem.extraction.plain.slot_claim import SlotClaim
from agentmem.extraction.plain.turn_text import read_turn
from agentmem.extraction.plain.window_claims import NON_HUMAN_ROLES, read_slot_claims
from agentmem.extraction.said_words import has_words
from agentmem.text.normalization import slugify

EXTRACTOR = "rules:3"
MAX_SPEAKER_CHARS = 60


@dataclass(frozen=True, slots=True)
class _Speaker:
    """Who speaks: how claims call them, and the name if there is one."""

    subject: str
    name: str


def extract(window: Window) -> ExtractionDraft:
    """The claims about slots of a window's turns, and the people, places and things that they name.

    Turns of assistants and tools give nothing, nor do questions, wishes, conditions and words of others. No glosses.
    """
    facts: list[FactDraft] = []
    entities: list[EntityDraft] = []
    relations: list[RelationDraft] = []
    claims = read_slot_claims(window)
    for turn in window.turns:
        if turn.role.lower() not in NON_HUMAN_ROLES:
            one = _TurnExtractor(turn, window)
            stated = one.extract_facts(claims.get(turn.id, ()))
            facts += stated
            entities += one.extract_entities(stated)
            relations += one.extract_relations()
    return ExtractionDraft(facts=tuple(facts), entities=_merge_entities(entities), relations=tuple(relations))


class _TurnExtractor:
    """One turn of a window."""

    def __init__(self, turn: Turn, window: Window) -> None:
        self.turn, self.window = turn, window
        self.speaker = _speaker_of(turn)
        spoken = {turn.speaker for turn in (*window.context_turns, *window.turns) if turn.speaker} | set(
            window.participants
        )
        talking = frozenset(slugify(name) for name in spoken)
        reader, text = PlainReader(), read_turn(turn.content)
        self.sentences = () if reader.is_unreal(text) else text.sentences
        self.kin = [each for each in reader.find_kin(text) if self.sentences and slugify(each.name) not in talking]
        self.names = tuple(find_names(self.sentences, talking))

    def extract_facts(self, claims: Sequence[SlotClaim]) -> list[FactDraft]:
        """The claims of the turn about slots in their order, and then the people whom no slot takes."""
        beliefs = [self._build_belief(claim) for claim in claims]
        taken = {slugify(belief.value.partition(" (")[0]) for belief in beliefs if belief.slot in PEOPLE_SLOTS}
        return [*beliefs, *self._extract_acquaintances(taken)]

    def _build_belief(self, claim: SlotClaim) -> FactDraft:
        """A claim about a slot as a draft. What a user says of themselves is about the speaker, where one is named."""
        is_own = claim.subject == USER_SUBJECT
        subject = self.speaker.subject if is_own else claim.subject
        quote = self.turn.content[claim.span[0] : claim.span[1]]
        # a statement about anything is a sentence already
        text = quote if claim.slot.startswith("about:") else write_sentence(claim, subject)
        tense = {"current": "current", "past": "past", "planned": "future"}[claim.tense]
        tense = "past" if claim.operation == "over" and tense == "current" else tense
        return FactDraft(
            turn_id=self.turn.id,
            claim=text,
            quote=quote,
            span=claim.span,
            subject=(self.speaker.name or USER_SUBJECT) if is_own else claim.subject,
            certainty="explicit",
            temporal_context=tense,
            memory_type="preference" if claim.slot.partition(":")[0] in PREFERENCE_SLOTS else "fact",
            negated=claim.operation != "is",
            valid_from=claim.since,
            valid_to=claim.until,
            entities=self._names_in(text),
            tags=(f"slot:{claim.slot.partition(':')[0]}",),
            slot=claim.slot,
            value=claim.value,
            operation=claim.operation,
            mark=claim.mark,
            is_general=has_words(self._find_sentence(claim), "everywhere"),
        )

    def _find_sentence(self, claim: SlotClaim) -> str:
        """The sentence of a claim."""
        return next((each.text for each in reversed(self.sentences) if each.start <= claim.span[0]), "")

    def _extract_acquaintances(self, taken: set[str]) -> Iterator[FactDraft]:
        """Open claims about named people for whom there is no slot, such as a colleague or an aunt."""
        for kin in self.kin:
            if kin.kin.slot or slugify(kin.name) in taken:
                continue
            article = "an" if kin.kin.noun[0] in "aeiou" else "a"
            claim = f"{self.speaker.subject} has {article} {kin.kin.noun} named {kin.name}"
            yield FactDraft(
                turn_id=self.turn.id,
                claim=claim,
                quote=self.turn.content[slice(*kin.span)],
                span=kin.span,
                subject=self.speaker.name or USER_SUBJECT,
                certainty="explicit",
                temporal_context="current",
                entities=self._names_in(claim),
                tags=("rule:kin",),
            )

    def _names_in(self, claim: str) -> tuple[str, ...]:
        names = [self.speaker.name, *(kin.name for kin in self.kin), *(one.name for one in self.names)]
        return tuple(dict.fromkeys(name for name in names if name and re.search(rf"\b{re.escape(name)}\b", claim)))

    def extract_entities(self, facts: Sequence[FactDraft]) -> list[EntityDraft]:
        """Who and what the turn names, and the speaker where a claim is about them."""
        known_types = {slugify(entity.name): entity.type for entity in self.window.known_entities}
        others = find_aliases(self.sentences)
        found = [NameMention(each.name, "pet" if each.kin.slot == "pets" else "person") for each in self.kin]
        if self.speaker.name and facts:
            found.insert(0, NameMention(self.speaker.name, "person"))
        out = []
        for one in (*found, *self.names):
            if one.name in others.values():
                continue
            alias = others.get(slugify(one.name))
            kind = known_types.get(slugify(one.name), one.type)
            out.append(EntityDraft(turn_id=self.turn.id, name=one.name, type=kind, aliases=(alias,) if alias else ()))
        return out

    def extract_relations(self) -> list[RelationDraft]:
        """Of the speaker, where they have a name, to those whom they call theirs; facts state those of their slots."""
        return [
            RelationDraft(
                turn_id=self.turn.id,
                source=self.speaker.name,
                kind=each.noun,
                target=each.name,
                quote=self.turn.content[slice(*each.span)],
            )
            for each in self.kin
            if self.speaker.name
        ]


def _speaker_of(turn: Turn) -> _Speaker:
    name = " ".join((turn.speaker or "").split())
    is_name = re.fullmatch(NAME_PATTERN, name) and len(name) <= MAX_SPEAKER_CHARS
    return _Speaker(name, name) if is_name else _Speaker("The user", "")


def _merge_entities(entities: Sequence[EntityDraft]) -> tuple[EntityDraft, ...]:
    """Each entity of the window once, by the type that says most, with every alias; nothing that is part of another."""
    out: dict[str, EntityDraft] = {}
    for one in entities:
        old = out.get(slugify(one.name), one)
        kind = one.type if old.type == "thing" else old.type
        out[slugify(one.name)] = replace(old, type=kind, aliases=tuple(dict.fromkeys((*old.aliases, *one.aliases))))
    words = {word for name in out for word in name.split("-") if name != word}
    return tuple(one for name, one in out.items() if one.type != "thing" or name not in words)
