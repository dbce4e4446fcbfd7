"""Finds the words that a claim rests on in the turn that said them."""

from __future__ import annotations

import re
import unicodedata

from agentmem.text.words import terms

_ALIKE = {
    **dict.fromkeys("‘’ʼ‛`´", "'"), **dict.fromkeys("“”„«»", '"'), **dict.fromkeys("‐‑‒–—―−", "-"),
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),
}  # fmt: skip
_ENDS = " \t\r\n\"'“”‘’«».…,;:!?"
_SPACED = 0x0E00  # below it stand the scripts that put spaces between words
_WORD_CHARACTER = re.compile(r"[^\W_]")
_LEAST = 3
_TRIES = 500  # places inside of words; in one long run of letters there are as many as letters


def find_quote(text: str, quote: str) -> tuple[int, int] | None:
    """Where a quote stands in a text, in characters; None when it is not there, or says too little to be one.

    First as it is, then with white space, quotation marks, dashes, case and the forms of characters made alike. It
    begins and ends with whole words, has three letters or digits, and more than stop words. Marks and white space
    around it count for nothing.
    """
    quote = quote.strip(_ENDS)
    if len(_WORD_CHARACTER.findall(quote)) < _LEAST or not terms(quote):
        return None
    if (at := _place(text, quote)) is not None:
        return at, at + len(quote)
    plain, places = _plain(text)
    sought, _ = _plain(quote)
    at = _place(plain, sought) if sought else None
    if at is None:
        return None
    return places[at], places[at + len(sought) - 1] + 1


def _place(text: str, sought: str) -> int | None:
    """The first place where it stands as whole words."""
    at = -1
    for _ in range(_TRIES):
        at = text.find(sought, at + 1)
        if at < 0:
            return None
        if not (_joined(text, at) or _joined(text, at + len(sought))):
            return at
    return None


def _joined(text: str, at: int) -> bool:
    """Whether a word goes on across this place."""
    sides = text[at - 1 : at + 1] if at else ""
    return len(sides) == 2 and sides.isalnum() and all(ord(side) < _SPACED for side in sides)


def _plain(text: str) -> tuple[str, list[int]]:
    """The text with what is alike made the same, and for each of its characters the place it came from."""
    out: list[str] = []
    places: list[int] = []
    for at, character in enumerate(text):
        alike = _ALIKE.get(character)
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
