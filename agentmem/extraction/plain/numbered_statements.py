"""Numbered statements about anything ("12. The capital of Norway is Oslo"): subject, relation and value by their form.

A list of numbered statements is plain knowledge that somebody gives, so no slot has to fit. The value is what stands at
the end, the subject is the longest name before it, and the words between and around them are the relation. Plans,
recipes and agendas have numbers, too: a turn is read so only where nearly all of it is such statements.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentmem.extraction.plain.slot_claim import SlotClaim

MAX_STATEMENT_WORDS = 40
_POINT = re.compile(r"^[ \t]*\d{1,5}[.):][ \t]+(?P<text>\S.*?)[ \t]*$", re.MULTILINE)
_WORD = re.compile(r"[^\W_][^\s,;:()]*|[,;:()]")
# Small words that names have inside: "University of Oxford", "Lord of the Rings".
_INSIDE_NAMES = frozenset("of the and for de la le del von van der den da do dos du y e in on to a at".split())  # noqa: SIM905
_BEFORE_VALUE = re.compile(r".*\b(?:is|are|was|were|by|of|for|in|with|to|at|from|as|plays|speaks)\s+(?=\S)")
_OF_SUBJECT = re.compile(r"the [a-z' -]+? of (?P<subject>.+?) (?:is|are|was|were) ")
_FIRST = re.compile(r"\A(?:(?:is|are|was|were|has|have) )?(?:(?:the|an?) )?")
_LAST = re.compile(r"(?: of)? \u2026(?: (?:is|are|was|were))?\Z|(?: (?:is|are|was|were))\Z")
_VERB_AFTER = re.compile(r"\s+(?:is|are|was|were|has|had|\w+s|\w+ed)\b")
_VERB = re.compile(r"\b(?:is|are|was|were|has|had)\b")
_NO_STATEMENT = re.compile(
    r"[*_#\[\]<>|;]|:\s|\A(?:he|she|it|they|this|that|these|those|there|if|when|to|for|with|by)\b"
)
MIN_STATEMENTS = 10  # so many make a list whatever stands around them
MIN_SHARE = 0.8  # of the sentences of a shorter turn, and of the points of any
_OWN = re.compile(r"\b(?:i|we|my|our|me|you|your)\b")


@dataclass(frozen=True, slots=True)
class _Point:
    """A point of a numbered list: what it says, and where that begins in the turn."""

    source: str
    start: int

    @property
    def plain(self) -> str:
        """In small letters, of the same length."""
        return "".join(each.lower() if len(each.lower()) == 1 else each for each in self.source)

    def is_capitalized(self, at: int) -> bool:
        """Whether the word at a place begins with a capital letter."""
        return self.source[at].isupper()


def read_statements(text: str) -> list[SlotClaim]:
    """The claims of a turn that is a list of numbered statements; [] for any other."""
    points = [_Point(found["text"], found.start("text")) for found in _POINT.finditer(text)]
    others = [line for line in text.splitlines() if line.strip() and not _POINT.match(line)]
    if not points or any(_OWN.search(point.plain) for point in points):
        return []
    claims = [claim for point in points if (claim := _read_statement(point)) is not None]
    is_whole = len(points) >= min(MIN_STATEMENTS, MIN_SHARE * (len(points) + len(others)))
    return claims if is_whole and len(claims) >= MIN_SHARE * len(points) else []


def _read_statement(point: _Point) -> SlotClaim | None:
    """The claim of a numbered statement; None for a question, what is said of oneself, and what has no name."""
    plain = point.plain.rstrip(" .")
    if plain.endswith("?") or _NO_STATEMENT.search(plain):
        return None
    words = [found.span() for found in _WORD.finditer(plain)]
    if not 3 <= len(words) <= MAX_STATEMENT_WORDS:
        return None
    start = _find_value_start(point, plain, words)
    subject = _find_subject(point, [span for span in words if span[1] <= start])
    if subject is None:
        return None
    after = plain[subject[1] : start]
    is_order = subject[0] == 0 and " " not in plain[: subject[1]] and not _VERB_AFTER.match(after)
    if is_order or not (_VERB.search(plain) or _VERB_AFTER.match(after)):
        return None  # "Use the blue paint": an order begins with a capital, too
    relation = _name_relation(plain[: subject[0]], after)
    if not relation or start >= len(plain):
        return None
    return SlotClaim(
        subject=re.sub(r"['\u2019]s\Z", "", point.source[slice(*subject)]),
        slot=f"about:{relation}",
        value=point.source[start : len(plain)],
        span=(point.start, point.start + len(plain)),
    )


def _find_value_start(sentence: _Point, plain: str, words: list[tuple[int, int]]) -> int:
    """Where the value begins: the name at the end, or what follows the last verb or preposition."""
    start = len(plain)
    for at, end in reversed(words):
        if sentence.is_capitalized(at) or plain[at].isdigit():
            start = at
        elif start == len(plain) or plain[at:end] not in _INSIDE_NAMES:
            break
    if start < len(plain):
        return start
    found = _BEFORE_VALUE.match(plain)
    return found.end() if found else len(plain)


def _find_subject(sentence: _Point, words: list[tuple[int, int]]) -> tuple[int, int] | None:
    """The longest name among words; a first word counts only where nothing else is a name, or more of it follows."""
    runs: list[list[tuple[int, int]]] = []
    current: list[tuple[int, int]] = []
    for span in words:
        text = sentence.plain[slice(*span)]
        is_name = sentence.is_capitalized(span[0]) and not (span[0] == 0 and text in ("the", "a", "an"))
        if is_name or (current and (text in _INSIDE_NAMES or text.isdigit())):
            current.append(span)
            continue
        runs.append(current)
        current = []
    names = [_trim(run, sentence) for run in (*runs, current)]
    best = max(names, key=lambda run: run[-1][1] - run[0][0] if run else 0, default=[])
    if best:
        return best[0][0], best[-1][1]
    found = _OF_SUBJECT.match(sentence.plain)  # "the origin of basketball is"
    return found.span("subject") if found else None


def _trim(run: list[tuple[int, int]], sentence: _Point) -> list[tuple[int, int]]:
    """A name without the small words behind it."""
    while run and sentence.plain[slice(*run[-1])] in _INSIDE_NAMES:
        run = run[:-1]
    return run


def _name_relation(before: str, after: str) -> str:
    """The words around a subject as a key: "the capital of Norway is" is "capital", "Ann was born in" is "born in"."""
    words = " ".join([*re.findall(r"[\w'-]+", before), "\u2026", *re.findall(r"[\w'-]+", after)])
    if words.startswith("\u2026 "):  # the subject comes first
        verb = words.removeprefix("\u2026 ")
        return _LAST.sub("", _FIRST.sub("", verb)) or verb
    return _LAST.sub("", _FIRST.sub("", words))
