"""Names, claims, instructions and numbers in a form that can be compared."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from agentmem.text.tokenizer import stop_words, tokenize


def _split(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _number(words: str, first: int = 0) -> dict[str, int]:
    return {word: number for number, word in enumerate(words.split(), first)}


_LATIN_ACCENT = re.compile(r"(?<=[a-z])[\u0300-\u036f]+")
_CLAIM_END = " .!?,;:…。、"
_QUOTES = {0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'}

# What may precede an instruction without changing its meaning.
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
_NEGATION_WORDS = _split("not no never without nor neither none cannot except unless")
_FILLER_WORDS = _split("a an the my your our me us you i please just really very always ever any some of to")
_GENERIC_TERMS = _split("use add put includ give write do make show be with ani so in")
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_NUMBER_WORDS = _split(
    "zero one two three four five six seven eight nine ten eleven twelve twenty thirty fifty hundred thousand"
)

_ONES = _number(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = {word: 10 * n for word, n in _number("twenty thirty forty fifty sixty seventy eighty ninety", 2).items()}
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_QUANTITY_WORDS = {"dozen": 12, "trio": 3, "single": 1, "once": 1}
_QUANTITY_WORDS |= dict.fromkeys(("couple", "twice", "both", "pair", "twins"), 2)
_ORDINALS = _number("first second third fourth fifth sixth seventh eighth ninth tenth", 1)
_COUNT_WORDS = {**_ORDINALS, "once": 1, "twice": 2, "dozen": 12}
_NUMBER_WORD_VALUES = {**_ONES, **_TENS, **_SCALES}
_NUMBER_SUFFIXES = {"k": 1_000, "m": 1_000_000, "bn": 1_000_000_000}

_DIGITS = re.compile(r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d{1,30})(\.\d{1,20})?(?:(k|m|bn)\b)?", re.IGNORECASE)
_WORD_TOKEN = re.compile(r"[a-z]+|[^a-z\s-]", re.IGNORECASE)
_NAME_WORD = re.compile(r"[^\W\d_](?:[^\W_]|['’](?!s\b))*")

_AFTER_LEADING_NAME = re.compile(
    r"['’]s\b|['’]\s|\W*$|\s(?:and|or|with|from|of|\w+(?:ed|s)|[^\W\da-z_]\w*|went|had|got|took|bought|met|came"
    r"|made|saw|did"
    r"|gave|found|left|became|began|grew|ate|wrote|read|ran|told|said|lost|won|sold|will|would|can|could|might|may"
    r"|never|just"
    r"|also|still|once|now|used|built|taught|led|spent|kept|felt|thought|knew|broke|chose|drove|flew)\b"
)
MONTHS = tuple(_number("january february march april may june july august september october november december"))
WEEKDAYS = tuple(_number("monday tuesday wednesday thursday friday saturday sunday"))
_WRITTEN_DATE = re.compile(
    r"\b(?P<iso>\d{4}-\d\d(?:-\d\d)?)\b"
    r"|(?:\b(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:\s?[-–]\s?\d{1,2})?\s(?:of\s)?)?"
    r"\b(?P<month>" + "|".join(MONTHS) + r")\b(?:\s(?P<day_after>\d{1,2})(?:st|nd|rd|th)?\b)?(?:,?\s(?P<year>\d{4})\b)?"
    r"|\b(?P<bare>(?:19|20)\d\d)\b",
    re.IGNORECASE,
)
_NON_NAMES = frozenset(("user", "users", "agent", "assistant", "the", "i", "mr", "mrs", "ms", "dr", *MONTHS, *WEEKDAYS))


def slugify(name: str) -> str:
    """Return a name as letters, digits and single hyphens, the same for all its spellings in case, accents and spaces.

    Letters of every script are kept; Latin letters lose their accents. `C++` becomes `c-plus-plus` and `C#` `c-sharp`.
    A name of symbols alone gives their code points (`u1f389`); only an invisible one gives an empty string.
    """
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    folded = unicodedata.normalize("NFC", _LATIN_ACCENT.sub("", folded))
    folded = re.sub(r"(?<=\w)#(?!\w)", "-sharp", re.sub(r"(?<=[\w+])\+(?=\+*(?!\w))", "-plus", folded))
    kept = "".join(_slugify_character(character) for character in folded)
    return re.sub("-+", "-", kept).strip("-") or _code_points(name)


def normalize_claim(text: str) -> str:
    """Return a claim as it is compared: NFKC, case folded, white space and quotes plain, no punctuation at its end.

    Words, numbers and negations stay. A claim of punctuation alone is kept as it is.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    plain = " ".join(folded.translate(_QUOTES).split())
    return plain.rstrip(_CLAIM_END) or plain


def hash_claim(text: str) -> str:
    """Return the SHA-256 of the normalized claim, 64 hexadecimal digits."""
    return sha256(normalize_claim(text).encode("utf-8", "surrogatepass")).hexdigest()


def _slugify_character(character: str) -> str:
    category = unicodedata.category(character)
    if category[0] in "LNM":
        return character
    return "" if category == "Cf" else "-"


def _code_points(name: str) -> str:
    """The visible characters of a name without letters, by number."""
    visible = [c for c in name if not c.isspace() and unicodedata.category(c)[0] != "C"]
    return "-".join(f"u{ord(c):x}" for c in visible)


@dataclass(frozen=True, slots=True)
class NormalizedInstruction:
    """What an instruction says: `terms` in order, stemmed, negations in them as "not"; `is_prohibition` when it
    forbids.
    """

    is_prohibition: bool
    terms: tuple[str, ...]

    @property
    def content_terms(self) -> frozenset[str]:
        """The words that distinguish it, without common verbs such as use and add."""
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


def claimed_numbers(text: str) -> set[str]:
    """The numbers that a claim states, in digits or in English words; "one" is too often no number."""
    found = (
        *(plain for _, plain, _ in _parse_digit_numbers(text)),
        *(number for _, _, number in _parse_word_numbers(text)),
    )
    return {number for number in found if number != "1"}


def comparable_numbers(text: str) -> list[str]:
    """All numbers of a claim in their order, "one", ordinals and "once" among them: two claims differ where these do.

    How they are written makes no difference: "5k", "5,000" and "five thousand" are one number.
    """
    counted = (
        (m.start(), str(_COUNT_WORDS[m[0].lower()])) for m in _WORD_TOKEN.finditer(text) if m[0].lower() in _COUNT_WORDS
    )
    digits = ((start, scaled) for start, _, scaled in _parse_digit_numbers(text))
    words = ((start, number) for start, _, number in _parse_word_numbers(text))
    return [number for _, number in sorted((*digits, *words, *counted))]


def rewrite_numbers(text: str) -> str:
    """The text with each number in one form: 5000 for "5k" and "5,000", 25 for "twenty-five"; 0123 stays."""
    parts, at = [], 0
    for start, end, number in _parse_word_numbers(text):
        parts += [text[at:start], number]
        at = end
    return _DIGITS.sub(_rewrite_digits, "".join((*parts, text[at:])))


def _rewrite_digits(match: re.Match[str]) -> str:
    return next(_parse_digit_numbers(match[0]))[2] if match[3] else match[1].replace(",", "") + (match[2] or "")


def quotable_numbers(text: str) -> set[str]:
    """Every number that a text may be quoted with: also parts of larger ones, ordinals, and "a dozen", "twice"."""
    words = [word.lower() for word in _WORD_TOKEN.findall(text)]
    loose = (
        str(table[word])
        for table in (_NUMBER_WORD_VALUES, _QUANTITY_WORDS, _ORDINALS)
        for word in words
        if word in table
    )
    digits = (number for _, *both in _parse_digit_numbers(text) for number in both)
    return {*digits, *(number for _, _, number in _parse_word_numbers(text)), *loose}


def claimed_names(text: str) -> list[str]:
    """The capitalized words of a claim except stop words, months and days, each once, without 's.

    The first word counts where a name is likely: alone, before another one, before 's or a verb.
    """
    found = [match for match in _NAME_WORD.finditer(text) if match[0][0].isupper()]
    if found and found[0].start() == 0 and not _AFTER_LEADING_NAME.match(text, found[0].end()):
        del found[0]
    return list(dict.fromkeys(match[0] for match in found if _can_be_name(match[0])))


def comparable_names(text: str) -> list[str]:
    """The same for a comparison, where the first word of a claim always counts: two claims differ where these do."""
    found = (match[0] for match in _NAME_WORD.finditer(text) if match[0][0].isupper())
    return list(dict.fromkeys(filter(_can_be_name, found)))


def written_dates(text: str, year: int) -> Iterator[tuple[str, str]]:
    """Each date in a text as written, and as `moments.parse_date_range` reads it; `year` where none is written."""
    for match in _WRITTEN_DATE.finditer(text):
        iso = match["iso"] or match["bare"]
        if iso is None:
            day = match["day"] or match["day_after"]
            iso = f"{int(match['year'] or year):04}-{MONTHS.index(match['month'].lower()) + 1:02}"
            iso += f"-{int(day):02}" if day else ""
        yield match[0], iso


def comparable_words(text: str) -> set[str]:
    """The words of a text as names and claims are compared with it: folded, and as index terms."""
    return {match[0].casefold() for match in _NAME_WORD.finditer(text)} | set(tokenize(text))


def _can_be_name(word: str) -> bool:
    low = word.casefold()
    return low not in _NON_NAMES and low not in stop_words() and low not in _NUMBER_WORD_VALUES and bool(tokenize(word))


def _parse_digit_numbers(text: str) -> Iterator[tuple[int, str, str]]:
    """The position of each number in digits, the number, and the same with its suffix: 5 and 5000 for "5k"."""
    for match in _DIGITS.finditer(text):
        digits, fraction, suffix = match[1].replace(",", ""), (match[2] or "").rstrip("0").rstrip("."), match[3]
        number = (digits.lstrip("0") or "0") + fraction
        scaled = suffix and len(digits) < 15
        yield match.start(), number, f"{float(number) * _NUMBER_SUFFIXES[suffix.lower()]:.0f}" if scaled else number


def _parse_word_numbers(text: str) -> Iterator[tuple[int, int, str]]:
    """Where runs of number words begin and end, and their values: "twenty-five", "two hundred"."""
    total, part, begun, end = 0, 0, -1, -1
    for start, word in (*((match.start(), match[0].lower()) for match in _WORD_TOKEN.finditer(text)), (len(text), "")):
        value = _NUMBER_WORD_VALUES.get(word)
        if value is None:
            if begun >= 0 and word != "and":
                yield begun, end, str(total + part)
            if word != "and":
                total, part, begun = 0, 0, -1
            continue
        if word in ("thousand", "million", "billion"):
            total, part = total + max(part, 1) * value, 0
        elif word == "hundred":
            part = max(part, 1) * value
        elif _extends_number(part, value):
            part += value
        elif part:
            yield begun, end, str(total + part)
            total, part, begun = 0, value, start
        else:
            part = value
        begun, end = start if begun < 0 else begun, start + len(word)


def _extends_number(part: int, value: int) -> bool:
    """Whether a number word goes on with what was said: twenty | five, two hundred | forty."""
    ones_behind_tens = value < 10 and part >= 20 and part % 10 == 0
    return ones_behind_tens or (value < 100 and part >= 100 and part % 100 == 0)
