"""How large a text is for a language model, when nobody counts better."""

from __future__ import annotations

from collections.abc import Callable

Counter = Callable[[str], int]
CHARACTERS = 4  # of a token


def quarter(text: str) -> int:
    """Tokens as a quarter of the characters, rounded up."""
    return -(-len(text) // CHARACTERS)
