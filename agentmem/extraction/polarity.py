"""Whether words affirm, deny or end what a claim says, and when: the clause around a value against the claim."""

from __future__ import annotations

import re
from dataclasses import replace

from agentmem.beliefs.slots import PEOPLE_SLOTS, NamedSlot
from agentmem.extraction.drafts import FactDraft
from agentmem.extraction.frames.plain_text import PlainSentence
from agentmem.extraction.value_words import VERB_LIKE, ValueReading, says_over

_GONE = re.compile(
    r"\b(?:went|slipped away|was put down|was put to sleep)(?: peacefully| quietly| in \w+ sleep)?"
    r"(?=\s*(?:[.!,;]|$)| (?:this|last|yesterday|today|on \w+day|at \d))"
)
NONE_VALUES = frozenset({"none", "no", "off", "never"})
_AVERSION = re.compile(
    r"\b(?:hat(?:e|es|ed)|dislik\w*|detest\w*|loath\w*|despis\w*|can not (?:stand|bear)|avoid\w*|worst|awful|disgust\w*"
    r"|sick of|gross)\b"
)
_FONDNESS = re.compile(r"\b(?:lik(?:e|es|ed)|lov(?:e|es|ed)|enjoy\w*|ador\w+|fond|favou?rite|prefer\w*)\b")
_DENIAL_IN_VALUE = re.compile(
    r"\b(?:no|not|nae|quit|stop|ditch|never|none|without|n't|doesn't|don't|kein\w*|nicht|nie|niemals|ohne|sin|nunca|sans|jamais|pas|sem|não"
    r"|nenhum\w*|ningún|ninguna?|aucune?)\b|-free\b"
)
TAKEN_BACK = re.compile(
    r"\b(?:i meant?|i was wrong|no,? wait|wait,? no|correction|misread|misspoke|mixed up|typo|ich meinte?|quise decir"
    r"|quería decir|je voulais dire|queria dizer)\b"
)
LIFTED = re.compile(
    r"\b(?:can|may|could|allowed to|kann|darf|puedo|peux|posso) (?:\w+ ){0,4}"
    r"(?:again|now|wieder|otra vez|de nuevo|de nouveau|outra vez|de novo)\b|\ball[ -]clear\b"
)


def check_hypothetical(reading: ValueReading) -> str:
    """Why a supposition says nothing; "" for what is no supposition."""
    if reading.language and reading.is_hypothetical:
        return "hypothetical: it was not said as something that is so"
    return ""


def is_denial(value: str) -> bool:
    """Whether a value says that there is none: "no emojis", "none"."""
    return _DENIAL_IN_VALUE.search(value.casefold()) is not None or value.casefold() in NONE_VALUES


def check_polarity(
    draft: FactDraft, slot: NamedSlot, reading: ValueReading, sentence: PlainSentence, is_known: bool
) -> str:
    """Why the clause around a value says the opposite of the claim; "" when it does not."""
    if draft.operation != "is":
        return _check_denial(draft, slot, reading, sentence, is_known)
    if not reading.language:
        return ""
    if slot.name in ("likes", "dislikes"):
        return _check_taste(slot.name, reading)
    value = draft.value.casefold()
    denies_itself = is_denial(value) or value == slot.none_value
    may_deny = denies_itself or slot.name == "restriction"
    if reading.is_denied and not may_deny:
        return "polarity: what was said is a denial, the claim is none"
    if denies_itself and not (reading.is_denied or reading.is_over):
        return "polarity: the claim is a denial, what was said is none"
    is_change = draft.mark == "change" and re.search(r"\b(?:join|start|move|switch|buy|bought|got)", reading.clause)
    if reading.is_over and not (may_deny or is_change or draft.temporal_context == "past"):
        return "polarity: what was said is over, the claim is current"
    return ""


def _check_denial(
    draft: FactDraft, slot: NamedSlot, reading: ValueReading, sentence: PlainSentence, is_known: bool
) -> str:
    """Whether the words end or deny a value. Whom the memory knows may also go: "Bess went this morning"."""
    if not reading.language and not is_known:
        return ""
    if draft.operation == "deny":
        is_taken_back = draft.mark == "correct" and TAKEN_BACK.search(sentence.source.casefold()) is not None
        return "" if reading.is_denied or is_taken_back else "polarity: the words do not deny it"
    is_bare = VERB_LIKE.search(reading.clause) is None  # "LaTeX and I broke up"
    is_over = reading.is_over or reading.is_denied or (is_bare and says_over(sentence.plain))
    is_gone = is_known and slot.name in PEOPLE_SLOTS and _GONE.search(sentence.plain) is not None
    is_done = slot.kind == "event" or is_gone
    if is_over or (is_done and not (reading.is_planned or reading.is_present)):
        return ""
    return "polarity: the words do not deny it"


def _check_taste(slot: str, reading: ValueReading) -> str:
    """Whether the words like or dislike, English alone; "can't stand" has a denial and an aversion that mean one."""
    if reading.language != "english":
        return "polarity: what was said is a denial, the claim is none" if slot == "likes" and reading.is_denied else ""
    is_fond = _FONDNESS.search(reading.clause) is not None
    averse = (
        _AVERSION.search(reading.clause) is not None
        or (reading.is_denied and is_fond)
        or (reading.is_denied and re.search(r"\b(?:fan|stand|bear|into|keen|fond)\b", reading.clause) is not None)
    )
    if slot == "likes":
        return "polarity: what was said is a dislike" if averse or reading.is_denied else ""
    return "" if averse else "polarity: what was said is no dislike"


def correct_tense(draft: FactDraft, slot: NamedSlot, reading: ValueReading) -> tuple[FactDraft, str]:
    """The draft with the tense of the words; English and what has cues like it."""
    if reading.is_reported:
        draft = replace(draft, certainty="reported")
    if not reading.language or slot.kind == "event" or draft.operation != "is":
        return draft, ""
    if reading.is_planned and draft.temporal_context != "future":
        return replace(draft, temporal_context="future"), ""
    if draft.temporal_context == "future":
        is_dated = draft.valid_from is not None
        is_so = reading.is_present and not (reading.is_planned or is_dated)
        return draft, "tense: the words do not say that it is planned" if is_so else ""
    if reading.is_past and draft.temporal_context != "past" and slot.name not in PEOPLE_SLOTS:
        return replace(draft, temporal_context="past"), ""
    if draft.temporal_context == "past" and reading.is_present and not (reading.is_past or reading.is_over):
        return draft, "tense: the words say that it is so now"
    return draft, ""
