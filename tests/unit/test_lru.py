from __future__ import annotations

from agentmem.core.lru import LruDict


def test_a_full_dictionary_drops_what_was_assigned_longest_ago():
    kept = LruDict[str, int](2)
    kept.update({"a": 1, "b": 2})
    kept["a"] = kept["a"]
    kept["c"] = 3
    assert list(kept.items()) == [("a", 1), ("c", 3)]
    kept.setdefault("d", 4)
    assert list(kept) == ["c", "d"]
