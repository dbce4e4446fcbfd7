"""Letta's agent files (`.af`) of both versions: memory blocks as facts, messages as turns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agentmem.core.clock import derive_id
from agentmem.core.input_fields import (
    SourceLocation,
    TurnInput,
    get_mapping,
    parse_identifier,
    parse_list_field,
    parse_mapping,
    parse_text,
    parse_text_field,
)
from agentmem.core.messages import MessageReader
from agentmem.importers.format import Format, read_each, report_errors
from agentmem.importers.items import ImportedFact, ImportItem, Omission
from agentmem.importers.record_fields import find_text, find_time, name_conversation
from agentmem.importers.source import ErrorHandler, SourceFile

_LEFT_OUT = {"tools": "tool", "files": "file", "sources": "source", "groups": "group", "mcp_servers": "MCP server"}
# The name first, then agents before blocks: a block says by itself neither whose it is nor what it is called for.
_PATHS = ("name", "agents.item", "blocks.item", "core_memory.item", "messages.item", *(f"{k}.item" for k in _LEFT_OUT))
_AGENT_FIELDS = frozenset({"agent_type", "block_ids", "core_memory", "in_context_message_ids", "llm_config"})
_USER_LABEL = "human"
_SEND_TOOL = "send_message"  # with which an agent of the first version talks to its user


def detect_letta(source: SourceFile) -> bool:
    """Whether a document is an agent with its core memory, or has agents."""
    whole = next(iter(source.find_sample("")), None)
    if not isinstance(whole, Mapping):
        return False
    if isinstance(whole.get("core_memory"), list):
        return len(_AGENT_FIELDS & whole.keys()) > 1
    return any(isinstance(each, Mapping) and _AGENT_FIELDS & each.keys() for each in source.find_sample("agents.item"))


def read_letta(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """Each line of a memory block as a fact, and the messages of each agent as a conversation."""
    return read_each(source, _PATHS, _AgentReader(on_error).parse, on_error)


class _AgentReader:
    """One reading of one file. It remembers which agent has which blocks."""

    def __init__(self, on_error: ErrorHandler) -> None:
        self._on_error = on_error
        self._agent = "agent"
        self._agents_by_block: dict[str, str] = {}
        self._messages = MessageReader()

    def parse(self, value: Any, location: SourceLocation) -> Iterator[ImportItem]:
        part = location.path.partition("[")[0]
        if part == "name":
            self._agent = parse_identifier(value, "name", location)
        elif part in _LEFT_OUT:
            yield Omission(_LEFT_OUT[part])
        elif part == "messages":
            yield from _read_message(value, self._agent, self._messages, location)
        elif part == "agents":
            yield from self._read_agent(parse_mapping(value, "agent", location), location)
        else:
            block = parse_mapping(value, "block", location)
            yield from _read_block(block, self._agents_by_block.get(str(block.get("id")), self._agent), location)

    def _read_agent(self, agent: Mapping[str, Any], location: SourceLocation) -> Iterator[ImportItem]:
        name = parse_identifier(agent.get("name"), "name", location)
        for block_id in parse_list_field(agent, "block_ids", location) if agent.get("block_ids") else []:
            self._agents_by_block.setdefault(str(block_id), name)
        reader = MessageReader()
        for number, message in enumerate(parse_list_field(agent, "messages", location)):
            place = location.child("messages").child(number)
            yield from report_errors(_read_message(message, name, reader, place), place, self._on_error)


def _read_block(block: Mapping[str, Any], agent: str, location: SourceLocation) -> Iterator[ImportItem]:
    label = parse_identifier(block.get("label"), "label", location)
    said_at = find_time(block, ("updated_at", "created_at"), location)
    for line in parse_text_field(block, "value", location).splitlines():
        claim = line.strip().removeprefix("- ").removeprefix("* ").strip()
        if claim.startswith(("#", "<")):
            yield Omission("heading of a memory block")
        elif any(map(str.isalnum, claim)):
            subject = "" if label == _USER_LABEL else agent
            yield ImportedFact(
                claim,
                subject=subject,
                said_at=said_at,
                tags=("block", label),
                is_verbatim=label not in (_USER_LABEL, "persona"),
            )


def _read_message(value: Any, agent: str, reader: MessageReader, location: SourceLocation) -> Iterator[ImportItem]:
    message = parse_mapping(value, "message", location)
    role = message.get("role")
    if role in ("system", "approval"):
        yield Omission(f"{role} message of the agent")
        return
    said = _find_sent(message) if role == "assistant" else None
    if said is not None:
        fields: dict[str, Any] = {"role": "assistant", "content": parse_text(said, "content", location)}
    elif role == "tool" and message.get("name") == _SEND_TOOL:
        yield Omission("receipt of a message")
        return
    else:
        fields = reader.read_fields({**message, "content": _drop_reasoning(message.get("content"))}, location)
    content = fields["content"]
    if role == "user" and (event := _parse_object(content)) is not None and "type" in event:
        if event["type"] != "user_message":
            yield Omission("event of the agent")
            return
        content = find_text(event, ("message",), location)
    if not content.strip():
        yield Omission("message without text")
        return
    conversation = derive_id("conversation", "letta", agent)
    turn = TurnInput(role=fields["role"], content=content, conversation_id=conversation)
    timestamp = find_time(message, ("created_at",), location)
    # The ids in a file are places in it, and those of the next file of the same agent are others.
    told = location.path if timestamp is None else str(timestamp)
    turn["turn_id"] = derive_id("turn", conversation, told, fields["role"], content)
    if timestamp is not None:
        turn["timestamp"] = timestamp
    name_conversation(turn, agent)
    yield turn


def _find_sent(message: Mapping[str, Any]) -> str | None:
    """What an assistant says by its tool for that; its content is reasoning then."""
    calls = message.get("tool_calls")
    listed = calls if isinstance(calls, list) else []
    functions = [get_mapping(each, "function") for each in listed if isinstance(each, Mapping)]
    sent = [_parse_object(each.get("arguments")) for each in functions if each.get("name") == _SEND_TOOL]
    texts = [each["message"] for each in sent if each is not None and isinstance(each.get("message"), str)]
    return "\n".join(texts) if texts else None


def _drop_reasoning(content: object) -> object:
    """What is left without the parts that Letta has for reasoning which is hidden or shortened."""
    if not isinstance(content, list):
        return content or ""
    return [part for part in content if not (isinstance(part, Mapping) and str(part.get("type")).endswith("reasoning"))]


def _parse_object(text: object) -> dict[str, Any] | None:
    try:
        value = json.loads(text) if isinstance(text, str) and text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


FORMAT = Format(name="letta", title="Letta agent file (.af)", detect=detect_letta, read=read_letta)
