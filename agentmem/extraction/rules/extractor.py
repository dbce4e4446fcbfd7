"""The rule extractor: facts, entities and relations from plain English without a model, precision before recall."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from agentmem.beliefs.slots import USER_SUBJECT
from agentmem.beliefs.values import normalize_value
from agentmem.core.records import Fact, Turn
from agentmem.extraction.drafts import EntityDraft, ExtractionDraft, FactDraft, RelationDraft, Window
from agentmem.extraction.frames.frame_set import load_frames
from agentmem.extraction.frames.reader import FrameReader
from agentmem.extraction.frames.sentences import write_sentence
from agentmem.extraction.frames.slot_claim import SlotClaim
from agentmem.extraction.rules import patterns, times
from agentmem.extraction.rules.names import NameMention, find_aliases, find_kin, find_names
from agentmem.extraction.rules.readings import NAME_PATTERN, StatementReading
from agentmem.extraction.rules.sentences import (
    Clause,
    drop_quoted_material,
    find_first_person_clauses,
    is_hedged,
    split_sentences,
)
from agentmem.extraction.rules.third_person import cut_statement, is_standalone, to_third_person, trim_trailing
from agentmem.extraction.rules.times import StatedTime
from agentmem.text.normalization import hash_claim, normalize_claim, slugify

_STATE_VERBS = frozenset({"lives", "lived", "moved", "works", "working", "has", "been", "to", "in", "at"})
_NEGATION = re.compile(r"\b(?:no longer|not|never|used to|cannot|can't|stopped|quit|gave up)\b")

_MAX_MOVE_AGE = timedelta(days=60)
"""After so long a move no longer tells where somebody lives now."""

_ADVERB = re.compile(
    r"(?:just|recently|also|even|actually|finally|totally|officially|already|honestly|personally|now|lately|proudly|"
    r"then|"
    r"all|both|first|once|eventually|accidentally|slowly|typically|really)\s+",
    re.IGNORECASE,
)
_COORDINATED_SUBJECT = re.compile(
    rf"(?:(?i:my|our) (?P<mine>(?:[a-z-]+ ){{0,2}}[a-z-]+(?: {NAME_PATTERN})?)|(?P<name>(?!My\b|Our\b|"
    rf"Me\b){NAME_PATTERN})) and I\s+"
)
_POSSESSIVE = re.compile(r"(?:my|our|call me)\b", re.IGNORECASE)
_FIRST_PERSON = re.compile(
    r"(?P<who>I|We)(?P<am>['\u2019](?:m|re))?(?P<have>['\u2019]ve)?\s+(?P<rest>.+)$", re.IGNORECASE | re.DOTALL
)
_AUXILIARY = re.compile(r"(am|are|have|was|were)\s+", re.IGNORECASE)
_PLANNED = re.compile(r"am (?P<doing>(?!planning|thinking|hoping|going|looking)\w+ing) (?P<rest>.+)$")
_LIVED = re.compile(r"have lived in (?P<rest>[A-Z].*)$")
_SINGULAR_RULES = frozenset({"status", "age", "name", "job"})  # what "we" are is not what each of us is

EXTRACTOR = "rules:2"

_NON_HUMAN_ROLES = frozenset({"assistant", "tool", "system", "function", "developer"})
_CORRECTION = re.compile(r"\b(?:actually|i meant|i mean|sorry|no)\b", re.IGNORECASE)
_SCENE_SETTING = re.compile(
    r"(?:^|\W)(?:For|At|After|On|In|During|With|Besides|Back|Over) (?!fact|the meantime|another note|me\b)"
)
_COORDINATED_VERB = re.compile(r",?\s+(?:and|then|and then)\s+(?:also |even |just |then |finally )?")
_RELATIVE_CLAUSE = re.compile(r"\s+(?:that|which|who|when|whenever|where)\b")
_RELATION_BY_TAG = {"slot:home": "LOCATED_IN", "slot:employer": "WORKS_FOR"}
_PEOPLE_SLOTS = frozenset({"partner", "children", "siblings", "parents", "friends", "boss", "landlord", "pets"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  # for turns without a time: their relative dates mean nothing
_ANY_TENSE_SLOTS = frozenset({"birthplace", "birth_date", "dislikes"})  # "was born in", "does not like"
PREFERENCE_SLOTS = frozenset({"likes", "dislikes", "seat", "favourite"})


def find_superseded(reading: StatementReading, claim: str, subject: str, facts: Sequence[Fact]) -> str:
    """The id of the known fact whose one place of its kind the claim takes (a home, an employer); "" for none.

    One that says the same, and one whose words the new one has all in it (France, and then Paris, France), stay.
    """
    if not reading.slot or reading.tense != "current":
        return ""
    tag = f"rule:{reading.rule}"
    for fact in facts:
        known = normalize_claim(fact.claim)
        if tag not in fact.tags or not known.startswith(subject.lower() + ("'s " if reading.subject == "'s" else " ")):
            continue
        if reading.slot.startswith("favourite") and not known.startswith(f"{subject.lower()}'s {reading.slot} is "):
            continue
        if fact.temporal_context == "past" or _NEGATION.search(known):
            continue
        words = set(re.findall(r"\w+", known)) - _STATE_VERBS
        if not words <= set(re.findall(r"\w+", normalize_claim(claim))):
            return fact.id
    return ""


def find_ended(reading: StatementReading, subject: str, facts: Sequence[Fact]) -> tuple[str, ...]:
    """The id of the known fact that the claim says is over; empty for none."""
    if not reading.denied_predicate:
        return ()
    wanted = _stems(reading.denied_predicate)
    for fact in facts:
        known = normalize_claim(fact.claim)
        if not known.startswith(subject.lower() + " ") or fact.temporal_context == "past" or _NEGATION.search(known):
            continue
        if wanted and wanted <= _stems(known.removeprefix(subject.lower())):
            return (fact.id,)
    return ()


def _stems(text: str) -> set[str]:
    """Stems of the words that carry meaning, crude but the same for "works" and "working"."""
    words = set(re.findall(r"\w+", normalize_claim(text))) - {
        "at",
        "for",
        "in",
        "to",
        "a",
        "an",
        "the",
        "as",
        "of",
        "their",
        "is",
    }
    return {re.sub(r"(?:ing|es|ed|s|e)$", "", word) for word in words}


def parse_reading(text: str, time: StatedTime, now: datetime | None) -> StatementReading | None:
    """What a statement says, with the tense that its time asks for; None where no rule fits, or the two contradict."""
    reading = _match_reading(_restore_subject(text), time)
    return None if reading is None else _apply_tense(reading, time, now)


def _match_reading(text: str, time: StatedTime) -> StatementReading | None:
    if found := _COORDINATED_SUBJECT.match(text):
        reading = patterns.match_statement(_strip_adverbs(text[found.end() :]))
        other = f"their {found['mine']}" if found["mine"] else found["name"]
        done = reading and (reading.tense == "past" or reading.predicate.startswith("moved"))
        return replace(reading, subject=f"+{other}") if reading and done else None
    if _POSSESSIVE.match(text):
        return patterns.match_possessive(text)
    myself = _FIRST_PERSON.match(text)
    if not myself:
        return None
    statement = _strip_adverbs(("am " if myself["am"] else "have " if myself["have"] else "") + myself["rest"])
    if time.tense == "future" and (planned := _PLANNED.match(statement)):
        says = f"is {planned['doing']} {to_third_person(planned['rest'])}"
        return StatementReading("plan", says, "future") if is_standalone(planned["rest"]) else None
    if lived := _LIVED.match(statement):
        still = time.phrase.startswith(("for ", "since ")) and is_standalone(lived["rest"])
        return (
            StatementReading("home", f"has lived in {to_third_person(lived['rest'])}", "current", slot="home")
            if still
            else None
        )
    reading = patterns.match_statement(statement)
    together = myself["who"].lower() == "we"
    return None if reading and together and reading.rule in _SINGULAR_RULES else reading


def _restore_subject(text: str) -> str:
    """A statement that leaves its subject out, such as "Been reading a novel", with it."""
    if text.startswith("Been "):
        return f"I have b{text[1:]}"
    if text.startswith("Gonna "):
        return f"I am g{text[1:]}"
    first = text.split(" ", 1)[0]
    return f"I {first.lower()}{text[len(first) :]}" if patterns.is_past(first.lower()) else text


def _strip_adverbs(statement: str) -> str:
    """Without adverbs that change nothing, and with the verbs of "I" for those of "we"."""
    found, head = _AUXILIARY.match(statement), ""
    if found:
        verb = found[1].lower()
        head, statement = {"are": "am ", "were": "was "}.get(verb, f"{verb} "), statement[found.end() :]
    while adverb := _ADVERB.match(statement):
        statement = statement[adverb.end() :]
    return head + statement


def _apply_tense(reading: StatementReading, time: StatedTime, now: datetime | None) -> StatementReading | None:
    """The reading with the tense that the stated time asks for; None when the two contradict each other."""
    if reading.rule == "home" and reading.predicate.startswith("moved") and time.start and now:
        return replace(reading, tense="past", slot="") if now - time.start > _MAX_MOVE_AGE else reading
    if reading.tense == "current" and time.tense == "future" and reading.rule == "ongoing":
        return replace(reading, tense="future")
    if time.tense and reading.tense != time.tense and "past" in (reading.tense, time.tense):
        return None
    return None if (reading.tense, time.tense) == ("current", "future") else reading


@dataclass(frozen=True, slots=True)
class _Speaker:
    """Who speaks: how claims call them, and the name if there is one."""

    subject: str
    name: str


def extract(window: Window) -> ExtractionDraft:
    """The plain statements of a window's turns as claims, and the people, places and things that they name.

    Turns of assistants and tools give nothing, nor do questions, wishes, conditions and words of others. No glosses.
    """
    facts: list[FactDraft] = []
    entities: list[EntityDraft] = []
    relations: list[RelationDraft] = []
    claims = read_slot_claims(window)
    for turn in window.turns:
        if turn.role.lower() not in _NON_HUMAN_ROLES:
            one = _TurnExtractor(turn, window)
            stated = one.extract_facts(claims.get(turn.id, ()))
            facts += stated
            entities += one.extract_entities(stated)
            relations += one.extract_relations(stated)
    return ExtractionDraft(facts=tuple(facts), entities=_merge_entities(entities), relations=tuple(relations))


def read_slot_claims(window: Window) -> dict[str, list[SlotClaim]]:
    """The claims about slots by turn. Turns before the window tell what was asked and who was named."""
    people = list_known_people(window)
    kin = find_known_kin(window.known_facts)
    readers: dict[str, FrameReader] = {}
    out: dict[str, list[SlotClaim]] = {}
    asked = ""
    for turn in (*window.context_turns, *window.turns):
        if turn.role.lower() in _NON_HUMAN_ROLES:
            asked = turn.content if turn.role.lower() == "assistant" else asked
            continue
        reader = readers.setdefault(turn.speaker or "", FrameReader(people, kin))
        out[turn.id] = reader.read(turn.content, turn.timestamp or turn.recorded_at or _EPOCH, asked)
        asked = ""
    return out


def list_known_people(window: Window) -> list[str]:
    """The names of people that are known around a window."""
    people = [entity.name for entity in window.known_entities if entity.type == "person"]
    return [*people, *(fact.value for fact in window.known_facts if fact.slot in _PEOPLE_SLOTS)]


def find_known_kin(facts: Sequence[Fact]) -> dict[str, str]:
    """The user's people by the word for what they are: the one in the claim, else the slot's own."""
    nouns = load_frames("english").nouns
    out = {}
    for fact in facts:
        if fact.slot in _PEOPLE_SLOTS and fact.subject == USER_SUBJECT:
            words = re.findall(r"[\w-]+", fact.claim.lower())
            said = [word for word in words if nouns.get(word) == fact.slot]
            out.update(dict.fromkeys(said, fact.value))
    return out


def _overlap(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    return one is not None and other is not None and one[0] < other[1] and other[0] < one[1]


def _says_value(fact: FactDraft, belief: FactDraft) -> bool:
    """Whether the sentence of a rule says the value of a belief, and that it is over where the belief does."""
    words = set(normalize_value(belief.value).split())
    is_over = belief.operation != "is" or belief.temporal_context == "past"
    has_ended = fact.negated or fact.temporal_context == "past" or _NEGATION.search(fact.claim) is not None
    is_alike = is_over == has_ended or belief.mark == "change" or belief.slot in _ANY_TENSE_SLOTS
    return (is_alike or not words) and words <= set(normalize_value(fact.claim).split())


class _TurnExtractor:
    """One turn of a window."""

    def __init__(self, turn: Turn, window: Window) -> None:
        self.turn, self.window = turn, window
        self.speaker = _speaker_of(turn)
        spoken = {turn.speaker for turn in (*window.context_turns, *window.turns) if turn.speaker} | set(
            window.participants
        )
        talking = frozenset(slugify(name) for name in spoken)
        self.sentences = split_sentences(drop_quoted_material(turn.content))
        self.kin = tuple(find_kin(self.sentences, talking))
        self.names = tuple(find_names(self.sentences, self.kin, talking))

    def extract_facts(self, claims: Sequence[SlotClaim]) -> list[FactDraft]:
        """The claims of the turn: those about slots in their order, and others that no slot takes, each once."""
        stated: dict[str, FactDraft] = {}
        for fact in (*self._extract_kin_facts(), *self._extract_statements()):
            stated.setdefault(hash_claim(fact.claim), fact)
        beliefs = []
        for claim in claims:
            belief = self._build_belief(claim)
            for name, fact in stated.items():
                if _overlap(fact.span, belief.span) and _says_value(fact, belief):
                    # the sentence of a rule names times and circumstances, too
                    belief = replace(
                        belief,
                        claim=fact.claim,
                        entities=fact.entities,
                        tags=(*fact.tags, *belief.tags),
                        ends_fact_ids=fact.ends_fact_ids,
                        supersedes_id=fact.supersedes_id,
                    )
                    del stated[name]
                    break
            beliefs.append(belief)
        spans = [belief.span for belief in beliefs if belief.slot not in _PEOPLE_SLOTS]
        return [*beliefs, *(fact for fact in stated.values() if not any(_overlap(fact.span, span) for span in spans))]

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
            certainty="uncertain" if claim.is_unsure and claim.tense != "planned" else "explicit",
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
            needs=claim.needs,
        )

    def _extract_kin_facts(self) -> Iterator[FactDraft]:
        for kin in self.kin:
            article = "an" if kin.relation[0] in "aeiou" else "a"
            if not re.search(r"\b(?:late|ex)\b", kin.relation):
                says = f"has {article} {kin.relation} named {kin.name}"
                yield self._build_draft(
                    (kin.start, kin.end), StatementReading("kin", says, "current"), times.StatedTime()
                )

    def _extract_statements(self) -> Iterator[FactDraft]:
        """What the clauses state, and after that what their subject did besides ("I joined a gym and bought shoes")."""
        for clause in find_first_person_clauses(self.turn.content):
            statement = cut_statement(clause.body)
            fact = self._build_fact(clause, statement, len(statement))
            if fact is None:
                continue
            yield fact
            more = _COORDINATED_VERB.match(clause.body, len(statement))
            if more and fact.temporal_context == "past" and patterns.is_past(clause.body[more.end() :]):
                second = cut_statement("I " + clause.body[more.end() :])
                fact = self._build_fact(
                    replace(clause, lead=""), second, len(clause.lead) + more.end() + len(second) - 2
                )
                if fact is not None and fact.temporal_context == "past":
                    yield fact

    def _build_fact(self, clause: Clause, statement: str, length: int) -> FactDraft | None:
        """The claim of a statement that ends so many characters behind the clause's lead; None where no rule fits."""
        if not statement or is_hedged(statement):
            return None
        now = self.turn.timestamp
        inside, before = times.split_time(statement, now), times.parse_lead_time(clause.lead, now)
        if inside is None or before is None or (inside[1].phrase and before.phrase):
            return None
        time = inside[1] if inside[1] != times.StatedTime() else before
        reading = parse_reading(trim_trailing(inside[0]), time, now)
        if reading is None or (_SCENE_SETTING.search(clause.lead) and reading.tense != "past"):
            return None
        if reading.memory_type == "preference" and _RELATIVE_CLAUSE.match(clause.body, len(statement)):
            return None  # "I like films that make me laugh" are not all films
        changed = "moved" in reading.predicate or re.search(r"\bnow\b", f"{clause.lead} {statement}", re.IGNORECASE)
        corrects = not changed and _CORRECTION.search(f"{clause.lead} {statement[:12]}") is not None
        span = clause.start, clause.start + len(clause.lead) + length
        return self._build_draft(span, reading, time, is_correction=corrects)

    def _build_draft(
        self, span: tuple[int, int], reading: StatementReading, time: times.StatedTime, *, is_correction: bool = False
    ) -> FactDraft:
        speaker, past = self.speaker, reading.tense == "past"
        words = time.phrase.split(" as of ", 1)[0] if past else time.phrase
        claim = " ".join(part for part in (_render_subject(speaker, reading), reading.predicate, words) if part)
        taken = find_superseded(reading, claim, speaker.subject, self.window.known_facts)
        return FactDraft(
            turn_id=self.turn.id,
            claim=claim,
            quote=self.turn.content[span[0] : span[1]],
            span=span,
            subject=speaker.name or "user",
            certainty="explicit",
            temporal_context=reading.tense,
            memory_type=reading.memory_type,
            negated=reading.negated,
            valid_from=time.start if reading.tense != "future" else None,
            entities=self._names_in(claim),
            supersedes_id=taken,
            is_correction=bool(taken and is_correction),
            ends_fact_ids=() if taken else find_ended(reading, speaker.subject, self.window.known_facts),
            tags=(f"rule:{reading.rule}",),
        )

    def _names_in(self, claim: str) -> tuple[str, ...]:
        names = [self.speaker.name, *(kin.name for kin in self.kin), *(one.name for one in self.names)]
        return tuple(dict.fromkeys(name for name in names if name and re.search(rf"\b{re.escape(name)}\b", claim)))

    def extract_entities(self, facts: Sequence[FactDraft]) -> list[EntityDraft]:
        """Who and what the turn names, and the speaker where a claim is about them."""
        known_types = {slugify(entity.name): entity.type for entity in self.window.known_entities}
        others = find_aliases(self.sentences)
        found = [NameMention(kin.name, "pet" if kin.is_pet else "person", kin.start, kin.end) for kin in self.kin]
        if self.speaker.name and facts:
            found.insert(0, NameMention(self.speaker.name, "person", 0, 0))
        out = []
        for one in (*found, *self.names):
            if one.name in others.values():
                continue
            alias = others.get(slugify(one.name))
            kind = known_types.get(slugify(one.name), one.type)
            out.append(EntityDraft(turn_id=self.turn.id, name=one.name, type=kind, aliases=(alias,) if alias else ()))
        return out

    def extract_relations(self, facts: Sequence[FactDraft]) -> list[RelationDraft]:
        """Of the speaker, where they have a name, to those whom they call theirs, and to where they live and work."""
        out = [(kin.relation, kin.name, self.turn.content[kin.start : kin.end]) for kin in self.kin]
        for fact in facts:
            kind = _RELATION_BY_TAG.get(fact.tags[-1])
            where = re.match(rf".*?\b(?:in|to|at) (?:the )?({NAME_PATTERN})", fact.claim)
            if kind and where and fact.temporal_context == "current" and where[1] in fact.entities:
                out.append((kind, where[1], fact.quote))
        return [
            RelationDraft(turn_id=self.turn.id, source=self.speaker.name, kind=kind, target=target, quote=quote)
            for kind, target, quote in out
            if self.speaker.name
        ]


def _render_subject(speaker: _Speaker, reading: StatementReading) -> str:
    if reading.subject == "'s":
        return f"{speaker.subject}'s"
    if reading.subject.startswith("+"):
        return f"{speaker.subject} and {reading.subject[1:]}"
    return f"{speaker.subject}'s {reading.subject.removeprefix('their ')}" if reading.subject else speaker.subject


def _speaker_of(turn: Turn) -> _Speaker:
    name = " ".join((turn.speaker or "").split())
    return _Speaker(name, name) if re.fullmatch(NAME_PATTERN, name) and len(name) <= 60 else _Speaker("The user", "")


def _merge_entities(entities: Sequence[EntityDraft]) -> tuple[EntityDraft, ...]:
    """Each entity of the window once, by the type that says most, with every alias; nothing that is part of another."""
    out: dict[str, EntityDraft] = {}
    for one in entities:
        old = out.get(slugify(one.name), one)
        kind = one.type if old.type == "thing" else old.type
        out[slugify(one.name)] = replace(old, type=kind, aliases=tuple(dict.fromkeys((*old.aliases, *one.aliases))))
    words = {word for name in out for word in name.split("-") if name != word}
    return tuple(one for name, one in out.items() if one.type != "thing" or name not in words)
