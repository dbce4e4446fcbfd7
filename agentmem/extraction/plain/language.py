"""The words of a language as patterns, compiled from its data file when they are first needed.

A frame is a row of `own` (the speaker's clauses) or `others` (clauses about a named person, from the verb on): a
pattern and flags. In it `{slot:kind}` stands for a value, where `kind` is a name of `values` or a pattern,
`{slot=value}` for a value that the words mean, `{NAME}` for a pattern of `macros`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

LANGUAGES = ("english", "german", "spanish", "french", "portuguese")
_PART = re.compile(r"\{([A-Za-z_]+)(?:([:=])([^{}]*))?\}")
_KIND = re.compile(r"(?<!\?P)<(\w+)>")
_NAME = r"(?-i:[^\W\d_a-z\u00df-\u00ff])[^\W\d_]+(?:[-'][^\W\d_]{2,})*"


@dataclass(frozen=True, slots=True)
class PlainFrame:
    """A clause that is understood: its pattern, the slots of its groups, the values that it means, its flags."""

    pattern: re.Pattern[str]
    fills: tuple[tuple[str, str], ...]
    meant: tuple[tuple[str, str], ...]
    flags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Kin:
    """What a word for a person tells: the slot ("" for none), the gender ("f", "m" or "") and the English word."""

    slot: str
    gender: str
    noun: str


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """A direct question, the slot that it asks for, and the form of a short answer."""

    question: re.Pattern[str]
    slot: str
    answer: re.Pattern[str]


class _WordPatterns(dict[str, re.Pattern[str]]):
    """Alternatives by name as patterns of whole words, each compiled when it is first asked for."""

    def __init__(self, rows: Mapping[str, str]) -> None:
        super().__init__()
        self._rows = rows

    def __missing__(self, name: str) -> re.Pattern[str]:
        self[name] = found = re.compile(rf"(?<!\w)(?:{self._rows[name]})(?!\w)", re.IGNORECASE)
        return found


class Language:
    """The words, frames and people of one language, compiled when they are first needed: most turns are in one."""

    def __init__(self, name: str) -> None:
        data, shared = read_language(name), read_language(LANGUAGES[0])
        self.name, self._data, parts = name, data, data["parts"]
        values = {**shared["values"], **data["values"]}
        values["tongue"] = _join(data["tongues"])
        values["tongues"] = rf"(?:{values['tongue']})(?:(?:, ?|,? (?:{parts['and']}) )(?:{values['tongue']}))*"
        self.kin: Mapping[str, Kin] = {noun: Kin(*_parse_kin(noun, row)) for noun, row in data["kin"].items()}
        macros = {**data["macros"], "NOUN": rf"(?P<noun>{_join(self.kin)})", "NAME": rf"(?P<name>{_NAME}(?: {_NAME})?)"}
        macros["OWNER"] = rf"(?:{parts['owner']}) (?:(?:{parts['close']}) )?"
        self._build = _FrameBuilder(values, macros, data)
        self.tongues: Mapping[str, str] = data["tongues"]
        self.stop_words = frozenset(" ".join(data["stop_words"]).split())
        self.words: Mapping[str, re.Pattern[str]] = _WordPatterns(data["words"])

    @cached_property
    def own(self) -> tuple[PlainFrame, ...]:
        """Clauses of the speaker about themselves."""
        return tuple(self._build.compile_frame(*row) for row in self._data["own"])

    @cached_property
    def others(self) -> tuple[PlainFrame, ...]:
        """Clauses about a named person, from the verb on."""
        return tuple(self._build.compile_frame(*row) for row in self._data["others"])

    @cached_property
    def answers(self) -> tuple[PlainAnswer, ...]:
        """Direct questions with their answers."""
        return tuple(self._build.compile_answer(*row) for row in self._data.get("answers", ()))

    @cached_property
    def people(self) -> tuple[re.Pattern[str], ...]:
        """Who is who: "my sister is called Anna"."""
        return tuple(self._compile(row) for row in self._data["people"])

    @cached_property
    def kin_with_name(self) -> re.Pattern[str]:
        """ "my sister Anna " before a verb."""
        return self._compile("{OWNER}{NOUN},? {NAME},? ")

    @cached_property
    def kin_alone(self) -> re.Pattern[str]:
        """ "my sister " before a verb."""
        return self._compile("{OWNER}{NOUN} ")

    @cached_property
    def joint(self) -> re.Pattern[str]:
        """What joins clauses."""
        joint = rf",? (?:{self._data['parts']['joint']}) |[;,:] ?| [-\u2013\u2014]+ |\) ?| \("
        return re.compile(joint, re.IGNORECASE)

    @cached_property
    def lead(self) -> re.Pattern[str]:
        """What may precede a clause."""
        return re.compile(rf"(?:(?:{self._data['parts']['lead']})(?:[,!:]? +))*", re.IGNORECASE)

    @cached_property
    def separator(self) -> re.Pattern[str]:
        """The separator of the values of a list."""
        parts = self._data["parts"]
        article = rf"(?:{parts['articles']})?"
        return re.compile(rf",? (?:{parts['and']}) {article}|, ?{article}", re.IGNORECASE)

    def _compile(self, row: str) -> re.Pattern[str]:
        return re.compile(self._build.expand(row)[0], re.IGNORECASE)


@cache
def load_language(name: str) -> Language:
    """A language by its name."""
    return Language(name)


@dataclass(frozen=True, slots=True)
class _FrameBuilder:
    values: Mapping[str, str]
    macros: Mapping[str, str]
    data: Mapping[str, Any]

    def expand(self, text: str) -> tuple[str, list[tuple[str, str]], list[tuple[str, str]]]:
        """The pattern of a row, the slots of its groups, and the values that it means."""
        fills: list[tuple[str, str]] = []
        meant: list[tuple[str, str]] = []

        def put(found: re.Match[str]) -> str:
            name, sign, kind = found.groups()
            if not sign:
                return f"(?:{self.macros[name]})"
            if sign == "=":
                meant.append((name, kind))
                return ""
            fills.append((f"g{len(fills)}", name))
            return f"(?P<{fills[-1][0]}>{self.find_value(kind)})"

        macros_put = _PART.sub(lambda found: found[0] if found[2] else put(found), text)
        return self.put_values(_PART.sub(put, macros_put)), fills, meant

    def find_value(self, kind: str) -> str:
        """The pattern of a kind of value."""
        return self.put_values(self.values.get(kind, kind)).replace("NAME", _NAME)

    def put_values(self, text: str) -> str:
        """The text with the patterns of the kinds that it names: "<date>"."""
        while _KIND.search(text):
            text = _KIND.sub(lambda found: f"(?:{self.values[found[1]]})", text)
        return text

    def compile_frame(self, text: str, flags: str = "") -> PlainFrame:
        """A frame with what may follow it in its clause."""
        pattern, fills, meant = self.expand(text)
        tail = rf"(?P<tail>(?:,? (?:{self.data['parts']['tail']})(?!\w))*)"
        words = self.data["words"]
        end = rf"(?![\w%]|[.,:/]\d|-\w|'\w){tail}(?={words['goes_on']}|,? (?:{words['dated']})\b)"
        return PlainFrame(
            re.compile(pattern + end, re.IGNORECASE),
            tuple(fills),
            tuple(meant),
            frozenset(flags.split()),
        )

    def compile_answer(self, question: str, slot: str, kind: str) -> PlainAnswer:
        """A question and its answer."""
        answer = rf"(?:(?:{self.data['parts']['answer_lead']}),? )*(?P<value>{self.find_value(kind)})"
        return PlainAnswer(re.compile(question, re.IGNORECASE), slot, re.compile(answer, re.IGNORECASE))


def _parse_kin(noun: str, row: str) -> tuple[str, str, str]:
    """A row is the slot or "-", the gender or "-", and the English word where the noun is of another language."""
    slot, gender, *english = row.split(" ", 2)
    return slot.strip("-"), gender.strip("-"), english[0] if english else noun


def _join(words: Mapping[str, Any]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


@cache
def read_language(name: str) -> Mapping[str, Any]:
    """The data file of a language."""
    text = files("agentmem.extraction.plain").joinpath(f"{name}.json").read_text(encoding="utf-8")
    return {key: _merge(value) for key, value in json.loads(text).items()}


def _merge(value: Any) -> Any:
    """Alternatives over several lines as one text."""
    if isinstance(value, dict):
        return {key: "|".join(row) if isinstance(row, list) else row for key, row in value.items()}
    return value
