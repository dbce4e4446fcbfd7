"""How sure one may be of a rate of success after so many tries. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

Z95 = 1.959963984540054  # of the normal distribution: 95 % lie within so many deviations


class ConfidenceInterval(NamedTuple):
    """Between these two the true rate lies with 95 % probability."""

    low: float
    high: float


def wilson_interval(successes: int, trials: int, z: float = Z95) -> ConfidenceInterval:
    """The Wilson score interval (Wilson 1927); (0, 1) before the first try.

    Unlike the plain rate it does not take one success of one try for certain: that gives .21 to 1.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"there cannot be {successes} successes in {trials} tries")
    if trials == 0:
        return ConfidenceInterval(0.0, 1.0)
    rate, square = successes / trials, z * z
    middle = (rate + square / (2 * trials)) / (1 + square / trials)
    reach = z / (1 + square / trials) * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    low = 0.0 if successes == 0 else max(0.0, middle - reach)  # exact at the ends, where rounding would show
    return ConfidenceInterval(low, 1.0 if successes == trials else min(1.0, middle + reach))


def term_overlap(texts_by_term: Mapping[str, set[int]], text_count: int) -> dict[int, float]:
    """How much of what was asked each text has, within 0 and 1: of its words, the rare ones counting more.

    `texts_by_term` maps each word to the texts that have it, `text_count` is how many texts there are; texts without
    any are left out. A word that no text has counts, too.
    """
    rarity = {
        word: math.log1p((text_count - len(texts) + 0.5) / (len(texts) + 0.5)) for word, texts in texts_by_term.items()
    }
    whole = sum(rarity.values())
    shares: dict[int, float] = {}
    for word, texts in texts_by_term.items():
        for text in texts:
            shares[text] = shares.get(text, 0.0) + rarity[word] / whole
    return shares
