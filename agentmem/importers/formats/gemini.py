"""Gemini: the activity of Google Takeout, and files of AI Studio."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from html.parser import HTMLParser
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
from agentmem.importers.source import ErrorHandler, SourceFile

# What Takeout writes before a prompt, in English, German, French, Spanish, Portuguese and Italian.
_PROMPTED = re.compile(
    r"(?:Prompted|Said|Eingegebener Prompt|Prompt|Requête|Prompt envoyé|Petición|Instrucción|Comando|Prompt inserito)"
    r"(?:\s?:)?\s+"
)
_CHUNKS = "chunkedPrompt.chunks.item"
_BLOCKS = re.compile(r"blockquote|br|div|d[ldt]|h[1-6]|hr|li|ol|p|pre|section|table|tr|ul")
_HIDDEN = frozenset({"script", "style"})


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
        yield Omission("activity that is no prompt")
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


class _HtmlText(HTMLParser):
    """Collects the text of HTML, a block a line."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in _HIDDEN
        if _BLOCKS.fullmatch(tag):
            self.pieces.append("\n- " if tag == "li" else "\n")
        elif tag in ("td", "th"):
            self.pieces.append(" ")
        elif tag == "img":
            self.pieces.append("[image]")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in _HIDDEN and self._hidden > 0
        if _BLOCKS.fullmatch(tag):
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(data)


def read_html(written: str) -> str:
    """The text of HTML, without blank lines."""
    parser = _HtmlText()
    parser.feed(written)
    parser.close()
    lines = (line.rstrip() for line in "".join(parser.pieces).replace("-\xa0", "- ").splitlines())
    return "\n".join(line for line in lines if line.strip(" -"))


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
