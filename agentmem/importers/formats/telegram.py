"""Telegram Desktop's `result.json`: one chat, or all chats of an account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentmem.core.clock import derive_id
from agentmem.core.input_fields import (
    SourceLocation,
    TurnInput,
    parse_datetime,
    parse_identifier,
    parse_list_field,
    parse_mapping,
    parse_text,
)
from agentmem.importers.format import Format, report_errors
from agentmem.importers.items import ImportItem, Omission
from agentmem.importers.record_fields import name_conversation
from agentmem.importers.source import ErrorHandler, SourceFile

_CHATS = ("chats.list.item", "left_chats.list.item")
_KINDS = ("_chat", "_group", "_supergroup", "_channel")
_OWN_KINDS = ("saved_messages", "replies", "verification_codes")
_MEDIA = {
    "photo": "image",
    "poll": "poll",
    "location_information": "location",
    "contact_information": "contact",
    "file": "file",
}


def detect_telegram(source: SourceFile) -> bool:
    """Whether a document is a chat, or an account with chats."""
    return any(isinstance(each, Mapping) and (_is_chat(each) or _is_account(each)) for each in source.find_sample(""))


def read_telegram(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """The messages of all chats; each chat is a conversation."""
    whole = next((each for each in source.find_sample("") if isinstance(each, Mapping)), {})
    if not _is_chat(whole):
        for chat, place in source.read_records(_CHATS, on_error):
            yield from report_errors(_read_chat(chat, place, on_error), place, on_error)
        return
    for message, place in source.read_records(("messages.item",), on_error):
        yield from report_errors(_read_message(message, whole, place), place, on_error)


def _is_chat(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    is_known = isinstance(kind, str) and (kind.endswith(_KINDS) or kind in _OWN_KINDS)
    return is_known and isinstance(value.get("messages"), list) and "id" in value


def _is_account(value: Mapping[str, Any]) -> bool:
    """Contacts and much else may stand before the chats, so that a beginning does not show them."""
    chats, person = value.get("chats"), value.get("personal_information")
    has_chats = isinstance(chats, Mapping) and isinstance(chats.get("list"), list)
    return has_chats or (isinstance(person, Mapping) and "user_id" in person and "about" in value)


def _read_chat(value: object, location: SourceLocation, on_error: ErrorHandler) -> Iterator[ImportItem]:
    chat = parse_mapping(value, "chat", location)
    for number, message in enumerate(parse_list_field(chat, "messages", location)):
        place = location.child("messages").child(number)
        yield from report_errors(_read_message(message, chat, place), place, on_error)


def _read_message(value: object, chat: Mapping[str, Any], location: SourceLocation) -> Iterator[ImportItem]:
    message = parse_mapping(value, "message", location)
    if message.get("type") == "service":
        yield Omission("service message")
        return
    chat_id = parse_identifier(chat.get("id"), "id", location)
    conversation_id = parse_identifier(f"telegram-{chat_id}", "id", location)
    content = "\n".join(piece for piece in _render_message(message, location) if piece.strip())
    if not content:
        yield Omission("message without text")
        return
    speaker = message.get("from") or message.get("from_id") or chat.get("name") or "unknown"
    turn = TurnInput(role="user", content=parse_text(content, "text", location), conversation_id=conversation_id)
    turn["speaker"] = parse_identifier(speaker, "from", location)
    name_conversation(turn, chat.get("name"))
    turn["turn_id"] = derive_id("turn", conversation_id, parse_identifier(message.get("id"), "id", location))
    time = next((name for name in ("date_unixtime", "date") if message.get(name) is not None), "date")
    turn["timestamp"] = parse_datetime(message.get(time), time, location)
    if message.get("reply_to_message_id") is not None:
        replied = parse_identifier(message["reply_to_message_id"], "reply_to_message_id", location)
        turn["metadata"] = {"reply_to": derive_id("turn", conversation_id, replied)}
    yield turn


def _render_message(message: Mapping[str, Any], location: SourceLocation) -> Iterator[str]:
    """The text of a message, behind marks for whom it is from and for what is no text."""
    if isinstance(message.get("forwarded_from"), str):
        yield f"[forwarded from {message['forwarded_from']}]"
    kind = message.get("media_type")
    found = next((label for field, label in _MEDIA.items() if message.get(field)), None)
    if found == "poll" and isinstance(message["poll"], Mapping):
        found = f"poll: {message['poll'].get('question')}"
    elif isinstance(kind, str):
        found = kind.replace("_", " ").removesuffix(" file")
    elif found == "file" and isinstance(message.get("file_name"), str):
        found = f"file {message['file_name']}"
    if found is not None:
        yield f"[{found}]"
    text = message.get("text", "")
    yield "".join(_read_part(part, location) for part in (text if isinstance(text, list) else [text]))


def _read_part(part: object, location: SourceLocation) -> str:
    """A piece of text: as it is, or with a kind such as `bold` or `link`."""
    return parse_text(part.get("text") if isinstance(part, Mapping) else part, "text", location)


FORMAT = Format(
    name="telegram",
    title="Telegram export (result.json)",
    detect=detect_telegram,
    read=read_telegram,
)
