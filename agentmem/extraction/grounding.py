"""Whether a draft rests on what was said: quotes in the turn, evidence for each part, no echo of our own words.

A fact is refused where it cannot count at all, and doubted where a person should look at it first: each check is a
function of its own that returns its reason, or "".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from agentmem.core.records import Turn
from agentmem.extraction.claim_relations import find_relations, has_swapped_people, has_unsaid_role
from agentmem.extraction.claim_verbs import find_unsaid_verb
from agentmem.extraction.claims import (
    expand_to_clauses,
    has_dropped_negation,
    has_negation_cue,
    has_other_person_pronoun,
    has_used_to,
    is_discontinued,
    is_hedged,
    is_hypothetical,
    is_negated,
    is_only_question,
    is_planned,
    is_reported_request,
    nearest_clauses,
    normalize_apostrophes,
    question_spans,
)
from agentmem.extraction.drafts import FactDraft, Window
from agentmem.extraction.value_words import detect_language
from agentmem.text.normalization import (
    MONTHS,
    WEEKDAYS,
    claimed_calendar_words,
    claimed_names,
    claimed_numbers,
    comparable_words,
    normalize_claim,
    quotable_numbers,
    slugify,
    written_dates,
)
from agentmem.text.temporal import TimeRange, is_range_stated, parse_date_range
from agentmem.text.tokenizer import tokenize

_CHARACTER_FOLDS = {
    **dict.fromkeys("‘’ʼ‛`´", "'"),
    **dict.fromkeys("“”„«»", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),
}
_EDGE_CHARACTERS = " \t\r\n\"'“”‘’«».…,;:!?"
_UNSPACED_SCRIPTS_START = 0x0E00  # below it stand the scripts that put spaces between words
_WORD_CHARACTER = re.compile(r"[^\W_]")
_MIN_WORD_CHARACTERS = 3
_MAX_CANDIDATES = 500  # places inside of words; in one long run of letters there are as many as letters

_SECTION_TITLES = (
    r"(?:How to answer|The user|People|Planned|Not known any more|Goals|Goals that ended|Going on|Known about this|"
    r"What has worked|What failed before|Outputs of tools|Said about this)"
)
_OLD_SECTION_TITLES = (  # before 0.3
    r"(?:About the user|What the user is up to|Standing instructions|Goals|Facts|People, places and things|"
    r"What has worked|Ways of doing|Outputs of tools)"
)
_LINE_PREFIX = r"[ \t>]*"
_MEMORY_START = re.compile(rf'{_LINE_PREFIX}<memory(?: as_of="[\d-]*")?>\s*')
_MEMORY_END = re.compile(rf"{_LINE_PREFIX}</memory>\s*")
_SECTION_HEADING = re.compile(rf"{_LINE_PREFIX}(?:## {_SECTION_TITLES}|# {_OLD_SECTION_TITLES})\s*")
_DAY = r"(?:\d{1,2} [A-Z][a-z]+ \d{1,4}|undated)"
_TURNS_HEADING = re.compile(
    rf"{_LINE_PREFIX}(?:\[{_DAY}(?:, conversation \S[^\]]*)?\]|# (?:{_DAY}, conversation \S.*|undated))\s*"
)
_SESSION_PAGE = re.compile(rf"{_LINE_PREFIX}# Agent (?i:short-term memory)(?: Context)?\s*")
_LIST_ITEM = re.compile(rf"{_LINE_PREFIX}- \S")
_TURN_LINE = re.compile(rf"{_LINE_PREFIX}(?:\d+ )?[^\s:][^:]{{0,199}}: \S")
_RECORD_LINE = re.compile(rf"{_LINE_PREFIX}- .*\[[0-9a-f]{{8}}\]\s*")
_UNKNOWN_SINCE = re.compile(rf"{_LINE_PREFIX}(?:- )?unknown since \d{{1,2}} [A-Z][a-z]+ \d{{1,4}}: \S")

T = TypeVar("T")

MAX_TURN_CHARS = 24_000
"""Characters of a turn that are read; what comes after them is not sent and grounds nothing."""

_MAX_WORDS_PER_SUPPORTED_WORD = 3  # one in so many words of a claim was given; seldom has a true claim fewer
_ROLE_TERMS = frozenset(tokenize("user agent assistant"))
_NAME_PREFIX_CHARS = 4  # letters that two forms of a name share at least: Sweden, Swedish
_PROMPT_INJECTION = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\s(?:\w+\s){0,3}?(?:instructions?|prompts?)\b"
    r"|\b(?:ignore|disregard|override|bypass)\s(?:all|any|your|previous|prior|these)\s(?:\w+\s){0,2}?(?:rules"
    r"|guidelines)\b"
    r"|\b(?:system|developer) (?:prompt|message|override)\b|\bnew instructions\b|\b(?:you are|act as"
    r"|you're) now (?:an?|the|in)\b"
    r"|^\W*(?:system|assistant|instructions?|developer)\s*:|<\W{0,3}(?:system|im_start|im_end|inst|turns?|data|json)\b"
    r"|\[/?inst\]|[\"'](?:claim|facts?|quote|certainty|standalone|replaces|why_replaced|ended|depends_on"
    r"|temporal)[\"']\s*:"
    r"|\b(?:delete|erase|remove|retire|supersede|overwrite|wipe|forget|drop|clear|mark)\s(?:\w+\s){0,3}?"
    r"(?:facts?|memory|records?|known_facts|F\d{1,3})\b|\b(?:forget|erase|delete|wipe) (?:all|everything)\b"
    r"|\b(?:replaces|ended|depends_on)\s?[:=]?\s?F\d",
    re.IGNORECASE | re.MULTILINE,
)
_DANGLING_PRONOUN = re.compile(r"(?:i|i'm|i've|my|we|our|you|your|he|she|they|his|her|their)\b", re.IGNORECASE)
_FIRST_WORD_END = re.compile(r"['’]s\b|\s")
_DEMONSTRATIVE = re.compile(
    r"(?:[Ii]t|[Ii]ts|[Tt]his|[Tt]hat|[Tt]hese|[Tt]hose)\b(?!.*(?:\b[Uu]ser\b|\s[A-Z]))", re.DOTALL
)


def align_quote(text: str, quote: str) -> tuple[int, int] | None:
    """Where a quote stands in a text, in characters; None when it is not there, or says too little to be one.

    First as it is, then with white space, quotation marks, dashes, case and the forms of characters made alike. It
    begins and ends with whole words, has three letters or digits, and more than stop words, unless it is a number or
    all that was said. Marks and white space around it count for nothing.
    """
    quote = quote.strip(_EDGE_CHARACTERS)
    if quote and (quote == text.strip(_EDGE_CHARACTERS) or quote.isdigit()):  # "57", asked for an age
        at = _find_whole_words(text, quote)
        return None if at is None else (at, at + len(quote))
    if len(_WORD_CHARACTER.findall(quote)) < _MIN_WORD_CHARACTERS or not tokenize(quote):
        return None
    if (at := _find_whole_words(text, quote)) is not None:
        return at, at + len(quote)
    plain, places = _fold_characters(text)
    sought, _ = _fold_characters(quote)
    at = _find_whole_words(plain, sought) if sought else None
    if at is None:
        return None
    return places[at], places[at + len(sought) - 1] + 1


def _find_whole_words(text: str, sought: str) -> int | None:
    """The first place where it stands as whole words."""
    at = -1
    for _ in range(_MAX_CANDIDATES):
        at = text.find(sought, at + 1)
        if at < 0:
            return None
        if not (_is_inside_word(text, at) or _is_inside_word(text, at + len(sought))):
            return at
    return None


def _is_inside_word(text: str, position: int) -> bool:
    """Whether a word goes on across this place."""
    sides = text[position - 1 : position + 1] if position else ""
    return len(sides) == 2 and sides.isalnum() and all(ord(side) < _UNSPACED_SCRIPTS_START for side in sides)


def _fold_characters(text: str) -> tuple[str, list[int]]:
    """The text with what is alike made the same, and for each of its characters the place it came from."""
    out: list[str] = []
    places: list[int] = []
    for at, character in enumerate(text):
        alike = _CHARACTER_FOLDS.get(character)
        if alike is None:
            alike = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
        for piece in alike:
            if piece.isspace():
                if not out or out[-1] == " ":
                    continue
                piece = " "
            out.append(piece)
            places.append(at)
    while out and out[-1] == " ":
        out.pop()
        places.pop()
    return "".join(out), places


def recalled_lines(text: str) -> list[tuple[int, int]]:
    """The spans of lines that recall made, in the order of `text`, each without its line break; empty for none.

    These are contexts between their markers, lines that end with a short id, a heading of ours and the lines under it
    that look like its items, and a page of working memory up to its end.
    """
    return list(_find_recalled_lines(text))


def _find_recalled_lines(text: str) -> Iterator[tuple[int, int]]:
    at, inside = 0, ""
    lines = text.split("\n")
    last_end = max((n for n, line in enumerate(lines) if _MEMORY_END.fullmatch(line)), default=-1)
    for number, line in enumerate(lines):
        if _SESSION_PAGE.fullmatch(line):
            yield at, len(text)
            return
        if inside == "ending":
            inside = ""
        if inside == "memory" and _MEMORY_END.fullmatch(line):
            inside = "ending"
        elif inside != "memory":
            inside = _enter_section(line, inside, may_open=number < last_end)
        if inside or _RECORD_LINE.fullmatch(line) or _UNKNOWN_SINCE.match(line):
            yield at, at + len(line)
        at += len(line) + 1


def _enter_section(line: str, inside: str, *, may_open: bool) -> str:
    """What a line stands in that is in no context between markers: turns, what is known, or nothing of ours."""
    if may_open and _MEMORY_START.fullmatch(line):
        return "memory"
    if _TURNS_HEADING.fullmatch(line):
        return "turns"
    if _SECTION_HEADING.fullmatch(line):
        return "known"
    return inside if inside and (_LIST_ITEM if inside == "known" else _TURN_LINE).match(line) else ""


def overlaps_any(span: tuple[int, int], spans: list[tuple[int, int]]) -> bool:
    """Whether a span shares a character with one of the others."""
    return any(start < span[1] and span[0] < end for start, end in spans)


def turn_time(turn: Turn) -> datetime | None:
    """When a turn was said, as far as is known."""
    return turn.timestamp or turn.recorded_at


def is_assistant_turn(turn: Turn) -> bool:
    """Whether a turn is the assistant's."""
    return turn.role == "assistant"


@dataclass(frozen=True)
class GroundingContext:
    """What the facts of a window may rest on; `prompt` is the fixed text that the model was given."""

    window: Window
    prompt: str = ""
    _cache: dict[tuple[object, ...], Any] = field(default_factory=dict)

    def text_of(self, turn: Turn) -> str:
        """What was sent of a turn."""
        return turn.content[:MAX_TURN_CHARS]

    def _get_or_compute(self, key: tuple[object, ...], compute: Callable[[], T]) -> T:
        """What was found before under this key: many facts rest on one turn, and a turn may be long."""
        if key not in self._cache:
            self._cache[key] = compute()
        found: T = self._cache[key]
        return found

    def recalled_lines(self, turn: Turn) -> list[tuple[int, int]]:
        """The lines of a turn that recall made."""
        return self._get_or_compute(("own", turn.id), lambda: recalled_lines(self.text_of(turn)))

    def overlaps_recalled_lines(self, turn: Turn, span: tuple[int, int]) -> bool:
        """Whether a span of a turn holds anything that recall made."""
        return overlaps_any(span, self.recalled_lines(turn))

    def own_word_prefixes(self, turn: Turn) -> set[str]:
        """The beginnings of the words of a turn, without the lines that recall made."""
        return self._get_or_compute(("words", turn.id), lambda: self._compute_own_word_prefixes(turn))

    def _compute_own_word_prefixes(self, turn: Turn) -> set[str]:
        text, at = [], 0
        whole = self.text_of(turn)
        for start, end in self.recalled_lines(turn):
            text.append(whole[at:start])
            at = end
        return {word[:_NAME_PREFIX_CHARS] for word in comparable_words("".join([*text, whole[at:]]))}

    def question_spans(self, turn: Turn) -> list[tuple[int, int]]:
        """The spans of what a turn asks."""
        return self._get_or_compute(("asked", turn.id), lambda: question_spans(self.text_of(turn)))

    def clauses(self, draft: FactDraft) -> list[str]:
        """The clauses of its turn that a fact rests on; those of its quote where that was not found."""
        turn = self.turns[draft.turn_id]
        words = expand_to_clauses(self.text_of(turn), draft.span) if draft.span else draft.quote
        return nearest_clauses(words, draft.claim)

    def has_prompt_injection(self, turn: Turn) -> bool:
        """Whether a turn speaks to whoever reads it for memory, as in "ignore your instructions"."""
        return self._get_or_compute(
            ("orders", turn.id), lambda: _PROMPT_INJECTION.search(self.text_of(turn)) is not None
        )

    @cached_property
    def turns(self) -> Mapping[str, Turn]:
        """The turns that are extracted, by id."""
        return {turn.id: turn for turn in self.window.turns}

    @cached_property
    def input_texts(self) -> Sequence[str]:
        """Every text that the model was given but the fixed one."""
        around = (*self.window.context_turns, *self.window.turns)
        spoken = [turn.search_text()[:MAX_TURN_CHARS] for turn in around]
        speakers = [turn.speaker for turn in around if turn.speaker]
        named = [name for entity in self.window.known_entities for name in (entity.name, *entity.aliases)]
        return [
            *spoken,
            *speakers,
            *self.window.participants,
            *named,
            *(fact.claim for fact in self.window.known_facts),
        ]

    @cached_property
    def input_words(self) -> frozenset[str]:
        """All words that were given."""
        return frozenset(word for text in self.input_texts for word in comparable_words(text))

    @cached_property
    def input_numbers(self) -> frozenset[str]:
        """All numbers that were given."""
        return frozenset(number for text in self.input_texts for number in quotable_numbers(text))

    def is_time_stated(self, time_range: TimeRange, turn: Turn, *, allow_vague: bool = True) -> bool:
        """Whether the turn, or another one around it, holds words that allow for this range of time; see
        `is_range_stated`.
        """
        around = (turn, *self.window.turns, *self.window.context_turns)
        return self._get_or_compute(
            ("says", time_range, turn.id, allow_vague),
            lambda: any(
                is_range_stated(time_range, self.text_of(each), turn_time(each), allow_vague=allow_vague)
                for each in around
            ),
        )

    def strip_stated_dates(self, text: str, turn: Turn) -> str:
        """A text without the dates in it that were said."""
        at = turn_time(turn)
        for written, iso in list(written_dates(text, at.year if at else 0)):
            found = parse_date_range(iso)
            if found is not None and self.is_time_stated(found, turn, allow_vague=False):
                text = text.replace(written, " ", 1)
        return text

    def ungrounded_numbers(self, text: str, turn: Turn) -> set[str]:
        """The numbers of a text that nobody said."""
        return claimed_numbers(self.strip_stated_dates(text, turn)) - self.input_numbers

    def ungrounded_names(self, text: str) -> list[str]:
        """The names in a text that nobody named."""
        return [name for name in claimed_names(text) if not self.is_known_name(name)]

    @cached_property
    def known_claims(self) -> frozenset[str]:
        """The known claims, normalized."""
        return frozenset(normalize_claim(fact.claim) for fact in self.window.known_facts)

    @cached_property
    def normalized_prompt(self) -> str:
        """The fixed text, normalized."""
        return normalize_claim(self.prompt)

    @cached_property
    def speaker_slugs(self) -> frozenset[str]:
        """The slugs of who speaks."""
        spoken = (turn.speaker for turn in (*self.window.context_turns, *self.window.turns))
        return frozenset(slugify(name) for name in (*spoken, *self.window.participants) if name)

    @cached_property
    def speaker_terms(self) -> frozenset[str]:
        """The index terms of their names."""
        return frozenset(term for name in self.speaker_slugs for term in tokenize(name))

    def is_known_name(self, name: str) -> bool:
        """Whether a name, or another form of it, was given."""
        if name.casefold() in self.input_words:
            return True
        found = tokenize(name)
        return all(term in self.input_words for term in found) or (
            len(name) >= _NAME_PREFIX_CHARS + 2 and self._has_known_prefix(name)
        )

    def _has_known_prefix(self, name: str) -> bool:
        return name[:_NAME_PREFIX_CHARS].casefold() in self._input_word_prefixes

    @cached_property
    def _input_word_prefixes(self) -> frozenset[str]:
        return frozenset(word[:_NAME_PREFIX_CHARS] for word in self.input_words if len(word) > _NAME_PREFIX_CHARS)


def rejection_reason(draft: FactDraft, grounding: GroundingContext) -> str:
    """Why a fact does not count, reasons joined by "; "; "" when it does."""
    return quote_reason(draft, grounding) or claim_reason(draft, grounding)


def quote_reason(draft: FactDraft, grounding: GroundingContext) -> str:
    """Why nothing can rest on the quote of a fact; "" when it can."""
    turn = grounding.turns[draft.turn_id]
    return (
        _check_speaker_role(draft, turn, grounding)
        or _check_echo(draft, turn, grounding)
        or _check_question_quote(draft, turn, grounding)
        or ("" if draft.span else "ungrounded: its quote does not stand in its turn")
    )


def claim_reason(draft: FactDraft, grounding: GroundingContext) -> str:
    """Why a claim says something else than its quote, reasons joined by "; "; "" when it does not."""
    turn = grounding.turns[draft.turn_id]
    checks = (
        _check_polarity(draft, grounding),
        _check_hypothetical(draft, grounding),
        _check_planned(draft, grounding),
        _check_question_clauses(draft, turn, grounding),
        _check_numbers(draft, turn, grounding),
        _check_dates(draft, turn, grounding),
        _check_names(draft, grounding),
        _check_lexical_support(draft, turn, grounding),
        _check_relations(draft, turn, grounding),
        _check_speaker(draft, turn, grounding),
        _check_standalone(draft),
    )
    return "; ".join(filter(None, checks))


def normalize_draft(draft: FactDraft, grounding: GroundingContext) -> FactDraft:
    """The fact with its label of time and its polarity as its words have them, and with the reason to ask about it."""
    if draft.temporal_context == "current" and any(map(has_used_to, grounding.clauses(draft))):
        draft = replace(draft, temporal_context="past")
    turn = grounding.turns[draft.turn_id]
    negated = draft.negated or is_negated(draft.claim)
    return replace(draft, negated=negated, review_reason=order_reason(turn, grounding))


def order_reason(turn: Turn, grounding: GroundingContext) -> str:
    """Why a person should look at what a turn says before it changes anything; "" when nobody need."""
    return "order: the turn speaks to whoever reads it for memory" if grounding.has_prompt_injection(turn) else ""


def _check_speaker_role(draft: FactDraft, turn: Turn, grounding: GroundingContext) -> str:
    if draft.agent_private:
        if not is_assistant_turn(turn):
            return "it is no turn of the assistant"
        first = slugify(_FIRST_WORD_END.split(draft.claim.removeprefix("The "), maxsplit=1)[0])
        of_others = draft.subject != "agent" or first == "user" or first in grounding.speaker_slugs
        return "it is not about the assistant" if of_others else ""
    return "it rests on a turn of the assistant" if turn.role in ("assistant", "system") else ""


def _check_echo(draft: FactDraft, turn: Turn, grounding: GroundingContext) -> str:
    claim, quote = normalize_claim(draft.claim), normalize_claim(draft.quote)
    if draft.span and grounding.overlaps_recalled_lines(turn, draft.span):
        return "it echoes what recall had put there"
    if claim in grounding.known_claims and (is_assistant_turn(turn) or draft.span is None or quote == claim):
        return "it echoes what was known"
    if any(len(text) >= least and text in grounding.normalized_prompt for text, least in ((claim, 12), (quote, 40))):
        return "it echoes the prompt"
    return ""


def _check_question_quote(draft: FactDraft, turn: Turn, grounding: GroundingContext) -> str:
    asked = draft.span is not None and is_only_question(
        grounding.text_of(turn), draft.span, grounding.question_spans(turn)
    )
    return "it rests on a question" if asked else ""


def _check_polarity(draft: FactDraft, grounding: GroundingContext) -> str:
    clauses = grounding.clauses(draft)
    over = draft.temporal_context == "past" and any(map(is_discontinued, clauses))
    if has_dropped_negation(draft.claim, clauses) and not over:
        return "polarity: what was said is a denial, the claim is none"
    if is_negated(draft.claim) and not (any(map(has_negation_cue, clauses)) or is_negated(draft.quote)):
        return "polarity: the claim is a denial, what was said is none"
    return ""


def _check_hypothetical(draft: FactDraft, grounding: GroundingContext) -> str:
    if any(map(is_hypothetical, grounding.clauses(draft))) and not is_hedged(draft.claim):
        return "hypothetical: it was not said as something that is so"
    return ""


def _check_planned(draft: FactDraft, grounding: GroundingContext) -> str:
    """What is only planned is claimed as planned, in the claim or by its tense; a promise of the assistant's is one."""
    if draft.agent_private:
        return ""
    planned = any(map(is_planned, grounding.clauses(draft)))
    if planned and draft.temporal_context != "future" and not is_hedged(draft.claim) and not is_planned(draft.claim):
        return "tense: it was said as a plan, the claim says that it is so"
    return ""


def _check_question_clauses(draft: FactDraft, turn: Turn, grounding: GroundingContext) -> str:
    """A long quote may hold statements and questions: it counts which of them the claim is nearest to."""
    text = grounding.text_of(turn)
    asked = [normalize_apostrophes(text[start:end]) for start, end in grounding.question_spans(turn)]
    nearest = grounding.clauses(draft)
    near = bool(nearest) and all(any(clause.strip() in part for part in asked) for clause in nearest)
    return "question: what it rests on is asked, not said" if near and not is_reported_request(draft.claim) else ""


def _check_numbers(draft: FactDraft, turn: Turn, grounding: GroundingContext) -> str:
    unsaid = grounding.ungrounded_numbers(draft.claim, turn)
    return f"number: {', '.join(sorted(unsaid))} was not said" if unsaid else ""


def _check_dates(draft: FactDraft, turn: Turn, grounding: GroundingContext) -> str:
    days = [moment for moment in (turn_time(turn), draft.valid_from, draft.valid_to) if moment]
    dated = {MONTHS[day.month - 1] for day in days} | {WEEKDAYS[day.weekday()] for day in days}
    said = {word[:3] for word in grounding.input_words}
    claimed = claimed_calendar_words(grounding.strip_stated_dates(draft.claim, turn))
    unsaid = [name for name in claimed if name not in dated and name[:3] not in said]
    return f"date: {', '.join(unsaid)} was not said" if unsaid else ""


def _check_names(draft: FactDraft, grounding: GroundingContext) -> str:
    unknown = grounding.ungrounded_names(draft.claim)
    unknown += [name for name in draft.entities if not any(grounding.is_known_name(part) for part in name.split())]
    return f"name: {', '.join(dict.fromkeys(unknown))} was not named" if unknown else ""


def _check_lexical_support(draft: FactDraft, turn: Turn, grounding: GroundingContext) -> str:
    words = set(tokenize(grounding.strip_stated_dates(draft.claim, turn))) - grounding.speaker_terms - _ROLE_TERMS
    given = sum(map(grounding.is_known_name, words))
    own = grounding.own_word_prefixes(turn)
    if words and (
        given * _MAX_WORDS_PER_SUPPORTED_WORD < len(words)
        or own.isdisjoint(word[:_NAME_PREFIX_CHARS] for word in words)
    ):
        return "support: hardly a word of the claim was said"
    return ""


def _check_relations(draft: FactDraft, turn: Turn, grounding: GroundingContext) -> str:
    """Strong relations have a word in the turn or in the question before; who does what to whom is not turned round."""
    if detect_language(draft.quote.casefold()) not in ("", "english"):
        return ""
    said = f"{grounding.text_of(turn)} {draft.quote}"
    names = {part for person in (turn.speaker or "",) for part in slugify(person).split("-") if part}
    everybody = names | {part for person in grounding.speaker_slugs for part in person.split("-")}
    relations = find_relations(draft.claim, said)
    unsaid = "it" if not all(relations) else "" if relations else find_unsaid_verb(draft.claim, said, everybody)
    if unsaid or has_unsaid_role(draft.claim, said):
        return f"relation: the words do not say {unsaid or 'it'}"
    swapped = has_swapped_people(draft.claim, draft.quote, names)
    return "person: the words say it the other way round" if swapped else ""


def _check_speaker(draft: FactDraft, turn: Turn, grounding: GroundingContext) -> str:
    """Somebody's words about themselves, claimed of another who takes part."""
    if not turn.speaker or slugify(turn.speaker) not in grounding.speaker_slugs or not draft.span:
        return ""
    about = slugify(_FIRST_WORD_END.split(draft.claim, maxsplit=1)[0])
    others = {part for person in grounding.speaker_slugs for part in (person, person.split("-")[0])}
    others -= {slugify(turn.speaker), slugify(turn.speaker).split("-")[0]}
    if about not in others or not set(slugify(turn.speaker).split("-")).isdisjoint(slugify(draft.claim).split("-")):
        return ""
    addressed = any(
        has_other_person_pronoun(clause) or about in slugify(clause).split("-") for clause in grounding.clauses(draft)
    )
    return "" if addressed else "person: the speaker does not say it of them"


def _check_standalone(draft: FactDraft) -> str:
    claim = draft.claim.replace("’", "'")
    dangling = _DANGLING_PRONOUN.match(claim) or _DEMONSTRATIVE.match(claim)
    return "alone: the claim does not say of whom or what" if dangling else ""
