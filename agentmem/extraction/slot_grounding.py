"""Whether the words of a turn say a claim about a slot: its value, whose it is, whether it is so, and when.

A model reads; this checks. What the rules read of the same words counts first: where they agree with the claim, nothing
else is asked, and where they read another person or the opposite, the claim goes. A tense that the words say otherwise
is put right. Everything else that the words do not bear out is refused: the turn stays findable.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from agentmem.beliefs.slots import PEOPLE_SLOTS, THING_SUBJECT, USER_SUBJECT, NamedSlot
from agentmem.beliefs.values import has_digit, is_refinement, is_same_value
from agentmem.core.records import Turn
from agentmem.extraction.drafts import FactDraft, Window
from agentmem.extraction.frames.answers import complete_answer, find_question
from agentmem.extraction.frames.frame_set import LANGUAGES, load_frames
from agentmem.extraction.frames.people import PeopleReader
from agentmem.extraction.frames.plain_text import PlainSentence, split_plain_sentences
from agentmem.extraction.frames.slot_claim import SlotClaim
from agentmem.extraction.frames.window_claims import find_known_kin, list_known_people, read_slot_claims
from agentmem.extraction.mentions import Mentions, group_pattern, relation_words
from agentmem.extraction.person_grounding import check_owner, check_relation_words
from agentmem.extraction.polarity import (
    LIFTED,
    NONE_VALUES,
    TAKEN_BACK,
    check_hypothetical,
    check_polarity,
    correct_tense,
    is_denial,
)
from agentmem.extraction.value_words import (
    ADDRESSEE,
    PRONOUN_OWNERS,
    SOMEBODY,
    VERB_LIKE,
    WITH_ME,
    ValueReading,
    detect_language,
    find_possessors,
    find_value,
    read_value_words,
)
from agentmem.text.normalization import claimed_numbers, quotable_numbers
from agentmem.text.tokenizer import tokenize

_WRONG_PERSON = "person: the words say it of somebody else"
_TENSES = {"current": "current", "past": "past", "planned": "future"}
# Slots whose values may deny something themselves: "does not eat meat", "no emojis", "cannot climb stairs".
_DENYING_SLOTS = frozenset({"diet", "restriction", "dislikes", "emoji", "answer_format", "tone", "smoking", "drinking"})
_NONE_SLOTS = frozenset({"car", "emoji"})  # besides the slots with a value for none
_NONE_VALUE_WORDS = 3
_WHERE = re.compile(r"\bthat(?:'s| is) (?:where|what|when|how)\b")  # "from Bilbao, that's where he lives"
_WHAT_THEY_SAID = re.compile(r"\b(?:he|she|they) (?:said|told you|mentioned|recommended|advised|suggested)\b")
_NAMES_ALONE = re.compile(r"[\w-]+(?:(?:,| and|, and| und| y| et| e) [\w-]+)+")
_OWN = r"\b(?:my|our|me|mein\w*|unser\w*|mi|nuestr[oa]|mon|ma|notre|meu|minha)"
_YOUR = r"\b(?:your|tu|dein\w*|ihr\w*|ta|ton|votre|tua|teu|sua|seu)"
_OWN_GROUP = re.compile(r"\b(?:i|we)\b[^.;]*\b(?:have|has|had|got|am|are|adopted|report|work|rent|gave)\b")


@cache
def _cues() -> Mapping[str, re.Pattern[str]]:
    """For a slot the English words of which one must stand beside its value."""
    data = json.loads(files(__package__).joinpath("slot_cues.json").read_text(encoding="utf-8"))
    return {slot: re.compile(rf"(?:^|\W)(?:{words})(?:\W|$)") for slot, words in data.items()}


@dataclass
class SlotGrounding:
    """Checks the claims of one window about slots. Rules read the window once, with the people who are known."""

    window: Window

    def __post_init__(self) -> None:
        self._readings = read_slot_claims(self.window)
        self._asked = _questions_before(self.window)
        people = [*list_known_people(self.window), *(turn.speaker for turn in self.window.turns if turn.speaker)]
        self._people = PeopleReader(load_frames(LANGUAGES[0]), people, find_known_kin(self.window.known_facts))
        self._mentions = Mentions(self.window)
        self._sentences: dict[str, tuple[list[PlainSentence], list[PlainSentence]]] = {}

    def check(self, draft: FactDraft, slot: NamedSlot, turn: Turn) -> tuple[FactDraft, str]:
        """The draft with value and tense as the words have them, and why it does not count; "" when it does."""
        subject = USER_SUBJECT if _is_own(draft, turn) else draft.subject
        readings = [each for each in self._readings.get(turn.id, ()) if each.slot == slot.name]
        alike = [each for each in readings if _has_same_value(slot, each, draft)]
        own = [each for each in alike if _is_of_thing(slot) or _is_same_subject(each.subject, subject)]
        agreed = [each for each in own if each.operation == draft.operation or _is_end(each, draft)]
        agreed = [each for each in agreed if _is_quoted(each, draft)] or agreed
        if agreed:
            same_tense = [each for each in agreed if _TENSES[each.tense] == draft.temporal_context]
            return _adopt(draft, slot, (same_tense or agreed)[-1], turn), ""
        if own:
            return draft, "polarity: the words say the opposite"
        if any(_is_quoted(each, draft) for each in alike) and not WITH_ME.search(draft.quote.casefold()):
            return draft, _WRONG_PERSON
        return self._check_words(draft, slot, turn, subject)

    def note_people(self, people: Iterable[tuple[str, str]]) -> None:
        """Remember names with the slots under which the same reply has them, before its claims are checked."""
        for name, slot in people:
            self._mentions.note(name, slot)

    def check_owner(self, draft: FactDraft, turn: Turn) -> str:
        """Why an open claim is about the wrong person; "" when it is not."""
        own = replace(draft, subject=USER_SUBJECT) if _is_own(draft, turn) else draft
        return check_owner(own, self._list_quoted_sentences(draft, turn), self._people)

    def check_relation(self, kind: str, ends: tuple[str, str], quote: FactDraft, turn: Turn) -> str:
        """Why a relation between two named is not said by a quote; "" when it is."""
        sentences = self._list_quoted_sentences(quote, turn)
        return check_relation_words(kind, ends, sentences, self._people, turn.speaker or "")

    def _check_words(self, draft: FactDraft, slot: NamedSlot, turn: Turn, subject: str) -> tuple[FactDraft, str]:
        """Check a claim by the sentence in which its value stands, where the rules read nothing of it."""
        sentences = self._list_quoted_sentences(draft, turn)
        if not sentences:
            return draft, "quote: the words are pasted, quoted or handed over for work"
        if slot.value_type == "place" and draft.value and not any(map(str.isalpha, draft.value)):
            return draft, "value: it is no place"
        placed = [(each, span) for each in sentences if draft.value and (span := _find_place(each, draft))]
        if not placed and has_digit(draft.value) and set(tokenize(draft.value)) <= set(tokenize(draft.quote)):
            placed = [(sentences[-1], (0, len(sentences[-1].plain)))]  # "19. April 1987" looks like two sentences
        if not placed and draft.operation != "is" and self._is_known_otherwise(draft, subject, turn):
            return self._check_end(draft, slot, sentences, subject, turn)
        if not placed:
            is_named_before = self._is_person_named_before(draft, slot, sentences, turn, subject)
            return draft, "" if is_named_before else "value: it does not stand in the quote"
        sentence, span = placed[-1]
        if sentence.is_question:
            return draft, "question: what it rests on is asked, not said"
        reading = read_value_words(sentence, span, self._people)
        beside = self._list_beside(sentence, reading, turn)
        checks = (
            check_hypothetical(reading),
            self._check_relation(draft, slot, sentence, reading, subject, turn)
            if slot.name in PEOPLE_SLOTS
            else self._check_person(draft, slot, sentence, reading, subject, turn)
            or self._check_cue(draft, slot, sentence, reading, beside, turn),
            check_polarity(draft, slot, reading, sentence, self._is_known(draft, subject)),
        )
        if reason := next(filter(None, checks), ""):
            return draft, reason
        return correct_tense(_name_in_english(draft, slot), slot, reading)

    def _check_end(
        self, draft: FactDraft, slot: NamedSlot, sentences: Sequence[PlainSentence], subject: str, turn: Turn
    ) -> tuple[FactDraft, str]:
        """A claim without a value says that whatever the slot holds is over: "I got laid off"."""
        for sentence in sentences:
            end = len(sentence.plain)
            reading = read_value_words(sentence, (end, end), self._people)
            is_done = slot.kind == "event" and not (reading.is_planned or reading.is_present)
            is_lifted = slot.name == "restriction" and LIFTED.search(sentence.plain) is not None
            is_taken_back = draft.mark == "correct" and TAKEN_BACK.search(turn.content.casefold()) is not None
            is_end = reading.is_over or reading.is_denied or is_done or is_lifted or is_taken_back
            if is_end and not reading.is_hypothetical and not sentence.is_question:
                is_own = slot.kind == "event" or self._is_owner(draft, sentence, reading, subject, turn)
                return draft, "" if is_own else _WRONG_PERSON
        return draft, "polarity: the words do not say that it is over"

    def _list_quoted_sentences(self, draft: FactDraft, turn: Turn) -> list[PlainSentence]:
        """The sentences of the turn that its author says and the quote touches; an answer comes with its question."""
        found, answer = self._list_sentences(turn)
        if draft.span is None:
            return [*answer, *found]
        begin, end = draft.span
        if turn.content[begin:end].strip().isdigit():
            return [*answer, *found]  # a number alone is no sentence
        spans = [(each, each.span(0, len(each.plain))) for each in found if each.plain]
        return [*answer, *(each for each, (start, stop) in spans if start < end and begin < stop)]

    def _list_sentences(self, turn: Turn) -> tuple[list[PlainSentence], list[PlainSentence]]:
        """The sentences of a turn, and the statement that its first words make with the question before them."""
        if turn.id not in self._sentences:
            answer = complete_answer(turn.content, find_question(self._asked.get(turn.id, "")))
            said = list(split_plain_sentences(turn.content))
            completed = list(split_plain_sentences(answer.statement)) if answer else []
            for sentence in (*completed, *said):
                self._people.note_people(sentence)
            self._sentences[turn.id] = (said, completed)
        return self._sentences[turn.id]

    def _list_beside(self, sentence: PlainSentence, reading: ValueReading, turn: Turn) -> list[str]:
        """What a clause without a verb is read with: the question that it answers and what stands around it."""
        if not _is_elliptic(reading.clause):
            return []
        rest = [each.plain for each in self._list_sentences(turn)[0] if each is not sentence]
        return [self._find_question(turn), sentence.plain, *rest, *self._mentions.list_before(turn)]

    def _find_question(self, turn: Turn) -> str:
        """What the assistant said just before a turn, in small letters."""
        return self._asked.get(turn.id, "").casefold()

    def _is_known(self, draft: FactDraft, subject: str) -> bool:
        """Whether the memory holds the value of a claim already."""
        known = (fact for fact in self.window.known_facts if fact.slot == draft.slot)
        same = (fact for fact in known if _is_same_subject(fact.subject, subject))
        return any(is_same_value(_drop_brackets(fact.value), _drop_brackets(draft.value)) for fact in same)

    def _is_known_otherwise(self, draft: FactDraft, subject: str, turn: Turn) -> bool:
        """Whether the end of a value needs no value in its quote: none is named, it is known, or was said just before
        and is taken back.
        """
        if not draft.value or self._is_known(draft, subject):
            return True
        before = itertools.takewhile(lambda each: each is not turn, self.window.turns)
        own = [each for each in before if each.role.lower() in ("user", "human")]
        was_said = any(find_value(said, draft.value) for each in own for said in self._list_sentences(each)[0])
        return draft.mark == "correct" and was_said

    def _check_person(
        self,
        draft: FactDraft,
        slot: NamedSlot,
        sentence: PlainSentence,
        reading: ValueReading,
        subject: str,
        turn: Turn,
    ) -> str:
        if subject == THING_SUBJECT or _is_of_thing(slot):
            return _WRONG_PERSON if SOMEBODY in reading.owners and subject == USER_SUBJECT else ""
        is_request = slot.is_instruction or slot.name == "call_me"
        if is_request and subject == USER_SUBJECT and reading.owners <= {ADDRESSEE}:
            return ""
        cue = _cues().get(slot.name)
        if reading.owners and reading.owned and cue is not None and not cue.search(reading.owned):
            return "person: the words say it of something of theirs"
        return "" if self._is_owner(draft, sentence, reading, subject, turn) else _WRONG_PERSON

    def _is_owner(
        self, draft: FactDraft, sentence: PlainSentence, reading: ValueReading, subject: str, turn: Turn
    ) -> bool:
        """Whether the words may be about the subject. Where they name nobody clearly, who was spoken of counts.

        "A colleague" may be somebody who is all that the next sentence names: "Nora Lind, I mean."
        """
        question = self._find_question(turn) if _is_elliptic(reading.clause) else ""
        if not reading.owners and subject == USER_SUBJECT:
            return not self._asks_of_other(question)
        if not reading.owners or (subject != USER_SUBJECT and self._mentions.find(subject, question)):
            return self._mentions.is_spoken_of(subject, turn) and not self._is_known_owner(subject, reading)
        if _names(subject, reading.owners) or subject == USER_SUBJECT:
            return _names(subject, reading.owners)
        if self._is_told_of(subject, reading.clause):
            return True
        if reading.owners == {SOMEBODY}:
            said = self._list_sentences(turn)[0]
            following = said[said.index(sentence) + 1 :][:1] if sentence in said else []
            return any(_is_name_alone(subject, each.plain) for each in following)
        if len(reading.owners) != 1 or not reading.owners <= set(PRONOUN_OWNERS.values()):
            return False
        gender = self._people.talk.gender.get(subject, "")
        is_fitting = not gender or reading.owners <= {"they?", "she?" if gender == "f" else "he?"}
        return is_fitting and self._mentions.is_spoken_of(subject, turn)

    def _is_known_owner(self, subject: str, reading: ValueReading) -> bool:
        """Whether the words name somebody else who is known, or the speaker."""
        known = {*map(str.casefold, self._people.talk.people), USER_SUBJECT}
        return bool(reading.owners & known) and not _names(subject, reading.owners)

    def _asks_of_other(self, question: str) -> bool:
        """Whether a question is about somebody else than who answers: "Where does your sister live?"."""
        asked = _WHAT_THEY_SAID.sub(" ", find_question(question).casefold())
        kin = "|".join(relation_words(slot) for slot in sorted(PEOPLE_SLOTS))
        if re.search(rf"{_YOUR} (?:[\w-]+ )?(?:{kin})\b(?! are you)", asked):
            return not re.search(r"\b(?:name|called|hei\u00dft|llama|appelle|chama)\b", asked)
        is_named = any(re.search(rf"\b{re.escape(name)}\b", asked) for name in self._people.talk.people)
        return (is_named or re.search(r"\b(?:she|he|her|his)\b", asked) is not None) and not re.search(
            r"\byou\b", asked
        )

    def _is_told_of(self, subject: str, clause: str) -> bool:
        """Whether a clause begins with somebody, or has them before a verb: "did I say Mum was 84"."""
        found = self._mentions.find(subject, clause)
        if found is None or found[0].endswith("'s"):
            return False
        is_first = not clause[: found.start()].strip(" ,").removeprefix("our").removeprefix("my")
        return is_first or re.match(rf" {VERB_LIKE.pattern}", clause[found.end() :]) is not None

    def _check_cue(
        self,
        draft: FactDraft,
        slot: NamedSlot,
        sentence: PlainSentence,
        reading: ValueReading,
        beside: Sequence[str],
        turn: Turn,
    ) -> str:
        """English alone has cues: a town in a sentence is no home. `beside` is what a clause without a verb is read
        with; a correction is read with its whole turn.
        """
        texts = (turn.content.casefold(), self._find_question(turn))
        language = reading.language or next(filter(None, map(detect_language, texts)), LANGUAGES[0])
        if language != LANGUAGES[0]:
            return ""
        kind, _, thing = slot.name.partition(":")
        if kind in ("the", "version"):  # what stands behind the colon is named, or known
            said = set(tokenize(self._mentions.get_texts(turn)))
            is_named = not said.isdisjoint(tokenize(thing)) or self._is_slot_known(slot)
            return "" if is_named else "relation: the words do not name this"
        cue = _cues().get(slot.name)
        is_taken_back = draft.mark == "correct" and TAKEN_BACK.search(texts[0])
        is_one = draft.operation == "deny" or _WHERE.search(sentence.plain)
        whole = texts[:1] if is_taken_back else [sentence.plain] if is_one else ()
        is_spoken_of = cue is None or any(cue.search(text) for text in (reading.clause, *beside, *whole))
        return "" if is_spoken_of else "relation: the words do not speak of this"

    def _is_slot_known(self, slot: NamedSlot) -> bool:
        return any(fact.slot == slot.name for fact in self.window.known_facts)

    def _check_relation(
        self,
        draft: FactDraft,
        slot: NamedSlot,
        sentence: PlainSentence,
        reading: ValueReading,
        subject: str,
        turn: Turn,
    ) -> str:
        """Whether a word for this relation stands there, and belongs to the subject."""
        frames = load_frames(reading.language or LANGUAGES[0])
        nouns = re.compile(rf"\b(?:{relation_words(slot.name)})\b(?!'s)")
        for found in nouns.finditer(sentence.plain):
            owners = find_possessors(sentence.plain, found.start(), self._people, frames) or reading.owners
            if _names(subject, owners) or (not owners and subject == USER_SUBJECT):
                return ""
        more = group_pattern(slot.name)
        if more.search(sentence.plain):
            is_own = _OWN_GROUP.search(sentence.plain) is not None
            is_own = is_own or (
                reading.owners <= {USER_SUBJECT} and (slot.name == "landlord" or reading.language != LANGUAGES[0])
            )
            if (subject == USER_SUBJECT and is_own) or _names(subject, reading.owners):
                return ""
        others = reading.owners - {draft.value.casefold(), draft.value.casefold().split()[0]}
        if _NAMES_ALONE.fullmatch(reading.clause.strip(" .!")):  # "Luna and Oliver!"
            others = frozenset()
        is_unowned = not others or _names(subject, others)
        beside = self._list_beside(sentence, reading, turn)
        if is_unowned and any(nouns.search(text) or more.search(text) for text in beside):
            return ""
        if subject == USER_SUBJECT and self._is_told_first(draft, slot, reading, turn):
            return ""
        is_end = draft.operation != "is" and self._is_known(draft, subject)
        return "" if is_end else "relation: the words do not say what they are to each other"

    def _is_told_first(self, draft: FactDraft, slot: NamedSlot, reading: ValueReading, turn: Turn) -> bool:
        """Whether a clause begins with somebody for whom the question has the word, or the next sentence alone.

        "How was the new boss?" "Lorraine started today."; "Trevor is retiring. The boss."
        """
        nouns = relation_words(slot.name)
        first = _drop_brackets(draft.value).casefold().split()[:1]
        if not first or reading.clause.strip(" ,").split()[:1] != first:
            return False
        asked = re.search(
            rf"\b(?:your|the|dein\w*|der|die|tu|el|la|votre|ton|ta|teu|tua|o|a) (?:[\w-]+ )?(?:{nouns})\b",
            self._find_question(turn),
        )
        alone = rf"(?:the|my|me|our|mein\w*|mi|mon|ma|o meu|a minha) (?:[\w-]+ )?(?:{nouns})\W*"
        return asked is not None or any(re.fullmatch(alone, each.plain) for each in self._list_sentences(turn)[0])

    def _is_person_named_before(
        self, draft: FactDraft, slot: NamedSlot, sentences: Sequence[PlainSentence], turn: Turn, subject: str
    ) -> bool:
        """Whether somebody who was named in the turns before is told to be the user's: "She is my best friend"."""
        if slot.name not in PEOPLE_SLOTS or subject != USER_SUBJECT or draft.operation != "is":
            return False
        is_said = any(
            re.search(rf"{_OWN} (?:[\w-]+ )?(?:{relation_words(slot.name)})\b", each.plain) and not each.is_question
            for each in sentences
        )
        return is_said and self._mentions.is_named(draft.value, turn)


def _questions_before(window: Window) -> dict[str, str]:
    """For each turn of a person what the assistant said just before."""
    out, asked = {}, ""
    for turn in (*window.context_turns, *window.turns):
        if turn.role.lower() == "assistant":
            asked = turn.content
        else:
            out[turn.id] = asked
            asked = ""
    return out


def _is_own(draft: FactDraft, turn: Turn) -> bool:
    return draft.subject == USER_SUBJECT or bool(turn.speaker and draft.subject.casefold() == turn.speaker.casefold())


def _is_of_thing(slot: NamedSlot) -> bool:
    """Whether a slot tells of a thing or an event, whosever it is."""
    return slot.name.startswith(("the:", "version:", "about:", "date:", "flight:"))


def _is_same_subject(read: str, subject: str) -> bool:
    if read == USER_SUBJECT or subject == USER_SUBJECT:
        return read == subject
    one, other = read.casefold().split(), subject.casefold().split()
    return one == other or one[:1] == other or one == other[:1] or THING_SUBJECT in (read, subject)


def _has_same_value(slot: NamedSlot, read: SlotClaim, draft: FactDraft) -> bool:
    if not (read.value and draft.value):
        return bool(read.value) == bool(draft.value)
    one, other = read.value, draft.value
    if slot.name in _DENYING_SLOTS and one in NONE_VALUES:
        return is_denial(other)
    alike = is_same_value(one, other) or is_refinement(slot, one, other) or _has_same_words(one, other)
    return alike or is_same_value(_drop_brackets(one), _drop_brackets(other))


def _drop_brackets(value: str) -> str:
    """ "Miso" of "Miso (cat)"."""
    return re.sub(r"\s*\([^)]*\)", "", value)


def _is_quoted(read: SlotClaim, draft: FactDraft) -> bool:
    """Whether the rules read it in the words that are quoted, not elsewhere in the turn."""
    return draft.span is not None and read.span[0] < draft.span[1] and draft.span[0] < read.span[1]


def _has_same_words(one: str, other: str) -> bool:
    return set(tokenize(one)) == set(tokenize(other)) != set()


def _adopt(draft: FactDraft, slot: NamedSlot, read: SlotClaim, turn: Turn) -> FactDraft:
    """The draft in the words of the rules, which know the form of a slot ("eats everything"), and with their tense.

    A day that lies ahead keeps a plan a plan: "we found a flat … from 1 April".
    """
    at = turn.timestamp or turn.recorded_at
    is_ahead = draft.valid_from is not None and at is not None and draft.valid_from > at
    tense = _TENSES[read.tense]
    if draft.temporal_context == "future" and tense == "current" and is_ahead and read.operation == "is":
        tense = "future"
    is_own = draft.operation == "is" and not is_refinement(slot, draft.value, read.value)
    value = read.value if read.value and (is_own or _has_same_words(draft.value, read.value)) else draft.value
    return replace(draft, value=value, temporal_context=tense, operation=read.operation)


def _is_name_alone(subject: str, plain: str) -> bool:
    """Whether a sentence only says who was meant: "Nora Lind, I mean", "my sister Nora, obviously"."""
    name = rf"(?:my )?(?:[\w-]+ )?{re.escape(subject.casefold())}"
    return re.fullmatch(rf"{name}(?:,? (?:i mean|i meant|that is|obviously|of course))?\W*", plain) is not None


def _is_end(read: SlotClaim, draft: FactDraft) -> bool:
    """Whether both say that it is over or not so, if in other words: "used to", "no longer"."""
    ends = {"over", "deny"}
    return read.operation in ends and (draft.operation in ends or draft.temporal_context == "past")


def _names(subject: str, owners: frozenset[str]) -> bool:
    wanted = subject.casefold()
    return wanted in owners or any(
        each.split()[:1] == wanted.split()[:1] for each in owners if each not in (USER_SUBJECT, SOMEBODY)
    )


def _name_in_english(draft: FactDraft, slot: NamedSlot) -> FactDraft:
    """The draft with what the slots write alike in every language: a language by its name, "none" for no such thing."""
    if slot.name in ("answer_language", "languages"):
        for language in LANGUAGES:
            if name := load_frames(language).language_names.get(draft.value.casefold()):
                return replace(draft, value=name)
    is_short = len(draft.value.split()) <= _NONE_VALUE_WORDS or slot.name == "emoji"
    is_none = is_denial(draft.value) and is_short
    if draft.operation == "is" and is_none and (slot.none_value or slot.name in _NONE_SLOTS):
        return replace(draft, value=slot.none_value or "none")  # "no emojis", "carro nenhum", "ohne Alkohol"
    return draft


def _find_place(sentence: PlainSentence, draft: FactDraft) -> tuple[int, int] | None:
    """Where the value stands; a number may be written in words, a language by its own name, none by a denial."""
    if (span := find_value(sentence, draft.value)) is not None:
        return span
    plain, value = sentence.plain, draft.value.casefold()
    numbers = claimed_numbers(value)
    if numbers and numbers <= quotable_numbers(plain) and not re.sub(r"[\d\W]", "", value):
        return 0, len(plain)
    for language in LANGUAGES:
        for word, name in load_frames(language).language_names.items():
            if name.casefold() == value and (found := re.search(rf"\b{word}\b", plain)):
                return found.span()
    if draft.slot in _DENYING_SLOTS and value in NONE_VALUES:
        found = re.search(rf"\b{re.escape(draft.slot.partition('_')[0])}", plain)
        return found.span() if found else None
    return None


def _is_elliptic(clause: str) -> bool:
    """Whether a clause has no verb of its own: "nurse at the infirmary", "never has", "there is Christine"."""
    bare = re.sub(r"^(?:\w+,? )?there(?:'s|s| is| are) ", "", clause)
    bare = re.sub(r"\b(?:has|have|does|do|did|am|is|are)\W*$", "", bare)
    return VERB_LIKE.search(bare) is None and re.search(r"\b(?:i|we|he|she|they|you) \w", bare) is None
