"""Values of slots: when two are the same, and when one says the other more exactly."""

from __future__ import annotations

import re
import unicodedata

from agentmem.beliefs.slots import Slot

_TOKEN = re.compile(r"[\w.@+-]+")
_ACCENTS = re.compile(r"[\u0300-\u036f]")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")

_LIST_JOINT = re.compile(r"(\s*[,;/&]\s+(?:and\s+)?|\s+(?:and|und|y|et|e)\s+)")

_UNITS = frozenset(["mg", "mcg", "ug", "ml", "g", "mil", "units", "of"])

# Two texts that differ by one of these speak of different things.
CONTRAST_WORDS = frozenset(
    word
    for line in (
        "no not never none without nothing ex former late new old only except with",
        "kein keine keinen nicht ohne sin nada sans pas non sem nao",
        "left right upper lower first second third older younger before after double inside outside",
        "own rent buy sell lend borrow start stop like dislike more less min max high low big small",
        "north south east west morning evening afternoon night",
        "monday tuesday wednesday thursday friday saturday sunday spring summer autumn fall winter",
        "january february march april may june july august september october november december",
        "mother father sister brother daughter son wife husband aunt uncle cousin",
        "red blue green yellow black white brown gray grey",
        "one two three four five six seven eight nine ten half",
    )
    for word in line.split()
)


def normalize_value(value: str) -> str:
    """A value in the form in which values are compared: small letters without accents, numbers without
    separators of thousands. Empty for a value without a letter or digit.
    """
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", value.casefold()))
    words = _TOKEN.findall(_THOUSANDS.sub("", plain))
    return " ".join(stripped for word in words if (stripped := word.strip(".-")))


def is_same_value(one: str, other: str) -> bool:
    """Whether two values are equal but for case and punctuation."""
    return normalize_value(one) == normalize_value(other)


def is_refinement(slot: Slot, new: str, old: str) -> bool:
    """Whether a new value says an old one more exactly: all of its words and more.

    Never for ages, dates and exact slots, nor where the difference is a contrast ("left", "no") or a number that the
    old one had.
    """
    if slot.value_type == "age" or slot.kind == "event" or slot.is_exact:
        return False
    words, had = normalize_value(new).split(), normalize_value(old).split()
    if not set(had) < set(words) or (set(words) - set(had)) & CONTRAST_WORDS:
        return False
    figures = [word for word in had if has_digit(word)]
    return not figures or figures == [word for word in words if has_digit(word)]


def is_same_drug(one: str, other: str) -> bool:
    """Whether two doses are of the same thing: equal but for figures and units."""
    return _drop_amount(one) == _drop_amount(other) != []


def _drop_amount(value: str) -> list[str]:
    return [word for word in normalize_value(value).split() if word not in _UNITS and not has_digit(word)]


def remove_part(value: str, part: str) -> str:
    """What is left of a list such as "hiking, sailing and chess" without one of its parts; "" where that is none."""
    parts = _LIST_JOINT.split(value)  # parts and joints by turns
    kept = [at for at in range(0, len(parts), 2) if not is_same_value(parts[at], part)]
    if len(parts) < 3 or len(kept) != len(parts) // 2:
        return ""
    joints = [parts[at - 1] for at in kept[1:]]
    return "".join(text for pair in zip(["", *joints], [parts[at] for at in kept], strict=True) for text in pair)


def has_digit(text: str) -> bool:
    """Whether a text has a figure, as a dose or an amount has."""
    return any(map(str.isdigit, text))
