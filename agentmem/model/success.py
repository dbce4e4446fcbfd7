"""How sure one may be of a rate of success after so many tries. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

Z95 = 1.959963984540054  # of the normal distribution: 95 % lie within so many deviations


class Bounds(NamedTuple):
    """Between these two the true rate lies with 95 % probability."""

    low: float
    high: float


def wilson(successes: int, tries: int, z: float = Z95) -> Bounds:
    """The Wilson score interval (Wilson 1927); (0, 1) before the first try.

    Unlike the plain rate it does not take one success of one try for certain: that gives .21 to 1.
    """
    if not 0 <= successes <= tries:
        raise ValueError(f"there cannot be {successes} successes in {tries} tries")
    if tries == 0:
        return Bounds(0.0, 1.0)
    rate, square = successes / tries, z * z
    middle = (rate + square / (2 * tries)) / (1 + square / tries)
    reach = z / (1 + square / tries) * math.sqrt(rate * (1 - rate) / tries + square / (4 * tries * tries))
    low = 0.0 if successes == 0 else max(0.0, middle - reach)  # exact at the ends, where rounding would show
    return Bounds(low, 1.0 if successes == tries else min(1.0, middle + reach))


def word_shares(asked: Mapping[str, set[int]], total: int) -> dict[int, float]:
    """How much of what was asked each text has, within 0 and 1: of its words, the rare ones counting more.

    `asked` maps each word to the texts that have it, `total` is how many texts there are; texts without any are left
    out. A word that no text has counts, too.
    """
    rarity = {word: math.log1p((total - len(texts) + 0.5) / (len(texts) + 0.5)) for word, texts in asked.items()}
    whole = sum(rarity.values())
    shares: dict[int, float] = {}
    for word, texts in asked.items():
        for text in texts:
            shares[text] = shares.get(text, 0.0) + rarity[word] / whole
    return shares
