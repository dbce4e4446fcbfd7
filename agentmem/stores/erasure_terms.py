"""What to look for where the text of erased records may stand in other rows, such as a query in the audit log."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from agentmem.text.tokenizer import tokenize

_COMPOUND = re.compile(r"\w(?:[\w'@./:+-]*\w)?")
_PIECE = re.compile(r"[^\W_]+")
_MIN_WORD_CHARS = 3
_MIN_PHRASE_CHARS = 12
_MAX_PHRASE_CHARS = 40  # characters compared: errors quote no more than the beginning of a text
_MAX_PHRASES = 256


_GENERATED = re.compile(
    # An id, or a reason that is one; all those of one minute begin alike.
    r"(merged into )?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)"  # a moment
    r"|[0-9a-f]{64}"  # the hash of a claim
)


def is_generated(text: str) -> bool:
    """Whether a string was made by us and says nothing: other rows may well hold the same."""
    return _GENERATED.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class ErasureTerms:
    """Pieces of erased text: words that only it held, beginnings of its longer strings, and all its strings."""

    words: frozenset[str] = frozenset()
    phrases: tuple[str, ...] = ()
    strings: frozenset[str] = frozenset()

    def matches_text(self, text: str) -> bool:
        """Whether a text holds one of the words or phrases."""
        return not self.words.isdisjoint(_words(text)) or self._has_phrase(text)

    def matches_json(self, text: str, *, words: bool = True) -> bool:
        """Whether JSON holds one of the phrases, or one of the words in a value: its keys are mostly our own."""
        keys, values = collect_json_strings(text)
        said = "\n".join(values)
        return (words and self.matches_text(said)) or self._has_phrase("\n".join((*keys, said)))

    def matches_json_value(self, text: str) -> bool:
        """Whether JSON holds one of the strings as a value, however short."""
        return any(value in self.strings for value in collect_json_strings(text)[1])

    def _has_phrase(self, text: str) -> bool:
        return any(phrase in text for phrase in self.phrases)


def surface_forms(texts: Iterable[str]) -> dict[str, list[str]]:
    """The words of some texts, lower case, each with the index terms it is found by; stop words are left out."""
    words = {word for text in texts for word in _words(text) if len(word) >= _MIN_WORD_CHARS}
    return {word: found for word in words if (found := tokenize(word))}


def _words(text: str) -> set[str]:
    text = text.lower()
    return {*_COMPOUND.findall(text), *_PIECE.findall(text)}


def build_erasure_terms(strings: Collection[str], words: Iterable[str]) -> ErasureTerms:
    """The needles for these strings and the words that are left nowhere else."""
    long = sorted(
        {text[:_MAX_PHRASE_CHARS] for text in strings if len(text) >= _MIN_PHRASE_CHARS},
        key=lambda text: (-len(text), text),
    )
    return ErasureTerms(frozenset(words), tuple(long[:_MAX_PHRASES]), frozenset(strings))


def collect_json_strings(text: str) -> tuple[list[str], list[str]]:
    """The keys and the string values of a JSON text, nested ones included."""
    keys: list[str] = []
    values: list[str] = []
    open_values = [json.loads(text)]
    while open_values:
        value = open_values.pop()
        if isinstance(value, str):
            values.append(value)
        elif isinstance(value, dict):
            keys.extend(value)
            open_values.extend(value.values())
        elif isinstance(value, list):
            open_values.extend(value)
    return keys, values


def collect_user_texts(payloads: Sequence[tuple[Any, ...]]) -> set[str]:
    """What callers wrote in these records, given as rows whose third column is a payload; what we made is left out."""
    return {
        text
        for row in payloads
        for value in json.loads(row[2]).values()
        for text in chain(*collect_json_strings(json.dumps(value)))
        if not is_generated(text)
    }


def has_erased_content(receipt: str, erasure_terms: ErasureTerms, ids: Collection[str]) -> bool:
    """Whether a receipt (JSON) names one of these records or holds erased text."""
    return any(json.dumps(name) in receipt for name in ids) or erasure_terms.matches_json(receipt)
