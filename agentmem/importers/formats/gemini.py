"""Gemini: the activity of Google Takeout, and files of AI Studio."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from html import unescape
from typing import Any

from agentmem.core.clock import derive_id, to_utc
from agentmem.core.input_fields import (
    SourceLocation,
    TurnInput,
    get_mapping,
    parse_datetime,
    parse_mapping,
    parse_text,
    parse_text_field,
)
from agentmem.core.messages import MessageReader
from agentmem.importers.format import Format, read_each
from agentmem.importers.items import ImportItem, Omission
from agentmem.importers.record_fields import name_conversation
from agentmem.importers.source import ErrorHandler, SourceFile

# What Takeout writes before a prompt, in English, German, French, Spanish, Portuguese and Italian.
_PROMPTED = re.compile(
    r"(?:Prompted|Said)\s+|(?:Eingegebener Prompt|Prompt|Requête|Prompt envoyé|Petición|Instrucción|Comando"
    r"|Prompt enviado|Prompt inserito)\s?:\s*"
)
_CHUNKS = "chunkedPrompt.chunks.item"
# Expressions instead of html.parser, whose time grows with the square of the length of broken tags.
_BLOCKS = re.compile(r"blockquote|br|div|d[ldt]|h[1-6]|hr|li|ol|p|pre|section|table|tr|ul")
_HIDDEN = re.compile(r"<(script|style)\b[^<>]*>[^<]*</\1>", re.IGNORECASE)
_TAG = re.compile(r"<(/?)(!|[a-zA-Z][a-zA-Z0-9]*)[^<>]*>")


def detect_gemini(source: SourceFile) -> bool:
    """Whether a document is a list of activities of Gemini, or a file of AI Studio."""
    first = next(iter(source.find_sample("item")), None)
    if isinstance(first, Mapping) and "title" in first and "time" in first:
        return any(name in str(first.get("header")) for name in ("Gemini", "Bard"))
    return any(isinstance(each, Mapping) and _is_studio(each) for each in source.find_sample(""))


def read_gemini(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """Prompts and answers. Takeout names no conversations: each day of UTC is one, in the order of its hours."""
    if any(isinstance(each, Mapping) and _is_studio(each) for each in source.find_sample("")):
        yield from _read_studio(source, on_error)
        return
    found = read_each(source, ("item",), _read_activity, on_error)
    day = list[TurnInput]()  # the newest is the first of a file
    for item in found:
        if not isinstance(item, dict):
            yield item
            continue
        if day and item["conversation_id"] != day[0]["conversation_id"]:
            yield from sorted(day, key=_get_time)
            day.clear()
        day.append(item)
    yield from sorted(day, key=_get_time)


def _get_time(turn: TurnInput) -> datetime:
    return turn["timestamp"]


def _read_activity(value: Any, location: SourceLocation) -> Iterator[ImportItem]:
    activity = parse_mapping(value, "activity", location)
    title = parse_text_field(activity, "title", location).strip()
    time = parse_datetime(activity.get("time"), "time", location)
    answers = _list_mappings(activity, "safeHtmlItem")
    prompt = _PROMPTED.match(title)
    if prompt is None and not answers:
        yield Omission("activity that is not a prompt")
        return
    marks = [f"[file {name}]" for name in _list_files(activity)]
    asked = "\n".join(piece for piece in (title[prompt.end() if prompt else 0 :], *marks) if piece.strip())
    answer = "\n".join(read_html(parse_text_field(each, "html", location)) for each in answers).strip()
    conversation_id = derive_id("conversation", "gemini", to_utc(time).date().isoformat())
    for role, text in (("user", asked), ("assistant", answer)):
        if text:
            turn = TurnInput(role=role, content=parse_text(text, "content", location), timestamp=time)
            turn["conversation_id"] = conversation_id
            turn["turn_id"] = derive_id("turn", conversation_id, str(activity["time"]), title, role)
            yield turn


def _list_mappings(source: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    listed = source.get(field)
    return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []


def _list_files(activity: Mapping[str, Any]) -> list[str]:
    """The names of pictures and files that stand beside a prompt."""
    listed = activity.get("attachedFiles")
    named = [*(listed if isinstance(listed, list) else []), activity.get("imageFile")]
    return list(dict.fromkeys(each for each in named if isinstance(each, str)))


def read_html(written: str) -> str:
    """The text of HTML, a block a line, without blank lines."""
    lines = unescape(_TAG.sub(_render_tag, _HIDDEN.sub("", written))).splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip(" -\xa0"))


def _render_tag(found: re.Match[str]) -> str:
    tag = found[2].lower()
    if tag == "img":
        return "[image]"
    if _BLOCKS.fullmatch(tag):
        return "\n- " if tag == "li" and not found[1] else "\n"
    return " " if tag in ("td", "th") else ""


def _is_studio(value: Mapping[str, Any]) -> bool:
    return isinstance(get_mapping(value, "chunkedPrompt").get("chunks"), list)


def _read_studio(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    reader = MessageReader()

    def parse(value: Any, location: SourceLocation) -> Iterator[ImportItem]:
        chunk = parse_mapping(value, "chunk", location)
        if chunk.get("isThought"):
            yield Omission("reasoning of the model")
            return
        parts = chunk.get("parts")
        content: list[Any] = [{"text": chunk["text"]}] if "text" in chunk else parts if isinstance(parts, list) else []
        content = content + [{"type": _name_media(name)} for name in chunk if name.startswith(("drive", "inline"))]
        fields = reader.read_fields({"role": chunk.get("role"), "content": content}, location)
        if not fields["content"].strip():
            yield Omission("message without text")
            return
        turn = TurnInput(role=fields["role"], content=fields["content"])
        if chunk.get("createTime") is not None:
            turn["timestamp"] = parse_datetime(chunk["createTime"], "createTime", location)
        name_conversation(turn, source.title)  # in Drive, the file is named by the chat
        yield turn

    return read_each(source, (_CHUNKS,), parse, on_error)


def _name_media(field: str) -> str:
    """`image` for `driveImage` and `inlineImage`, `file` for what is no picture, sound or video."""
    kind = field.removeprefix("drive").removeprefix("inline").lower()
    return kind if kind in ("image", "audio", "video") else "file"


FORMAT = Format(
    name="gemini",
    title="Gemini activity of Google Takeout (My Activity.json), or a chat of AI Studio",
    detect=detect_gemini,
    read=read_gemini,
)
