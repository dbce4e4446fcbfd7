"""Where somebody speaks plainly of themselves: the clauses of a text that state something in the first person.

Questions, conditions, wishes, quoted words, reports of what others said and jokes hold no such clause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agentmem.extraction.rules.times import TIME_PATTERN

MAX_TURN_CHARS = 20_000
"""Characters of a turn that are read; what follows is not."""

MAX_SENTENCE_CHARS = 600
MAX_CLAUSE_CHARS = 300

_SENTENCE_END = re.compile(r"[.!?\u2026]+[\"\u201d')\]]*(?=\s|$)|\n+|[\u2600-\u27bf\U0001f300-\U0001faff]+")
_ABBREVIATION = re.compile(r"(?:^|\s)(?:mr|mrs|ms|dr|st|vs|prof|e\.g|i\.e|[A-Z])$", re.IGNORECASE)

# What follows such words in a turn is made up, somebody else's, or material to work on.
_FICTION_OR_MATERIAL = re.compile(
    r"\b(?:imagine|pretend|suppose|supposing|role-?play\w*|let'?s say|hypothetical\w*|what if|once upon a time|"
    r"(?:in|from) (?:my|a|the) (?:dream|novel|story|game)\b,?\s+I|"
    r"(?:write|draft|compose|translate|proofread|rewrite|paraphrase|summari[sz]e|correct|fix|edit|say|"
    r"repeat)\b[^.!?]{0,80}:|"
    r"(?:lyrics?|poem|quote|character|example|essay|email|letter)\b[^.!?]{0,40}:)|```|^[ \t]*>",
    re.IGNORECASE | re.MULTILINE,
)
_RETRACTION = re.compile(
    r"\b(?:just |only |totally )?(?:kidding|joking)\b|\bjk\b|(?:^|\s)/s\b|\bsarcas|\bas if\b|\byeah,? right\b|\bnot "
    r"really\b|"
    r"\bjust a joke\b|\bapril fools?\b|\bpulling your leg\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:if|unless|except|as though|lol|lmao|rofl|haha\w*|in theory|dream(?:t|ed)|dreaming)\b|\b(?:sure|great), "
    r"because\b",
    re.IGNORECASE,
)
_HEDGE = re.compile(
    r"\b(?:wish|wished|would|wouldn['\u2019]t|could|couldn['\u2019]t|might|maybe|perhaps|probably|possibly|"
    r"supposedly|allegedly|apparently|"
    r"whether|i guess|should(?:n['\u2019]t)?|i['\u2019]d|we['\u2019]d|almost|nearly)\b",
    re.IGNORECASE,
)
_REPORTING_VERBS = re.compile(
    r"\b(?:said|says|saying|told|tells|asked|asks|wrote|writes|claims?|claimed|thinks?|thought|believes?|heard|rumou?r|"
    r"according|sings?|sang|quoted?|like:|goes)\b",
    re.IGNORECASE,
)
_DEPENDENT_CLAUSE = re.compile(
    r"(?:when|whenever|once|as soon as|until|after|before|while|because|since I|as a|by the time)\b", re.IGNORECASE
)
_CLAUSE_JOINT = re.compile(
    r"(?:\s+[-\u2013\u2014]+\s+|\s*[\u2014\u2013]\s*|--\s*|;\s+|:\s+|,?\s+(?:and|but|so|yet|plus)\s+(?=\S)|"
    r",\s+(?=I(?:['\u2019]ve)?(?: now| just| recently)? (?:moved to|live in|work (?:at|for))\b))"
)
_LEAD_WORDS = re.compile(
    rf"(?:(?:yeah|yea|yes|yep|yup|no|nope|well|oh|ooh|wow|hey|hi|hello|thanks|thank you|thx|ok|okay|sure|cool|nice|"
    rf"great|"
    rf"awesome|however|thankfully|together|yay|nah|aww?|woah|whoa|just last|true|right|agreed|absolutely|definitely|"
    rf"totally|exactly|honestly|luckily|fortunately|unfortunately|sadly|lately|recently|"
    rf"finally|anyway|anyways|besides|also|and|but|so|plus|btw|by the way|actually|guess what|as for me|for me|"
    rf"personally|"
    rf"in fact|on another note|in the meantime|meanwhile|apart from that|other than that|since (?:we last (?:spoke|"
    rf"talked|"
    rf"chatted|met)|our last (?:chat|talk|conversation)|then)|so much has happened|right now|now|these days|nowadays|"
    rf"currently|just|i mean|i meant(?: that)?|sorry|good news|big news|fun fact|speaking of which|you know(?: what)?|"
    rf"the other day|this time|{TIME_PATTERN})(?:[,!:\u2026]+\s*|\s+[-\u2013\u2014]+\s+|\s+))",
    re.IGNORECASE,
)
_SCENE_SETTING = re.compile(
    r"(?:For|At|After|On|In|During|With|Besides|Back in|Over) (?!the (?:game|story|book|movie|dream|novel|film)\b|my "
    r"(?:dreams?|head|mind|novel|story)\b)(?:[\w'\u2019-]+ ){0,5}[\w'\u2019-]+,\s+(?=I |I['\u2019]|we )"
)
_VOCATIVE = re.compile(r"[A-Z][a-z]{1,20}(?:,\s+|!\s+|\s+[-\u2013\u2014]+\s+)")
_SUBJECT = re.compile(
    r"(?:I(?:['\u2019](?:m|ve))?|We(?:['\u2019](?:re|ve))?|My|Our|Me and my|Call me|[A-Z][a-z]{1,20} and "
    r"I)\b(?!['\u2019])",
    re.IGNORECASE,
)
_ELIDED_SUBJECT = re.compile(
    r"(?:Been \w+ing|Gonna|Got back|Joined|Signed up|Started \w+ing|Finished|Twisted my|Met (?:a|an|my|some)|Tried "
    r"(?:a|an|some|out)|Bought (?:a|an|some)|Took (?:a|an|my)|Visited|Watched|Explored|Went (?:to|on|for)|(?<=Just "
    r")(?:got|finished|started|joined|signed|bought|made)) "
)
_JOINT_SUBJECT = re.compile(r"(?:My|Our|Me|[A-Z][a-z]+)(?: [\w-]+){0,3} and I\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A stretch `text[start:end]` of a turn, without the white space around it."""

    text: str
    start: int
    is_question: bool


@dataclass(frozen=True, slots=True)
class Clause:
    """From `start` of the turn a lead ("Last week, "), and then what is stated, to the end of its sentence."""

    start: int
    lead: str
    body: str


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of the first 20,000 characters; [] for white space alone."""
    text, start = text[:MAX_TURN_CHARS], 0
    found: list[tuple[int, int, bool]] = []
    for end in _SENTENCE_END.finditer(text):
        if end[0] == "." and _ABBREVIATION.search(text[max(0, end.start() - 6) : end.start()]):
            continue
        found.append((start, end.end(), "?" in end[0]))
        start = end.end()
    found.append((start, len(text), False))
    out = []
    for begin, stop, question in found:
        stretch = text[begin:stop]
        if stretch.strip():
            lead = len(stretch) - len(stretch.lstrip())
            out.append(Sentence(stretch.strip(), begin + lead, question))
    return out


def drop_quoted_material(text: str) -> str:
    """The text up to where it begins to quote, to make up or to hand over material; all of it where it does not."""
    text = text[:MAX_TURN_CHARS]
    found = _FICTION_OR_MATERIAL.search(text)
    if found is None:
        return text
    before = [end.end() for end in _SENTENCE_END.finditer(text, 0, found.start())]
    return text[: before[-1]] if before else ""


def find_first_person_clauses(text: str) -> Iterator[Clause]:
    """Every clause of a turn that states something in the first person, in order; none from a turn that is a joke."""
    text = drop_quoted_material(text)
    if _RETRACTION.search(text):
        return
    for sentence in split_sentences(text):
        if (
            not sentence.is_question
            and not _CONDITION.search(sentence.text)
            and not _is_mostly_uppercase(sentence.text)
        ):
            yield from _split_clauses(sentence)


def _split_clauses(sentence: Sentence) -> Iterator[Clause]:
    whole = sentence.text[:MAX_SENTENCE_CHARS]
    if _DEPENDENT_CLAUSE.match(whole):
        return
    starts = [0, *(joint.end() for joint in _CLAUSE_JOINT.finditer(whole))]
    read = 0
    for start in starts:
        after = skip_lead(whole, start)
        if start < read:
            continue
        if together := _JOINT_SUBJECT.match(whole, after):
            read = together.end()
        if (
            (_SUBJECT.match(whole, after) or (start == 0 and _ELIDED_SUBJECT.match(whole, after)))
            and not _HEDGE.search(whole, 0, after)
            and not _is_inside_quote(whole, after)
            and not _REPORTING_VERBS.search(whole, 0, after)
        ):
            yield Clause(sentence.start + start, whole[start:after], whole[after : after + MAX_CLAUSE_CHARS])


def is_hedged(statement: str) -> bool:
    """Whether a statement is one of what may be, not of what is."""
    return _HEDGE.search(statement) is not None


def skip_lead(text: str, start: int) -> int:
    """Where the clause itself begins, behind words like "Yeah, " and "Last week "."""
    while True:
        found = _LEAD_WORDS.match(text, start) or _VOCATIVE.match(text, start) or _SCENE_SETTING.match(text, start)
        if not found:
            return start
        start = found.end()


def _is_inside_quote(text: str, position: int) -> bool:
    """Whether a quotation is open there."""
    before = text[:position]
    return before.count('"') % 2 == 1 or before.count("\u201c") > before.count("\u201d")


def _is_mostly_uppercase(text: str) -> bool:
    """Whether most of its letters are capitals, as in headlines."""
    letters = [character for character in text if character.isalpha()]
    return len(letters) > 12 and sum(character.isupper() for character in letters) * 2 > len(letters)
