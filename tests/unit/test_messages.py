"""Messages of vendors as turns: what is kept, what leaves a mark, what is left out, and what is wrong with a place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.core.input_fields import SourceLocation
from agentmem.core.messages import MessageReader, is_message
from agentmem.core.plain_values import replace_surrogate_escapes, replace_surrogates
from agentmem.errors import InvalidRecord

HERE = SourceLocation("turns[2]")

MESSAGES: list[tuple[Any, str, str]] = [
    # OpenAI: Responses, Assistants, audio
    ({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Tea?"}]}, "user", "Tea?"),
    (
        {"type": "function_call", "call_id": "f1", "name": "brew", "arguments": '{"cups": 2}'},
        "assistant",
        '[calls brew {"cups": 2}]',
    ),
    ({"type": "function_call_output", "call_id": "f1", "output": "done"}, "tool", "[brew returned] done"),
    ({"type": "reasoning", "summary": []}, "assistant", ""),
    ({"type": "web_search_call", "id": "w"}, "assistant", "[web_search_call]"),
    (
        {"role": "assistant", "content": [{"type": "text", "text": {"value": "Yes.", "annotations": []}}]},
        "assistant",
        "Yes.",
    ),
    (
        {"role": "assistant", "content": None, "audio": {"id": "a", "transcript": "Good night."}},
        "assistant",
        "Good night.",
    ),
    ({"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}, "user", "[audio]"),
    (
        {"role": "assistant", "content": None, "function_call": {"name": "brew", "arguments": "{}"}},
        "assistant",
        "[calls brew]",
    ),
    # Anthropic
    (
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}], "stop_reason": "end_turn"},
        "assistant",
        "",
    ),
    (
        {"role": "user", "content": [{"type": "image", "source": {}}, {"type": "text", "text": "My boat"}]},
        "user",
        "[image]\nMy boat",
    ),
    # Gemini
    ({"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "Ahoy"}]}, "assistant", "Ahoy"),
    (
        {"role": "model", "parts": [{"functionCall": {"name": "sail", "args": {"to": "Vigo"}}}]},
        "assistant",
        '[calls sail {"to": "Vigo"}]',
    ),
    ({"role": "user", "parts": [{"inlineData": {"mimeType": "image/png"}}]}, "user", "[file]"),
    # LangChain
    ({"type": "human", "data": {"content": "I sail.", "name": "ada"}}, "user", "I sail."),
    ({"type": "AIMessageChunk", "content": "Nice.", "response_metadata": {}}, "assistant", "Nice."),
    (
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", "SystemMessage"],
            "kwargs": {"content": "Be kind."},
        },
        "system",
        "Be kind.",
    ),
    (
        {"type": "ai", "content": "", "tool_calls": [{"name": "brew", "args": {}, "id": "x"}]},
        "assistant",
        "[calls brew]",
    ),
    ({"type": "tool", "content": "7", "tool_call_id": "x"}, "tool", "[brew returned] 7"),
]


def test_messages_of_every_vendor_become_turns() -> None:
    reader = MessageReader()
    for message, role, content in MESSAGES:
        assert is_message(message), message
        fields = reader.read_fields(message, HERE)
        assert (fields["role"], fields["content"]) == (role, content), message


def test_a_plain_turn_is_no_message() -> None:
    for more in (
        {},
        {"role": "tool", "metadata": {}},
        {"contents": "x"},
        {"id": "t1"},
        {"status": "read", "type": "note"},
    ):
        assert not is_message({"content": "x", **more}), more


@pytest.mark.parametrize(
    "message, place, field",
    [
        ({"role": "user", "content": [{"type": "text", "text": 7}]}, "turns[2]: content[0]: text", "text"),
        ({"role": "assistant", "tool_calls": [3]}, "turns[2]: tool_calls[0]: tool_calls", "tool_calls"),
        ({"role": "user", "content": None, "name": "x"}, "turns[2]: content", "content"),
        (
            {"type": "ai", "content": "", "tool_calls": [{"name": "f", "args": {"n": 10**400}}]},
            "tool_calls[0]: arguments",
            "arguments",
        ),
        ({"type": "ai", "content": "x", "name": "\x00"}, "turns[2]: speaker", "speaker"),
    ],
)
def test_what_is_wrong_has_a_place_and_a_field(message: Any, place: str, field: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        MessageReader().read_fields(message, HERE)
    assert place in str(caught.value)
    assert caught.value.field == field


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "type",
                    "content",
                    "parts",
                    "text",
                    "name",
                    "tool_calls",
                    "function",
                    "arguments",
                    "id",
                    "data",
                    "kwargs",
                    "lc",
                ]
            ),
            inner | st.sampled_from(["user", "human", "ai", "constructor", "text", "tool_use", "function_call"]),
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["role", "type", "content", "parts", "data", "kwargs", "id", "audio"]), JSON))
def test_any_message_gives_a_turn_or_an_invalid_record(message: dict[str, Any]) -> None:
    try:
        fields = MessageReader().read_fields(message, HERE)
    except InvalidRecord:
        return
    assert isinstance(fields["content"], str)


def test_half_of_a_surrogate_pair_becomes_a_replacement_character() -> None:
    assert replace_surrogates("a\ud83d b\ude00 \ud83d\ude00") == "a\ufffd b\ufffd \U0001f600"
    written = r'"cut \ud83d, whole \ud83d\ude00, low \ude00, text \\ud83d"'
    assert replace_surrogate_escapes(written) == r'"cut \ufffd, whole \ud83d\ude00, low \ufffd, text \\ud83d"'
