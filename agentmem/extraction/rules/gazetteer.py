"""Words that tell what a name stands for, and capitalised words that are no names; read from `gazetteer.txt`."""

from __future__ import annotations

from importlib import resources


def _load_lists() -> dict[str, frozenset[str]]:
    text = resources.files(__package__).joinpath("gazetteer.txt").read_text(encoding="utf-8")
    out = {}
    for section in text.split("\n[")[1:]:
        title, _, words = section.partition("]")
        out[title] = frozenset(word.strip() for word in words.replace("\n", " ").split(",") if word.strip())
    return out


_LISTS = _load_lists()

GIVEN_NAMES = _LISTS["given names"]
PLACES = _LISTS["places"]
NON_NAMES = _LISTS["no names"]
"""As slugs: months, days, languages, interjections and the ordinary words that begin sentences."""
