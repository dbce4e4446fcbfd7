"""The words of records that are not in blocks yet."""

from __future__ import annotations

import gc

from agentmem.stores.postings import MAX_TERM_COUNT, DeltaSegment


def test_a_delta_tells_the_records_and_counts_of_a_term_also_after_it_grew() -> None:
    segment = DeltaSegment(1)
    segment.add([(3, {"sea": 2, "dog": 1}), (7, {"sea": MAX_TERM_COUNT + 1})])
    first = segment.match(["sea"], {})["sea"]
    segment.add([(7, {"sea": 9}), (8, {"sea": 4})])
    assert (first.ordinals.tolist(), first.counts.tolist()) == ([3, 7], [2, MAX_TERM_COUNT])
    second = segment.match(["sea"], {})["sea"]
    assert (second.ordinals.tolist(), second.counts.tolist()) == ([3, 7, 8], [2, MAX_TERM_COUNT, 4])


def test_garbage_collection_passes_over_the_terms_of_a_delta() -> None:
    rows = [(ordinal, {f"term {ordinal} {number}": 1 for number in range(10)}) for ordinal in range(100)]
    segment = DeltaSegment(1)
    gc.collect()
    before = len(gc.get_objects())
    segment.add(rows)
    gc.collect()
    assert len(gc.get_objects()) - before < len(rows)
