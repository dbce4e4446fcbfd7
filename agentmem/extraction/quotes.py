"""Finds the words that a claim rests on in the turn that said them."""

from __future__ import annotations

import re
import unicodedata

from agentmem.text.words import tokenize

_CHARACTER_FOLDS = {
    **dict.fromkeys("‘’ʼ‛`´", "'"), **dict.fromkeys("“”„«»", '"'), **dict.fromkeys("‐‑‒–—―−", "-"),
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),
}  # fmt: skip
_EDGE_CHARACTERS = " \t\r\n\"'“”‘’«».…,;:!?"
_UNSPACED_SCRIPTS_START = 0x0E00  # below it stand the scripts that put spaces between words
_WORD_CHARACTER = re.compile(r"[^\W_]")
_MIN_WORD_CHARACTERS = 3
_MAX_CANDIDATES = 500  # places inside of words; in one long run of letters there are as many as letters


def align_quote(text: str, quote: str) -> tuple[int, int] | None:
    """Where a quote stands in a text, in characters; None when it is not there, or says too little to be one.

    First as it is, then with white space, quotation marks, dashes, case and the forms of characters made alike. It
    begins and ends with whole words, has three letters or digits, and more than stop words. Marks and white space
    around it count for nothing.
    """
    quote = quote.strip(_EDGE_CHARACTERS)
    if len(_WORD_CHARACTER.findall(quote)) < _MIN_WORD_CHARACTERS or not tokenize(quote):
        return None
    if (at := _find_whole_words(text, quote)) is not None:
        return at, at + len(quote)
    plain, places = _fold_characters(text)
    sought, _ = _fold_characters(quote)
    at = _find_whole_words(plain, sought) if sought else None
    if at is None:
        return None
    return places[at], places[at + len(sought) - 1] + 1


def _find_whole_words(text: str, sought: str) -> int | None:
    """The first place where it stands as whole words."""
    at = -1
    for _ in range(_MAX_CANDIDATES):
        at = text.find(sought, at + 1)
        if at < 0:
            return None
        if not (_is_inside_word(text, at) or _is_inside_word(text, at + len(sought))):
            return at
    return None


def _is_inside_word(text: str, position: int) -> bool:
    """Whether a word goes on across this place."""
    sides = text[position - 1 : position + 1] if position else ""
    return len(sides) == 2 and sides.isalnum() and all(ord(side) < _UNSPACED_SCRIPTS_START for side in sides)


def _fold_characters(text: str) -> tuple[str, list[int]]:
    """The text with what is alike made the same, and for each of its characters the place it came from."""
    out: list[str] = []
    places: list[int] = []
    for at, character in enumerate(text):
        alike = _CHARACTER_FOLDS.get(character)
        if alike is None:
            alike = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
        for piece in alike:
            if piece.isspace():
                if not out or out[-1] == " ":
                    continue
                piece = " "
            out.append(piece)
            places.append(at)
    while out and out[-1] == " ":
        out.pop()
        places.pop()
    return "".join(out), places
