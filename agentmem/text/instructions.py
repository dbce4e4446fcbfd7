"""Instructions in the one form in which they are compared: what is to be done, and whether it is to be done or not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256

from agentmem.text.names import normalised_claim
from agentmem.text.words import terms

# What may stand before an instruction without changing what it says.
_LEAD = re.compile(
    r"(?:(?:please|also|and|but|so|ok|okay|hey|hi|well|now|then|just|really|always|ever|kindly|thanks|again|assistant)\b"
    r"|(?:from now on|from here on(?: out)?|from this point on|going forward|moving forward|henceforth|every time"
    r"|in (?:the )?future|for (?:the )?future(?: reference)?)\b"
    r"|(?:make|be) sure (?:that you|you|to)\b|remember to\b"
    r"|you (?:should|must|shall|need to|have to|are to|will)\b"
    r"|i(?:'d| would)?(?: really)? (?:want|like|need|prefer|expect|ask|asked|told) (?:you )?"
    r"(?:to\b|(?=not to\b|never\b))"
    r"|to (?=always\b|never\b|not\b))[\s,:.!-]*"
)
_DENIED = re.compile(
    r"(?:never|(?:do|did) ?n[o']t(?: ever)?|don't(?: ever)?|not to|not|no more|no|avoid|stop|quit|refrain from|without"
    r"|mustn't|shouldn't|won't|must not|should not)(?![\w'-])[\s,:]*"
)
_TRAIL = re.compile(
    r"[\s,.!;:]*(?:\b(?:please|thanks|thank you|thx|from now on|going forward|in (?:the )?future|anymore|any more|again"
    r"|ok|okay|at all|always)\b|[.!,;:])\s*$"
)
_WORD = re.compile(r"\w+(?:[.'-]\w+)*")
_NOT = frozenset({"not", "no", "never", "without", "nor", "neither", "none", "cannot", "except", "unless"})
_EMPTY = frozenset({
    "a", "an", "the", "my", "your", "our", "me", "us", "you", "i", "please", "just", "really", "very", "always",
    "ever", "any", "some", "of", "to",
})  # fmt: skip
_GENERIC = frozenset(
    {"use", "add", "put", "includ", "give", "write", "do", "make", "show", "be", "with", "ani", "so", "in"}
)
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_NUMBER_WORDS = frozenset({
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "twenty", "thirty", "fifty", "hundred", "thousand",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Instruction:
    """What an instruction says: `words` in order, stemmed, negations in them as "not"; `negative` when it forbids."""

    negative: bool
    words: tuple[str, ...]

    @property
    def content(self) -> frozenset[str]:
        """The words that tell it from others, without verbs such as use and add that nearly all have."""
        told = frozenset(self.words)
        return told - _GENERIC or told

    @property
    def shape(self) -> tuple[str, ...]:
        """The words with every number as "#"."""
        return tuple("#" if _NUMBER.fullmatch(word) or word in _NUMBER_WORDS else word for word in self.words)


def read_instruction(text: str) -> Instruction:
    """Read an instruction; polite and general words around it say nothing."""
    left, denied = normalised_claim(text), False
    while True:
        lead = _LEAD.match(left)
        if lead and lead.end() < len(left):
            left = left[lead.end() :]
            continue
        no = _DENIED.match(left)
        if no is None or no.end() == len(left):
            break
        left, denied = left[no.end() :], not denied
    while (trail := _TRAIL.search(left)) and trail.start() > 0:
        left = left[: trail.start()]
    words: list[str] = []
    for word in _WORD.findall(left):
        if word in _NOT or word.endswith("n't"):
            words.append("not")
        elif word not in _EMPTY:
            words += terms(word) or [word]
    return Instruction(denied, tuple(words) or (left,))


def instruction_hash(instruction: str, trigger: str = "") -> str:
    """What two instructions share that say the same, SHA-256 in hexadecimal: what to do, or not, and when."""
    read, when = read_instruction(instruction), read_instruction(trigger).words if trigger.strip() else ()
    text = "\x1e".join(("not" if read.negative else "do", "\x1f".join(read.words), "\x1f".join(when)))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
