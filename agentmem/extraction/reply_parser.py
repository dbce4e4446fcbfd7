"""A model's reply becomes a draft: labels become ids, words are looked up, what does not hold is left out or doubted.

Only labels that were given are understood, so no reply can name a record of anybody else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from agentmem.beliefs.belief import Tense
from agentmem.beliefs.slots import OWN_NAME_SLOTS, PEOPLE_SLOTS, PREFERENCE_SLOTS, USER_SUBJECT, NamedSlot, find_slot
from agentmem.beliefs.values import has_digit, is_same_value, remove_part
from agentmem.core.lifecycle import DOUBT_TAG, DOUBTFUL
from agentmem.core.records import RELATION_KINDS, Fact, Turn
from agentmem.core.scope import is_self_channel
from agentmem.errors import InvalidRecord
from agentmem.extraction.claim_checks import ClaimChecks
from agentmem.extraction.drafts import EntityDraft, ExtractionDraft, FactDraft, RelationDraft, TurnSummaryDraft, Window
from agentmem.extraction.grounding import GroundingContext, echo_reason, order_reason, role_reason, turn_time
from agentmem.extraction.labels import LabelMap
from agentmem.extraction.plain.claim_sentences import write_sentence
from agentmem.extraction.plain.dates import find_dates, parse_said_range
from agentmem.extraction.plain.language import load_language
from agentmem.extraction.plain.slot_claim import SlotClaim
from agentmem.extraction.plain.verb_tense import Direction
from agentmem.extraction.reply_schema import (
    MAX_SENTENCE_CHARS,
    AgentExtractionReply,
    EntityItem,
    ExtractionReply,
    FactItem,
    RelationItem,
    TurnItem,
)
from agentmem.extraction.said_words import find_quote, has_words, is_said, list_content_words, list_words
from agentmem.text.normalization import MONTHS, normalize_claim, slugify
from agentmem.text.temporal import TimeRange, parse_date_range
from agentmem.text.tokenizer import tokenize

MAX_KNOWN_ENTITIES = 40

_TEMPORAL_CONTEXTS = {"current": "current", "past": "past", "planned": "future"}
_TENSES: Mapping[str, Tense] = {"current": "current", "past": "past", "future": "planned"}

# Which such day is meant by words of a beginning and of an end, by the tense of the claim; else its verb tells.
_SINCE: Mapping[str, Direction] = {"current": "past", "past": "past", "planned": "future"}
_UNTIL: Mapping[str, Direction] = {"current": "future", "past": "past", "planned": "future"}

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
_FREE_INSTRUCTIONS = frozenset({"code_style", "answer_format", "tone"})  # a turn may ask for several at once
_DAY_WORDS = re.compile(
    r"\b(?:on|the|at|am|den|dem|el|le|(?:mon|tues|wednes|thurs|fri|satur|sun)day(?: week)?|easter)\b", re.IGNORECASE
)
_GENERIC_TERMS = frozenset(
    tokenize(
        "user agent assistant every also still just really always never often time day week month year today new old "
        "good like love want get go make take use first last one two many much thing people year-old current usual"
    )
)
"""Words that two claims about different things share easily."""


def parse_reply(reply: ExtractionReply, window: Window, prompt: str) -> ExtractionDraft:
    """What people said, from the reply to the `prompt`: every turn gets a gloss, if an empty one."""
    work = _ReplyParser(GroundingContext(window, prompt), LabelMap.from_window(window), agent_private=False)
    work.notes += reply.notes
    entities = list(work.parse_entities(reply.entities))
    work.entity_names = tuple(name for entity in entities for name in (entity.name, *entity.aliases))
    work.entity_slugs = {slugify(name) for name in work.entity_names}
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
    """One reply on its way. `entity_names` are the entities that it names, with their slugs, `speaker_entities` those
    who had to be added, `names_by_label` the drafts before by the labels of their items.
    """

    grounding: GroundingContext
    labels: LabelMap
    agent_private: bool
    notes: list[str] = field(default_factory=list)
    entity_names: tuple[str, ...] = ()
    entity_slugs: set[str] = field(default_factory=set)
    speaker_entities: dict[str, EntityDraft] = field(default_factory=dict)
    names_by_label: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.checks = ClaimChecks(self.grounding.window)

    def parse_facts(self, items: Iterable[FactItem]) -> tuple[FactDraft, ...]:
        """Each claim of a turn once; what is refused leaves a note."""
        kept: dict[tuple[str, str], FactDraft] = {}
        items = list(items)
        named = PEOPLE_SLOTS | set(OWN_NAME_SLOTS)
        self.checks.note_people((item.value, item.slot) for item in items if item.slot in named)
        changes = [item for item in items if item.slot and item.mark == "change" and item.op in ("", "is")]
        turns = self.labels.turns
        self.checks.note_changes((turns[each.turn].id, each.slot) for each in changes if each.turn in turns)
        for number, item in enumerate(items, 1):
            turn = self._find_turn(item.turn, "fact")
            if turn is None:
                continue
            draft, reason = self._ground(self._parse_fact(item, turn, number), turn)
            if reason:
                self.notes.append(f"fact: {reason}")
                continue
            if draft.certainty != DOUBTFUL:  # nothing rests on what is doubtful
                self.names_by_label[f"N{number}"] = draft.name
            kept.setdefault((turn.id, normalize_claim(draft.claim)), self._link(draft, item))
        return tuple(_join_instructions(kept.values()))

    def _parse_fact(self, item: FactItem, turn: Turn, number: int) -> FactDraft:
        """The claim with its quote looked up and its times resolved; not yet judged."""
        at = turn_time(turn)
        since = self._resolve_time(item.since, turn, _SINCE.get(item.tense))
        until = self._resolve_time(item.until, turn, None if item.op == "over" else _UNTIL.get(item.tense))
        if since and at and since[0] > at and item.tense in ("current", "past"):
            since = None  # what is so has begun
        # What is over is told by its operation; an end in world time would retire the very fact that tells of it.
        keeps_end = item.op == "over" or (item.tense != "past" and until and at is not None and until[1] > at)
        ends = until[1] if until and keeps_end else None
        begins = since[0] if since else None
        draft = FactDraft(
            turn_id=turn.id,
            claim=item.claim,
            quote=item.quote,
            span=find_quote(self.grounding.text_of(turn), item.quote),
            subject=self.labels.find_subject(item.about, turn, agent_private=self.agent_private),
            certainty=item.certainty,
            temporal_context=_TEMPORAL_CONTEXTS.get(item.tense, ""),
            memory_type="preference" if item.slot.partition(":")[0] in PREFERENCE_SLOTS else "fact",
            negated=item.op == "deny" or (not item.slot and has_words(item.claim, "negation")),
            valid_from=begins,
            valid_to=None if ends and begins and ends <= begins else ends,
            agent_private=self.agent_private,
            is_general=item.scope == "everywhere" and not self.agent_private,
            slot=self._find_slot(item.slot),
            value=" ".join(item.value.split()),
            operation=item.op or "is",
            mark=item.mark,
            name=f"{turn.id}/{number}",
        )
        draft = draft if draft.claim else replace(draft, claim=_write_claim(draft))
        unread = [words for words, read in ((item.since, since), (item.until, until)) if not read]
        draft = replace(draft, time_words=tuple(words for words in unread if self._is_said(words, turn)))
        return replace(draft, entities=self._find_entities(draft))

    def _find_slot(self, name: str) -> str:
        """The slot of this name, "" with a note for one that there is not. The assistant's own claims have none."""
        try:
            return find_slot(name, self.grounding.window.slots).name if name and not self.agent_private else ""
        except InvalidRecord:
            self.notes.append("fact: slot unknown")
            return ""

    def _ground(self, draft: FactDraft, turn: Turn) -> tuple[FactDraft, str]:
        """The draft, doubtful where a check doubts it, and why it does not count; "" when it does."""
        if not draft.claim:
            return draft, "it has neither a claim nor a slot"
        reason = role_reason(draft, turn, self.grounding) or echo_reason(draft, turn, self.grounding)
        if reason:
            return draft, reason
        verdict = self.checks.check(draft, turn)
        if verdict.reason:
            return draft, verdict.reason
        draft = self._complete_belief(draft, turn) if draft.slot else draft
        if verdict.doubts:
            doubts = tuple(f"{DOUBT_TAG}{doubt}" for doubt in verdict.doubts)
            draft = replace(draft, certainty=DOUBTFUL, tags=(*draft.tags, *doubts))
        return replace(draft, review_reason=order_reason(turn, self.grounding)), ""

    def _complete_belief(self, draft: FactDraft, turn: Turn) -> FactDraft:
        """The draft with its date in one form and a sentence that says no more than its words do."""
        completed = _resolve_day(draft, find_slot(draft.slot, self.grounding.window.slots), turn_time(turn))
        if completed != draft or not self.checks.has_said_claim(draft, turn):
            completed = replace(completed, claim=_write_claim(completed))
        if unread := [words for words in draft.time_words if words not in completed.claim]:
            completed = replace(completed, claim=f"{completed.claim} ({', '.join(unread)})")
        if completed.operation == "over" and completed.temporal_context in ("", "current"):
            completed = replace(completed, temporal_context="past")
        return completed

    def _resolve_time(self, words: str, turn: Turn, direction: Direction | None) -> TimeRange | None:
        """The range of time that words of the turn stand for, None with a note for one that nobody said.

        The tense of the claim decides between the last and the next such day, where it has one.
        """
        if words.strip().lower() in ("", "null", "none"):
            return None
        at = turn_time(turn)
        if (
            self._is_said(words, turn)
            and at is not None
            and (said := parse_said_range(words, at, self.grounding.text_of(turn), direction))
        ):
            return said
        found = parse_date_range(words)
        if found is None:
            self.notes.append("date: it cannot be read")
        elif self.grounding.is_time_stated(found, turn, allow_vague=False):
            return found
        else:
            self.notes.append("date: date not said")
        return None

    def _is_said(self, words: str, turn: Turn) -> bool:
        return bool(words.strip()) and normalize_claim(words) in normalize_claim(self.grounding.text_of(turn))

    def _find_entities(self, draft: FactDraft) -> tuple[str, ...]:
        """The names in a claim, and whom it is about, that are entities of the reply or known ones."""
        known = [name for entity in self.grounding.window.known_entities for name in (entity.name, *entity.aliases)]
        own = self.grounding.turns[draft.turn_id].speaker or ""
        text = f"{draft.claim} {draft.subject} {draft.value}".casefold()
        names = [*self.entity_names, *known, *self.grounding.window.participants, own]
        found = [name for name in names if name and re.search(rf"\b{re.escape(name.casefold())}\b", text)]
        return tuple(dict.fromkeys(name for name in found if self._ensure_entity(name, draft.turn_id)))

    def _link(self, draft: FactDraft, item: FactItem) -> FactDraft:
        """The fact with the known facts that it names, those that hold."""
        if draft.review_reason or draft.certainty == DOUBTFUL:
            return draft
        draft = self._take_known_value(draft, item)
        named = {label: fact for label in item.ends if (fact := self._find_fact(label))}
        links = {fact.id: self._judge_end(fact, draft, item) for fact in named.values()}
        self.notes += ["link: to a fact about something else" for told in links.values() if not told]
        ended = [fact for fact in named.values() if links[fact.id] == "ends"]
        opened = "" if draft.slot else next((fact.id for fact in ended if not fact.slot), "")
        replaced = opened if draft.operation == "is" and item.tense != "past" else ""
        premises = [
            self.names_by_label.get(label) or getattr(self._find_fact(label), "id", "") for label in item.rests_on
        ]
        others = {"", draft.name, *(fact.id for fact in ended)}
        return replace(
            draft,
            supersedes_id=replaced,
            ends_fact_ids=tuple(fact.id for fact in ended if fact.id != replaced),
            doubts_fact_ids=tuple(name for name, told in links.items() if told == "doubts"),
            is_correction=bool(replaced) and item.mark == "correct",
            depends_on=tuple(dict.fromkeys(name for name in premises if name not in others)),
        )

    def _take_known_value(self, draft: FactDraft, item: FactItem) -> FactDraft:
        """An end with the value that the memory holds: "keine Stichpunkte mehr" ends "bullet points"."""
        if draft.operation == "is" or not draft.slot:
            return draft
        known = (self.labels.facts.get(label) for label in item.ends)
        same = (fact for fact in known if fact and (fact.slot, fact.subject) == (draft.slot, draft.subject))
        held = next((fact.value for fact in same if not fact.is_denied), draft.value)
        return draft if remove_part(held, draft.value) else replace(draft, value=held)

    def _find_fact(self, label: str) -> Fact | None:
        """The known fact of a label; None with a note for a label that was not given."""
        fact = self.labels.facts.get(label)
        self.notes += [] if fact else ["link: label unknown"]
        return fact

    def _judge_end(self, fact: Fact, draft: FactDraft, item: FactItem) -> Literal["ends", "doubts", "settled", ""]:
        """What a claim does to a known fact that it is said to end; "" where it is about something else.

        A claim of the same slot and subject is left to the decision table, unless it takes the place of one of several
        values. A belief is in doubt where the words of the claim do not name it, or tell of no change.
        """
        slot = find_slot(fact.slot, self.grounding.window.slots) if fact.slot else None
        if slot and (fact.slot, fact.subject.casefold()) == (draft.slot, draft.subject.casefold()):
            replaces = slot.kind == "set" and draft.operation == "is" and not is_same_value(fact.value, draft.value)
            return "ends" if replaces and item.tense in ("", "current") else "settled"
        if is_self_channel(fact.channel) is not self.agent_private:
            return ""
        text = self.grounding.text_of(self.grounding.turns[draft.turn_id])
        said = frozenset(list_words(f"{draft.claim} {draft.quote}"))
        if slot is None:
            return "ends" if self._is_related(fact, draft) else ""
        if draft.subject.casefold() != fact.subject.casefold() and not is_said(fact.subject.casefold(), said):
            return ""
        is_named = all(is_said(word, said) for word in list_content_words(fact.value)) or self._is_related(fact, draft)
        tells_change = (
            draft.operation != "is" or bool(item.mark) or has_words(text, "end", "doubt", "parted", "negation")
        )
        return "ends" if is_named and tells_change else "doubts"

    def _is_related(self, fact: Fact, draft: FactDraft) -> bool:
        """Whether two claims are about the same people and share a word of substance that is nobody's name."""
        people = {name.casefold() for name in self.labels.people.values()} - {USER_SUBJECT}
        mine, theirs = (_find_people(one.claim, one.subject, people) for one in (draft, fact))
        if mine != theirs and not mine & theirs:
            return False
        names = set(tokenize(" ".join((*people, *self.grounding.speaker_slugs))))
        said = set(tokenize(draft.claim))
        return not said.isdisjoint(set(tokenize(fact.claim)) - names - _GENERIC_TERMS)

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
        """Aliases whose every word was said, and that are not names of others."""
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
            kind = _find_relation_kind(item.kind)
            yield RelationDraft(turn_id=turn.id, source=item.source, kind=kind, target=item.target, quote=item.quote)

    def _relation_rejection_reason(self, item: RelationItem, turn: Turn) -> str:
        """Why a relation does not count; "" when it does. There is no doubt about relations: they are left out."""
        span = find_quote(self.grounding.text_of(turn), item.quote)
        ends = (item.source, item.target)
        if span is None or self.grounding.overlaps_recalled_lines(turn, span):
            return "ungrounded"
        if not _RELATION_KIND.fullmatch(item.kind):
            return "its kind is no name"
        if slugify(item.source) == slugify(item.target) or not all(self._ensure_entity(name, turn.id) for name in ends):
            return "it is not between two that are named"
        if self.grounding.has_prompt_injection(turn):
            return "it was not said as something that is so"
        claim = f"{item.source} {item.kind} {item.target}".replace("_", " ")
        quote = FactDraft(turn_id=turn.id, claim=claim, quote=item.quote, span=span, subject=item.source)
        return role_reason(quote, turn, self.grounding) or self.checks.check_relation(
            _find_relation_kind(item.kind), ends, quote, turn
        )

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


def _write_claim(draft: FactDraft) -> str:
    """The sentence of a slot, where the model left it to us or its tense was put right; "" without a slot."""
    if not draft.slot:
        return ""
    claim = SlotClaim(
        subject=draft.subject,
        slot=draft.slot,
        value=draft.value,
        tense=_TENSES.get(draft.temporal_context, "current"),
        operation=draft.operation,
        noun=_find_noun(draft),
    )
    sentence = write_sentence(claim, "The user" if draft.subject == USER_SUBJECT else draft.subject)
    return f"{sentence}, perhaps" if draft.certainty == "uncertain" else sentence  # a guess is marked as one


def _join_instructions(drafts: Iterable[FactDraft]) -> Iterator[FactDraft]:
    """The drafts with the parts of one wish of a turn in one value: "type hints everywhere, snake_case"."""
    waiting: FactDraft | None = None
    for draft in drafts:
        is_part = draft.slot in _FREE_INSTRUCTIONS and draft.operation == "is"
        if waiting is not None and is_part and _instruction_key(draft) == _instruction_key(waiting):
            joined = replace(waiting, value=f"{waiting.value}, {draft.value}")
            waiting = replace(joined, claim=_write_claim(joined))
            continue
        if waiting is not None:
            yield waiting
        waiting = draft if is_part else None
        if not is_part:
            yield draft
    if waiting is not None:
        yield waiting


def _instruction_key(draft: FactDraft) -> tuple[str, str, str, str]:
    return draft.turn_id, draft.slot, draft.subject, draft.temporal_context


def _resolve_day(draft: FactDraft, slot: NamedSlot, at: datetime | None) -> FactDraft:
    """The draft of an event with its date in one form: "Thursday, 19th March" as "19 March", "today" by the turn."""
    is_birthday = slot.name == "birthday"
    if at is None or not (is_birthday or slot.kind == "event"):
        return draft
    said = find_dates(draft.value.casefold(), at, "")
    if not has_digit(draft.value):
        found = parse_said_range(draft.value, at)
        day = found and f"{found[0].day} {found[0]:%B}" + ("" if is_birthday else f" {found[0].year}")
        return replace(draft, value=day) if day else draft
    dates = [each for each in said if re.search(r"\d", draft.value[slice(*each.core)])]
    if len(dates) != 1 or not re.search("|".join(MONTHS), draft.value[slice(*dates[0].core)].lower()):
        return draft  # a month of another language, or none, stays as it was said
    date = dates[0]
    year = f" {date.moment.year}" if re.search(r"\b\d{4}\b", draft.value[slice(*date.core)]) else ""
    rest = _DAY_WORDS.sub(" ", draft.value[: date.core[0]] + " " + draft.value[date.core[1] :])
    rest = " ".join(rest.strip(" ,.;").split()).removeprefix(", ")
    return replace(draft, value=f"{date.moment.day} {date.moment:%B}{year}" + (f", {rest}" if rest else ""))


def _find_noun(draft: FactDraft) -> str:
    """The English word in the quote for what somebody is to the subject, such as "sister"; "" for none."""
    kin = load_language("english").kin
    words = re.findall(r"[\w-]+", draft.quote.lower())
    return next((kin[word].noun for word in words if word in kin and kin[word].slot == draft.slot), "")


def _find_relation_kind(kind: str) -> str:
    """A kind of relation that is built in, by its name in any form; else the words as they are."""
    upper = kind.upper().replace(" ", "_").replace("-", "_")
    return upper if upper in {edge.value for edge in RELATION_KINDS} else kind


def _find_people(claim: str, subject: str, people: Iterable[str]) -> set[str]:
    """Whom a claim names, of these people in small letters; its subject counts where the words name nobody."""
    text = claim.casefold()
    named = {name for name in people if re.search(rf"\b{re.escape(name)}\b", text)}
    return named or {subject.casefold() or USER_SUBJECT}
