"""The vault: a Markdown note for each memory that is kept for long, for people who read and write there (Obsidian).

A note belongs to the package while its text matches the checksum in its front matter. An edited note is never
overwritten, but erasure deletes it, because it holds text of the user. Every id has its own line, together with what it
names, so that erasing a source or an entity takes just that line.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from agentmem.core.records import Entity, Fact
from agentmem.memory.safe_folder import READ_FILE_FLAGS, create_part, folder_name, open_folder
from agentmem.text.normalization import slugify
from agentmem.text.plain_line import to_plain_line

VAULT_FOLDER = "STM"
MAX_SLUG_BYTES = 80  # bytes
MAX_TITLE_CHARS = 80  # characters
_CHECKSUM_LINE = re.compile(r"^content_hash: ([0-9a-f]{64})\n", re.MULTILINE)
_QUOTED_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NOTE_ID = re.compile(r'\A---\r?\nid: ("(?:[^"\\]|\\.)*")\r?\n')
_NOTE_FILE_NAME = re.compile(r"\A.* ([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.md\Z")
_UNLINKABLE_CHARS = re.compile(r"[\[\]|#^\\\s\"]+")
_CONTROL_CHARS = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


class VaultNote(NamedTuple):
    """A note to write to the vault: the name of its file, and its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class NoteWriteResult:
    """The path of a note, below the vault. `edited`: the user changed it, so it was not overwritten."""

    path: str
    edited: bool = False


def build_note(fact: Fact, user_id: str, entities: Sequence[Entity], reason: str, now: datetime) -> VaultNote:
    """The note of a fact that is kept from now on."""
    title = " ".join(fact.claim.split())
    short = title if len(title) <= MAX_TITLE_CHARS else f"{title[: MAX_TITLE_CHARS - 1].rstrip()}…"
    front = [
        f"id: {_quote(fact.id)}",
        f"user: {_quote(user_id)}",
        f"channel: {_quote(fact.channel)}",
        f"created: {_render_time(fact.recorded_at)}",
        f"promoted_at: {_render_time(now)}",
        *_render_list("tags", _normalize_tags(fact.tags)),
        f"confidence: {fact.confidence:g}",
        *_render_list("sources", fact.source_turn_ids),
    ]
    said = [f"- Kind: {fact.memory_type}", f"- Said by: {to_plain_line(fact.source)}"]
    said += [f"- Certainty: {to_plain_line(fact.certainty)}"] if fact.certainty else []
    said += [f"- True from: {_render_time(fact.valid_from)}"] if fact.valid_from else []
    said += [f"- True until: {_render_time(fact.valid_to)}"] if fact.valid_to else []
    about = [
        f"- [[{_UNLINKABLE_CHARS.sub(' ', to_plain_line(each.name)).strip()}]] {_quote(each.id)}" for each in entities
    ]
    sources = [f"- turn {_quote(name)}" for name in fact.source_turn_ids]
    parts = [f"# {to_plain_line(short)}", f"> {to_plain_line(fact.claim)}"]
    sections = (
        ("What is known", said),
        ("Why it is kept", [f"- {to_plain_line(reason)}"]),
        ("About", about),
        ("Sources", sources),
    )
    parts += [f"## {name}\n\n" + "\n".join(lines) for name, lines in sections if lines]
    text = "\n".join(["---", *front, "---", "", "\n\n".join(parts), ""])
    return VaultNote(_file_name(fact), _add_checksum(text))


def write_note(vault: Path, user_id: str, note: VaultNote, *, only_if_missing: bool = False) -> NoteWriteResult:
    """Put a note into the user's folder, in one step, readable by its owner only; see `NoteWriteResult`. Raises
    OSError.

    A note of the same text is unchanged; with `only_if_missing`, any existing one.
    """
    vault.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = f"{VAULT_FOLDER}/{folder_name(user_id)}/{note.name}"
    with open_folder(vault, VAULT_FOLDER, folder_name(user_id), create=True) as folder:
        standing = _load_file(folder, note.name)
        if standing == note.text:
            return NoteWriteResult(place)
        if standing is not None and not _is_unedited(standing):
            return NoteWriteResult(place, edited=True)
        if standing is not None and only_if_missing:
            return NoteWriteResult(place)
        _write_file(folder, note.name, note.text)
    return NoteWriteResult(place)


def remove_notes(vault: Path, user_id: str, ids: Collection[str] | None) -> int:
    """Remove the notes of these facts (None: of all of the user), edited or not, wherever in the user's folder.

    Of other notes go the lines that name one of the ids. Returns how many notes were removed or changed. OSError when
    the folder cannot be read or changed.
    """
    touched = 0
    with suppress(FileNotFoundError), open_folder(vault, VAULT_FOLDER, folder_name(user_id), create=False) as folder:
        for _, _, files, inner in os.fwalk(".", dir_fd=folder, follow_symlinks=False, onerror=_raise):
            for name in sorted(files):
                if name.endswith(".part") and name.startswith("."):
                    os.unlink(name, dir_fd=inner)  # begun by a process that was killed
                elif name.endswith(".md"):
                    touched += _erase_from_file(inner, name, ids)
        if ids is None:
            with suppress(OSError):  # others may have put something there, which is not ours to remove
                os.rmdir(vault / VAULT_FOLDER / folder_name(user_id))
    return touched


def _raise(error: OSError) -> None:
    raise error


def _erase_from_file(folder: int, name: str, ids: Collection[str] | None) -> int:
    """Take what is erased out of one file; whether there was anything."""
    text = _load_file(folder, name) or ""
    front, called = _NOTE_ID.match(text), _NOTE_FILE_NAME.match(name)
    own = {found for found in (front and front[1], called and _quote(called[1])) if found}
    if not own:  # no note of ours
        return 0
    erased = own if ids is None else {_quote(each) for each in ids}
    if own & erased:
        os.unlink(name, dir_fd=folder)
        return 1
    lines = text.splitlines(keepends=True)
    left = [line for line in lines if erased.isdisjoint(_QUOTED_STRING.findall(line))]
    if len(left) == len(lines):
        return 0
    rest = "".join(left)
    _write_file(folder, name, _add_checksum(_CHECKSUM_LINE.sub("", rest, count=1)) if _is_unedited(text) else rest)
    return 1


# -- what a note is made of


def _file_name(fact: Fact) -> str:
    """The claim for people to read, and the id: no path, no hidden file, and never another fact's."""
    readable = slugify(fact.claim).encode()[:MAX_SLUG_BYTES].decode(errors="ignore").rstrip("-") or "note"
    return f"{readable} {folder_name(fact.id)}.md"


def _add_checksum(text: str) -> str:
    """The text with its checksum at the end of the front matter."""
    head, _, rest = text.partition("\n---\n")
    return f"{head}\ncontent_hash: {sha256(text.encode()).hexdigest()}\n---\n{rest}"


def _is_unedited(text: str) -> bool:
    """Whether a note is as we wrote it."""
    found = _CHECKSUM_LINE.search(text)
    return found is not None and found[1] == sha256(_CHECKSUM_LINE.sub("", text, count=1).encode()).hexdigest()


def _quote(text: str) -> str:
    """A text as YAML takes it for one, whatever it holds."""
    return _CONTROL_CHARS.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))


def _render_time(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat(timespec="seconds")


def _render_list(name: str, values: Iterable[str]) -> list[str]:
    items = [f"  - {_quote(value)}" for value in values]
    return [f"{name}:", *items] if items else [f"{name}: []"]


def _normalize_tags(tags: Iterable[str]) -> list[str]:
    """Tags as the graph view of a vault takes them: no spaces, not of digits alone."""
    found = (slugify(tag) for tag in ("agentmem", *tags))
    return list(dict.fromkeys(tag for tag in found if tag and not tag.isdigit()))


# -- files


def _load_file(folder: int, name: str) -> str | None:
    """The text of a file; None where there is none."""
    try:
        descriptor = os.open(name, READ_FILE_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        return None
    with open(descriptor, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def _write_file(folder: int, name: str, text: str) -> None:
    part = f".{sha256(name.encode()).hexdigest()[:16]}.{os.getpid()}.part"
    with create_part(folder, part) as descriptor:
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
