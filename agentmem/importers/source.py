"""Files to import, wherever they lie: in a folder, a ZIP archive or compressed, in UTF-8 or UTF-16, of any size.

A file is text, JSON Lines, or one JSON document. A document of up to MAX_LINE_BYTES is parsed whole; a larger one is
read record by record, at the paths that its format names.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, NoReturn

from agentmem.core.input_fields import SourceLocation
from agentmem.core.plain_values import replace_surrogate_escapes
from agentmem.errors import ConfigError, InvalidRecord

MAX_LINE_BYTES = 32 << 20  # of a line, or a document that is parsed whole: parsing takes three times as much memory
MAX_SAMPLE_LINES = 20  # of JSON Lines, that a format is detected by
MAX_SAMPLE_EVENTS = 5000  # of the parser of a large document: keys, values, starts and ends
MAX_HEAD_BYTES = 64 << 10

ErrorHandler = Callable[[InvalidRecord], None]
Layout = Literal["document", "lines", "text"]

_ENDINGS = frozenset({"gz", "json", "jsonl", "txt", "zip"})
_UNNAMED = re.compile(r"body|\d+-(?:stdin|\d+)")  # how copies of standard input, pipes and requests are named
_BLANK_BYTES = b"\xef\xbb\xbf \t\r\n"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True)
class SourceFile:
    """One file, or one member of an archive. `name` is what errors and reports call it; `open` gives its bytes.

    `archive` is the name of the archive that a member is of. `day_first` is how dates are read of which the file does
    not tell day and month apart; None leaves it to the format.
    """

    name: str
    open_bytes: Callable[[], BinaryIO] = field(repr=False)
    day_first: bool | None = None
    archive: str = ""

    @property
    def title(self) -> str:
        """The name without folder and ending; empty where it was made here for text that has none."""
        return _strip_name(self.name)

    @property
    def archive_title(self) -> str:
        """The same of the archive."""
        return _strip_name(self.archive)

    @cached_property
    def encoding(self) -> str:
        """UTF-8, or UTF-16 where a byte order mark or zero bytes beside ASCII say so."""
        head = self.read_head_bytes()
        if (found := _UTF16.get(head[:2])) is not None:
            return found
        if len(head) > 1 and b"\0" in head[:2]:
            return "utf-16-be" if head[0] == 0 else "utf-16-le"
        return "utf-8"

    @cached_property
    def layout(self) -> Layout:
        """One JSON document, JSON Lines, or other text."""
        with self.open_utf8() as file:
            first, more = _read_first_value_line(file)
        if not first:
            return "lines"
        if first.lstrip(_BLANK_BYTES)[:1] not in (b"{", b"["):
            return "lines" if _is_json(first) else "text"
        if _is_unfinished(first):
            return "document"
        return "lines" if more or first.lstrip(_BLANK_BYTES)[:1] == b"{" else "document"

    @cached_property
    def head(self) -> str:
        """The first characters of the file, up to the last whole line of the first 64 KiB where there is one."""
        with self.open_utf8() as file:
            text = file.read(MAX_HEAD_BYTES).decode("utf-8", errors="replace").removeprefix("\ufeff")
        return text.rpartition("\n")[0] if len(text) > MAX_HEAD_BYTES // 4 and "\n" in text else text

    @cached_property
    def sample(self) -> Any:
        """What a format is detected by: the values of the first lines, or the document, a large one its beginning.

        None for text, and for what is no JSON.
        """
        if self.layout == "text":
            return None
        if self.layout == "lines":
            return [value for value, _ in islice(self._read_lines(_ignore), MAX_SAMPLE_LINES)]
        if self._is_large:
            return self._read_beginning()
        return next((value for value, _ in self._read_document(_ignore)), None)

    def find_fault(self) -> InvalidRecord | None:
        """What is wrong with the JSON of the first lines, or of a document that is parsed whole; None for nothing."""
        faults = list[InvalidRecord]()
        if self.layout == "lines":
            list(islice(self._read_lines(faults.append), MAX_SAMPLE_LINES))
        elif self.layout == "document" and not self._is_large:
            list(self._read_document(faults.append))
        return faults[0] if faults else None

    def read_records(self, paths: Iterable[str], on_error: ErrorHandler) -> Iterator[tuple[Any, SourceLocation]]:
        """The JSON values at the paths: `` is the value itself, `item` each of a list, `messages.item` each of a field.

        Of JSON Lines, each line is such a value by itself, or holds such values, as a document on one line does. Lines
        that cannot be parsed go to `on_error`.
        """
        if self.layout == "document" and self._is_large:
            yield from self._stream_document(tuple(paths))
            return
        values = self._read_lines(on_error) if self.layout == "lines" else self._read_document(on_error)
        for value, place in values:
            yield from self._find_records(value, tuple(paths), place)

    def find_sample(self, *paths: str) -> list[Any]:
        """The JSON values at the paths in the sample, as `read_records` gives them."""
        values = self.sample if self.layout == "lines" else [self.sample]
        return [found for value in values for found, _ in self._find_records(value, paths, SourceLocation(self.name))]

    def read_text_lines(self) -> Iterator[tuple[str, SourceLocation]]:
        """The lines of text, without their ends, with their numbers."""
        with self.open_utf8() as file:
            for number, line in enumerate(_read_bounded_lines(file, self.name), start=1):
                place = SourceLocation(self.name, number)
                yield _decode(line, place).removeprefix("\ufeff").rstrip("\r\n"), place

    def open_utf8(self) -> BinaryIO:
        """The bytes of the file in UTF-8, whatever it is written in. Raises ConfigError when it cannot be read."""
        try:
            raw = self.open_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read {self.name}: {error.strerror or error}") from error
        return raw if self.encoding == "utf-8" else _Reencoded(raw, self.encoding)

    def read_head_bytes(self) -> bytes:
        """The first 100 bytes as they are."""
        try:
            with self.open_bytes() as file:
                return file.read(100)
        except OSError as error:
            raise ConfigError(f"cannot read {self.name}: {error.strerror or error}") from error

    @cached_property
    def _is_large(self) -> bool:
        with self.open_utf8() as file:
            left = MAX_LINE_BYTES + 1
            while left > 0 and (piece := file.read(min(left, 1 << 20))):
                left -= len(piece)
        return left <= 0

    def _read_lines(self, on_error: ErrorHandler) -> Iterator[tuple[Any, SourceLocation]]:
        with self.open_utf8() as file:
            for number, line in enumerate(_read_bounded_lines(file, self.name), start=1):
                if line.strip(_BLANK_BYTES):
                    yield from _parse_json(line, SourceLocation(self.name, number), on_error)

    def _read_document(self, on_error: ErrorHandler) -> Iterator[tuple[Any, SourceLocation]]:
        with self.open_utf8() as file:
            yield from _parse_json(file.read(), SourceLocation(self.name), on_error)

    def _find_records(
        self, value: Any, paths: tuple[str, ...], place: SourceLocation
    ) -> list[tuple[Any, SourceLocation]]:
        """The values at the paths; a line without them is a record by itself."""
        return list(_find_all(value, paths, place)) or ([(value, place)] if self.layout == "lines" else [])

    def _stream_document(self, paths: tuple[str, ...]) -> Iterator[tuple[Any, SourceLocation]]:
        if "" in paths:
            limit = f"must have at most {MAX_LINE_BYTES:,} bytes; put one conversation on a line"
            raise SourceLocation(self.name).build_error("document", limit)
        import ijson

        for path in paths:
            with self.open_utf8() as raw:
                items = ijson.items(_JsonStream(raw, self.name), path, use_float=True, buf_size=1 << 16)
                try:
                    for number, value in enumerate(items):
                        yield value, SourceLocation(self.name, path=_name_path(path, number))
                except ijson.JSONError as error:
                    says = str(error).split("\n")[0]
                    raise SourceLocation(self.name).build_error("document", f"is not valid JSON: {says}") from error

    def _read_beginning(self) -> Any:
        import ijson
        from ijson.common import ObjectBuilder

        builder = ObjectBuilder()
        with self.open_utf8() as raw:
            events = ijson.basic_parse(_JsonStream(raw, self.name), use_float=True, buf_size=1 << 16)
            try:
                for event, value in islice(events, MAX_SAMPLE_EVENTS):
                    builder.event(event, value)
            except (ijson.JSONError, InvalidRecord):
                pass  # reading says what is wrong
        return getattr(builder, "value", None)


def list_source_files(path: Path) -> list[SourceFile]:
    """The files of a path: itself, those in a folder or a ZIP archive by name, without hidden ones and links.

    Raises ConfigError for a path that cannot be read.
    """
    if path.is_dir():
        found = sorted(each for each in path.rglob("*") if each.is_file() and not each.is_symlink())
        shown = [each for each in found if not any(part.startswith(".") for part in each.relative_to(path).parts)]
        return [_wrap(each, str(each.relative_to(path))) for each in shown]
    source = _wrap(path, path.name)
    if source.read_head_bytes()[:4] != b"PK\x03\x04":
        return [source]
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(each.filename for each in archive.infolist() if not each.is_dir())
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise SourceLocation(path.name).build_error("archive", f"cannot be read: {error}") from error
    hidden = [name for name in names if any(part.startswith((".", "__MACOSX")) for part in name.split("/"))]
    return [SourceFile(name, _open_member(path, name), archive=path.name) for name in names if name not in hidden]


def _strip_name(name: str) -> str:
    file = name.replace("\\", "/").rpartition("/")[2]
    stem, mark, ending = file.rpartition(".")
    plain = stem if mark and ending.lower() in _ENDINGS else file
    return "" if _UNNAMED.fullmatch(plain) else plain


def _wrap(path: Path, name: str) -> SourceFile:
    plain = SourceFile(name, lambda: path.open("rb"))
    if plain.read_head_bytes()[:2] == b"\x1f\x8b":
        return SourceFile(name.removesuffix(".gz"), lambda: _Guarded(gzip.open(path, "rb"), name))
    return plain


def _open_member(path: Path, name: str) -> Callable[[], BinaryIO]:
    def open_bytes() -> BinaryIO:
        archive = zipfile.ZipFile(path)
        try:
            return _Guarded(archive.open(name), name, archive)
        except (zipfile.BadZipFile, RuntimeError) as error:  # damaged, or with a password
            archive.close()
            raise SourceLocation(path.name, path=name).build_error("archive", f"cannot be read: {error}") from error

    return open_bytes


class _Guarded(io.BufferedIOBase, BinaryIO):
    """A member of an archive whose damage is an InvalidRecord; it closes the archive with itself."""

    def __init__(self, inner: Any, name: str, *owners: Any) -> None:
        self._inner, self._name, self._owners = inner, name, owners

    def read(self, size: int | None = -1, /) -> bytes:
        return bytes(self._guard(self._inner.read, size))

    def readline(self, size: int | None = -1, /) -> bytes:
        return bytes(self._guard(self._inner.readline, size))

    def close(self) -> None:
        for each in (self._inner, *self._owners):
            each.close()
        super().close()

    def _guard(self, read: Callable[..., Any], size: int | None) -> Any:
        try:
            return read(size)
        except (zlib.error, zipfile.BadZipFile, EOFError, OSError) as error:
            says = f"cannot be read, because it is damaged: {error}"
            raise SourceLocation(self._name).build_error("archive", says) from error


class _Reencoded(io.BufferedIOBase, BinaryIO):
    """A file in another encoding as UTF-8. What cannot be decoded becomes U+FFFD."""

    def __init__(self, raw: BinaryIO, encoding: str) -> None:
        self._text = io.TextIOWrapper(raw, encoding, errors="replace", newline="")

    def read(self, size: int | None = -1, /) -> bytes:
        return self._text.read(size).encode()

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._text.readline(-1 if size is None else size).encode()

    def close(self) -> None:
        self._text.close()
        super().close()


class _JsonStream:
    """What the parser of a large document reads: bounded between two records, with no half of a surrogate pair."""

    def __init__(self, raw: BinaryIO, name: str) -> None:
        self._raw, self._name = raw, name
        self._is_first = True

    def read(self, size: int = -1) -> bytes:
        """The next bytes. Ends of lines and escapes are not cut, because the next piece begins behind them."""
        piece = self._raw.read(size)
        if self._is_first:
            piece, self._is_first = piece.removeprefix(codecs.BOM_UTF8), False
        while b"\\" in piece[-13:] and (more := self._raw.read(1)):
            piece += more
        if b"\\ud" not in piece and b"\\uD" not in piece:
            return piece
        whole = piece.decode("utf-8", "surrogateescape")  # a character may be cut at its ends
        return replace_surrogate_escapes(whole).encode("utf-8", "surrogateescape")


def _ignore(error: InvalidRecord) -> None:
    """Reading says what is wrong."""


def _find_all(value: Any, paths: tuple[str, ...], place: SourceLocation) -> Iterator[tuple[Any, SourceLocation]]:
    for path in paths:
        yield from _find(value, path.split(".") if path else [], place)


def _find(value: Any, steps: list[str], place: SourceLocation) -> Iterator[tuple[Any, SourceLocation]]:
    if not steps:
        yield value, place
    elif steps[0] == "item" and isinstance(value, list):
        for number, each in enumerate(value):
            yield from _find(each, steps[1:], place.child(number))
    elif isinstance(value, Mapping) and steps[0] in value:
        yield from _find(value[steps[0]], steps[1:], place.child(steps[0]))


def _name_path(path: str, number: int) -> str:
    """The place of a record of a large document, its number among all of its path."""
    return f"{path.removesuffix('item').replace('.item', '').rstrip('.')}[{number}]"


def _read_first_value_line(file: BinaryIO) -> tuple[bytes, bool]:
    """The first line that is not blank, and whether another one follows."""
    first = b""
    while line := file.readline(MAX_LINE_BYTES + 1):
        if line.strip(_BLANK_BYTES):
            if first:
                return first, True
            first = line
            if len(line) > MAX_LINE_BYTES:
                return first, False
    return first, False


def _read_bounded_lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The lines of a file with their ends. Raises InvalidRecord for one that is too long, before it is read whole."""
    number = 1
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise SourceLocation(name, number).build_error("line", f"must have at most {MAX_LINE_BYTES:,} bytes")
        yield line
        number += 1


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    return True


def _is_unfinished(line: bytes) -> bool:
    """Whether a line is only the beginning of a JSON value: parsing fails at its very end, or its text has no end."""
    written = line.decode("utf-8-sig", errors="replace").rstrip()
    try:
        json.loads(written)
    except json.JSONDecodeError as error:
        return error.pos >= len(written) or len(line) > MAX_LINE_BYTES
    except (ValueError, RecursionError):
        return False  # wrong in itself; reading it as a line gives the error with its number
    return False


def _decode(raw: bytes, place: SourceLocation) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        name = "line" if place.line else "document"
        raise place.build_error(name, f"must be UTF-8, byte {error.start + 1} is not") from error


def _parse_json(raw: bytes, place: SourceLocation, on_error: ErrorHandler) -> Iterator[tuple[Any, SourceLocation]]:
    name = "line" if place.line else "document"
    try:
        value = json.loads(_decode(raw, place).removeprefix("\ufeff"), parse_constant=_refuse_constant)
    except InvalidRecord as error:
        on_error(error)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if not place.line else ""
        on_error(place.build_error(name, f"is not valid JSON: {error.msg} ({line}column {error.colno})"))
    except ValueError as error:
        on_error(place.build_error(name, f"is not valid JSON: {error}"))
    except RecursionError:
        on_error(place.build_error(name, "is nested too deeply"))
    else:
        inner = value.lstrip()[:1] if isinstance(value, str) else ""
        if inner in ("{", "["):  # JSON that was written as a text of JSON
            yield from _parse_json(value.encode("utf-8", "surrogatepass"), place, on_error)
        else:
            yield value, place


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
