"""Conversations that are trees: where a message was edited or asked again, only the branch that is open comes in."""

from __future__ import annotations

from collections.abc import Mapping


def find_branch(parents: Mapping[str, object], times: Mapping[str, object], current: object) -> list[str]:
    """The ids from the root to the message that is open; to the newest, of two the later one, where none is open."""
    if not isinstance(current, str) or current not in parents:
        numbered = [(_get_number(times.get(key)), place, key) for place, key in enumerate(parents)]
        current = max(numbered)[2] if numbered else None
    path = dict[str, None]()  # a set that keeps its order, so that a circle of parents ends
    while isinstance(current, str) and current in parents and current not in path:
        path[current] = None
        current = parents[current]
    return list(reversed(path))


def _get_number(time: object) -> float:
    return time if isinstance(time, (int, float)) else 0.0
