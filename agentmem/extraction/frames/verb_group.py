"""What the words around a verb say: whether something is so, was so, will be so, is over or is denied."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from agentmem.beliefs.belief import Mark, Operation, Tense

VerbKind = Literal["state", "change", "end"]
Direction = Literal["past", "future", ""]

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
_STOPPING = re.compile(r"\b(?:stop(?:ping)?|quit(?:ting)?|giv(?:e|ing) up)\b")
_PLANNED = re.compile(r"\b(?:will|shall|going to|plans? to|planning (?:to|on)|about to|decided to|off to)\b")
_UNSURE = re.compile(
    r"\b(?:might|may|maybe|probably|thinking (?:of|about)|considering|hop(?:e|ing) to|wants? to|would|could|should"
    r"|trying to)\b"
)
_HYPOTHETICAL = re.compile(
    r"\b(?:would|could|should|(?:was|were|had) (?:\w+ )?(?:going|planning|planned|about|hoping|thinking|considering))\b"
)
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
    if is_planned and (
        stopped or _STOPPING.search(words)
    ):  # the end of a plan is no plan: "I will stop working at Acme in May"
        return VerbReading(operation="over") if has_future_date and not (is_unsure or negated) else None
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

_LANGUAGE_WORDS = {
    "english": "i|we|my|our|the|he|she|is|are|was|will|have|has|it|they|you|to|of|at",
    "german": "ich|wir|bin|habe|mein\\w*|der|das|nach|bei|er|ist|seit|und|nicht|am|im",
    "spanish": "yo|el|mi|en|me|nos|con|los|las|y|desde|hasta|hace|su|soy|voy|estoy",
    "french": "je|j|nous|mon|ma|le|les|chez|il|elle|et|depuis|en|est|du|dans|l|une",
    "portuguese": "eu|meu|minha|o|em|no|na|para|com|desde|at\u00e9|h\u00e1|e|sou|vou|estou|do|da",
}
_LANGUAGES = {name: re.compile(rf"(?<![\w])(?:{words})(?!\w)") for name, words in _LANGUAGE_WORDS.items()}
_FUTURE_VERBS = {
    "english": (
        r"\b(?:will|shall|(?<!was )(?<!were )(?:going|about|planning|hoping) (?:to|on)|plans? (?:to|on)"
        r"|(?:i|we|he|she|they|you) may|(?:wants?|hopes?|intends?) to"
        r"|(?:have|has|need|needs) to|might|(?<!have )(?<!has )decided to|off to"
        r"|(?:am|is|are) (?:\w+ )?\w+ing|(?:is|are|am) (?:\w+ )?(?:scheduled|booked|planned|due|supposed|set))\b"
    ),
    "german": r"\b(?:werden?|wird|wirst|will|wollen|plane|planen|m\u00f6chten?|habe vor|haben vor)\b",
    "spanish": r"\b(?:(?:voy|vamos|va|van) a|pienso|pensamos|quiero|\w{2,}r(?:\u00e9|\u00e1n?|\u00e1s|emos))(?!\w)",
    "french": r"\b(?:vais|va|allons|vont|\w{2,}[eid]r(?:ai|as|a|ons|ez|ont))\b",
    "portuguese": r"\b(?:(?:vou|vamos|vai|v\u00e3o) |pretendo|quero|\w{2,}[aei]r(?:ei|\u00e1|emos|\u00e3o)(?!\w))",
}
_PAST_VERBS = {
    "english": (
        r"\b(?:was|were|had|did|used to|(?:have|has) (?!to\b|got\b)(?:\w+ )?(?:been|\w+ed|\w+en)"
        r"|(?!need|bed|red|feed|seed|speed|wed\b|hundred|sacred|naked)(?<!is )(?<!are )(?<!am )\w+ed"
        r"|IRREGULAR)\b"
    ),
    "german": (
        r"\b(?:war|waren|hatten?|wurden?|zog|zogen|ging|kam|fing|verlie\u00df|k\u00fcndigte"
        r"|(?:arbeit|wohn|leb|heirat|mach|wechsel|studier)e?ten?"
        r"|(?:bin|ist|sind|habe|hat|haben)\b.*\b(?:\w*ge\w{2,}(?:t|en)|\w+iert|(?:be|ver|er|ent|um)\w{3,}(?:t|en)))\b"
    ),
    "spanish": (
        r"\b(?:(?:he|ha|hemos|han) \w+(?:ado|ido|cho|sto|to)|fui|fue|fuimos|tuve|hice|estuve|vine|dej\u00e9"
        r"|(?!caf\u00e9)\w{2,}(?:\u00e9|\u00ed|i\u00f3|\u00f3|aron|ieron|aba|\u00e1bamos|imos)"
        r"|(?!d\u00eda|todav\u00eda|t\u00eda)\w{2,}\u00eda)(?!\w)"
    ),
    "french": (
        r"\b(?:(?:ai|a|avons|ont|suis|est|sommes|sont) (?:\w+ )?(?!ici\b|aussi\b)\w{2,}(?:\u00e9e?s?|i|u|ue|is|it|ert)"
        r"|(?:\u00e9t|av|habit|travaill|viv|all)(?:ais|ait|ions|aient))(?!\w)"
    ),
    "portuguese": (
        r"\b(?:fui|foi|fomos|tive|fiz|estive|era|(?!meu|seu|teu|sou|vou|estou|dou|outr)\w{2,}(?:ei|ou|eu|iu|aram|eram|iram|ava)"
        r"|(?:sa|viv|mor|part|conheci)\u00ed|sa\u00ed|\w+\u00edamos|tinha|vivia)(?!\w)"
    ),
}
_CLAUSE_END = re.compile(r"[,;:.!?](?!\d)|\b(?:and|but|because|und|aber|pero|mais|mas)\b")


def find_language(plain: str) -> str:
    """Which of five languages most small words of a text are of; English for none."""
    counts = {name: len(words.findall(plain)) for name, words in _LANGUAGES.items()}
    return max(counts, key=counts.__getitem__)


def find_direction(plain: str, at: int) -> Direction:
    """Whether the verb of the clause around a place tells of the past or of what is to come; "" for neither."""
    ends = [0, *(found.start() for found in _CLAUSE_END.finditer(plain)), len(plain)]
    start = max(end for end in ends if end <= at)
    clause = plain[start : min((end for end in ends if end > at), default=len(plain))]
    language = find_language(plain)
    is_led = not plain[start:at].strip(" ,;:.!?")  # "In May, I moved": the verb stands in another clause
    for text in (clause, plain) if is_led else (clause,):
        if _FUTURE[language].search(text):
            return "future"
        if _PAST[language].search(text):
            return "past"
    return ""


_FUTURE = {name: re.compile(words) for name, words in _FUTURE_VERBS.items()}
_PAST = {name: re.compile(words.replace("IRREGULAR", "|".join(IRREGULAR_PAST))) for name, words in _PAST_VERBS.items()}
