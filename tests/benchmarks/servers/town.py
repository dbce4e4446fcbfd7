"""Who is there: users of many sizes, most of them small, and one large one. The users of one size are copies of one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

SMALLEST, LARGEST, SIZES = 100, 5_000, 12
FIRST_SHARE = 10  # of the users of each size, one in so many is there from the start


@dataclass(frozen=True)
class UserPopulation:
    """`sizes` maps turns to the users who have so many; the first of each is the one who is copied."""

    sizes: dict[int, list[str]]
    large: str
    large_turns: int

    @cached_property
    def turns(self) -> dict[str, int]:
        """How many turns each user has."""
        small = {name: size for size, names in self.sizes.items() for name in names}
        return {**small, self.large: self.large_turns}

    @cached_property
    def small_users(self) -> list[str]:
        """All but the large one, in a mixed order that is always the same."""
        names = [name for names in self.sizes.values() for name in names]
        return sorted(names, key=hash_name)

    def first(self) -> Iterator[tuple[str, list[str]]]:
        """(who is copied, the others) of each size, those who are there from the start."""
        for names in self.sizes.values():
            yield names[0], names[1 : self._cut(names)]

    def later_users(self) -> Iterator[tuple[str, list[str]]]:
        """The same for those who come later."""
        for names in self.sizes.values():
            yield names[0], names[self._cut(names) :]

    @property
    def somebody(self) -> str:
        """A user of about the usual size, who is there from the start."""
        mean = (sum(self.turns.values()) - self.large_turns) / len(self.small_users)
        return self.sizes[min(self.sizes, key=lambda size: abs(size - mean))][0]

    @staticmethod
    def _cut(names: list[str]) -> int:
        return max(1, round(len(names) / FIRST_SHARE))


def hash_name(name: str) -> int:
    """A number that mixes names, the same in every process."""
    return sum(ord(sign) * 2_654_435_761**place for place, sign in enumerate(name, 1)) % 2**32


def plan_population(users: int, passages: int, large: int, mark: str = "") -> UserPopulation:
    """So many users with so many passages together, which the large one's are part of.

    Sizes lie at equal ratios from 100 to 5,000 (closer together where the mean is small); how many users have each is
    chosen so that the sum comes near. Names end with `mark`.
    """
    others, mean = users - 1, (passages - large) / max(users - 1, 1)
    if others < 1 or mean < 10:
        raise ValueError(f"{users} users with {passages} passages, {large} of one: at least 10 for each are needed")
    low, high = min(SMALLEST, int(mean / 2)), min(LARGEST, int(mean * 10))
    count = max(2, min(SIZES, others // 5))
    steps = [round(low * (high / low) ** (n / (count - 1))) for n in range(count)]

    def of(power: float) -> list[int]:
        return [steps[min(int(count * ((n + 0.5) / others) ** power), count - 1)] for n in range(others)]

    least, most = 0.01, 100.0
    for _ in range(60):
        middle = math.sqrt(least * most)
        least, most = (middle, most) if sum(of(middle)) > passages - large else (least, middle)
    sizes: dict[int, list[str]] = {}
    for n, size in enumerate(of(most)):
        sizes.setdefault(size, []).append(f"user-{n:05}{mark}")
    return UserPopulation(sizes, f"large{mark}", large)
