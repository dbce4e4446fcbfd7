"""Instructions in the one form in which they are compared: what is to be done, and whether it is to be done or not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256

from agentmem.text.names import normalize_claim
from agentmem.text.words import tokenize

# What may stand before an instruction without changing what it says.
_LEADING_PHRASE = re.compile(
    r"(?:(?:please|also|and|but|so|ok|okay|hey|hi|well|now|then|just|really|always|ever|kindly|thanks|again|"
    r"assistant)\b"
    r"|(?:from now on|from here on(?: out)?|from this point on|going forward|moving forward|henceforth|every time"
    r"|in (?:the )?future|for (?:the )?future(?: reference)?)\b"
    r"|(?:make|be) sure (?:that you|you|to)\b|remember to\b"
    r"|you (?:should|must|shall|need to|have to|are to|will)\b"
    r"|i(?:'d| would)?(?: really)? (?:want|like|need|prefer|expect|ask|asked|told) (?:you )?"
    r"(?:to\b|(?=not to\b|never\b))"
    r"|to (?=always\b|never\b|not\b))[\s,:.!-]*"
)
_NEGATION_PREFIX = re.compile(
    r"(?:never|(?:do|did) ?n[o']t(?: ever)?|don't(?: ever)?|not to|not|no more|no|avoid|stop|quit|refrain from|without"
    r"|mustn't|shouldn't|won't|must not|should not)(?![\w'-])[\s,:]*"
)
_TRAILING_PHRASE = re.compile(
    r"[\s,.!;:]*(?:\b(?:please|thanks|thank you|thx|from now on|going forward|in (?:the )?future|anymore|any more|again"
    r"|ok|okay|at all|always)\b|[.!,;:])\s*$"
)
_WORD = re.compile(r"\w+(?:[.'-]\w+)*")
_NEGATION_WORDS = frozenset({"not", "no", "never", "without", "nor", "neither", "none", "cannot", "except", "unless"})
_FILLER_WORDS = frozenset({
    "a", "an", "the", "my", "your", "our", "me", "us", "you", "i", "please", "just", "really", "very", "always",
    "ever", "any", "some", "of", "to",
})  # fmt: skip
_GENERIC_TERMS = frozenset(
    {"use", "add", "put", "includ", "give", "write", "do", "make", "show", "be", "with", "ani", "so", "in"}
)
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_NUMBER_WORDS = frozenset({
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "twenty", "thirty", "fifty", "hundred", "thousand",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class NormalizedInstruction:
    """What an instruction says: `terms` in order, stemmed, negations in them as "not"; `is_prohibition` when it
    forbids.
    """

    is_prohibition: bool
    terms: tuple[str, ...]

    @property
    def content_terms(self) -> frozenset[str]:
        """The words that tell it from others, without verbs such as use and add that nearly all have."""
        told = frozenset(self.terms)
        return told - _GENERIC_TERMS or told

    @property
    def number_masked_terms(self) -> tuple[str, ...]:
        """The words with every number as "#"."""
        return tuple("#" if _NUMBER.fullmatch(word) or word in _NUMBER_WORDS else word for word in self.terms)


def normalize_instruction(text: str) -> NormalizedInstruction:
    """Read an instruction; polite and general words around it say nothing."""
    left, denied = normalize_claim(text), False
    while True:
        lead = _LEADING_PHRASE.match(left)
        if lead and lead.end() < len(left):
            left = left[lead.end() :]
            continue
        no = _NEGATION_PREFIX.match(left)
        if no is None or no.end() == len(left):
            break
        left, denied = left[no.end() :], not denied
    while (trail := _TRAILING_PHRASE.search(left)) and trail.start() > 0:
        left = left[: trail.start()]
    words: list[str] = []
    for word in _WORD.findall(left):
        if word in _NEGATION_WORDS or word.endswith("n't"):
            words.append("not")
        elif word not in _FILLER_WORDS:
            words += tokenize(word) or [word]
    return NormalizedInstruction(denied, tuple(words) or (left,))


def hash_instruction(instruction: str, trigger: str = "") -> str:
    """What two instructions share that say the same, SHA-256 in hexadecimal: what to do, or not, and when."""
    read, when = normalize_instruction(instruction), normalize_instruction(trigger).terms if trigger.strip() else ()
    text = "\x1e".join(("not" if read.is_prohibition else "do", "\x1f".join(read.terms), "\x1f".join(when)))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
