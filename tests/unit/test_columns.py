"""Columns by ordinal, snapshots that stay, and what a query may see."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from agentmem.core.clock import to_micros
from agentmem.core.columns import RecordColumnBatch, RecordColumns, RecordRow, StringInterner

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def row(slot: int, /, **fields: Any) -> RecordRow:
    values: dict[str, Any] = {
        "seq": slot + 1,
        "kind": "Turn",
        "id": f"r{slot}",
        "channel": "_global",
        "status": "active",
        "conversation_id": "c",
        "position": slot,
        "speaker": "Ann",
        "valid_from": to_micros(NOW - DAY),
        "valid_to": None,
        "recorded_at": 0,
        "superseded_at": None,
        "words": 3,
        "length": 2,
        "asks": 0,
        "salience": 0.5,
        "confidence": 1.0,
    }
    return RecordRow(slot=slot, **{**values, **fields})


def build_columns(*rows: RecordRow) -> RecordColumns:
    made = RecordColumns()
    made.put(RecordColumnBatch.from_rows(rows), max((each.seq for each in rows), default=0))
    return made


def seen(of: RecordColumns, **asked: Any) -> list[str]:
    view = of.build_visibility_mask(**{"channels": ["_global"], "now": NOW, **asked})
    return [of.ids[ordinal] for ordinal in np.flatnonzero(view.mask)]


@pytest.mark.parametrize(
    "fields, asked, visible",
    [
        ({}, {}, True),
        ({"channel": "roof"}, {}, False),
        ({"channel": "roof"}, {"channels": ["roof", "x"]}, True),
        ({"status": "forgotten"}, {}, False),
        ({"status": "archived"}, {}, False),
        ({"status": "superseded"}, {}, True),
        ({"status": "promoted"}, {}, True),
        ({"superseded_at": to_micros(NOW - DAY)}, {}, False),
        ({"valid_to": to_micros(NOW)}, {}, False),
        ({"valid_to": to_micros(NOW) + 1}, {}, True),
        ({"valid_to": to_micros(NOW)}, {"as_of": NOW - DAY}, True),
        ({"valid_from": to_micros(NOW + DAY)}, {}, True),
        ({"valid_from": to_micros(NOW + DAY)}, {"as_of": NOW}, False),
        ({"valid_from": to_micros(NOW)}, {"as_of": NOW}, True),
        ({"valid_from": None}, {"as_of": NOW - 100 * DAY}, True),
        ({"kind": "Fact"}, {"kinds": ["Turn"]}, False),
        ({"kind": "Fact"}, {"kinds": ["Turn", "Fact"]}, True),
        ({"valid_from": to_micros(NOW)}, {"since": NOW}, True),
        ({"valid_from": to_micros(NOW)}, {"until": NOW}, False),
        ({"valid_from": to_micros(NOW) - 1}, {"since": NOW}, False),
        ({"confidence": 0.3}, {"min_confidence": 0.5}, False),
        ({"confidence": 0.5}, {"min_confidence": 0.5}, True),
    ],
)
def test_a_view_leaves_out_what_a_query_may_not_see(
    fields: dict[str, Any], asked: dict[str, Any], visible: bool
) -> None:
    assert seen(build_columns(row(0, **fields)), **asked) == (["r0"] if visible else [])


def test_slots_without_a_record_are_never_seen() -> None:
    made = build_columns(row(3))
    assert (made.size, seen(made), made.ordinals_by_key) == (4, ["r3"], {("Turn", "r3"): 3})
    made.drop([3, 99], 7)
    assert (seen(made), made.seq) == ([], 7)


def test_a_snapshot_stays_as_it_was() -> None:
    made = build_columns(row(0), row(1))
    before = made.snapshot()
    made.put(RecordColumnBatch.from_rows([row(2)]), 5)
    made.put(RecordColumnBatch.from_rows([row(0, status="forgotten", seq=6)]), 6)
    made.drop([1], 7)
    assert (seen(before), before.seq, before.size) == (["r0", "r1"], 2, 2)
    assert (seen(made), made.seq) == (["r2"], 7)


def test_a_copy_is_patched_without_touching_the_original() -> None:
    made = build_columns(row(0), row(1))
    patched = made.snapshot().copy()
    patched.drop([1], made.seq)
    patched.put(RecordColumnBatch.from_rows([row(0, id="earlier")]), made.seq)
    assert seen(patched) == ["earlier"]
    assert seen(made) == ["r0", "r1"]


def test_columns_grow_without_losing_rows() -> None:
    made = RecordColumns()
    for ordinal in range(1000):
        made.put(RecordColumnBatch.from_rows([row(ordinal, words=ordinal)]), ordinal + 1)
    assert made.words.tolist() == list(range(1000))
    assert (made.kind >= 0).all()
    with pytest.raises(AttributeError, match="colour"):
        _ = made.colour


def test_turns_stand_in_order_by_channel_conversation_and_position() -> None:
    made = build_columns(
        row(0, position=2),
        row(1, conversation_id="d", position=0),
        row(2, position=0),
        row(3, conversation_id=""),
        row(4, channel="roof", position=1),
        row(5, position=1),
    )
    assert [made.ids[ordinal] for ordinal in made.conversation_order()] == ["r2", "r5", "r0", "r1", "r4"]
    made.drop([5], 10)
    assert [made.ids[ordinal] for ordinal in made.conversation_order()] == ["r2", "r0", "r1", "r4"]


def test_names_are_coded_in_the_order_first_seen() -> None:
    names = StringInterner()
    assert [names.intern(name) for name in ("b", "a", "b")] == [0, 1, 0]
    assert (names.find_code("a"), names.find_code("c")) == (1, -1)
    assert names.mask_for(["a", "c"]).tolist() == [False, True, False]
    assert not names.mask_for([])[-1], "what has no code is in no list"
