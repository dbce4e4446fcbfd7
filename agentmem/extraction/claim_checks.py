"""Checks of a model's claim: refused where its words were not said, doubtful where cheap signals speak against it.

Nothing is rewritten, and no language is parsed: the checks ask whether words stand where the claim says they do.
docs/extraction.md lists them with what they cost and what they stop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from agentmem.beliefs.slots import PEOPLE_SLOTS, THING_SUBJECT, USER_SUBJECT, find_slot
from agentmem.beliefs.values import is_refinement, is_same_value
from agentmem.core.records import Turn
from agentmem.extraction.claim_doubts import find_doubts, has_unsaid_verb, is_asked, list_owners
from agentmem.extraction.claim_view import NEAR_DAY, ClaimView, ViewBuilder
from agentmem.extraction.drafts import FactDraft, Window
from agentmem.extraction.plain.slot_claim import SlotClaim
from agentmem.extraction.plain.window_claims import read_slot_claims
from agentmem.extraction.said_words import (
    WORD,
    find_languages,
    fold,
    is_alike,
    is_said,
    list_content_words,
    list_words,
    load_words,
)
from agentmem.text.normalization import MONTHS, claimed_numbers

NAME_SLOTS = PEOPLE_SLOTS | {"name", "call_me"}
MAX_AGE = 130
MAX_NAME_WORDS = 5
MAX_LIST_CHARS = 60  # between the end of what rules read and a value of the same list

# The slot whose cues the words of a built-in relation need; the others are said in too many ways.
_RELATION_SLOTS = {"WORKS_FOR": "employer", "LOCATED_IN": "home"}
_NEAR = frozenset({"in", "at", "near", "from", "on", "by", "bei", "aus", "en", "em", "a"})
_SWITCHES = frozenset({"on", "off", "up", "down", "out", "in"})  # small words that are values of things
_OF = re.compile(r"\s+(?:of|von|de|di|da|do)\s+", re.IGNORECASE)
_MONTH = "|".join(sorted({name[:3] for name in MONTHS}))
_CALENDAR = re.compile(
    rf"\d|{NEAR_DAY}|\b(?:{_MONTH}|mai|okt|dez|ene|abr|ago|dic|déc|avril|juin|juil|août|days?|weeks?|months?|tage?"
    r"|monat|jours?|mois|d[ií]as?|mes|christmas|easter|spring|summer|autumn|fall|winter|next|soon)",
    re.IGNORECASE,
)
_STARTS_WITH_DATE = re.compile(rf"\d+\W+(?:{_MONTH})", re.IGNORECASE)
_IN_BRACKETS = re.compile(r"\(.*?\)")
# A claim is understood alone: "It is the user who rows" is, "It rows" is not.
_DANGLING = re.compile(
    r"(?i:i|i'm|i've|my|we|our|you|your|he|she|they|his|her|their)\b"
    r"|(?i:it|its|this|that|these|those)\b(?!.*(?:\b[Uu]ser\b|\s[A-Z]))",
    re.DOTALL,
)
_ARTICLE = re.compile(r"^\W*(?:The|O|A|Os|As|Le|La|Les|El|Der|Die|Das) (?=\w)")
_ROLE_NAMES = "User Assistant Agent usuário usuária assistente usuario usuaria utilisateur utilisatrice Nutzer Benutzer"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a claim: refused for a `reason`, else doubtful with `doubts`, else accepted."""

    reason: str = ""
    doubts: tuple[str, ...] = ()


class ClaimChecks:
    """Checks the claims of one window. Plain rules read the same turns once: what they read weighs against a claim."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self._views = ViewBuilder(window)
        self._readings = read_slot_claims(window)
        self._changed: set[tuple[str, str]] = set()

    def note_people(self, people: Iterable[tuple[str, str]]) -> None:
        """Remember names with the slots under which the same reply has them, before its claims are checked."""
        self._views.note_people(people)

    def note_changes(self, places: Iterable[tuple[str, str]]) -> None:
        """Remember turns and slots of which the same reply has a new value, which ends the old one."""
        self._changed.update(places)

    def check(self, draft: FactDraft, turn: Turn) -> Verdict:
        """Refused, doubtful or accepted. `draft.span` is where its quote stands, None where it does not."""
        if draft.span is None:
            return Verdict("quote: it does not stand in its turn")
        view = self._build_view(draft, turn, draft.span)
        if reason := check_quote(view):
            return Verdict(reason)
        if reason := (check_value(view) or check_form(view)) if draft.slot else check_open_claim(view):
            return Verdict(reason)
        if draft.agent_private:
            return Verdict()
        doubts = [*find_doubts(view), *(["plain rules"] if self._is_read_otherwise(view, turn) else [])]
        if draft.mark == "change" and (turn.id, draft.slot) in self._changed:
            doubts = [doubt for doubt in doubts if doubt != "no end"]
        return Verdict(doubts=tuple(doubts))

    def has_said_claim(self, draft: FactDraft, turn: Turn) -> bool:
        """Whether the sentence that a model wrote for a slot says no more than the words do."""
        if draft.span is None:
            return False
        view = self._build_view(replace(draft, slot="", value=""), turn, draft.span)
        return not (check_open_claim(view) or has_unsaid_verb(view))

    def check_relation(self, kind: str, ends: tuple[str, str], draft: FactDraft, turn: Turn) -> str:
        """Why a relation between two who are named is not said by a quote; "" when it is.

        `kind` is a built-in one or the words that were said, such as "sister of".
        """
        assert draft.span is not None
        view = self._build_view(draft, turn, draft.span)
        sentence = view.text[slice(*view.sentence)]
        is_unreal = (
            view.has_cue(sentence, "suppose")
            or is_asked(view)
            or view.has_cue(view.find_clause(view.span), "negation", "end")
        )
        if check_quote(view) or is_unreal:
            return "it was not said as something that is so"
        if kind.isupper():
            cues = load_words().cues.get(_RELATION_SLOTS.get(kind, ""), ("",))
            near = _NEAR if kind == "LOCATED_IN" else frozenset()
            is_told = any(word.startswith(cues) or word in near for word in view.source_words)
        else:
            is_told = names_relation(view, kind, ends, turn.speaker or "")
        return "" if is_told else "its word was not said of these two"

    def _build_view(self, draft: FactDraft, turn: Turn, span: tuple[int, int]) -> ClaimView:
        said = turn.timestamp or turn.recorded_at
        return self._views.build(draft, turn, span, said.date() if said else None)

    def _is_read_otherwise(self, view: ClaimView, turn: Turn) -> bool:
        """Whether plain rules read another value, or the opposite, of the same slot and subject in this turn."""
        draft = view.draft
        if not draft.slot or not draft.value:
            return False
        owners = {fold(view.subject), fold(draft.subject), THING_SUBJECT}
        same = [each for each in self._readings.get(turn.id, ()) if each.slot == draft.slot]
        same = [each for each in same if fold(each.subject) in owners]
        equal = [each for each in same if self._has_same_value(each, draft)]
        is_past = draft.temporal_context == "past"
        agreed = [each for each in equal if each.operation == draft.operation or (is_past and each.operation != "is")]
        if draft.operation != "is":
            return bool(equal) and not agreed
        is_set = find_slot(draft.slot, self.window.slots).kind == "set"
        return bool(same) and not agreed and not (is_set and any(_goes_on(view, each) for each in same))

    def _has_same_value(self, reading: SlotClaim, draft: FactDraft) -> bool:
        slot = find_slot(draft.slot, self.window.slots)
        if slot.none_value and is_same_value(reading.value, slot.none_value) == is_same_value(
            draft.value, slot.none_value
        ):
            return True  # "smokes" and "five a day"
        one, other = (_IN_BRACKETS.sub("", value).strip() for value in (reading.value, draft.value))
        is_more_exact = is_refinement(slot, one, other) or is_refinement(slot, other, one)
        said, none = frozenset(list_words(other)), load_words()["none"]
        if not none.isdisjoint(list_words(one)) and not none.isdisjoint(said):
            return True
        is_shared = any(is_said(word, said) for word in list_content_words(one))
        return is_same_value(one, other) or is_more_exact or is_shared or not reading.value


def _goes_on(view: ClaimView, reading: SlotClaim) -> bool:
    """Whether a value is in the same list as what was read: "I speak Polish, Czech and a little Slovak"."""
    between = view.text[reading.span[1] : view.focus[0]]
    return 0 < len(between) <= MAX_LIST_CHARS and not view.has_cue(between, "first", "third") and "." not in between


def check_quote(view: ClaimView) -> str:
    """(a) The quote says something, and was said by its author, not pasted, cited or handed over for work."""
    if not list_words(view.quote):
        return "quote: pasted, cited or code"
    is_whole = list_words(view.quote) == list_words(view.text)
    says = list_content_words(view.quote, view.words) or re.search(r"\d", view.quote)
    if not (is_whole or says or view.has_cue(view.quote, "negation")):
        return "quote: it says nothing"
    return ""


def check_value(view: ClaimView) -> str:
    """(b) Every number and name of the value, and half of its other words, stand in the turn or in the question.

    A value that memory holds for this slot counts where one word of it is said, or where it ends.
    """
    value = view.draft.value
    if not value:
        return "" if view.draft.operation != "is" else "value: there is none"
    is_held = any(is_same_value(value, each) for each in view.held)
    if is_held and (view.draft.operation != "is" or set(list_content_words(value)) & view.source_words):
        return ""
    bare = _IN_BRACKETS.sub("", value) if view.key in PEOPLE_SLOTS else value
    if not load_words()["none"].isdisjoint(list_words(bare)) and _is_none_said(view):
        return ""
    if view.key in load_words().slots["whole"] and _join(bare) not in _join(view.sources):
        return f"value: not said: {bare}"
    hard, soft = view.find_unsaid(bare, view.sources)
    is_enough = len(soft) <= (0 if view.key == "flight" else len(list_content_words(bare)) / 2)
    return "" if not hard and is_enough else f"value: not said: {' '.join(hard + soft)}"


def _join(text: str) -> str:
    """The letters and digits of a text alone."""
    return "".join(filter(str.isalnum, fold(text)))


def _is_none_said(view: ClaimView) -> bool:
    """Whether a value that says "none" stands for a denial in the turn."""
    return len(list_words(view.draft.value)) == 1 and not load_words()["none"].isdisjoint(view.source_words)


def check_form(view: ClaimView) -> str:
    """(c) The value has the form of its slot. What ends may be named by any words: "the French number is dead"."""
    value, slots = view.draft.value, load_words().slots
    is_none = not load_words()["none"].isdisjoint(list_words(value))
    if not value:
        return ""
    if view.draft.operation != "is":
        return "form: a number" if _is_bare_number(view) else ""
    if is_none and view.key not in NAME_SLOTS | slots["places"] | slots["numbers"]:
        return ""
    checks = (_check_content, _check_date_form, _check_number_form, _check_name_form, _check_kind_of_value)
    return next((f"form: {reason}" for check in checks if (reason := check(view))), "")


def _check_content(view: ClaimView) -> str:
    value, denials = view.draft.value, load_words()["negation"]
    content = [word for word in list_content_words(value, view.words) if "'" not in word or word not in denials]
    is_switch = view.key in load_words().slots["ownerless"] and not _SWITCHES.isdisjoint(list_words(value))
    may_be_small = is_switch or view.key in load_words().slots["dates"]
    if not content and not may_be_small and not re.search(r"\d", value):
        return "no word of content"
    if list_words(value) == list_words(view.draft.subject) and view.key not in ("name", "call_me"):
        return "whom it is about"
    if not content:
        return ""
    is_cue = (
        len(content) == 1
        and view.key in load_words().slots["cues_are_no_values"]
        and content[0].startswith(load_words().cues[view.key])
    )
    named = list_words(view.draft.slot.replace("_", " "))
    is_slot = all(any(is_alike(word, each) for each in named) for word in content)
    return "it repeats the slot" if is_cue or is_slot else ""


def _check_date_form(view: ClaimView) -> str:
    if view.key in load_words().slots["dates"] and not _CALENDAR.search(view.draft.value):
        return "no date"
    return "a date" if view.key in load_words().slots["no_dates"] and _STARTS_WITH_DATE.match(view.draft.value) else ""


def _check_number_form(view: ClaimView) -> str:
    value, key = view.draft.value, view.key
    numbers = [*claimed_numbers(value), *re.findall(r"\b1\b", value)]
    is_written = any(word.endswith(tuple(load_words()["numbers"])) for word in list_words(value))
    if key in load_words().slots["numbers"] and not (numbers or is_written):
        return "no number"
    if key == "age" and not is_written and not any(each.isdigit() and int(each) < MAX_AGE for each in numbers):
        return "no age"
    if key == "email" and "@" not in value:
        return "no address"
    return (
        "a number"
        if _is_bare_number(view) or (key in load_words().slots["no_number_first"] and value[0].isdigit())
        else ""
    )


def _is_bare_number(view: ClaimView) -> bool:
    """Whether a value has no word, of a slot that takes words."""
    is_free = view.key in load_words().slots["may_be_numbers"]
    return not is_free and not re.search(r"[^\W\d_]{2}|[^\x00-\u0fff]", view.draft.value)


def _check_name_form(view: ClaimView) -> str:
    value, key = view.draft.value, view.key
    if key not in NAME_SLOTS | load_words().slots["places"]:
        return ""
    words = list_words(value)
    written = [found[0] for found in WORD.finditer(view.near) if fold(found[0]).removesuffix("'s") in words]
    is_name = any(not word[0].islower() for word in written) or not view.has_capitals
    is_name = is_name or any(is_same_value(value, each) for each in view.held)
    if key in load_words().slots["places"]:
        return "" if is_name else "no place"
    core = list_content_words(_IN_BRACKETS.sub("", value), view.words)
    is_odd = not core or len(core) > MAX_NAME_WORDS or re.search(r"\d", value) is not None
    is_kin = bool(core) and all(word in view.words.all_kin for word in core)
    is_common = key != "pets" and (is_kin or not is_name)  # "a dog" is a pet without a name
    return "no name" if is_odd or is_common else ""


def _check_kind_of_value(view: ClaimView) -> str:
    content = list_content_words(view.draft.value)
    if (
        view.key not in load_words().slots["may_be_people"]
        and view.people.find_relation(view.draft.value)
        and view.draft.slot
    ):
        return "a person"
    languages = load_words().language_names
    return (
        "a language"
        if content and languages.issuperset(content) and view.key not in load_words().slots["may_be_languages"]
        else ""
    )


def check_open_claim(view: ClaimView) -> str:
    """(d) Every name and number is in the window, and a word of what is said of the subject is in the turn."""
    if _DANGLING.match(view.draft.claim):
        return "claim: it does not say of whom or what"
    claim = _ARTICLE.sub(" ", view.draft.claim)
    is_german = find_languages(claim) == ("german",)  # in which all nouns are written like names
    known = set(list_words(view.known))
    marked = [found[0] for found in WORD.finditer(claim) if found[0][0].isupper()]
    marked = [word for word in marked if not is_german or fold(word) in known]
    first = next(iter(list_words(claim)), "")  # begins with a capital whatever it is
    if marked and list_words(marked[0]) == [first] and first not in list_words(view.draft.subject):
        marked = marked[1:]
    names = " ".join(word for word in marked if fold(word) not in load_words()["function"])
    around = f"{view.near} {view.known} {_ROLE_NAMES}"
    hard = view.find_unsaid(names, around)[0] + view.find_unsaid_numbers(claim, around)
    if hard:
        return f"claim: not named: {' '.join(hard)}"
    words = load_words()
    skipped = {
        *map(fold, marked),
        *list_words(f"{' '.join(view.people.names)} {view.subject} {names}"),
        *words["light"],
    }
    rest = [word for word in list_content_words(claim) if word not in skipped and not word.isdigit()]
    rest = [word for word in rest if word not in words["plain"]] or rest
    said = any(is_said(word, view.source_words) for word in rest)
    return "" if said or not rest else "claim: nothing of it was said"


def names_relation(view: ClaimView, kind: str, ends: tuple[str, str], speaker: str) -> bool:
    """Whether the words for a relation were said of these two: "Mateo's mother Ines", "Ines is the mother of Mateo"."""
    sought = [word for word in list_content_words(kind.replace("_", " ")) if word not in load_words()["light"]]
    places = [found for found in WORD.finditer(view.text) if sought and is_alike(fold(found[0]), sought[0])]
    if not all(is_said(word, view.source_words) for word in sought) or (sought and not places):
        return False
    if not load_words().all_kin.intersection(sought):
        return True
    wanted = {part for name in ends for part in list_words(name)}
    is_speaker_meant = bool(speaker) and not wanted.isdisjoint(list_words(speaker))
    return any(_is_relation_of(view, found.span(), wanted, is_speaker_meant) for found in places)


def _is_relation_of(view: ClaimView, noun: tuple[int, int], wanted: set[str], is_speaker_meant: bool) -> bool:
    """Whether a word for kin, at a span of the turn, belongs to one of these."""
    start = view.sentence[0] if noun[0] >= view.sentence[0] else 0
    if of := _OF.match(view.text, noun[1]):
        owners = list_owners(view, view.text[of.end() : view.sentence[1]])[:1]
    else:
        owners = list_owners(view, view.text[start : noun[0]])[-1:]
    if not owners:
        return False
    kind, word, _ = owners[0]
    if kind == USER_SUBJECT:
        return is_speaker_meant
    named = wanted & set(list_words(view.text[slice(*view.sentence)]))
    return word in wanted or (kind == "third" and len(named) > 1)
