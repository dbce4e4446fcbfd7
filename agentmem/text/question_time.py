"""The moment that a question is about: now, what was before, or a date of the past. English, German, Spanish, French,
Portuguese.

A question in the present tense asks for what holds now; one with a word such as "previously" for what was; one in the
past tense for what held on the date that it names. Of any other nothing is assumed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from agentmem.core.clock import add_time
from agentmem.text.temporal import DateHint, parse_date_hint, parse_relative_range

Moment = Literal["now", "before", "first", "at", "always"]

_BEFORE = re.compile(
    r"\b(?:used to|did \w+ use to|previous(?:ly)?|former(?:ly)?|back then|in the past|no longer|prior"
    r"|fr\u00fcher\w*|vorher\w*|zuvor|davor|ehemalig\w*|damals"
    r"|antes|anterior(?:es|mente)?|previamente|sol[i\u00ed]a\w*"
    r"|avant|auparavant|pr\u00e9c\u00e9dent\w*|ancien(?:ne|s|nes)?|autrefois"
    r"|antigamente|antig[oa]s?|costumava\w*)\b"
    r"|\bex-|\b(?:my|our|his|her|their) (?:old|last|ex) (?!(?:name|year|month|week)\b)|\bbefore(?=\W*$)",
    re.IGNORECASE,
)
_FIRST = re.compile(
    r"\b(?:original(?:ly)?|initial(?:ly)?|at first|in the beginning|to begin with|(?:my|our|his|her|their|the) first"
    r"|urspr\u00fcnglich\w*|anfangs|zuerst|originalmente|al principio|inicialmente|[a\u00e0] l'origine|au d\u00e9but"
    r"|no in[i\u00ed]cio)\b|\bfirst(?=\W*$)",
    re.IGNORECASE,
)
_BEFORE_NAMED = re.compile(r"\b(?:before|vor|bevor|antes d[eo]s?|avant(?: de)?) (?P<named>.+)$", re.IGNORECASE)
_PAST = re.compile(
    r"\b(?:did|was|were|had|hadn't|didn't|wasn't|weren't"
    r"|(?:who|what|which \w+) (?:\w+ed|said|told|went|came|gave|got|made)"
    r"|war|waren|hatte|hatten|wurde|wurden|wohnte\w*|arbeitete\w*|lebte\w*|kostete\w*|hie\u00df|fuhr"
    r"|era|eran|fue|fui|estaba|estaban|ten\u00eda|ten\u00edan|viv\u00eda|trabajaba|costaba|usaba|hab\u00eda"
    r"|\u00e9tait|\u00e9tais|avais|avait|habitais|habitait|travaillais|travaillait|co\u00fbtait|vivais|vivait"
    r"|eram|foi|estava|tinha|morava|vivia|trabalhava|custava|havia"
    r"|dij[oe]|hizo|hice|tuve|tuvo|\w+(?:(?<!av)\u00f3|aron|ieron)|disse|fez|fiz|teve|\w{2,}(?:ou|aram|iram)"
    r"|(?:j'ai|tu as|\w+ a|nous avons|vous avez|ont) (?:\w+\u00e9|dit|fait|eu|pris|mis|vu)(?! mi\b)"
    r"|(?:habe|hat|haben|hast|bin|ist|sind) .*\bge\w+(?:t|en))\b",
    re.IGNORECASE,
)
# What asks for no single state: reasons, advice, wishes, lists, counts, courses of events.
_OPEN = re.compile(
    r"\b(?:why|should|would|could|might|recommend\w*|suggest\w*|advice|ideas?|summar\w+|overview|recap|list|every|ever"
    r"|histor\w+|timeline|chronolog\w+|order|sequence|evol\w+|changed?|changes|differen\w+|compare\w*|how often"
    r"|how many times|warum|wieso|sollte\w*|w\u00fcrde\w*|liste|jemals|por qu\u00e9|deber\u00eda\w*|lista|pourquoi"
    r"|devrais|devrait|por que|deveria|help me|tell me about|draft|explain)\b",
    re.IGNORECASE,
)
# Whether a date asks for a state, in the main clause: "What did I buy in May while living in Rome?" does not.
_ENGLISH = re.compile(r"\b(?:the|what|which|who|where|how|when|my|we|i)\b", re.IGNORECASE)
_DID_STATE = re.compile(
    r"\bdid (?:[\w'\u2019.-]+ ){1,4}?(?:live|work|have|own|drive|use|pay|cost|weigh|study|eat|play|speak|wear|train"
    r"|rent|run|host|ride|sleep|like|prefer|belong|take|go to|keep|earn)\b",
    re.IGNORECASE,
)
_WAS_STATE = re.compile(
    r"(?:\b(?:who|what|which|where|how|whose)(?:'s)?(?: [\w'\u2019-]+){0,3} |^\W*)(?:was|were|had)\b",
    re.IGNORECASE,
)
_OTHER_STATE = re.compile(
    r"\b(?:war|waren|hatte|hatten|wohn\w+|gewohnt|arbeit\w+|gearbeitet|gefahren|fuhr\w*|kostete\w*|gekostet|hie\u00df"
    r"|viv\w+|trabaj\w+|era|eran|ten\u00eda\w*|costaba|usaba\w*|estaba\w*|iba\w*"
    r"|habit\w+|travaill\w+|\u00e9tait|\u00e9tais|avais|avait|co\u00fbtait|conduisais|allais"
    r"|mor\w+|trabalh\w+|tinha|custava|estava|usava|ia)\b|\bj'(?:habit|\u00e9t|av)\w+",
    re.IGNORECASE,
)
# Cheaper than to look for dates in every question.
_MAY_NAME_A_DATE = re.compile(
    r"\d|\bago\b|\b(?:last|past|previous|yesterday|today|tonight|this)\b"
    r"|\b(?:in|im|en|em|on|of|during|since|until) [^\W\d]",
    re.IGNORECASE,
)
_PERFECT = re.compile(r"\b(?:have|has|'ve) (?:i|we|he|she|they|you|it|\w+) \w+(?:ed|en|t|ne)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class QuestionTime:
    """What a question is about: `now`; `before`, what was last before it or before `named`; `first`, what was first;
    `at`, what held within [start, end); or `always`, where nothing may be assumed.
    """

    moment: Moment
    named: str = ""
    start: datetime | None = None
    end: datetime | None = None


def parse_question_time(text: str, now: datetime) -> QuestionTime:
    """Read the moment that a question is about, asked at `now`."""
    if _OPEN.search(text):
        return QuestionTime("always")
    if (span := _find_past_span(text, now)) is not None:
        return QuestionTime("at", start=span[0], end=span[1]) if _asks_state(text) else QuestionTime("always")
    is_past = _PAST.search(text) is not None
    if is_past and (named := _BEFORE_NAMED.search(text)):
        return QuestionTime("before", named=named["named"].strip(" ?.!\u00bf"))
    if _FIRST.search(text):
        return QuestionTime("first")
    if _BEFORE.search(text):
        return QuestionTime("before")
    return QuestionTime("always" if is_past or _PERFECT.search(text) else "now")


def _asks_state(text: str) -> bool:
    """Whether a question about a date asks for a state, not for what happened then."""
    if re.search(r"\bdid\b", text, re.IGNORECASE):
        return _DID_STATE.search(text) is not None
    if _ENGLISH.search(text):
        return _WAS_STATE.search(text) is not None
    return _OTHER_STATE.search(text) is not None


def _find_past_span(text: str, now: datetime) -> tuple[datetime, datetime] | None:
    """The span of the past that the text names; None for none, and for one that has not begun."""
    if not _MAY_NAME_A_DATE.search(text):
        return None
    span = parse_relative_range(text, now)
    if span is None and (hint := parse_date_hint(text)) is not None:
        span = _resolve_hint(hint, now, is_past=_PAST.search(text) is not None)
    return span if span is not None and span[0] < now and span[1] <= add_time(now, timedelta(days=1)) else None


def _resolve_hint(hint: DateHint, now: datetime, *, is_past: bool) -> tuple[datetime, datetime] | None:
    """The latest span that fits a hint. A month without a year is the last one, and only where the past is meant."""
    if not hint.years and not is_past:
        return None
    year = max(hint.years, default=now.year)
    if not hint.months:
        return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    month = max(hint.months)
    if not hint.years and month > now.month:
        year -= 1
    try:
        if hint.days:
            day = datetime(year, month, max(hint.days), tzinfo=UTC)
            return day, day + timedelta(days=1)
        return datetime(year, month, 1, tzinfo=UTC), datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
