"""Text as frames read it: small letters, contractions written out, quoted material left out, with the way back.

People type "im", "I'm" and "i am". Frames see one form; values are cut from the text as it was typed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

MAX_READ_CHARS = 20_000  # of a turn; what follows is not read
MAX_SENTENCE_CHARS = 600

_TOKEN = re.compile(r"[^\W_]+(?:['\u2019\u02bc`][^\W_]+)*['\u2019]?|\s+|.", re.DOTALL)
_CONTRACTIONS = {
    "i'm": "i am",
    "im": "i am",
    "i've": "i have",
    "ive": "i have",
    "i'll": "i will",
    "can't": "can not",
    "cant": "can not",
    "cannot": "can not",
    "won't": "will not",
    "wont": "will not",
    "ain't": "is not",
    "aint": "is not",
    "he's": "he is",
    "hes": "he is",
    "she's": "she is",
    "shes": "she is",
    "it's": "it is",
    "that's": "that is",
    "thats": "that is",
    "they're": "they are",
    "theyre": "they are",
    "we're": "we are",
    "you're": "you are",
    "youre": "you are",
    "gonna": "going to",
    "wanna": "want to",
    "gotta": "have to",
    "let's": "let us",
}
_BARE_NEGATIONS = frozenset(
    [
        "dont",
        "doesnt",
        "didnt",
        "isnt",
        "arent",
        "wasnt",
        "werent",
        "havent",
        "hasnt",
        "hadnt",
        "couldnt",
        "wouldnt",
        "shouldnt",
    ]
)
_SUFFIXES = {"n't": " not", "'re": " are", "'ve": " have", "'ll": " will", "'d": " would"}

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_QUOTED = re.compile('"[^"]*"|\u201c[^\u201d]*\u201d|\u201e[^\u201c\u201d]*[\u201c\u201d]|\u00ab[^\u00bb]*\u00bb')
_PASTED_LINE = re.compile(
    r"^[ \t]*(?:>.*|\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d.*"
    r"|\[?(?:INFO|DEBUG|WARN(?:ING)?|ERROR|FATAL|CRITICAL|TRACE|NOTICE)\b.*"
    r"|(?:error|warning|info|debug|fatal|stdout|stderr)(?: \w+)?:.*"
    r"|(?:User|Assistant|Human|AI|Bot|System|Agent|Customer|From|To|Subject|Cc)\s*:.*"
    r"|(?:\$|>>>|\.\.\.|#!|//|/\*|\*/|--|@@|\+\+\+|---) ?\S.*|[\w.-]+@[\w.-]+[:~ ].*[$#] .*"
    r"|[{\[<](?:\s*\"|\s*$|/?\w+[^>]*>).*|\"[\w-]+\"\s*:.*|(?:\w+\.)*\w+(?:Error|Exception)\b.*"
    r"|(?:at |File \"|Traceback|#include|import |from \S+ import |def |class |return |const |let |var |SELECT ).*)$",
    re.MULTILINE,
)
# Lines of keys and values, and letters from a greeting to the name below, are somebody's file or mail.
_PASTED_BLOCK = re.compile(
    r"(?:^[ \t]*[A-Za-z_][\w.-]*[ \t]*[:=][ \t]*\S.*(?:\n|\Z)){3,}"
    r"|^(?:dear|hi|hello|hallo|liebe[rs]?|sehr geehrte[r]?|hola|estimad[oa]|querid[oa]|bonjour|cher|ch\u00e8re)\b"
    r"[^\n]{0,40},\s*\n[\s\S]*?"
    r"^\s*(?:best|kind regards|regards|cheers|sincerely|yours|thanks|viele gr\u00fc\u00dfe|liebe gr\u00fc\u00dfe|mfg"
    r"|saludos|un saludo|cordialement|abrazos)\b[^\n]{0,20}\n[^\n]{1,40}$"
    r"|^[ \t]*(?:dear|liebe[r]?|sehr geehrte[r]?|estimad[oa]s?|querid[oa]s?|ch[e\u00e8]re?s?|caro|cara|prezad[oa])\b"
    r"[^\n.!?;:]{1,40},(?=\s)[\s\S]*\Z"
    r"|(?:^[ \t]*(?:from|to|subject|date|cc|von|an|betreff|datum|de|para|asunto|objet)[ \t]*:[^\n]*\n){2}[\s\S]*\Z"
    r"|^[ \t]*(?:commit [0-9a-f]{7,40}\b|Author: |Reviewer #?\d|@\w+\{|\\begin\{|diff --git )[\s\S]*\Z"
    r"|\b(?:logs?|output|error|e-?mail|mail|message|text|article|post|paragraph|abstract|bio|cv|transcript|chat|letter"
    r"|stack trace|readme|ausgabe|fehler|nachricht|salida|registro|mensaje|correo|sortie)\b[^.!?\n]{0,40}:\s*\n"
    r"[\s\S]*\Z",
    re.MULTILINE | re.IGNORECASE,
)
_HANDED_OVER = re.compile(
    r"\b(?:translate|proofread|rewrite|paraphrase|summari[sz]e|tighten|shorten|write|draft|compose|say|repeat|format|review|fix|correct|edit|explain"
    r"|\u00fcbersetze?|korrigiere?|fasse|formuliere|traduce|traduis|traduisez|traduza|traduz|corrige|corrija|resume|r\u00e9sume|reescribe)\b"
    r"[^.!?\n]{0,80}:.*\Z"
    r"|\b(?:put|tell (?:him|her|them|mr|mrs|ms)|text (?:him|her|them)|message (?:him|her|them)|write (?:him|her|them))"
    r"\b[^.!?\n]{0,20}:.*\Z"
    r"|\b(?:got this|this came|came this|look at this|here is what|got a (?:text|letter|message|email))\b"
    r"[^.!?\n]{0,60}[.:!]\s+"
    r"(?:dear|hi|hello|hiya|hey|to whom)\b.*\Z"
    r"|\b(?:letter|note|message|text|e-?mail|card|sent (?:this|me|us)|reply|tidy|write|wrote|polish)\b"
    r"[^\n]{0,100}?[.?!:]\s+(?:dear|hi|hello|hiya|hey)\b.*\Z"
    r"|\b(?:letter|note|message|text|e-?mail|card|write|put)\b[^\n]{0,100}?"
    r"\b(?:say|saying|says|put|goes|along the lines of)[,:]? (?-i:(?=(?:I|My|We|Our|Dear|Hi)\b)).*\Z",
    re.IGNORECASE | re.DOTALL,
)
# Words of a first paragraph that hands over what follows it, unless that is about oneself.
_HANDS_OVER = re.compile(
    r"\b(?:past(?:e|ed|ing)|wrote|writes|sent|e-?mail|mail|message|letter|article|version|example|bio|commit|review\w*|paper"
    r"|abstract|lease|contract|ad|post|logs?|config|excerpt|section|paragraph|translate|summari[sz]e|proofread|rewrite"
    r"|reply|respond|got this|what do you think"
    r"|traduc\w+|resum\w+|contesto|respondo|me lleg\u00f3|correo|mensaje|correg\w+"
    r"|\u00fcbersetz\w*|antwort\w*|schreibt|schrieb|nachricht|k\u00fcrz\w+|korrigier\w*"
    r"|relire|traduis\w*|extrait|message|courriel|corrige\w*|r\u00e9sume\w*|traduz\w*|mensagem)\b",
    re.IGNORECASE,
)
_ABOUT_ONESELF = re.compile(
    r"\b(?:about (?:me|myself|us)|my (?:situation|profile|background)|sobre m\u00ed|\u00fcber mich|de moi|sobre mim)\b",
    re.IGNORECASE,
)
MAX_HANDOVER_CHARS = 400  # of a first paragraph that hands over what follows
_LIST_NUMBER = re.compile(r"^[ \t]*\d{1,5}[.):][ \t]+(?=\S)", re.MULTILINE)
# In a sentence with one of these "im" is not "I'm".
_GERMAN = re.compile(
    r"\b(?:ich|und|der|das|ist|nicht|wir|seit|f\u00fcr|mit|zum|zur|eine?|dem|den|sind|habe?)\b", re.IGNORECASE
)
_SENTENCE_END = re.compile(
    r"(?<!\bmr)(?<!\bdr)(?<!\bst)(?<!\bmrs)(?<!\bprof)(?<!\bms)(?<!\bno)(?<![^\w][a-z])"
    # "new number. 07700 900 321", "it got put back. 1st April"
    r"(?:(?<!\bnumber)(?<!\bput back)(?<!\bmoved)(?<!\bnew mobile)|(?!\.\s*\d))"
    r"[.!?\u2026]+(?=[\s)\"'\u00bf\u00a1]|\Z)"
    r"(?!(?<=\d\.)\s(?:Januar|Februar|M\u00e4rz|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)\b)"
    r"|\n+|[\U0001f300-\U0001faff]+",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PlainSentence:
    """A sentence in plain form. `offsets` has for each character of `plain` its span in the turn."""

    plain: str
    offsets: tuple[tuple[int, int], ...]
    source: str
    is_question: bool
    is_numbered: bool = False  # a point of a numbered list

    def get_typed(self, start: int, end: int) -> str:
        """The stretch of the turn behind a stretch of the plain form, as it was typed."""
        begin, stop = self.span(start, end)
        return self.source[begin:stop]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a stretch of the plain form stands in the turn."""
        return (self.offsets[start][0], self.offsets[end - 1][1]) if end > start else (0, 0)

    def with_words(self, start: int, end: int, words: str) -> PlainSentence:
        """With other words in a stretch of the plain form; they stand where those before them stood in the turn."""
        before = self.offsets[start] if start < len(self.offsets) else self.offsets[-1]
        at = (before[0], before[0] if start == end else self.offsets[end - 1][1])
        inserted = (at,) * len(words)
        return replace(
            self,
            plain=self.plain[:start] + words + self.plain[end:],
            offsets=(*self.offsets[:start], *inserted, *self.offsets[end:]),
        )

    @property
    def has_capitals(self) -> bool:
        """Whether the turn was typed with capitals: an "I" and a first letter may be the telephone's."""
        return any(map(str.isupper, re.sub(r"\bI\b|(?:^|[.!?\n]\s*)\w", "", self.source)))

    def is_capitalized(self, start: int) -> bool:
        """Whether the word there was typed with a capital."""
        return self.source[self.offsets[start][0]].isupper()


def blank_pasted_text(text: str) -> str:
    """The text with white space in place of code, pastes and what is handed over in paragraphs; offsets stay."""
    for pattern in (_CODE, _PASTED_BLOCK, _PASTED_LINE):
        text = pattern.sub(lambda found: "".join("\n" if each == "\n" else " " for each in found[0]), text)
    return _blank_material(text)


def split_plain_sentences(text: str) -> list[PlainSentence]:
    """The sentences of a turn that its author says, without quotes, code, pastes and texts handed over for work."""
    text = text[:MAX_READ_CHARS]
    masked = text
    for pattern in (_CODE, _QUOTED, _PASTED_BLOCK, _PASTED_LINE, _HANDED_OVER):
        masked = pattern.sub(_blank, masked)
    masked = _blank_material(masked)
    numbered = {found.end() for found in _LIST_NUMBER.finditer(masked)}
    masked = _LIST_NUMBER.sub(lambda found: " " * len(found[0]), masked)
    out, start = [], 0
    ends = [(found.start(), found.end(), "?" in found[0]) for found in _SENTENCE_END.finditer(masked)]
    for end, after, is_question in [*ends, (len(masked), len(masked), False)]:
        if masked[start:end].strip() and end - start <= MAX_SENTENCE_CHARS:
            begin = end - len(masked[start:end].lstrip())
            out.append(_make_sentence(masked, text, begin, end, is_question, begin in numbered))
        start = after
    return out


def _blank_material(text: str) -> str:
    """Without the paragraphs that the first one hands over; a last one in small letters is the author's again."""
    first, gap, rest = text.partition("\n\n")
    last = first.strip().splitlines()[-1:]
    if not gap or not last or len(first) > MAX_HANDOVER_CHARS:
        return text
    if not _HANDS_OVER.search(last[0]) or _ABOUT_ONESELF.search(first):
        return text
    start = rest.rfind("\n\n") + 2
    keep = rest[start:] if start > 1 and rest[start : start + 1].islower() else ""
    return first + gap + " " * (len(rest) - len(keep)) + keep


def _blank(found: re.Match[str]) -> str:
    """White space of the same length, so that offsets stay; a mark tells that something stood there."""
    return "\u2026".ljust(len(found[0]))[: len(found[0])]


def _make_sentence(
    masked: str, source: str, start: int, end: int, is_question: bool, is_numbered: bool
) -> PlainSentence:
    parts: list[str] = []
    offsets: list[tuple[int, int]] = []
    is_german = _GERMAN.search(masked, start, end) is not None
    for token in _TOKEN.finditer(masked, start, end):
        word = token[0].lower().replace("\u2019", "'").replace("\u02bc", "'").replace("`", "'")
        if word.isspace():
            word = " "
        expanded = word if is_german and word == "im" else _expand(word)
        same = len(expanded) == len(token[0])
        for number, character in enumerate(expanded):
            parts.append(character)
            at = token.start() + number
            offsets.append((at, at + 1) if same else (token.start(), token.end()))
    return PlainSentence("".join(parts), tuple(offsets), source, is_question, is_numbered)


def _expand(word: str) -> str:
    if found := _CONTRACTIONS.get(word):
        return found
    if word in _BARE_NEGATIONS:
        return f"{word[:-2]} not"
    for suffix, expanded in _SUFFIXES.items():
        if word.endswith(suffix) and len(word) > len(suffix):
            return word[: -len(suffix)] + expanded
    return word
