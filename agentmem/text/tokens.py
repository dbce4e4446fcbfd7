"""How large a text is for a language model, when nobody counts better."""

from __future__ import annotations

from collections.abc import Callable

TokenCounter = Callable[[str], int]
CHARS_PER_TOKEN = 4  # of a token


def estimate_tokens(text: str) -> int:
    """Tokens as a quarter of the characters, rounded up."""
    return -(-len(text) // CHARS_PER_TOKEN)
