"""What the words around a verb say: whether something is so, was so, will be so, is over or is denied."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from agentmem.beliefs.belief import Mark, Operation, Tense

VerbKind = Literal["state", "change", "end"]

BE = "am|is|are|was|were|be|been|being"
ADVERBS = (
    "just|also|still|currently|recently|already|really|finally|actually|only|both|all|always|now|usually|mostly|never|not"
    "|again|no longer|mainly|even|ever|since|so|then"
    "|probably|maybe|definitely|honestly|simply|basically|normally|generally"
)
AUXILIARIES = (
    f"{BE}|have|has|had|do|does|did|will|would|can|could|might|may|should|shall|going to"
    "|used to|thinkin of|thinkin about|plannin to|plannin on|hopin to|goin to|tryin to|want to|wants to|plan to"
    "|plans to|planning to|planning on|about to|thinking of|thinking about|considering|hoping to|hope to|decided to"
    "|got|get|getting|got to|have to|has to|need to|needs to|trying to|started|started to|to"
    "|stopped|quit|gave up|given up|packed in"
    "|giving up|stop|cut out|off"
)
# Words between a subject and its verb.
VERB_WORDS = rf"(?:(?:{AUXILIARIES}|{ADVERBS})\s+)"

_NEGATED = re.compile(r"\b(?:not|never|nor|neither)\b")
_OVER_WORDS = re.compile(r"\b(?:no longer|used to)\b")
_OVER_CLAUSE = re.compile(r"\b(?:any ?more|any longer|no more)\b")
_STOPPED = re.compile(r"\b(?:stopped|quit|gave up|given up|giving up|packed in|cut out|off(?! to\b))\b")
_PLANNED = re.compile(r"\b(?:will|shall|going to|plans? to|planning (?:to|on)|about to|decided to|off to)\b")
_UNSURE = re.compile(
    r"\b(?:might|may|maybe|probably|thinking (?:of|about)|considering|hop(?:e|ing) to|wants? to|would|could|should"
    r"|trying to)\b"
)
_HYPOTHETICAL = re.compile(r"\b(?:would|could|should)\b")
_DROPPED_G = re.compile(r"\b(think|plann|hop|go|giv|try|consider|gett)in'?(?=\s|\Z)")
_PERFECT = re.compile(r"\b(?:have|has)\b")
_PRESENT = re.compile(r"\b(?:have|has|am|is|are)\b")  # "is employed by", "has lived in"
_PAST_AUXILIARY = re.compile(r"\b(?:was|were|had|did)\b")


@dataclass(frozen=True, slots=True)
class VerbReading:
    """What a verb group says of its object; `is_unsure` for what is only thought of."""

    tense: Tense = "current"
    operation: Operation = "is"
    mark: Mark = ""
    is_unsure: bool = False


def read_verb_group(words: str, verb: str, kind: VerbKind, clause: str, *, has_future_date: bool) -> VerbReading | None:
    """Read the words before a verb and the verb itself; None where nothing can be taken from them.

    `words` are auxiliaries and adverbs, `verb` the form that was used, `clause` all of the clause. `kind` tells whether
    the verb is of a state ("live"), of a change to it ("move") or of its end ("leave").
    """
    words = _DROPPED_G.sub(r"\1ing", words)
    if _HYPOTHETICAL.search(words):
        return None
    stopped = _STOPPED.search(words) is not None
    negated = _NEGATED.search(words) is not None
    is_over = _OVER_WORDS.search(words) is not None or (negated and _OVER_CLAUSE.search(clause) is not None) or stopped
    is_unsure = _UNSURE.search(words) is not None
    is_planned = is_unsure or _PLANNED.search(words) is not None
    if kind == "end":
        if is_planned or (_is_progressive(words, verb) and has_future_date):
            return VerbReading(operation="over") if has_future_date and not is_unsure else None
        return None if negated else VerbReading(operation="over")
    if kind == "change":
        return _read_change(words, verb, negated, is_planned, is_unsure, has_future_date)
    if is_planned or (has_future_date and not is_over):
        return VerbReading("planned", "over" if negated else "is", is_unsure=is_unsure)
    if is_over:
        return VerbReading(operation="over")
    if negated:
        return VerbReading(operation="deny")
    is_past = _PAST_AUXILIARY.search(words) is not None or (_is_past_form(verb) and not _PRESENT.search(words))
    return VerbReading("past" if is_past else "current")


def _read_change(
    words: str, verb: str, negated: bool, is_planned: bool, is_unsure: bool, has_future_date: bool
) -> VerbReading | None:
    is_future = is_planned or _is_progressive(words, verb) or (not _is_past_form(verb) and has_future_date)
    if negated:
        return VerbReading("planned", "over") if is_future else None
    if is_future:
        return VerbReading("planned", is_unsure=is_unsure)
    if _is_past_form(verb) or _PERFECT.search(words):
        return VerbReading(mark="change")
    return None  # "I move a lot": a habit, or an order


def _is_progressive(words: str, verb: str) -> bool:
    return verb.endswith(("ing", "in")) and re.search(rf"\b(?:{BE})\b", words) is not None


def _is_past_form(verb: str) -> bool:
    return verb.partition(" ")[0].endswith("ed") or verb in IRREGULAR_PAST  # "picked up"


IRREGULAR_PAST = frozenset(
    [
        "left",
        "quit",
        "got",
        "went",
        "became",
        "began",
        "began",
        "took",
        "had",
        "bought",
        "sold",
        "met",
        "knew",
        "came",
        "made",
        "switched",
        "was",
        "were",
        "drove",
        "rode",
        "ran",
        "spoke",
        "wrote",
        "taught",
        "kept",
        "lost",
        "found",
        "swapped",
        "ate",
        "drank",
        "smoked",
        "chose",
        "gave",
        "put",
        "packed",
        "split",
        "cut",
    ]
)
