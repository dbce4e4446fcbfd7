"""Reads the form of a turn: masks what its author quotes or hands over, splits the rest into sentences and clauses.

Masks keep the length, so every span of the masked text is a span of the turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MASK = "\ufffc"  # a character that no word list holds
MAX_READ_CHARS = 1_500  # a longer turn is a paste or a story more often than not: its beginning is read
_CURLY = str.maketrans({"\u2019": "'", "\u02bc": "'", "\u2018": "'", "\u00a0": " ", "\t": " "})
_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\"[^\"\n]*(?:\"|$)|\u201c[^\u201d\n]*(?:\u201d|$)|\u201e[^\u201c\u201d\n]*(?:[\u201c\u201d]|$)"
    r"|\u00ab[^\u00bb\n]*(?:\u00bb|$)|(?<!\w)'(?=\w)[^'\n]{2,}'(?!\w)|<(\w+)[^>\n]*>.*?</\1>|https?://\S+",
    re.DOTALL | re.MULTILINE,
)
_PASTED_LINE = re.compile(
    r"(?: {4}|\s*(?:>|\||\$ \S|#{2,} |@@|</?\w|[{}\[\]]\s*$|[{\[]\""
    r"|(?:import|from|def|class|const|let|var|SELECT) \S+.*[);{:]$"
    r"|\[?\d\d?:\d\d(?::\d\d)?\]? |(?:INFO|ERROR|WARN(?:ING)?|DEBUG|Traceback)\b"
    r"|(?:from|to|subject|von|an|betreff|de|para|asunto|objet|assunto): )|.*\d{4}-\d\d-\d\d[T ]\d\d:)",
    re.IGNORECASE,
)
_MAIL = re.compile(  # a header and all behind it
    r"^[ \t]*(?:from|sent|subject|betreff|von|gesendet|asunto|enviado|objet|assunto):[ \t]\S",
    re.IGNORECASE | re.MULTILINE,
)
_KEY_LINE = re.compile(r"\s*(?:[-*] )?[*_]*[\w][\w /()-]{0,30}[*_]*\s*[:=]\s*\S")
_SPEAKER = re.compile(r"\s*[*_]*(?-i:[A-Z])[\w.]*(?: [\w.]+){0,2}[*_]*: *\S")
_OWN_LABEL = re.compile(
    r"\s*(?:note|fyi|ps|p\.s\.|btw|edit|update|correction|reminder|one thing|hinweis|nota|korrektur|correcci\u00f3n"
    r"|corre\u00e7\u00e3o|about me|background|context|hi|hello|hallo|hola)\b.{0,20}:",
    re.IGNORECASE,
)
_LETTER = re.compile(  # what begins a letter, a commit or the words of somebody else
    r"\s*(?:(?:dear|liebe[rs]?|sehr geehrte[rs]?|estimad[oa]s?|querid[oa]s?|ch(?:er|\u00e8re)s?|caro|cara|prezad[oa]) "
    r"[^\n.!?,:]{1,40}[,:!]|(?:commit|diff) \S+$|[^\n.!?]{1,80}:\s*$)",
    re.IGNORECASE,
)
_TEXT_WORD = (
    r"logs?|output|error|e-?mail|mail|message|text|article|post|paragraph|abstract|bio|cv|r\u00e9sum\u00e9|resume|transcript"
    r"|letter|stack trace|readme|draft|essay|story|poem|prompt|sentence|review|script|dialogue|conversation|profile"
    r"|nachricht|brief|satz|absatz|mensaje|correo|carta|mensagem|texto|frase|texte|courriel|lettre|phrase"
    r"|below|following|this|here|it|folgende\w*|siguiente|suivant\w*|seguinte"
)
_HANDED_OVER = re.compile(
    rf"\b(?:{_TEXT_WORD}|esto|isto|ceci|\u00e7a|dies\w*|das hier)\b[^.!:\n]{{0,40}}\n\s*\n"
    rf"|\b(?:{_TEXT_WORD})\b[^.!?:\n]{{0,60}}:(?= |\n|$)"
    r"|\b(?:translat\w+|proofread\w*|rewrite|paraphrase|summari[sz]e|rephrase|shorten|polish|correct (?:this|the)"
    r"|fix (?:this|the) (?:text|grammar)|\u00fcbersetze?n?|korrigiere|traduce|traduis|traduza?|corrige|corrija"
    r"|formuliere|reformule|fasse|resume|resuma)\b[^:\n]{0,100}(?::|\n)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(
    r"(?<!\bmr)(?<!\bdr)(?<!\bst)(?<!\bms)(?<!\bmrs)(?<!\bprof)(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\d\b)\.(?=[\s)\"'\u00bf\u00a1]|\Z)"
    r"|(?<=\d)\.(?=\s*(?:\n|\Z)|\s+[A-Z\u00c0-\u00dd])|[!?\u2026]+|\.\.+|\n+|[\U0001f300-\U0001faff\u2600-\u27bf\ufe0f]+|(?<=\s)[:;]-?[)(DP](?=\s|\Z)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TurnSentence:
    """A sentence of a turn from `start` on, without the mark that ends it."""

    text: str
    start: int
    is_question: bool = False

    @property
    def is_masked(self) -> bool:
        """Whether a part of it is quoted, code or handed over."""
        return MASK in self.text

    def split_clauses(self, joint: re.Pattern[str]) -> Iterator[tuple[int, int]]:
        """Where its clauses begin and end, by the words and marks that join them."""
        joints = [*joint.finditer(self.text)]
        starts = [0, *(each.end() for each in joints)]
        ends = [*(each.start() for each in joints), len(self.text)]
        return zip(starts, ends, strict=True)


@dataclass(frozen=True, slots=True)
class TurnText:
    """A turn as it was typed, the same with masks, and its sentences."""

    source: str
    plain: str
    sentences: tuple[TurnSentence, ...] = field(default=())

    @property
    def has_capitals(self) -> bool:
        """Whether its author writes names with a capital."""
        return any(map(str.isupper, self.plain.replace(" I ", " ").replace("I'", "")))

    def is_own(self, start: int, end: int) -> bool:
        """Whether nothing of this stretch was masked."""
        return MASK not in self.plain[start:end]


def read_turn(source: str) -> TurnText:
    """Read the form of a turn."""
    plain = mask_turn(source)
    return TurnText(source, plain, tuple(_split_sentences(plain)))


def mask_turn(source: str) -> str:
    """Mask code, quotes, links, pastes and what is handed over. Apostrophes and spaces are plain."""
    plain = _QUOTED.sub(lambda found: _mask(found[0]), source.translate(_CURLY))
    if handed := _HANDED_OVER.search(plain):
        plain = plain[: handed.start()] + _mask(plain[handed.start() :])
    if mail := _MAIL.search(plain):
        plain = plain[: mail.start()] + _mask(plain[mail.start() :])
    lines = plain.splitlines(keepends=True)
    pasted = [_PASTED_LINE.match(line) is not None for line in lines]
    keys = [_KEY_LINE.match(line) is not None for line in lines]
    has_keys = sum(keys) > 2
    out, is_letter = [], False
    for line, is_pasted, is_key in zip(lines, pasted, keys, strict=True):
        is_letter = is_letter or (_LETTER.match(line) is not None and not _OWN_LABEL.match(line))
        is_said = _SPEAKER.match(line) is not None and _OWN_LABEL.match(line) is None
        is_masked = is_letter or is_pasted or is_said or (has_keys and is_key)
        out.append(_mask(line) if is_masked else line)
    return "".join(out)[:MAX_READ_CHARS].ljust(len(source), MASK)


def _mask(text: str) -> str:
    return re.sub(r"[^\n]", MASK, text)


def _split_sentences(plain: str) -> Iterator[TurnSentence]:
    start = 0
    ends = [*((found.start(), found.end(), found[0]) for found in _SENTENCE_END.finditer(plain))]
    for end, after, mark in [*ends, (len(plain), len(plain), "")]:
        begin = end - len(plain[start:end].lstrip(" \n*-#>\u00bf\u00a1\u2022\r"))
        text = plain[begin:end].rstrip()
        if text.strip(MASK):
            yield TurnSentence(text, begin, "?" in mark)
        start = after
