"""From text to terms: words and their stems, what marks a text, ranks over a few texts, and how many tokens it is.

English words are stemmed (Snowball) and stop words left out; Chinese, Japanese and Korean runs become bigrams;
identifiers, versions, addresses and paths are kept whole and in parts, so that `10.0.0.1` is found as such and
`getUserName` by "user name".
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from agentmem.core.plain_values import describe_value
from agentmem.errors import InvalidRecord
from agentmem.text.chunking import find_trailing_blocks

MAX_TERM_CHARS = 100
"""Characters of the longest index term; a longer word is cut, a longer identifier is indexed by its parts alone."""

_ASCII_WORD = re.compile(rf"([a-z0-9]{{1,{MAX_TERM_CHARS}}})[a-z0-9]*")

# `re` does not treat combining marks as word characters; without them Hindi or pointed Hebrew would split.
_COMBINING_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0\u0816-\u082d\u0859-\u085b\u08d3-\u0903\u093a-\u094f"
    "\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u09d7\u09e2\u09e3\u0a01-\u0a03\u0a3c-\u0a51\u0a70\u0a71\u0a81-\u0a83"
    "\u0abc-\u0acd\u0ae2\u0ae3\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bcd\u0bd7\u0c00-\u0c04\u0c3e-\u0c56\u0c81-\u0c83"
    "\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d\u0d57\u0d82\u0d83\u0dca-\u0ddf\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc"
    "\u0ec8-\u0ece\u0f18\u0f19\u0f35\u0f37\u0f39\u0f3e\u0f3f\u0f71-\u0f84\u0f86-\u0fbc\u102b-\u103e\u1056-\u1059\u135d-\u135f"
    "\u17b4-\u17d3\u1ab0-\u1ace\u1b00-\u1b04\u1b34-\u1b44\u1dc0-\u1dff\u3099\u309a\ua802\ua8e0-\ua8f1"
)
# A flag is two letters; of other emoji each is a word by itself, without the tone of a skin.
_EMOJI = (
    "[\U0001f1e6-\U0001f1ff]{2}"
    "|[\u2600-\u27bf\u2b1b-\u2b55\U0001f004-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
)
_WORD = re.compile(rf"[^\W_](?:[^\W_]|[{_COMBINING_MARKS}])*|{_EMOJI}")
_CJK_RUN = re.compile(
    "[\u3005-\u3007\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3\uf900-\ufaff\U00020000-\U000323af]+"
)
# Read before NFKC, which would glue a trademark sign to the name as letters. Joiners, soft hyphens and direction marks
# occur inside a word without being part of it; with plain quotes and dashes most English text takes the fast path.
_CHARACTER_REPLACEMENTS: dict[int, str | None] = {
    **dict.fromkeys([0xAD, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF, *range(0x202A, 0x202F)]),
    **dict.fromkeys([0x2120, 0x2122, 0x2013, 0x2014, 0x201C, 0x201D], " "),
    **dict.fromkeys([0x2018, 0x2019], "'"),
}

# Nearly all texts have no compound; this says so in a quarter of the time that looking for one takes.
_MAYBE_COMPOUND = re.compile(r"[-_@/\\+.,:]\w|[A-Za-z][A-Z]|\+\+|#")
_COMPOUND = re.compile(
    r"""(?<!\w)(?:
        https?://[^\s<>"'`]++
      | \w++(?:(?:[-.@/\\+]|::|:\\)\w++)++
      | [A-Za-z]\w*+\+\+(?!\w)
      | [A-Za-z]\#(?!\w)
      | [^\W_]*+_\w++
      | \d{1,3}(?:,\d{3})++(?!\w)
      | [A-Za-z][A-Za-z0-9]*[a-z][A-Z]\w*+
      | [A-Z]{2,}[a-z]{3}\w*+
      | (?<![A-Z][ ])(?:IT|WHO)(?!\w|'|[ ][A-Z]{2})
      )
      | (?<![\w.])\.[A-Za-z]\w++""",
    re.VERBOSE,
)
_PART = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"[A-Za-z]*(?:[a-z][A-Z]|[A-Z]{2}[a-z]{3})[A-Za-z0-9]*")
_CAMEL_PART = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+")
_DOTTED_CAPITALS = re.compile(r"[A-Z](?:\.[A-Z])+")
_THOUSANDS = re.compile(r"\d+(?:,\d+)+")
_GLUED_SENTENCES = re.compile(r"[\w'-]*[a-z]\.[A-Z][\w'-]*")
_CODE_MARKS = ("_", "@", "::", "\\", "++", "#", "://")
_PATH_STARTS = ("/", "~", "\\")
_ACRONYM_STOP_WORDS = ("IT", "WHO")

_QUESTION = re.compile(r"[?\u061f](?=\s|\Z)|\uff1f")
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_TIME_WORD = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|since|recently|lately|weeks?|weekends?|months?|years?|"
    r"decades?"
    r"|morning|afternoon|evening|night|\w+day|\d{4}"
    r"|january|february|march|april|may|june|july|august|september|october|november|december)\b"
)  # of folded text: ignoring case takes five times as long

TokenCounter = Callable[[str], int]
CHARS_PER_TOKEN = 4  # of a token


def tokenize(text: str) -> list[str]:
    """Return the index terms of `text` in order, with repeats; an empty list when it holds no word but stop words.

    Words are normalized (NFKC, case folded); English stop words are out and words of the letters a-z are stemmed. An
    emoji is a word. An identifier gives itself, unstemmed, and then its parts. The same function must read texts and
    queries.
    """
    if not text.isascii():
        text = _normalize(text)
    if not _MAYBE_COMPOUND.search(text):
        return _tokenize_plain(text)
    found: list[str] = []
    at = 0
    for match in _COMPOUND.finditer(text):
        if match.start() > at:
            found += _tokenize_plain(text[at : match.start()])
        found += _tokenize_compound(match.group(), text[max(0, match.start() - 1) : match.start()])
        at = match.end()
    found += _tokenize_plain(text[at:] if at else text)
    return found


_SAMPLE = (
    "Running runners ran easily; the national organization's happiest flies were relating generously, skies and dying "
    "news, controlling hopping trees, argument, communication, university, cement, replacement, vietnamization, early, "
    "only, inning, herring, succeed, exceed, proceed, yearly. Don't can't Müller's Straße naïve café Ελλάδα привет "
    "हिन्दी עִבְרִית 北京大学 東京タワー 한국어 ﬁne ½ Ⅷ １２ a\u00adb x\u200dy 😀👍🏽🇦🇹 don\u2019t well\u2013known "
    "getUserName user_name C++ C# v1.2.3 10.0.0.1 a/b/c.py https://example.org/x?y=1 ann@example.org U.S.A. 1,000 "
    "state-of-the-art std::vector #tag e.g. it is what we had and/or not"
)


@lru_cache(maxsize=1)
def tokenizer_fingerprint() -> str:
    """Identifies a tokenizer: 12 hexadecimal digits of a digest of the terms of a fixed sample.

    It changes with `tokenize`, and with the stemmer and the Unicode tables that it uses. A word index stores it,
    because this tokenizer's terms do not find those of another.
    """
    return hashlib.sha256("\n".join(tokenize(_SAMPLE)).encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def stop_words() -> frozenset[str]:
    """Return the English words that are never index terms, lower case."""
    from importlib.resources import files

    lines = files("agentmem.text").joinpath("stopwords.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFKC", text.translate(_CHARACTER_REPLACEMENTS))


def _tokenize_plain(text: str) -> list[str]:
    """The terms of a stretch without compounds."""
    if text.isascii():
        return [term for term in map(_to_term, _ASCII_WORD.findall(text.lower())) if term]
    folded = unicodedata.normalize("NFKC", text.casefold())
    return [term for word in _WORD.findall(folded) for term in _tokenize_word(word)]


def _tokenize_word(word: str) -> list[str]:
    """The terms of one folded word: CJK runs in it as bigrams, the text between them as words."""
    if word.isascii():
        return _tokenize_single(word)
    found: list[str] = []
    at = 0
    for run in _CJK_RUN.finditer(word):
        found += _tokenize_single(word[at : run.start()])
        found += _bigrams(run.group())
        at = run.end()
    return found + _tokenize_single(word[at:])


def _tokenize_single(word: str) -> list[str]:
    term = _to_term(word[:MAX_TERM_CHARS])
    return [term] if term else []


def _bigrams(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


@lru_cache(maxsize=1 << 16)
def _to_term(word: str) -> str:
    """The index term of one folded word; "" for a stop word."""
    if word in stop_words():
        return ""
    return _stem(word) if word.isascii() and word.isalpha() else word


def _stem(word: str) -> str:
    # A stemmer must not be used by two threads at once and costs a microsecond to make; its answers are cached above.
    import Stemmer

    return str(Stemmer.Stemmer("english").stemWord(word))


def _tokenize_compound(text: str, preceding: str) -> list[str]:
    """The terms of a compound that follows `preceding`: the whole where it is an identifier, then its parts."""
    if text in _ACRONYM_STOP_WORDS:
        return [text.lower()]
    if text.startswith(("http://", "https://")):
        text = text.rstrip(".,;:!?)]}*_")
    parts: list[str] = []
    for word in _PART.findall(text) if text.isascii() else [text]:
        parts += _tokenize_plain(word)
        if word.isascii() and _CAMEL.fullmatch(word):
            parts += [term for hump in _CAMEL_PART.findall(word) if (term := _to_term(hump.lower()))]
    whole = _identifier_term(text, preceding)
    return [whole, *parts] if 0 < len(whole) <= MAX_TERM_CHARS else parts


def _identifier_term(text: str, preceding: str) -> str:
    """What an identifier is indexed as besides its parts; "" for a compound of ordinary words (well-known, and/or)."""
    if _DOTTED_CAPITALS.fullmatch(text):
        return text.replace(".", "").lower()
    if _THOUSANDS.fullmatch(text):
        return text.replace(",", "")
    marked = any(mark in text for mark in _CODE_MARKS)
    numbered = not text.isalnum() and any(character.isdigit() for character in text)
    dotted = "." in text and max(map(len, text.split("."))) > 1 and not _GLUED_SENTENCES.fullmatch(text)
    path = text.count("/") > 1 or ("/" in text and preceding in _PATH_STARTS)
    return text.casefold().strip("/") if marked or numbered or dotted or path else ""


def is_reordering(first: str, second: str) -> bool:
    """Whether two texts are of the same words in another order: "the dog bit the man" is not "the man bit the dog"."""
    one, other = tokenize(first), tokenize(second)
    return one != other and sorted(one) == sorted(other)


@dataclass(frozen=True, slots=True)
class TextFeatures:
    """Features of one text.

    `word_count`: words between white space, trailing bracketed blocks included (the 90-word rule for neighbors adds
    these). `term_count`: index terms (the length in BM25). `ends_with_question`: the last sentence is a question;
    `contains_question`: some sentence is. `mentions_time`: it holds a word of time. The last three leave trailing
    bracketed blocks out.
    """

    word_count: int
    term_count: int
    ends_with_question: bool
    contains_question: bool
    mentions_time: bool


def extract_features(text: str) -> TextFeatures:
    """Return the features of `text`; all zero and false when it is empty."""
    return extract_features_and_terms(text)[0]


def extract_features_and_terms(text: str) -> tuple[TextFeatures, dict[str, int]]:
    """Return the features of `text`, and how often each index term occurs in it, in order of first occurrence."""
    found = tokenize(text)
    blocks = find_trailing_blocks(text)
    body = text[: blocks[0][0]] if blocks else text
    read = TextFeatures(
        word_count=len(text.split()),
        term_count=len(found),
        ends_with_question=body.rstrip().endswith(_QUESTION_MARKS),
        contains_question=_QUESTION.search(body) is not None,
        mentions_time=_TIME_WORD.search(body.casefold()) is not None,
    )
    return read, dict(Counter(found))


def rank_by_bm25(query: str, texts: Sequence[str], limit: int) -> list[int]:
    """Positions of the texts that share a term with the query, best first, later ones first among equals.

    BM25+ (Lv & Zhai 2011), which stays positive in small corpora; [] when nothing matches.
    """
    wanted = tokenize(query)
    documents = [tokenize(text) for text in texts]
    if not wanted or not any(documents):
        return []
    from rank_bm25 import BM25Plus  # lazy: not needed by recall

    scores = BM25Plus([document or [""] for document in documents]).get_scores(wanted)
    hits = [at for at, document in enumerate(documents) if set(wanted) & set(document)]
    return sorted(hits, key=lambda at: (-scores[at], -at))[:limit]


def estimate_tokens(text: str) -> int:
    """Tokens of a text that no model counted: a quarter of its characters, rounded up."""
    return -(-len(text) // CHARS_PER_TOKEN)


def check_counter(counter: TokenCounter | None) -> TokenCounter | None:
    """A caller's counter that raises InvalidRecord, field `counter`, where it returns no whole number from 0 on."""
    if counter is None:
        return None

    def count(text: str) -> int:
        tokens: object = counter(text)
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
            says = f"counter must return a whole number of tokens, 0 or more, got {describe_value(tokens)}"
            raise InvalidRecord(says, field="counter")
        return tokens

    return count
