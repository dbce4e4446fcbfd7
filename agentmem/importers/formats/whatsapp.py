"""WhatsApp's exported chats: text, a message a line with its time and sender, as Android and iOS write them.

Times are those of the phone, which the file does not name an offset for: they are taken as UTC.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from agentmem.core.clock import derive_id
from agentmem.core.input_fields import SourceLocation, TurnInput, parse_identifier, parse_nonempty_text
from agentmem.core.plain_values import describe_value
from agentmem.importers.format import Format, report_errors
from agentmem.importers.items import ImportItem, Omission
from agentmem.importers.record_fields import name_conversation
from agentmem.importers.source import ErrorHandler, SourceFile

DateOrder = Literal["day", "month"]

_MORNING, _AFTERNOON = ("上午", "午前", "오전"), ("下午", "午後", "오후")
_S = "[ \u202f\xa0]"
_MARK = rf"\u200f?(?P<mark>[./-])\u200f?{_S}?"
_DATE = rf"(?P<a>\d{{1,4}}){_MARK}(?P<b>\d{{1,2}}){_MARK.replace('?P<mark>', '')}(?P<c>\d{{4}}|\d{{1,2}})\.?"
_HOUR = rf"(?P<before>{'|'.join(_MORNING + _AFTERNOON)})?{_S}?(?P<hour>\d{{1,2}})[:.](?P<minute>\d{{2}})"
_HALF = rf"(?:{_S}?(?P<half>[AaPp])\.{_S}?[Mm]\.|{_S}?(?P<plain_half>[AaPp])[Mm])?"
_AT = rf",?{_S}(?:(?:à|às|alle|kl\.|klo|om|um){_S})?"
_ANDROID = re.compile(rf"{_DATE}{_AT}{_HOUR}{_HALF} [-–] (?P<rest>.*)")
_IOS = re.compile(rf"\[{_DATE}{_AT}{_HOUR}(?::(?P<second>\d{{2}}))?{_HALF}\] (?P<rest>.*)")
_SENDER = re.compile(r"(?P<sender>[^:\"“„«]{1,100}):(?P<text> .*|)")
_DIRECTIONS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")

# How the program writes what it left out, in English, German, French, Spanish, Portuguese and Italian.
_OMITTED = re.compile(
    r"<(?:Media omitted|Medien (?:ausgeschlossen|weggelassen)|Médias? omis|(?:Multimedia|Archivo) omitido"
    r"|Mídia oculta|Arquivo de mídia oculto|Media omess[io])>"
    r"|(?P<kind>\w+(?: card)?) (?:omitted|weggelassen|absente|omis|omitid[oa]|ocultad[oa]|omess[oa])",
    re.IGNORECASE,
)
_KINDS = {
    "image": "image bild imagen imagem immagine",
    "video": "video vidéo vídeo",
    "audio": "audio áudio",
    "sticker": "sticker",
    "gif": "gif",
    "document": "document dokument documento",
    "contact": "contact contact_card kontaktkarte contacto contato contatto",
}
_KIND_OF_WORD = {word.replace("_", " "): kind for kind, words in _KINDS.items() for word in words.split()}
_EDITED = re.compile(
    "\u200e<[^<>]*>$|<(?:This message was edited|Diese Nachricht wurde bearbeitet|Ce message a été modifié"
    r"|Se editó este mensaje|Mensagem editada|Questo messaggio è stato modificato)\.?>$"
)
_FILE = re.compile(
    r"^(?P<android>[^\n<>]+?) \((?:file attached|Datei angehängt|fichier joint|archivo adjunto|arquivo anexado"
    r"|file allegato)\)|<(?:attached|Anhang|pièce jointe|adjunto|anexado|allegato) ?: (?P<ios>[^>\n]+)>",
    re.MULTILINE,
)
_DELETED = re.compile(
    r"(?:This message was deleted|You deleted this message|Diese Nachricht wurde gelöscht"
    r"|Du hast diese Nachricht gelöscht|Ce message a été supprimé|Vous avez supprimé ce message"
    r"|Se eliminó este mensaje|Eliminaste este mensaje|Mensagem apagada|Você apagou esta mensagem"
    r"|Questo messaggio è stato eliminato|Hai eliminato questo messaggio)\.?"
)


# How the program names the file of a chat, or the archive around it, in the same languages.
_FILE_NAME = re.compile(
    r"(?:WhatsApp[ -]Chat (?:with|mit|-)|Discussion WhatsApp avec|Chat de WhatsApp con|Conversa do WhatsApp com"
    r"|Chat WhatsApp con) ?(?P<name>.+?)(?: ?\(\d+\))?"
)


@dataclass
class _Entry:
    """A line with a time, and the lines that belong to it."""

    head: re.Match[str]
    place: SourceLocation
    lines: list[str]


def detect_whatsapp(source: SourceFile) -> bool:
    """Whether text begins with a line that has a time, and one of its first lines has a sender, too."""
    lines = [line for line in source.head.splitlines()[:50] if line.strip()]
    heads = [_match_head(line) for line in lines]
    if not heads or heads[0] is None or _is_like_log(lines[0]):
        return False
    return any(head is not None and _SENDER.match(head["rest"]) for head in heads)


def read_whatsapp(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """The messages of a chat. All are of the role `user`, because the file does not say who its user is."""
    order, title = _find_date_order(source), _find_title(source)
    conversation_id, moment, repeated = "", datetime.min.replace(tzinfo=UTC), Counter[str]()
    for entry in _read_entries(source, on_error):
        if not conversation_id:  # files of all chats have the same name, and a chat that grew begins as it did
            conversation_id = derive_id("conversation", "whatsapp", entry.head[0], *entry.lines)
        for item in report_errors(_read_entry(entry, order), entry.place, on_error):
            if isinstance(item, dict):
                if item["timestamp"] != moment:
                    moment, repeated = item["timestamp"], Counter[str]()
                said = derive_id(item["speaker"], item["content"])
                item["conversation_id"] = conversation_id
                item["turn_id"] = derive_id("turn", conversation_id, moment.isoformat(), said, str(repeated[said]))
                repeated[said] += 1
                name_conversation(item, title)
            yield item


def _match_head(line: str) -> re.Match[str] | None:
    """The time at the beginning of a line, with what follows."""
    plain = line.lstrip("\u200e\u200f")
    return _ANDROID.fullmatch(plain) or _IOS.fullmatch(plain)


def _find_title(source: SourceFile) -> str:
    """With whom the chat is, by the name of the file, or of the archive: on iOS all files are called `_chat.txt`."""
    for name in (source.title, source.archive_title):
        if (found := _FILE_NAME.fullmatch(name)) is not None:
            return found["name"]
    return ""


def _is_like_log(line: str) -> bool:
    """Whether a line may as well be of the log of a program: an ISO day without a comma behind it."""
    return re.match(r"\[?\d{4}-\d{2}-\d{2} ", line) is not None


def _read_entries(source: SourceFile, on_error: ErrorHandler) -> Iterator[_Entry]:
    entry: _Entry | None = None
    for line, place in source.read_text_lines():
        head = _match_head(line)
        if head is not None:
            if entry is not None:
                yield entry
            entry = _Entry(head, place, [])
        elif entry is not None:
            entry.lines.append(line)
        elif line.strip():
            on_error(place.build_error("line", f"must begin with a date and a time, got {describe_value(line)}"))
    if entry is not None:
        yield entry


def _find_date_order(source: SourceFile) -> DateOrder:
    """Whether the day or the month is first: by a number over 12, then by the setting `date_order`.

    Without one, `1/2/24, 9:15 PM` is of the United States.
    """
    is_american = False
    for line, _ in source.read_text_lines():
        head = _match_head(line)
        if head is None or len(head["a"]) == 4:
            continue
        if int(head["a"]) > 12 or int(head["b"]) > 12:
            return "day" if int(head["a"]) > 12 else "month"
        is_american = is_american or (head["mark"] == "/" and len(head["c"]) == 2 and head["plain_half"] in ("A", "P"))
    is_day_first = not is_american if source.day_first is None else source.day_first
    return "day" if is_day_first else "month"


def _read_entry(entry: _Entry, order: DateOrder) -> Iterator[ImportItem]:
    sent = _SENDER.fullmatch(entry.head["rest"])
    if sent is None:
        yield Omission("message of the program")
        return
    written = "\n".join((sent["text"][1:], *entry.lines))
    is_marked = written.startswith("\u200e")  # what the program itself writes on iOS
    text = _DIRECTIONS.sub("", written if is_marked else _EDITED.sub("", written)).strip()
    omitted = _OMITTED.fullmatch(text)
    if omitted is not None and (omitted["kind"] is None or omitted["kind"].lower() in _KIND_OF_WORD):
        text = f"[{_KIND_OF_WORD[omitted['kind'].lower()] if omitted['kind'] else 'media'}]"
    elif _DELETED.fullmatch(text) is not None:
        yield Omission("deleted message")
        return
    elif (shared := _FILE.search(text)) is not None:
        text = f"{text[: shared.start()]}[file {shared['android'] or shared['ios']}]{text[shared.end() :]}"
    elif is_marked:
        yield Omission("message of the program")
        return
    if not text.strip():
        yield Omission("message without text")
        return
    speaker = _DIRECTIONS.sub("", sent["sender"]).strip("~ \u202f\xa0")
    turn = TurnInput(role="user", content=parse_nonempty_text(text, "message", entry.place))
    turn["speaker"] = parse_identifier(speaker, "sender", entry.place)
    turn["timestamp"] = _read_time(entry, order)
    yield turn


def _read_time(entry: _Entry, order: DateOrder) -> datetime:
    head = entry.head.groupdict()
    first, second, third = int(head["a"]), int(head["b"]), int(head["c"])
    if len(head["a"]) == 4:
        year, month, day = first, second, third
    else:
        day, month = (first, second) if order == "day" else (second, first)
        year = third if third > 99 else 2000 + third
    half = (head["half"] or head["plain_half"] or "").lower()
    hour = int(head["hour"])
    if half or head["before"]:
        hour = hour % 12 + (12 if half == "p" or head["before"] in _AFTERNOON else 0)
    try:
        return datetime(year, month, day, hour, int(head["minute"]), int(head.get("second") or 0), tzinfo=UTC)
    except ValueError as error:
        raise entry.place.build_error("time", f"is no time: {error}") from error


FORMAT = Format(
    name="whatsapp",
    title="WhatsApp chat (exported .txt)",
    detect=detect_whatsapp,
    read=read_whatsapp,
)
