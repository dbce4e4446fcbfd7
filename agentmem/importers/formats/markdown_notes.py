"""Markdown notes of Obsidian and basic-memory: observations as facts, relations, and the rest by sections as turns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath

from agentmem.core.clock import derive_id
from agentmem.core.input_fields import SourceLocation, TurnInput, parse_datetime, parse_identifier, parse_nonempty_text
from agentmem.errors import InvalidRecord
from agentmem.importers.format import Format
from agentmem.importers.items import ImportedEntity, ImportedFact, ImportedRelation, ImportItem
from agentmem.importers.record_fields import name_conversation
from agentmem.importers.source import ErrorHandler, SourceFile

_SUFFIXES = (".md", ".markdown")
_FENCES = ("```", "~~~")
_SECTION = re.compile(r"#{1,2}\s+(.*)")  # a deeper heading goes on with its section
_FIELD = re.compile(r"([\w-]+):\s*(.*)")
_OBSERVATION = re.compile(r"\s*[-*+]\s+\[([^\[\]()]+)\]\s+(\S.*)")
_RELATION = re.compile(r"\s*[-*+]\s+(\"[^\"\[\]]+\"|'[^'\[\]]+'|[^\s\[\]]+)\s+\[\[([^\[\]]+)\]\]\s*(?:\([^()]*\))?\s*")
_LINK = re.compile(r"(!?)\[\[([^\[\]\n]+)\]\]")
_CLOCK = re.compile(r"\d{1,3}:\d{2}[\d:.,\s-]*")
_TAG = re.compile(r"#[\w/-]+")
_PLAIN_TYPES = ("", "note", "thing")


@dataclass
class _Note:
    """What the top of a note says of it. `fields` are those of its frontmatter, each with its values."""

    title: str
    fields: dict[str, list[str]]
    claims: list[ImportedFact] = field(default_factory=list)
    relations: list[ImportedRelation] = field(default_factory=list)

    def get_text(self, name: str) -> str:
        return " ".join(self.fields.get(name, []))


def detect_markdown_notes(source: SourceFile) -> bool:
    """Whether the name is one of Markdown, or the top has the link that basic-memory gives each note."""
    if source.name.lower().endswith(_SUFFIXES):
        return True
    top = source.head.split("\n---", 1)[0] if source.head.startswith("---\n") else ""
    return "\ntitle:" in top and "\npermalink:" in top


def read_markdown_notes(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """The entity that a note is about, where it says something of it, and what is written of it."""
    try:
        lines = list(source.read_text_lines())
        fields, rest = _read_frontmatter(lines)
        title = " ".join(fields.get("title", [])) or PurePosixPath(source.name.replace("\\", "/")).stem
        note = _Note(parse_nonempty_text(title, "title", SourceLocation(source.name)), fields)
    except InvalidRecord as error:
        on_error(error)
        return
    conversation = derive_id("conversation", "markdown", note.get_text("permalink") or source.name)
    turns = list(_read_sections(note, conversation, rest, on_error))
    if note.claims or note.relations:
        kind = note.get_text("type")
        yield ImportedEntity(note.title, type="" if kind in _PLAIN_TYPES else kind[:50])
    yield from note.claims
    yield from note.relations
    timestamp = _read_time(note, SourceLocation(source.name), on_error)
    for turn in turns:
        if timestamp is not None:
            turn["timestamp"] = timestamp
        yield turn


def _read_frontmatter(
    lines: list[tuple[str, SourceLocation]],
) -> tuple[dict[str, list[str]], list[tuple[str, SourceLocation]]]:
    """The fields between two lines of hyphens at the top, texts and lists of texts; none where there is no end."""
    texts = [text.rstrip() for text, _ in lines]
    if not texts or texts[0] != "---" or "---" not in texts[1:]:
        return {}, lines
    end = texts.index("---", 1)
    fields, name = dict[str, list[str]](), ""
    for text in texts[1:end]:
        if (found := _FIELD.fullmatch(text)) is not None:
            name = found[1].lower()
            listed = found[2].strip("[]").split(",") if found[2].startswith("[") or name == "tags" else [found[2]]
        elif name and text.lstrip().startswith("- "):
            listed = [text.lstrip()[2:]]
        else:
            continue
        fields[name] = [*fields.get(name, []), *filter(None, map(_unquote, listed))]
    fields["tags"] = [tag.removeprefix("#") for tag in fields.get("tags", [])]
    return fields, lines[end + 1 :]


def _unquote(text: str) -> str:
    written = text.strip()
    is_quoted = len(written) > 1 and written[0] == written[-1] and written[0] in "'\""
    return written[1:-1] if is_quoted else written


def _read_time(note: _Note, location: SourceLocation, on_error: ErrorHandler) -> datetime | None:
    name = next((name for name in ("created", "created_at", "date") if note.fields.get(name)), None)
    try:
        return None if name is None else parse_datetime(note.get_text(name), name, location)
    except InvalidRecord as error:
        on_error(error)
        return None


def _read_sections(
    note: _Note, conversation: str, lines: Iterable[tuple[str, SourceLocation]], on_error: ErrorHandler
) -> Iterator[TurnInput]:
    """Each section as a turn, without its observations and relations, which the note gets."""
    heading, kept, fence, start = "", list[str](), "", None
    for text, place in lines:
        start = start or place
        marker = text.lstrip()[:3]
        if marker in _FENCES and fence in ("", marker):
            fence = "" if fence else marker
        found = None if fence else _SECTION.fullmatch(text)
        if found is not None:
            yield from _build_turns(note, conversation, (heading, kept), start, on_error)
            heading, kept, start = found[1].strip("# "), [], place
            continue
        try:
            if fence or not _read_item(note, text, place):
                kept.append(_show_links(text))
        except InvalidRecord as error:
            on_error(error)
    yield from _build_turns(note, conversation, (heading, kept), start, on_error)


def _read_item(note: _Note, text: str, place: SourceLocation) -> bool:
    """Whether a line is an observation or a relation; the note has it then."""
    if (found := _RELATION.fullmatch(text)) is not None:
        kind = parse_identifier(_unquote(found[1]), "relation", place)
        target = found[2].partition("|")[0].partition("#")[0].strip()
        note.relations.append(ImportedRelation(note.title, kind, parse_nonempty_text(target, "relation", place)))
        return True
    found = _OBSERVATION.fullmatch(text)
    if found is None or _is_mark(found[1].strip()):
        return False
    claim, tags = _split_tags(_show_links(found[2]))
    claim = parse_nonempty_text(claim, "observation", place)
    labels = (found[1].strip(), *tags, *note.fields.get("tags", []))
    note.claims.append(ImportedFact(claim, about=(note.title,), tags=tuple(dict.fromkeys(labels)), is_verbatim=True))
    return True


def _is_mark(category: str) -> bool:
    """Whether brackets hold the state of a task, or a time of a transcript."""
    is_state = len(category) < 2 and (category in "xX" or not category.isalnum())
    return is_state or _CLOCK.fullmatch(category) is not None


def _split_tags(text: str) -> tuple[str, list[str]]:
    """A claim without the tags at its end, before what stands in parentheses there; all tags."""
    said, context = text.rstrip(), ""
    if said.endswith(")") and " (" in said:
        at = said.rindex(" (")
        said, context = said[:at], said[at:]
    words = said.split()
    tags = [word[1:] for word in words if _TAG.fullmatch(word)]
    while words and _TAG.fullmatch(words[-1]):
        words.pop()
    return " ".join(words) + context, tags


def _show_links(text: str) -> str:
    return _LINK.sub(lambda found: f"[file {found[2]}]" if found[1] else found[2].rpartition("|")[2], text)


def _build_turns(
    note: _Note,
    conversation: str,
    section: tuple[str, list[str]],
    place: SourceLocation | None,
    on_error: ErrorHandler,
) -> Iterator[TurnInput]:
    heading, lines = section
    text = "\n".join(lines).strip()
    if place is None or not any(map(str.isalnum, text)):
        return
    named = note.title if heading in ("", note.title) else f"{note.title}: {heading}"
    try:
        content = parse_nonempty_text(f"{named}\n\n{text}", "section", place)
    except InvalidRecord as error:
        on_error(error)
        return
    turn = TurnInput(role="user", content=content, conversation_id=conversation, metadata={"title": note.title})
    turn["turn_id"] = derive_id("turn", conversation, content)
    name_conversation(turn, note.title)
    if tags := note.fields.get("tags"):
        turn["metadata"]["tags"] = tags
    yield turn


FORMAT = Format(
    name="markdown_notes",
    title="Markdown notes (Obsidian, basic-memory)",
    detect=detect_markdown_notes,
    read=read_markdown_notes,
)
