"""Words of turns and of claims, made comparable: what the checks of claims look at. No language is parsed here."""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from agentmem.extraction.recalled_text import recalled_lines
from agentmem.text.tokenizer import tokenize

LANGUAGES = ("english", "german", "spanish", "french", "portuguese")
MIN_WORDS_FOR_SLIPS = 5  # of a quote in which a slip is overlooked
MIN_QUOTE_RATIO = 0.8  # words of such a quote that are in the turn, in their order
MAX_ALIGNED_WORDS = 600  # of a turn in which a quote with slips is sought: the search is quadratic
MAX_CACHED_WORDS = 20_000
MIN_VOTE_RATIO = 0.34  # function words of a language against those of the language that has most
LANGUAGE_GROUPS = 7  # groups of translations that name a language; they come first

# Scripts without spaces between words: each character counts as a word.
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+(?:['’.@-][^\W_{_UNSPACED}]+)*")
_QUOTE_LABEL = re.compile(r"^\s*\w{1,6}\s*:\s*(?=[\"“«„])")
_GAP = re.compile(r"…|\.\.\.|\[…\]")
_LOG_LEVELS = "ERROR|WARN|WARNING|INFO|DEBUG|FATAL|TRACE|SELECT|INSERT|UPDATE"
_HEADERS = "From|To|Cc|Subject|Date|User|Assistant|System|Human|AI|Bot|Agent|Customer"
_FOREIGN = (
    re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*[=:{(][^`\n]*`", re.DOTALL),
    re.compile(
        rf"^[ \t]*(?:>|\$ |[{{\[<]|(?:{_LOG_LEVELS})\b|(?:{_HEADERS})\s*:|\d{{4}}-\d\d-\d\d[ T]\d\d:).*$", re.MULTILINE
    ),
    re.compile(r"^[ \t]*(?:From|Subject|Betreff|Von|Asunto|Objet|Assunto)\s*:.*", re.MULTILINE | re.DOTALL),
    # three words or more between quotation marks
    re.compile(r"[\"“„«](?:[^\"“”„«»\s]+\s+){2,}[^\"“”„«»]*[\"”“»]"),
)
_HANDED_OVER = re.compile(r"(?:^|[.!?\n])([^.!?\n:]{2,60}):(?=\s)")
MAX_HANDOVER_WORDS = 4  # of a clause among which the word of handing over stands: "Please proofread this:"


@dataclass(frozen=True, slots=True)
class WordLists:
    """The cues of all languages: `lists` by name, `kin` and `cues` by slot, `same` are groups of translations.

    `slots` are groups of slots by what their values have in common; the first `same` are the names of languages.
    """

    lists: Mapping[str, frozenset[str]]
    kin: Mapping[str, frozenset[str]]
    cues: Mapping[str, tuple[str, ...]]
    same: Sequence[frozenset[str]]
    slots: Mapping[str, frozenset[str]]

    def __getitem__(self, name: str) -> frozenset[str]:
        return self.lists.get(name, frozenset())

    @property
    def language_names(self) -> frozenset[str]:
        """The names of languages, in all languages."""
        return frozenset().union(*self.same[:LANGUAGE_GROUPS])

    @property
    def all_kin(self) -> frozenset[str]:
        """Every word for what a person or a pet is to somebody."""
        return self["others"].union(*self.kin.values())


@cache
def load_words(languages: tuple[str, ...] = LANGUAGES) -> WordLists:
    """The word lists of these languages, read once."""
    folder = files(__package__).joinpath("words")
    lists: dict[str, set[str]] = {}
    kin: dict[str, set[str]] = {}
    for language in languages:
        for name, words in json.loads(folder.joinpath(f"{language}.json").read_text(encoding="utf-8")).items():
            for slot, own in words.items() if isinstance(words, dict) else ():
                kin.setdefault(slot, set()).update(_split(own))
            if isinstance(words, str):
                lists.setdefault(name, set()).update(_split(words))
    slots = json.loads(folder.joinpath("slots.json").read_text(encoding="utf-8"))
    return WordLists(
        {name: frozenset(words) for name, words in lists.items()},
        {slot: frozenset(words) for slot, words in kin.items()},
        {slot: tuple(_split(words)) for slot, words in slots["cues"].items()},
        [frozenset(_split(group)) for group in slots["same"]],
        {name: frozenset(group.split("|")) for name, group in slots["groups"].items()},
    )


def find_languages(text: str) -> tuple[str, ...]:
    """The languages of which a text has function words; all of them where it has none of any.

    A word that several languages share counts for each by its share, so that a few such words name no language.
    """
    votes = dict.fromkeys(LANGUAGES, 0.0)
    for word in list_words(text):
        found = [each for each in LANGUAGES if word in load_words((each,))["function"]]
        for each in found:
            votes[each] += 1 / len(found)
    most = max(votes.values())
    return tuple(each for each in LANGUAGES if votes[each] >= MIN_VOTE_RATIO * most) if most else LANGUAGES


def _split(words: str) -> list[str]:
    return [fold(word) for word in words.split("|")]


@lru_cache(maxsize=MAX_CACHED_WORDS)
def fold(text: str) -> str:
    """In small letters without accents, with one kind of apostrophe."""
    plain = unicodedata.normalize("NFKD", text.replace("’", "'").replace("‘", "'").replace("ʼ", "'").casefold())
    return "".join(character for character in plain if not unicodedata.combining(character))


def list_words(text: str) -> list[str]:
    """The words of a text, folded and without the possessive; none for a text without letters and digits."""
    return [word.removesuffix("'s") if len(word) > 4 else word for word in WORD.findall(fold(text))]


def list_content_words(text: str, words: WordLists | None = None) -> list[str]:
    """The words of a text that are neither function words nor negations; of all languages by default."""
    lists = words or load_words()
    empty = lists["function"] | lists["negation"]
    return [word for word in list_words(text) if word not in empty and word.partition("'")[0] not in empty]


def has_words(text: str, *names: str, words: WordLists | None = None) -> bool:
    """Whether a word, or several in a row, of one of the named lists stands in a text; of all languages by default."""
    line = f" {' '.join(WORD.findall(fold(text)))} "
    return any(f" {word} " in line for name in names for word in (words or load_words())[name])


@lru_cache(maxsize=MAX_CACHED_WORDS)
def is_alike(one: str, other: str) -> bool:
    """Whether two words are forms of one: the same stem, or the same beginning with little behind it."""
    if one == other or (one.isascii() and other.isascii() and tokenize(one) == tokenize(other) != []):
        return True
    shorter, longer = sorted((len(one), len(other)))
    shared = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    is_prefix = shared >= 3 and shared == shorter and longer - shorter <= 2
    return is_prefix or (shared >= 4 and longer - shared <= min(shared - 1, 4))


def is_said(word: str, said: frozenset[str]) -> bool:
    """Whether a folded word, a form of it or a translation of it is among the words that were said."""
    if word in said or any(word in group and group & said for group in load_words().same):
        return True
    return not word.isdigit() and any(is_alike(word, each) for each in said)


def split_compounds(words: Iterable[str]) -> frozenset[str]:
    """Words with the parts of those that are joined: "father-in-law", "l'eau"."""
    return frozenset(part for word in words for part in (word, *re.split(r"['.@-]", word)) if part)


def find_quote(text: str, quote: str) -> tuple[int, int] | None:
    """Where a quote stands in a text, in characters; None where it does not.

    Words are compared, so marks, case and accents do not count, nor a label before the quote. "…" joins stretches that
    follow each other. From five words on, four in five in their order are enough.
    """
    said = [(fold(found[0]), found.start(), found.end()) for found in WORD.finditer(text)]
    words, spans, start = [word for word, _, _ in said], list[tuple[int, int]](), 0
    for sought in filter(None, (WORD.findall(fold(piece)) for piece in _GAP.split(_QUOTE_LABEL.sub("", quote)))):
        at = _find_run(words, sought, start)
        if at is None:
            return None
        start = min(at + len(sought), len(words))
        spans.append((said[at][1], said[start - 1][2]))
    return (spans[0][0], spans[-1][1]) if spans else None


def _find_run(words: Sequence[str], sought: Sequence[str], start: int) -> int | None:
    """Where these words follow each other, from a place on, with few slips."""
    length = len(sought)
    places = range(start, len(words) - length + 1)
    if (
        exact := next((at for at in places if words[at] == sought[0] and words[at : at + length] == sought), None)
    ) is not None:
        return exact
    if length < MIN_WORDS_FOR_SLIPS or len(words) > MAX_ALIGNED_WORDS:
        return None
    matcher = difflib.SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(sought)
    best, best_ratio = None, MIN_QUOTE_RATIO
    for at in range(start, max(start + 1, len(words) - length + 2)):
        matcher.set_seq1(words[at : at + length])
        if matcher.quick_ratio() >= best_ratio and (ratio := matcher.ratio()) >= best_ratio:
            best, best_ratio = (at, ratio) if best is None or ratio > best_ratio else (best, best_ratio)
    return best


def mask_foreign(text: str) -> str:
    """The text with blanks, of the same length, for what its author did not say.

    That is code, quoted lines, logs, mail headers, transcripts, three words or more between quotation marks, what is
    handed over for work ("Please proofread: …"), and what recall had put there.
    """
    spans = [found.span() for pattern in _FOREIGN for found in pattern.finditer(text)]
    spans += [
        (found.end(), len(text))
        for found in _HANDED_OVER.finditer(text)
        if has_words(" ".join(found[1].split()[:MAX_HANDOVER_WORDS]), "handover")
    ]
    for begin, end in (*spans, *recalled_lines(text)):
        text = text[:begin] + re.sub(r"[^\n]", " ", text[begin:end]) + text[end:]
    return text
