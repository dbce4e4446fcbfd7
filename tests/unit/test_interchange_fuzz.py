"""Whatever a file holds, reading it gives turns that can be stored, or InvalidRecord with a place; nothing else."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.errors import InvalidRecord
from agentmem.importers.format import load_formats
from agentmem.importers.importer import load_turns

KEYS = (
    "role content type text messages conversations conversation turns id name x tool_calls session_1 "
    "session_1_date_time dia_id speaker timestamp input function"
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(KEYS.split()),
            inner | st.sampled_from(["user", "assistant", "text", "tool_use", "tool_result"]),
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(st.lists(VALUES, max_size=4), st.sampled_from([None, *load_formats()]))
def test_any_json_gives_turns_or_invalid_records(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], chosen: Any
) -> None:
    check(tmp_path_factory, "\n".join(json.dumps(value) for value in values).encode(), chosen)


@given(st.binary(max_size=200))
def test_any_bytes_give_turns_or_invalid_records(tmp_path_factory: pytest.TempPathFactory, written: bytes) -> None:
    check(tmp_path_factory, written, None)


def check(folders: pytest.TempPathFactory, written: bytes, chosen: Any) -> None:
    """Whatever a file holds, what is yielded can be stored and what is wrong has a place and a field."""
    path = folders.getbasetemp() / "fuzz.jsonl"
    path.write_bytes(written)
    errors: list[InvalidRecord] = []
    for turn in load_turns(path, format=chosen, on_error=errors.append):
        assert turn["role"] in {"user", "assistant", "system", "tool"}
        assert turn["content"].strip()
        turn["content"].encode()
        assert 0 < len(turn["turn_id"]) <= 200
        assert 0 < len(turn["conversation_id"]) <= 200
        assert turn.get("timestamp", datetime.min.replace(tzinfo=UTC)).tzinfo is UTC
    for error in errors:
        assert str(error).startswith("fuzz.jsonl")
        assert error.field
