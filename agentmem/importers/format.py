"""The formats of files, each a module of `importers/formats`, and which of them a file has."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agentmem.core.input_fields import SourceLocation
from agentmem.core.plain_values import describe_value
from agentmem.errors import InvalidRecord
from agentmem.importers import formats
from agentmem.importers.items import ImportItem
from agentmem.importers.source import ErrorHandler, SourceFile

Parser = Callable[[Any, SourceLocation], Iterator[ImportItem]]


@dataclass(frozen=True)
class Format:
    """How to detect and read files of one program. A module has its own as `FORMAT`.

    `title` is its name in messages. `is_strict` means that a mistake stops the import, because the file was written for
    it; in other files, unreadable items are left out and reported. Formats with a lower `rank` are asked first.
    """

    name: str
    title: str
    detect: Callable[[SourceFile], bool]
    read: Callable[[SourceFile, ErrorHandler], Iterator[ImportItem]]
    is_strict: bool = False
    rank: int = 0


@lru_cache(maxsize=1)
def load_formats() -> dict[str, Format]:
    """All formats by name, in the order in which they are asked."""
    names = [each.name for each in pkgutil.iter_modules(formats.__path__)]
    found = [importlib.import_module(f"{formats.__name__}.{name}").FORMAT for name in names]
    return {each.name: each for each in sorted(found, key=lambda each: (each.rank, each.name))}


def get_format(name: str) -> Format:
    """The format of this name. Raises InvalidRecord for an unknown one."""
    if name not in load_formats():
        says = f"format must be one of {', '.join(load_formats())}, got {describe_value(name)}"
        raise InvalidRecord(says, field="format")
    return load_formats()[name]


def detect_format(source: SourceFile) -> Format | None:
    """The first format that knows the file; None when none does."""
    return next((each for each in load_formats().values() if each.detect(source)), None)


def build_unknown_error(source: SourceFile) -> InvalidRecord:
    """The error for a file of no known format: what is wrong with its JSON, or which formats are known."""
    if (fault := source.find_fault()) is not None:
        return fault
    known = "; ".join(f"{each.name}: {each.title}" for each in load_formats().values())
    return SourceLocation(source.name).build_error("format", f"is not known. Known are {known}")


def read_each(
    source: SourceFile, paths: tuple[str, ...], parse: Parser, on_error: ErrorHandler
) -> Iterator[ImportItem]:
    """What `parse` gives for each record at the paths; what is wrong with one goes to `on_error`."""
    for value, place in source.read_records(paths, on_error):
        yield from report_errors(parse(value, place), place, on_error)


def report_errors(found: Iterator[ImportItem], place: SourceLocation, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """What is found up to the first mistake, which goes to `on_error`."""
    try:
        yield from found
    except InvalidRecord as error:
        on_error(error)
    except RecursionError:
        on_error(place.build_error("value", "is nested too deeply"))
