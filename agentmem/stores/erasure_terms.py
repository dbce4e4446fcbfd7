"""What to search where other rows may hold text of erased records, such as a query in the audit log."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from agentmem.text.tokenizer import tokenize

_COMPOUND = re.compile(r"\w(?:[\w'@./:+-]*\w)?")
_PIECE = re.compile(r"[^\W_]+")
_MIN_WORD_CHARS = 3
MIN_QUOTE_CHARS = 12  # of a text that is looked for in rows that do not refer to its record: "yes" is anybody's
_DERIVED_KINDS = ("Synopsis", "Gloss", "Community")  # made of other records; a gloss has the id of its turn
# What these fields of records hold are ids and labels, which other rows hold for reasons of their own.
_LABEL_FIELDS = frozenset(
    {
        "agent_id",
        "blocked_by",
        "certainty",
        "conversation_id",
        "conversation_ids",
        "depends_on",
        "doubt_spans",
        "edge_kind",
        "embedding",
        "entity_ids",
        "extractor",
        "fact_id",
        "given_id",
        "goal_id",
        "goal_status",
        "keys",
        "memory_type",
        "missed",
        "model",
        "parent_id",
        "promoted_from",
        "promoted_to",
        "pursued_in",
        "record_ids",
        "review_status",
        "role",
        "session_id",
        "slot",
        "source",
        "source_spans",
        "source_turn_ids",
        "status",
        "subject_entity_id",
        "superseded_by",
        "supersedes",
        "tags",
        "target",
        "temporal_context",
        "tier",
        "timezone",
        "tool_id",
        "tool_ids",
        "turn_id",
        "type",
        "value_entity_id",
    }
)


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
    """What the erased records held: words that nothing else holds, all strings, and their texts by how they begin."""

    words: frozenset[str] = frozenset()
    strings: frozenset[str] = frozenset()
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def quotes(self, text: str) -> bool:
        """Whether a text holds one of the erased texts, whole."""
        return any(
            text.startswith(each, at)
            for at in range(len(text) - MIN_QUOTE_CHARS + 1)
            for each in self.texts.get(text[at : at + MIN_QUOTE_CHARS], ())
        )

    def quotes_json(self, text: str) -> bool:
        """Whether a key or a value in a JSON text holds one of the erased texts, whole."""
        keys, values = collect_json_strings(text)
        return any(map(self.quotes, (*keys, *values)))

    def has_word(self, text: str) -> bool:
        """Whether a text holds one of the words."""
        return not self.words.isdisjoint(_words(text))


@dataclass(frozen=True, slots=True)
class AuditText:
    """What a row of the audit log holds: its operation, and the texts in it (JSON: `details`)."""

    operation_id: str
    query: str
    error: str
    details: str
    settings: str


@dataclass(frozen=True, slots=True)
class ErasedReferences:
    """How a row refers to erased records: their ids, and the operations that wrote them.

    `derived_texts` are those of erased synopses and glosses. They describe several records; some may be erased later,
    when the row with the text refers to nothing else that is erased then.
    """

    ids: frozenset[str]
    operations: frozenset[str]
    derived_texts: frozenset[str] = frozenset()

    def is_in(self, row: AuditText, values: Collection[str]) -> bool:
        """Whether a row of the audit log, which has these values in its details, refers to one of them."""
        return row.operation_id in self.operations or not self.ids.isdisjoint(values)


def must_blank(row: AuditText, terms: ErasureTerms, references: ErasedReferences) -> bool:
    """Whether a row has to lose query, error and details.

    A row that refers to an erased record goes as soon as it holds a query, an error, or a word or string of the record;
    any other row only where it quotes an erased text whole. What holds ids alone stays: they are in tombstones, too.
    """
    keys, values = collect_json_strings(row.details)
    if references.is_in(row, values):
        said = {text for text in (*keys, *values) if text not in references.ids}
        strings = terms.strings | references.derived_texts
        return bool(row.query or row.error or not said.isdisjoint(strings) or terms.has_word("\n".join(said)))
    return any(map(terms.quotes, (row.query, row.error, *keys, *values)))


def surface_forms(texts: Iterable[str]) -> dict[str, list[str]]:
    """The words of some texts, lower case, each with the index terms it is found by; stop words are left out."""
    words = {word for text in texts for word in _words(text) if len(word) >= _MIN_WORD_CHARS}
    return {word: found for word in words if (found := tokenize(word))}


def _words(text: str) -> set[str]:
    text = text.lower()
    return {*_COMPOUND.findall(text), *_PIECE.findall(text)}


def build_erasure_terms(strings: Collection[str], words: Iterable[str]) -> ErasureTerms:
    """What to look for of these strings, and of the words that are left nowhere else."""
    texts: dict[str, tuple[str, ...]] = {}
    for text in sorted(strings):
        if len(text) >= MIN_QUOTE_CHARS:
            texts[text[:MIN_QUOTE_CHARS]] = (*texts.get(text[:MIN_QUOTE_CHARS], ()), text)
    return ErasureTerms(frozenset(words), frozenset(strings), texts)


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
    """What callers wrote in these records, given as rows of ordinal, kind, payload, id and more.

    What we made is left out, and so are ids, labels and the names of fields; of records that were made of others, what
    those others may still say: synopses, and glosses of turns that stay.
    """
    turns = {row[3] for row in payloads if row[1] == "Turn"}
    return _collect_texts(row for row in payloads if row[1] not in _DERIVED_KINDS or row[3] in turns)


def collect_derived_texts(payloads: Sequence[tuple[Any, ...]]) -> frozenset[str]:
    """What these records say that were made of others: synopses and glosses."""
    return frozenset(_collect_texts(row for row in payloads if row[1] in _DERIVED_KINDS))


def _collect_texts(payloads: Iterable[tuple[Any, ...]]) -> set[str]:
    return {
        text
        for row in payloads
        for name, value in json.loads(row[2]).items()
        if name not in _LABEL_FIELDS
        for text in chain(*collect_json_strings(json.dumps(value)))
        if not is_generated(text)
    }


def has_erased_content(receipt: str, erasure_terms: ErasureTerms, ids: Collection[str]) -> bool:
    """Whether a receipt (JSON) names one of these records or quotes an erased text."""
    values = collect_json_strings(receipt)[1]
    return not set(ids).isdisjoint(values) or any(map(erasure_terms.quotes, values))
