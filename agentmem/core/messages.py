"""Messages as agents send them, as fields of turns: OpenAI's chat and Responses, Anthropic's, Gemini's, LangChain's.

Text is kept word for word; tool calls and results become bracketed lines; thinking is left out; a picture or a file
leaves a mark such as `[image]`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from agentmem.core.input_fields import (
    SourceLocation,
    parse_identifier,
    parse_list_field,
    parse_mapping,
    parse_text,
    read_role,
)
from agentmem.core.plain_values import check_json, describe_value
from agentmem.core.records import ROLE_ALIASES
from agentmem.errors import InvalidRecord

_SKIPPED_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
_CALL_PARTS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_ATTACHMENTS = {
    "image_url": "image",
    "input_image": "image",
    "input_audio": "audio",
    "input_file": "file",
    "inlineData": "file",
    "inline_data": "file",
    "fileData": "file",
    "file_data": "file",
}
_MESSAGE_ONLY_FIELDS = ("tool_calls", "tool_call_id", "function_call", "refusal", "parts", "audio")
# What messages carry besides, without anything to remember in it.
_IGNORED_NAMES = (
    "additional_kwargs annotations artifact cache_control container context_management example id"
    " invalid_tool_calls lc object output_text phase reasoning reasoning_content reasoning_details"
    " response_metadata status stop_details stop_reason stop_sequence type usage usage_metadata"
)
_IGNORED_FIELDS = frozenset(_IGNORED_NAMES.split())
# Any mapping may have these keys: alone they do not make a message, and a typo for `turn_id` gets an error.
_COMMON_FIELDS = frozenset({"example", "id", "object", "status", "type"})
_MODEL_FIELD = "model"  # of Anthropic's replies; a turn has it, too
# LangChain's names of messages, its classes and chunks among them, in lower case without `message` and `chunk`.
_TYPES = {**ROLE_ALIASES, "chat": "assistant"}
_CALL_TYPES = ("function_call", "custom_tool_call")
_RESULT_TYPES = ("function_call_output", "custom_tool_call_output")


def is_message(value: object) -> bool:
    """Whether a mapping is a message of a vendor: it has a field or a kind of content that a plain turn has not."""
    if not isinstance(value, Mapping):
        return False
    return (
        isinstance(value.get("content"), list)
        or any(value.get(field) is not None for field in _MESSAGE_ONLY_FIELDS)
        or (value.get("name") is not None and "role" in value)
        or _get_type(value) is not None
        or value.get("type") == "message"
        or not (_IGNORED_FIELDS - _COMMON_FIELDS).isdisjoint(value)
    )


def dump_message(message: object) -> object:
    """A message object of a vendor's library as a mapping; anything else as it is."""
    dump = getattr(message, "model_dump", None) or getattr(message, "to_dict", None)
    if isinstance(message, (Mapping, type)) or not callable(dump):
        return message
    return dump()


def render_message(value: object) -> object:
    """The text of a message, or of its content parts, given in place of text; anything else as it is."""
    if not isinstance(value, (list, Mapping)):
        return value
    if isinstance(value, Mapping) and "content" in value:
        message = dict(value)
    else:
        message = {"content": value if isinstance(value, list) else [value]}
    return MessageReader().read_fields({"role": "user", **message}, SourceLocation("text"))["content"]


class MessageReader:
    """Reads the messages of one conversation in their order. It knows which tool the id of a call belongs to."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}

    def read_fields(self, message: Mapping[str, Any], location: SourceLocation) -> dict[str, Any]:
        """The fields of a turn that a message gives: role, content, perhaps speaker, and its own fields of turns.

        The content is empty where nothing of the message is text, such as thinking. Raises InvalidRecord, naming
        place and field, for a message of no known form.
        """
        known = _normalize(message, location)
        role = read_role(known.get("role"), "role", location)
        content = self._read_text(known, location)
        if role == "tool" and content:
            called = self._tools.get(str(known.get("tool_call_id")), known.get("name"))
            content = _render_result(called, content)
        elif role == "user" and _has_only_results(known.get("content")):
            role = "tool"
        fields: dict[str, Any] = {"role": role, "content": parse_text(content, "content", location)}
        speaker = known.get("speaker", None if role == "tool" else known.get("name"))
        if speaker is not None:
            fields["speaker"] = parse_identifier(speaker, "speaker", location)
        left = _IGNORED_FIELDS.union(_MESSAGE_ONLY_FIELDS, ("role", "content", "name", "speaker", _MODEL_FIELD))
        return fields | {name: value for name, value in known.items() if name not in left and value is not None}

    def _read_text(self, known: Mapping[str, Any], location: SourceLocation) -> str:
        content = known.get("content")
        if content is None and not any(known.get(field) for field in _MESSAGE_ONLY_FIELDS):
            raise location.build_error("content", "must be text or a list of content parts, got nothing")
        pieces = [] if content is None else [self._render_content(content, location)]
        if isinstance(known.get("refusal"), str):
            pieces.append(known["refusal"])
        if known.get("audio"):
            transcript = known["audio"].get("transcript") if isinstance(known["audio"], Mapping) else None
            pieces.append(transcript if isinstance(transcript, str) else "[audio]")
        pieces += self._render_tool_calls(known, location)
        return "\n".join(piece for piece in pieces if piece.strip())

    def _render_content(self, content: object, location: SourceLocation) -> str:
        if not isinstance(content, list):
            return parse_text(content, "content", location)
        pieces = [self._render_part(part, location.child("content").child(i)) for i, part in enumerate(content)]
        return "\n".join(piece for piece in pieces if piece.strip())

    def _render_part(self, part: object, location: SourceLocation) -> str:
        if isinstance(part, str):
            return parse_text(part, "content", location)
        block = parse_mapping(part, "content", location)
        kind = block.get("type") or _find_part_kind(block)
        if not isinstance(kind, str):
            raise location.build_error("type", f"must be text, got {describe_value(kind)}")
        if kind in _SKIPPED_PARTS or block.get("thought") is True:
            return ""
        if kind in _CALL_PARTS:
            return self._render_call(block.get("id"), block.get("name"), block.get("input"), location)
        if kind == "tool_result":
            called = self._tools.get(str(block.get("tool_use_id")))
            return _render_result(called, _render_result_content(block.get("content"), location))
        if kind in ("functionCall", "function_call") and isinstance(block.get(kind), Mapping):
            return self._render_call(None, block[kind].get("name"), block[kind].get("args"), location)
        if kind in ("functionResponse", "function_response") and isinstance(block.get(kind), Mapping):
            written = _write_json(block[kind].get("response"), location)
            return _render_result(block[kind].get("name"), written)
        if kind == "refusal":
            return parse_text(block.get("refusal"), "refusal", location)
        if kind.endswith("text"):
            text = block.get("text")
            return parse_text(text.get("value") if isinstance(text, Mapping) else text, "text", location)
        return _render_attachment(kind, block)

    def _render_tool_calls(self, known: Mapping[str, Any], location: SourceLocation) -> list[str]:
        found = []
        for i, value in enumerate(parse_list_field(known, "tool_calls", location) if known.get("tool_calls") else []):
            at = location.child("tool_calls").child(i)
            call = parse_mapping(value, "tool_calls", at)
            function = parse_mapping(call.get("function", call.get("custom", call)), "function", at)
            found.append(self._render_call(call.get("id"), function.get("name"), _get_arguments(function), at))
        if known.get("function_call"):
            function = parse_mapping(known["function_call"], "function_call", location)
            found.append(self._render_call(None, function.get("name"), _get_arguments(function), location))
        return found

    def _render_call(self, call_id: object, tool: object, arguments: object, location: SourceLocation) -> str:
        known = tool if isinstance(tool, str) and tool else "a tool"
        if isinstance(call_id, str):
            self._tools[call_id] = known
        written = _write_json(arguments, location).strip()
        return f"[calls {known}]" if written in ("", "{}", "null") else f"[calls {known} {written}]"


def _normalize(message: Mapping[str, Any], location: SourceLocation) -> Mapping[str, Any]:
    """The message in the form of OpenAI's chat, with what it says about a turn beside it."""
    kind = _get_type(message)
    if message.get("type") == "constructor" and isinstance(message.get("kwargs"), Mapping):
        inner = dict(message["kwargs"])
        return _normalize({**inner, "type": inner.get("type") or _get_class(message)}, location)
    if kind is not None and isinstance(message.get("data"), Mapping):
        return _normalize({**message["data"], "type": message["type"]}, location)
    if "parts" in message and message.get("content") is None:
        message = {**message, "content": message["parts"]}
    if message.get("role") is not None or kind is None:
        return message
    if kind in _TYPES:
        return {**message, "role": _TYPES[kind]}
    if kind in _RESULT_TYPES:
        return {"role": "tool", "tool_call_id": message.get("call_id"), "content": message.get("output")}
    if kind in _CALL_TYPES:
        function = {"name": message.get("name"), "arguments": message.get("arguments", message.get("input"))}
        return {"role": "assistant", "tool_calls": [{"id": message.get("call_id"), "function": function}]}
    return {"role": "assistant", "content": [{"type": kind}]}  # reasoning, or a call of a tool of the vendor's own


def _get_type(message: Mapping[str, Any]) -> str | None:
    """What kind of message a mapping without a role says it is; None for none."""
    kind = message.get("type")
    if not isinstance(kind, str) or message.get("role") is not None:
        return None
    if kind == "constructor":
        return kind
    plain = kind.lower().removesuffix("chunk").removesuffix("message")
    if plain in _TYPES:
        return plain
    if kind in (*_CALL_TYPES, *_RESULT_TYPES, "reasoning") or kind.endswith("_call"):
        return kind
    return None


def _get_class(message: Mapping[str, Any]) -> object:
    path = message.get("id")
    return path[-1] if isinstance(path, list) and path else None


def _find_part_kind(block: Mapping[str, Any]) -> str:
    """The kind of a part that has none: Gemini's parts have one field, named by what they are."""
    if "text" in block or not block:
        return "text"
    return next((name for name in block if name not in ("thought", "thoughtSignature")), "text")


def _get_arguments(function: Mapping[str, Any]) -> object:
    return next((function[name] for name in ("arguments", "args", "input") if name in function), None)


def _write_json(value: object, location: SourceLocation) -> str:
    if isinstance(value, str):
        return parse_text(value, "arguments", location)
    try:
        check_json(value, "arguments")
    except InvalidRecord as error:
        raise location.build_error("arguments", str(error).removeprefix("arguments").strip()) from None
    return json.dumps(value, ensure_ascii=False)


def _render_result_content(content: object, location: SourceLocation) -> str:
    """The text of a result. Results do not nest: parts that are not text are only named."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return parse_text(content, "content", location)
    pieces = []
    for i, part in enumerate(content):
        block = {"text": part} if isinstance(part, str) else parse_mapping(part, "content", location)
        written = block.get("text")
        kind = str(block.get("type", "text"))
        pieces.append(
            _render_attachment(kind, block) if written is None else parse_text(written, "text", location.child(i))
        )
    return "\n".join(pieces)


def _render_attachment(kind: str, block: Mapping[str, Any]) -> str:
    label = _ATTACHMENTS.get(kind, kind)
    title = block.get("title", block.get("filename"))
    return f"[{label} {title}]" if isinstance(title, str) else f"[{label}]"


def _render_result(tool: object, content: str) -> str:
    known = tool if isinstance(tool, str) and tool else "a tool"
    return f"[{known} returned] {content}".rstrip()


def _has_only_results(content: object) -> bool:
    parts = cast("list[object]", content) if isinstance(content, list) else []
    return bool(parts) and all(isinstance(part, Mapping) and part.get("type") == "tool_result" for part in parts)
