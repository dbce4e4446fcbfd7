"""Frames of a language, compiled from its file: which words fill which slot."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from agentmem.extraction.frames.dates import DATE
from agentmem.extraction.frames.verb_group import ADVERBS, BE, VERB_WORDS

_MACRO = re.compile(r"\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")
_STOP = (
    "and|but|because|so|since|when|which|that|who|whom|where|while|if|as|with|from|until|till|for|after|before|last|this"
    "|next|now|again|already|today|yesterday|tomorrow|any|anymore|too|instead|by|on|in|at|to|though|although|these|right"
    "|actually|then|every|not|please|over|here|there|is|was|are|has|have|will|i|we|my|our|she|he|they|it|but|near|about"
    "|like|than|during|together|still|also|or|these|those|only|just|fell|well|lol|haha|tho|cos|cuz|coz|mind|me|us"
    "|same|of course|all|atm|most|every|each|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
)
BOUNDARY = rf"(?=\s*(?:[,.;:!?()\u2026\"]|$|[-\u2013\u2014]+\s)|\s(?:{_STOP})\b)"
END = (
    r"(?=\s*(?:[,.;:!?)\u2026]|$)"
    r"|\s(?:and|but|so|now|already|today|any|again|next|this|last|because|cos|too|then|no more|me|mate|pal)\b)"
)
_BOUNDED = frozenset({"place", "org", "role", "name", "thing", "food", "job", "diet", "color", "token", "language"})
_WORD = r"[^\W\d_][\w&'./+-]*"


@dataclass(frozen=True, slots=True)
class Fill:
    """A group of a frame and the slot that it fills; `value` is fixed where the words do not name it."""

    group: str
    slot: str
    value: str = ""
    needs_known: bool = False
    is_weak: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """A pattern with what it fills. `kind` is that of its verb, or the flags of a phrase."""

    kind: str
    pattern: re.Pattern[str]
    fills: tuple[Fill, ...]
    negated_slot: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True)
class FrameSet:
    """All frames of a language, and its words for people and things.

    `values` are the patterns of the kinds of values. `nouns` tell the slot of a word for somebody ("sister"), `genders`
    its gender, "f", "m" or "". `owner` is the pattern of "my", `first` are the words for "I" and "we", `pronouns` those
    of the third person with their gender.
    """

    verbs: tuple[Frame, ...]
    phrases: tuple[Frame, ...]
    things: tuple[Frame, ...]
    nouns: Mapping[str, str]
    genders: Mapping[str, str]
    owner: str
    first: frozenset[str]
    pronouns: Mapping[str, str]
    noun_pattern: str
    name_pattern: str
    not_names: frozenset[str]
    values: Mapping[str, str]
    pets: Mapping[str, str]
    language_names: Mapping[str, str]


class _Compiler:
    """Turns the notation of a file into patterns. `stop` are words at which a value ends."""

    def __init__(self, data: Mapping[str, Any], not_names: str, stop: str, nouns: str) -> None:
        values = data["values"]
        self.stop = stop
        self.macros = {
            "{word}": rf"(?!(?:{stop})\b){_WORD}",
            "{a}": r"(?:an? |the |our |my )?",
            "{end}": END,
            "{moves}": data.get("moves", ""),
            "{be}": BE,
            "{tongue}": f"(?:{'|'.join(data['languages']) if 'languages' in data else values['language']})",
        }
        if "owner" in data:
            name = rf"(?!(?:{not_names}|{stop})\b)[^\W\d_][\w'-]+"
            first, owner = data["first"], data["owner"]
            they = "|".join(data["pronouns"])
            self.macros["{who}"] = (
                rf"(?<!\w)(?P<who>(?:{first}|{they})(?!\w)|{owner} (?:{nouns})(?:,? {name})?|{name}(?: {name})?)"
            )
        names = f"{not_names}|{stop}"
        self.values = {name: self.plain(text.replace("{notname}", names)) for name, text in values.items()}
        self.values["date"] = DATE
        self.values["person"] = r"[^\W\d_][\w'-]+(?: [^\W\d_][\w'-]+){0,2}"  # its end is where capitals end
        self.boundary = BOUNDARY.replace(_STOP, stop)
        self.fills: list[Fill] = []

    def plain(self, text: str) -> str:
        """Without the macros that stand for words."""
        for macro, pattern in self.macros.items():
            text = text.replace(macro, pattern)
        return text

    def compile(self, text: str) -> tuple[str, tuple[Fill, ...]]:
        """The pattern, and the slots that its groups fill."""
        self.fills = []
        return _MACRO.sub(self._expand, self.plain(text)), tuple(self.fills)

    def find_boundary(self, kind: str) -> str:
        """Where a value of a kind ends; a trade ends at a number, too: "a joiner 40 years"."""
        return rf"(?:{self.boundary}|(?=\s\d))" if kind in ("job", "role") else self.boundary

    def _expand(self, found: re.Match[str]) -> str:
        text = found[1]
        if re.fullmatch(r"\d*,?\d*", text):
            return found[0]  # a repetition
        group = f"g{len(self.fills)}"
        if re.match(r"\w+!", text):
            slot, _, value = text.partition("!")
            self.fills.append(Fill("", slot, value))
            return ""
        if "=" in text and ":" not in text:
            slot, _, pattern = text.partition("=")
            self.fills.append(Fill(group, slot))
            return f"(?P<{group}>{pattern})"
        slot, _, kind = text.partition(":")
        name = slot.lstrip("?-")
        pattern = self.values.get(kind, kind)
        self.fills.append(Fill(group, name, needs_known=slot.startswith("?"), is_weak=slot.startswith("-")))
        return f"(?P<{group}>{pattern})" + (
            self.find_boundary(kind) if kind in _BOUNDED else r"\b" if kind == "age" else ""
        )


LANGUAGES = ("english", "german", "spanish", "french", "portuguese")


@cache
def load_frames(language: str) -> FrameSet:
    """The frames of one of `LANGUAGES`. All but English have phrases alone, and share the kinds of values."""
    english = _read_file("english")
    data = english if language == "english" else {**_read_file(language), "values": english["values"]}
    stop = f"{_STOP}|{data['stop']}" if "stop" in data else _STOP
    kin = [(word, slot, gender) for words, slot, gender in data["kin"] for word in words.split("|")]
    nouns = {word: slot for word, slot, _ in kin}
    noun_pattern = "|".join(sorted(map(re.escape, nouns), key=len, reverse=True))
    compiler = _Compiler(data, english["not_names"], stop, noun_pattern)
    phrases = [*data["phrases"], *_name_kin(data)]
    return FrameSet(
        verbs=tuple(_compile_verb(compiler, *row) for row in data.get("verbs", ())),
        phrases=tuple(_compile_phrase(compiler, *row) for row in phrases),
        things=tuple(_compile_thing(compiler, *row) for row in data.get("things", ())),
        nouns=nouns,
        genders={word: gender for word, _, gender in kin},
        owner=data.get("owner", ""),
        first=frozenset(data.get("first", "").split("|")),
        pronouns=data.get("pronouns", {}),
        noun_pattern=noun_pattern,
        name_pattern=compiler.values["name"],
        not_names=frozenset(english["not_names"].split("|")),
        values=compiler.values,
        pets=data.get("pets", {}),
        language_names=data.get("languages", {}),
    )


@cache
def load_markers() -> Mapping[str, re.Pattern[str]]:
    """Words of each language but English of which a sentence has one at least; frames of others need not be loaded."""
    return {name: re.compile(rf"\b(?:{_read_file(name)['markers']})\b") for name in LANGUAGES[1:]}


def _name_kin(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Phrases such as "mi hermana (se llama) Ana", one for each row of words for somebody; none in English."""
    if "called" not in data:
        return []
    return [
        (rf"\b{data['owner']} {{-noun:{words}}},? (?:{data['called']} )?{{{slot or 'known'}:person}}", "kin")
        for words, slot, _ in data["kin"]
    ]


def _read_file(language: str) -> dict[str, Any]:
    return dict(json.loads(files(__package__).joinpath(f"{language}.json").read_text(encoding="utf-8")))


def _compile_verb(
    compiler: _Compiler, kind: str, forms: str, target: str, negated_slot: str = "", template: str = ""
) -> Frame:
    pattern, fills = compiler.compile(target)
    forms = re.sub(r"ing\b", "ing?'?", forms)  # "movin" and "movin'"
    verb = rf"(?P<words>{VERB_WORDS}*?)(?P<verb>{compiler.plain(forms)})(?P<after>(?:\s+(?:{ADVERBS}))*?)"
    joint = r"\b\s*" if pattern.startswith(("(?=", "(?:(?=")) else r"\s+"
    return Frame(kind, re.compile(verb + joint + pattern), fills, negated_slot, template)


def _compile_phrase(compiler: _Compiler, text: str, flags: str) -> Frame:
    pattern, fills = compiler.compile(text)
    template = flags if "=" in flags else ""
    return Frame("" if template else flags, re.compile(pattern), fills, template=template)


def _compile_thing(compiler: _Compiler, noun: str, slot: str, kind: str) -> Frame:
    """A thing of the user's and what it is: "my rent is 900 euros"."""
    owner = (
        rf"\b(?:my|our|me) (?:new |current |old )?(?:{noun})"
        r"(?: ?(?:is|are|was|:)|[.,]?(?= \+?\d))(?: now| still| actually)?"
    )
    pattern, fills = compiler.compile(rf"{owner} (?:the |an? )?{{value:{kind}}}")
    return Frame(slot, re.compile(pattern), fills)
