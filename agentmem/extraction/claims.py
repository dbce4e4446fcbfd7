"""The clauses of a claim, and what each affirms or denies."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentmem.memory.semantic import equal_claims
from agentmem.text.chunking import chunk_text
from agentmem.text.tokenizer import tokenize

_CLAUSE_BOUNDARY = re.compile(
    r"[.!?;:…]+[\"')\]]*\s+|,\s+|\n+|\s+[–—-]\s+|[–—]"
    r"|\s+(?=(?:but|though|although|however|yet|whereas|because|while|except|instead)\s)"
    r"|\s+(?=(?:and|so|then)\s+(?:i|i'm|i've|we|he|she|they|it|my|our|now|this|that|there)\b)",
    re.IGNORECASE,
)
_MAX_CLAUSE_CHARS = 600  # characters beside a quote that may belong to its clause
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})

# Said with a negation, meant without one.
_IDIOMS = re.compile(
    r"\b(?:can(?:'t|not)|can not|could(?:n't| not)) (?:wait|believe|help|stop|thank|say enough|agree more"
    r"|be (?:happier|prouder|more|better)|have (?:asked|done|been (?:happier|prouder)))"
    r"|\bno (?:doubt|wonder|problem|worries|matter|idea|way)\b|\bnot (?:only|just|to mention|bad)\b"
    r"|\bdon't (?:worry|forget|mind)\b|\bwhy (?:not|don't)\b|\bstopped (?:by|at|in|over|for|to)\b"
    r"|\bnever (?:forget|been (?:better|happier|more|so)|too late|fails?|gets? old)\b"
    r"|\bnothing (?:like|but|beats|better)\b|\bwithout (?:a )?(?:doubt|fail|question)\b|\bif not\b|\bor not\b"
    r"|\b(?:is|are|do|does|did|was|were|has|have|had|won|would|ca|could|should)n't (?:it|they|you|we|he|she|i)\b"
    r"|\b(?:am|'m|is|are|get|got|getting|be|been|was|were) used to\b",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"\b(?:not|never|cannot|nobody|nothing|none|neither|nor|without|no|nope|hardly|barely|nicht|kein\w*|niemals"
    r"|jamais|nunca|(?:do|does|did|ca|wo|is|are|was|were|have|has|had|would|could|should)nt)\b|n't\b"
    r"|\bn' ?est pas\b|\bne \w+ pas\b",
    re.IGNORECASE,
)
_DISCONTINUED = re.compile(
    r"\b(?:no longer|any ?more|any longer|stopped|quit|gave up|given up|used to|former\w*)\b", re.IGNORECASE
)
_STOPPED = re.compile(r"\b(?:stopped|quit|gave up|given up)\b", re.IGNORECASE)
_AVERSION = re.compile(
    r"\b(?:dislik\w*|hat(?:e|es|ed|ing)|avoid\w*|lack\w*|refus\w*|reject\w*|cancel\w*|declin\w*|den(?:y|ied|ies)|"
    r"fail\w*"
    r"|miss(?:ed|es|ing)?|unable|unhappy|unsure|unaware|unlike\w*|away from|free of|instead of|rather than|vegan"
    r"|vegetarian|impossible|impatient|too \w+ to|hard to|difficult\w*|struggl\w*|doubt\w*|allerg\w*|intoleran\w*)\b",
    re.IGNORECASE,
)
_WEAK_NEGATION = re.compile(
    r"\b(?:un\w{3,}|dis\w{4,}|\w{3,}less|few|little|only|except|yet|ages|last|left|lost|sold|ended|ex)\b", re.IGNORECASE
)
_USED_TO = re.compile(r"\bused to\b", re.IGNORECASE)
_HYPOTHETICAL = re.compile(
    r"\b(?:if|unless|would|wouldn't|wish|wished|imagine|suppose|supposing|pretend|hypothetical\w*|might|maybe"
    r"|perhaps|as though"
    r"|dreamt|dreamed)\b|'d (?:love|like|rather|prefer|be|want|move|go|have|buy|get|do|take|live)\b",
    re.IGNORECASE,
)
_NON_CONDITIONAL_IF = re.compile(
    r"\b(?:let me know|see|ask(?:ed)?|wonder\w*|know|sure|even|as|check|decide\w*) (?:if|though)\b", re.IGNORECASE
)
_HEDGE = re.compile(
    r"\b(?:would|could|might|may|if|unless|wish\w*|want\w*|hop(?:e|es|ed|ing)|plan\w*|consider\w*|think\w*|thought"
    r"|dream\w*"
    r"|imagin\w*|interest\w*|likes? to|loves? to|prefer\w*|wonder\w*|keen|aspir\w*|intend\w*|goal\w*|possib\w*"
    r"|perhaps|maybe"
    r"|believ\w*|suggest\w*|recommend\w*|offer\w*|open to|looking forward|willing|feels?|felt|ask\w*|sa(?:id|ys))\b",
    re.IGNORECASE,
)
_PLANNED = re.compile(
    r"\b(?:will(?! (?:always|never))|shall|going to|gonna|plan(?:s|ning)? (?:to|on)|about to|intend(?:s|ing)? to"
    r"|hop(?:e|es|ing) to|want(?:s)? to|(?:thinking|dreaming) (?:of|about)|considering|looking forward)\b|'ll\b",
    re.IGNORECASE,
)
_REPORTED_REQUEST = re.compile(r"\b(?:ask|suggest|propos|recommend|offer|invit|wonder|consider)\w*", re.IGNORECASE)
_OTHER_PERSON_PRONOUN = re.compile(
    r"\b(?:you|your|yours|yourself|we|our|us|ours|we're|we've|you're|you've|y'all|he|she|they|his|her|their|him"
    r"|them)\b",
    re.IGNORECASE,
)

_QUESTION_END = re.compile(r"[?\u061f\uff1f]!*[\"'”’)\]\s]*$")
_QUESTION_START = re.compile(
    r"(?:(?:and|so|but|or|then|well|hey|oh)\s)?(?:is|are|am|was|were|do|does|did|can|could|would|will|should|shall|may"
    r"|have|has|had|what|who|whom|whose|where|when|why|how|which|any|isn't|aren't|don't|doesn't|didn't|won't|"
    r"haven't)\b",
    re.IGNORECASE,
)

is_duplicate = equal_claims.is_duplicate


def nearest_clauses(quote: str, claim: str) -> list[str]:
    """The clauses of a quote that share the most words with a claim; all of them when none shares any."""
    clauses = [clause for clause in _CLAUSE_BOUNDARY.split(quote.translate(_APOSTROPHES)) if clause and clause.strip()]
    wanted = set(tokenize(claim))
    shared = [len(wanted & set(tokenize(clause))) for clause in clauses]
    most = max(shared, default=0)
    return [clause for clause, count in zip(clauses, shared, strict=True) if count == most]


def expand_to_clauses(text: str, span: tuple[int, int]) -> str:
    """The whole clauses that a span touches: a quote of "like olives" does not lose the "don't" before it."""
    start, end = max(0, span[0] - _MAX_CLAUSE_CHARS), min(len(text), span[1] + _MAX_CLAUSE_CHARS)
    for found in _CLAUSE_BOUNDARY.finditer(text.translate(_APOSTROPHES), start, end):
        if found.end() <= span[0]:
            start = found.end()
        elif found.start() >= span[1]:
            end = found.start()
            break
    return text[start:end]


def drop_idioms(text: str) -> str:
    """The text without what is said with a negation and meant without one: "can't wait"."""
    return _IDIOMS.sub(" ", text.translate(_APOSTROPHES))


def is_negated(text: str) -> bool:
    """Whether a text denies something, idioms such as "can't wait" left out."""
    plain = drop_idioms(text)
    return _NEGATION.search(plain) is not None or _STOPPED.search(plain) is not None


def is_discontinued(text: str) -> bool:
    """Whether a text says that something came to its end."""
    return _DISCONTINUED.search(_IDIOMS.sub(" ", text.translate(_APOSTROPHES))) is not None


def has_dropped_negation(claim: str, clauses: Sequence[str]) -> bool:
    """Whether a claim affirms what these clauses deny; one that denies in other words ("avoids") does not."""
    plain = [_IDIOMS.sub(" ", clause.translate(_APOSTROPHES)) for clause in (*clauses, claim)]
    claim = plain.pop()
    if _NEGATION.search(claim):
        return False
    if any(map(_NEGATION.search, plain)):
        return _aversion_stems(claim) <= {word for clause in plain for word in _aversion_stems(clause)}
    return any(map(_STOPPED.search, plain)) and not _aversion_stems(claim)


def has_negation_cue(text: str) -> bool:
    """Whether a text holds any word that a denial may be taken from."""
    plain = text.translate(_APOSTROPHES)
    return any(found.search(plain) for found in (_NEGATION, _DISCONTINUED, _AVERSION, _WEAK_NEGATION))


def _aversion_stems(text: str) -> set[str]:
    return {match[0][:5] for found in (_AVERSION, _DISCONTINUED) for match in found.finditer(text.lower())}


def has_used_to(text: str) -> bool:
    """Whether a text says that something used to be; not that somebody is used to it."""
    return _USED_TO.search(_IDIOMS.sub(" ", text.translate(_APOSTROPHES))) is not None


def is_hypothetical(text: str) -> bool:
    """Whether a text speaks of what is not so, or not yet: if, would, wish, imagine."""
    return _HYPOTHETICAL.search(_NON_CONDITIONAL_IF.sub(" ", text.translate(_APOSTROPHES))) is not None


def is_planned(text: str) -> bool:
    """Whether a text speaks of what is to come: will, going to, planning to."""
    return _PLANNED.search(text.translate(_APOSTROPHES)) is not None


def is_hedged(claim: str) -> bool:
    """Whether a claim itself says that something is wished, planned or thought."""
    return _HEDGE.search(claim.translate(_APOSTROPHES)) is not None


def is_reported_request(claim: str) -> bool:
    """Whether a claim says itself that something was asked or proposed."""
    return _REPORTED_REQUEST.search(claim) is not None


def normalize_apostrophes(text: str) -> str:
    """The text with plain apostrophes, of the same length."""
    return text.translate(_APOSTROPHES)


def has_other_person_pronoun(clause: str) -> bool:
    """Whether a clause speaks to somebody, or of somebody by a pronoun that is not I."""
    return _OTHER_PERSON_PRONOUN.search(clause.translate(_APOSTROPHES)) is not None


def question_spans(text: str) -> list[tuple[int, int]]:
    """The spans of what a text asks: of each sentence with a question mark all from where it begins like a question.

    Where no clause does, the last one is what is asked ("I love Rome, and you?").
    """
    parts = chunk_text(text)
    spans = []
    for part in parts[1:] or parts:
        if _QUESTION_END.search(part.text):
            starts = [
                0,
                *(cut.end() for cut in _CLAUSE_BOUNDARY.finditer(part.text) if cut.end() < len(part.text.rstrip())),
            ]
            first = next((at for at in starts if _QUESTION_START.match(part.text, at)), starts[-1])
            spans.append((part.start + first, part.end))
    return spans


def is_only_question(text: str, span: tuple[int, int], questions: Sequence[tuple[int, int]]) -> bool:
    """Whether a span of a text holds no word that is not asked."""
    left, at = [], span[0]
    for start, end in questions:
        left.append(text[at : max(at, min(start, span[1]))])
        at = max(at, min(end, span[1]))
    return not any(map(str.isalnum, "".join([*left, text[at : span[1]]])))
