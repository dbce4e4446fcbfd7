"""Sentences made of a model's own vocabulary: something to measure a model on where no text can be shipped."""

from __future__ import annotations

import random

_VOCABULARY = 8000
_WORDS = (6, 24)


def sentences(vocabulary: dict[str, int], count: int) -> list[str]:
    """Return `count` sentences of whole lower-case words, the same for the same vocabulary (word piece to id).

    Vocabularies are sorted by frequency, so early words come more often. Raises ValueError when there are no words.
    """
    by_id = sorted((number, piece.lstrip("▁Ġ")) for piece, number in vocabulary.items())
    words = [word for _, word in by_id if word.isascii() and word.isalpha() and word.islower()][:_VOCABULARY]
    if not words:
        raise ValueError("the vocabulary holds no words of the letters a-z")
    chance = random.Random(0)  # noqa: S311  reproducible, no secret
    weights = [1 / (rank + 30) for rank in range(len(words))]
    return [
        " ".join(chance.choices(words, weights, k=chance.randint(*_WORDS))).capitalize() + "." for _ in range(count)
    ]
