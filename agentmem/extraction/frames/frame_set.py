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
    "|like|than|during|together|still|also|or|these|those|only|just|well|lol|haha|tho|cos|cuz|coz|mind|me|us|of course"
)
BOUNDARY = rf"(?=\s*(?:[,.;:!?()\u2026\"]|$|[-\u2013\u2014]+\s)|\s(?:{_STOP})\b)"
END = r"(?=\s*(?:[,.;:!?)\u2026]|$)|\s(?:and|but|so|now|already|today|any|again|next|this|last|because|cos|too|then)\b)"
_BOUNDED = frozenset({"place", "org", "role", "name", "thing", "food", "job", "color", "token", "language"})
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
    """All frames of a language, and its words for people and things."""

    verbs: tuple[Frame, ...]
    phrases: tuple[Frame, ...]
    things: tuple[Frame, ...]
    nouns: Mapping[str, str]
    noun_pattern: str
    name_pattern: str
    not_names: frozenset[str]
    language_names: Mapping[str, str]


class _Compiler:
    """Turns the notation of a file into patterns. `stop` are words at which a value ends."""

    def __init__(self, values: Mapping[str, str], not_names: str, stop: str) -> None:
        self.stop = stop
        names = f"{not_names}|{stop}"
        self.values = {name: self.plain(text.replace("{notname}", names)) for name, text in values.items()}
        self.values["date"] = DATE
        self.boundary = BOUNDARY.replace(_STOP, stop)
        self.fills: list[Fill] = []

    def plain(self, text: str) -> str:
        """Without the macros that stand for words."""
        return (
            text.replace("{word}", rf"(?!(?:{self.stop})\b){_WORD}")
            .replace("{a}", r"(?:an? |the |our |my )?")
            .replace("{end}", END)
            .replace("{be}", BE)
        )

    def compile(self, text: str) -> tuple[str, tuple[Fill, ...]]:
        """The pattern, and the slots that its groups fill."""
        self.fills = []
        return _MACRO.sub(self._expand, self.plain(text)), tuple(self.fills)

    def _expand(self, found: re.Match[str]) -> str:
        text = found[1]
        if re.fullmatch(r"\d*,?\d*", text):
            return found[0]  # a repetition
        group = f"g{len(self.fills)}"
        if "!" in text:
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
        return f"(?P<{group}>{pattern})" + (self.boundary if kind in _BOUNDED else r"\b" if kind == "age" else "")


LANGUAGES = ("english", "german", "spanish", "french", "portuguese")


@cache
def load_frames(language: str) -> FrameSet:
    """The frames of one of `LANGUAGES`. All but English have phrases alone, and share the kinds of values."""
    english = _read_file("english")
    data = english if language == "english" else {**_read_file(language), "values": english["values"]}
    stop = f"{_STOP}|{data['stop']}" if "stop" in data else _STOP
    compiler = _Compiler(data["values"], english["not_names"], stop)
    nouns = {word: slot for words, slot in data.get("nouns", ()) for word in _spell_out(words)}
    return FrameSet(
        tuple(_compile_verb(compiler, *row) for row in data.get("verbs", ())),
        tuple(_compile_phrase(compiler, *row) for row in data["phrases"]),
        tuple(_compile_thing(compiler, *row) for row in data.get("things", ())),
        nouns,
        "|".join(sorted(map(re.escape, nouns), key=len, reverse=True)),
        compiler.values["name"],
        frozenset(english["not_names"].split("|")),
        data.get("languages", {}),
    )


def _read_file(language: str) -> dict[str, Any]:
    return dict(json.loads(files(__package__).joinpath(f"{language}.json").read_text(encoding="utf-8")))


def _compile_verb(
    compiler: _Compiler, kind: str, forms: str, target: str, negated_slot: str = "", template: str = ""
) -> Frame:
    pattern, fills = compiler.compile(target)
    verb = rf"(?P<words>{VERB_WORDS}*?)(?P<verb>{compiler.plain(forms)})(?P<after>(?:\s+(?:{ADVERBS}))*?)"
    joint = r"\b\s*" if pattern.startswith(("(?=", "(?:(?=")) else r"\s+"
    return Frame(kind, re.compile(verb + joint + pattern), fills, negated_slot, template)


def _compile_phrase(compiler: _Compiler, text: str, flags: str) -> Frame:
    pattern, fills = compiler.compile(text)
    template = flags if "=" in flags else ""
    return Frame("" if template else flags, re.compile(pattern), fills, template=template)


def _compile_thing(compiler: _Compiler, noun: str, slot: str, kind: str) -> Frame:
    """A thing of the user's and what it is: "my rent is 900 euros"."""
    owner = rf"\b(?:my|our|me) (?:new |current |old )?(?:{noun}) ?(?:is|are|was|:)(?: now| still| actually)?"
    pattern, fills = compiler.compile(rf"{owner} (?:the |an? )?{{value:{kind}}}")
    return Frame(slot, re.compile(pattern), fills)


def _spell_out(words: str) -> list[str]:
    """The nouns of an alternation; "fianc\u00e9e?" stands for both forms."""
    out = []
    for word in words.split("|"):
        out += [word.replace("?", ""), re.sub(r".\?", "", word)] if "?" in word else [word]
    return out
