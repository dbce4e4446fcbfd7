"""Message lists as OpenAI's and Anthropic's interfaces have them, as turns with readable text.

Text parts are kept verbatim; tool calls and results become bracketed lines; thinking is left out; a picture or a file
is named, not read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentmem.errors import InvalidRecord
from agentmem.interchange.fields import Place, TurnInput, as_text, mapping, moment, name, role, sequence, shown

_SILENT = frozenset({"thinking", "redacted_thinking", "reasoning"})
_CALLS = frozenset({"tool_use", "server_tool_use"})
_SHOWN = {"image_url": "image", "input_image": "image", "input_audio": "audio", "input_file": "file"}
_TELLING = ("tool_calls", "tool_call_id", "function_call", "name", "refusal")


def is_message(value: object) -> bool:
    """Whether a JSON value is a message with content of a kind that a plain turn does not have."""
    return isinstance(value, Mapping) and (
        isinstance(value.get("content"), list) or any(value.get(field) is not None for field in _TELLING)
    )


def conversation_turns(value: object, place: Place, report: Callable[[InvalidRecord], None]) -> Iterator[TurnInput]:
    """The turns of a list of messages, or of an object with `messages` and perhaps `system` and an `id`.

    What is wrong with one message goes to `report`; when that returns, reading goes on with the next message.
    """
    whole: Mapping[str, Any] = {"messages": value} if isinstance(value, list) else mapping(value, "messages", place)
    called: dict[str, str] = {}
    own_id = whole.get("conversation_id", whole.get("id"))
    shared = None if own_id is None else name(own_id, "conversation_id", place)
    listed = list(enumerate(sequence(whole, "messages", place)))
    if whole.get("system"):
        listed.insert(0, (-1, {"role": "system", "content": whole["system"]}))
    for i, message in listed:
        at = place.inside("system") if i < 0 else place.inside("messages").inside(i)
        try:
            turn = message_turn(mapping(message, f"messages[{i}]", place), called, at)
        except InvalidRecord as error:
            report(error)
            continue
        if turn is not None:
            if shared is not None:
                turn.setdefault("conversation_id", shared)
            yield turn


def message_turn(message: Mapping[str, Any], called: dict[str, str], place: Place) -> TurnInput | None:
    """One message as a turn, or None when nothing of it can be read as text (only thinking, or empty).

    `called` maps the ids of the tool calls seen so far to the names of the tools, and grows.
    """
    turn = TurnInput(role=role(message.get("role"), "role", place), content="")
    content = message.get("content")
    if content is None and not any(message.get(field) for field in (*_TELLING, "audio")):
        raise place.error("content", "must be text or a list of content parts, got nothing")
    pieces = [_rendered(content, called, place)] if content is not None else []
    if isinstance(message.get("refusal"), str):
        pieces.append(message["refusal"])
    pieces += _tool_calls(message, called, place)
    turn["content"] = "\n".join(piece for piece in pieces if piece.strip())
    if not turn["content"]:
        return None
    if turn["role"] == "tool":
        turn["content"] = _result(called.get(str(message.get("tool_call_id")), message.get("name")), turn["content"])
    elif turn["role"] == "user" and _only_results(content):
        turn["role"] = "tool"
    as_text(turn["content"], "content", place)
    return _with_details(turn, message, place)


def _with_details(turn: TurnInput, message: Mapping[str, Any], place: Place) -> TurnInput:
    speaker = message.get("speaker", None if turn["role"] == "tool" else message.get("name"))
    if speaker is not None:
        turn["speaker"] = name(speaker, "speaker", place)
    for field in ("timestamp", "created_at", "create_time"):
        if message.get(field) is not None:
            turn["timestamp"] = moment(message[field], field, place)
            break
    if message.get("turn_id") is not None:
        turn["turn_id"] = name(message["turn_id"], "turn_id", place)
    if message.get("conversation_id") is not None:
        turn["conversation_id"] = name(message["conversation_id"], "conversation_id", place)
    if message.get("metadata"):
        turn["metadata"] = dict(mapping(message["metadata"], "metadata", place))
    return turn


def _rendered(content: object, called: dict[str, str], place: Place) -> str:
    if not isinstance(content, list):
        return as_text(content, "content", place)
    pieces = [_part(part, called, place.inside("content").inside(i)) for i, part in enumerate(content)]
    return "\n".join(piece for piece in pieces if piece.strip())


def _part(part: object, called: dict[str, str], place: Place) -> str:
    if isinstance(part, str):
        return as_text(part, "content", place)
    block = mapping(part, "content", place)
    kind = block.get("type", "text")
    if not isinstance(kind, str):
        raise place.error("type", f"must be text, got {shown(kind)}")
    if kind in _SILENT:
        return ""
    if kind in _CALLS:
        return _call(block.get("id"), block.get("name"), block.get("input"), called)
    if kind == "tool_result":
        return _result(called.get(str(block.get("tool_use_id"))), _result_text(block.get("content"), place))
    if kind == "refusal":
        return as_text(block.get("refusal"), "refusal", place)
    if kind.endswith("text"):
        return as_text(block.get("text"), "text", place)
    return _attachment(kind, block)


def _result_text(content: object, place: Place) -> str:
    """A result's own text. Results do not nest, so parts of it that are no text are only named."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return as_text(content, "content", place)
    pieces = []
    for i, part in enumerate(content):
        block = {"text": part} if isinstance(part, str) else mapping(part, "content", place)
        written = block.get("text")
        kind = str(block.get("type", "text"))
        pieces.append(_attachment(kind, block) if written is None else as_text(written, "text", place.inside(i)))
    return "\n".join(pieces)


def _attachment(kind: str, block: Mapping[str, Any]) -> str:
    title = block.get("title", block.get("filename"))
    return f"[{_SHOWN.get(kind, kind)} {title}]" if isinstance(title, str) else f"[{_SHOWN.get(kind, kind)}]"


def _tool_calls(message: Mapping[str, Any], called: dict[str, str], place: Place) -> list[str]:
    found = []
    for i, value in enumerate(sequence(message, "tool_calls", place) if message.get("tool_calls") else []):
        at = place.inside("tool_calls").inside(i)
        call = mapping(value, "tool_calls", at)
        function = mapping(call.get("function", call.get("custom", {})), "function", at)
        arguments = function.get("arguments", function.get("input"))
        found.append(_call(call.get("id"), function.get("name"), arguments, called))
    if message.get("function_call"):
        function = mapping(message["function_call"], "function_call", place)
        found.append(_call(None, function.get("name"), function.get("arguments"), called))
    return found


def _call(call_id: object, tool: object, arguments: object, called: dict[str, str]) -> str:
    known = tool if isinstance(tool, str) and tool else "a tool"
    if isinstance(call_id, str):
        called[call_id] = known
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f"[calls {known}]" if written.strip() in ("", "{}", "null") else f"[calls {known} {written.strip()}]"


def _result(tool: object, content: str) -> str:
    known = tool if isinstance(tool, str) and tool else "a tool"
    return f"[{known} returned] {content}".rstrip()


def _only_results(content: object) -> bool:
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(part, Mapping) and part.get("type") == "tool_result" for part in content)
    )
