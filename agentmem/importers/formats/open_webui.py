"""Open WebUI's exported chats: of each the branch that is open."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agentmem.core.clock import derive_id
from agentmem.core.input_fields import (
    SourceLocation,
    TurnInput,
    get_mapping,
    parse_datetime,
    parse_identifier,
    parse_mapping,
    parse_text,
)
from agentmem.core.messages import MessageReader
from agentmem.importers.branches import find_branch
from agentmem.importers.format import Format, read_each, report_errors
from agentmem.importers.items import ImportItem, Omission
from agentmem.importers.record_fields import name_conversation
from agentmem.importers.source import ErrorHandler, SourceFile

_DETAILS = re.compile(
    r'<details\b(?=[^<>]*\btype="(reasoning|tool_calls|code_interpreter)")([^<>]*)>.*?</details>\s*', re.DOTALL
)
_NAME = re.compile(r'\bname="([^"]+)"')


def detect_open_webui(source: SourceFile) -> bool:
    """Whether a document is a list of chats, each with its messages in `chat`."""
    first = next(iter(source.find_sample("item")), None)
    chat = get_mapping(first, "chat") if isinstance(first, Mapping) else {}
    return isinstance(chat.get("history"), Mapping) or isinstance(chat.get("messages"), list)


def read_open_webui(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """The turns of all chats."""

    def parse(value: Any, location: SourceLocation) -> Iterator[ImportItem]:
        record = parse_mapping(value, "chat", location)
        chat = parse_mapping(record.get("chat"), "chat", location)
        conversation_id = parse_identifier(record.get("id") or chat.get("id"), "id", location)
        history = get_mapping(chat, "history")
        nodes = {key: each for key, each in get_mapping(history, "messages").items() if isinstance(each, Mapping)}
        if not nodes and isinstance(chat.get("messages"), list):  # of older versions
            nodes = {str(each.get("id")): each for each in chat["messages"] if isinstance(each, Mapping)}
        parents = {key: node.get("parentId") for key, node in nodes.items()}
        times = {key: node.get("timestamp") for key, node in nodes.items()}
        branch = find_branch(parents, times, history.get("currentId"))
        for _ in range(len(nodes) - len(branch)):
            yield Omission("message of another branch")
        reader = MessageReader()
        for key in branch:
            at = location.child("messages").child(key)
            for item in report_errors(_read_message(nodes[key], reader, at), at, on_error):
                if isinstance(item, dict):
                    item["conversation_id"] = conversation_id
                    item["turn_id"] = derive_id("turn", conversation_id, key)
                    name_conversation(item, record.get("title") or chat.get("title"))
                    if isinstance(record.get("user_id"), str):
                        item["owner"] = record["user_id"]
                yield item

    return read_each(source, ("item",), parse, on_error)


def _read_message(node: Mapping[str, Any], reader: MessageReader, location: SourceLocation) -> Iterator[ImportItem]:
    fields = reader.read_fields({"role": node.get("role"), "content": node.get("content")}, location)
    files = node.get("files")
    marks = [_mark_file(each) for each in files if isinstance(each, Mapping)] if isinstance(files, list) else []
    done, end, rest = fields["content"].rpartition("</details>")  # each beginning before the last end has one
    said = _DETAILS.sub(_mark_call, done + end) + (rest.lstrip() if end else rest)
    content = "\n".join(piece for piece in (said.strip(), *marks) if piece)
    if not content:
        yield Omission("message without text")
        return
    turn = TurnInput(role=fields["role"], content=parse_text(content, "content", location))
    if node.get("timestamp") is not None:
        turn["timestamp"] = parse_datetime(node["timestamp"], "timestamp", location)
    yield turn


def _mark_call(found: re.Match[str]) -> str:
    """A tool call as a mark. What the model thought is left out."""
    if found[1] == "reasoning":
        return ""
    name = _NAME.search(found[2])
    return f"[calls {name[1] if name else 'a tool'}]\n"


def _mark_file(file: Mapping[str, Any]) -> str:
    label = "image" if file.get("type") == "image" else "file"
    return f"[{label} {file['name']}]" if isinstance(file.get("name"), str) else f"[{label}]"


FORMAT = Format(
    name="open_webui",
    title="Open WebUI chats (JSON)",
    detect=detect_open_webui,
    read=read_open_webui,
)
