"""Everything that a program lets others see: errors as they are printed, logs, and what public objects show."""

from __future__ import annotations

import dataclasses
import logging
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from pydantic import BaseModel

T = TypeVar("T")
SECRET_LETTERS = "ZQXJKVW"  # of a secret: no id, word or number of ours has four of them in a row
MIN_FRAGMENT = 4
MAX_OBJECTS = 3_000


def fragments(secret: str) -> set[str]:
    """A secret as it may be told: whole, encoded, or a part of it between special characters."""
    parts = re.findall(f"[{SECRET_LETTERS}]{{{MIN_FRAGMENT},}}", secret)
    assert parts, "a secret must have a part that can be found again"
    return {secret, quote(secret, safe=""), *parts}


class OutputCapture(logging.Handler):
    """Collects what can be seen, as text."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.texts: list[str] = []
        self.failures: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(logging.Formatter().format(record))

    def capture_failure(self, work: Callable[[], T]) -> T | None:
        """Do something that may fail; the failure as an uncaught one would be printed."""
        try:
            found = work()
        except BaseException as error:  # noqa: BLE001
            self.failures.append(error)
            self.texts += ["".join(traceback.format_exception(error)), repr(error), str(error), repr(error.args)]
            return None
        self.capture_object(found)
        return found

    def capture_object(self, root: object) -> None:
        """Add what an object and all that its public attributes lead to say of themselves."""
        seen: dict[int, object] = {}
        waiting = [root]
        while waiting and len(seen) < MAX_OBJECTS:
            one = waiting.pop()
            if id(one) in seen:
                continue
            seen[id(one)] = one
            self.texts.append(repr(one))
            if not isinstance(one, str):
                self.texts.append(str(one))
                waiting += _iter_referenced(one)
            if isinstance(one, BaseModel):
                self.texts += [one.model_dump_json(exclude={"clock"}), repr(one.model_dump()), repr(vars(one))]

    def find_secret(self, secret: str) -> list[str]:
        """What of a secret can be seen somewhere, and where."""
        return [
            f"{part!r} in {text[max(0, text.find(part) - 200) : text.find(part) + 100]!r}"
            for part in fragments(secret)
            for text in self.texts
            if part in text
        ]


def _iter_referenced(one: object) -> Iterator[object]:
    if isinstance(one, Mapping):
        yield from one.values()
    elif isinstance(one, (list, tuple, set, frozenset)):
        yield from one
    elif type(one).__module__.partition(".")[0] == "agentmem":
        own = [field.name for field in dataclasses.fields(one)] if dataclasses.is_dataclass(one) else []
        for name in {*own, *dir(one)}:
            if not name.startswith("_"):
                try:
                    found = getattr(one, name)
                except Exception:  # noqa: BLE001  a property that does not work here shows nothing
                    continue
                if not callable(found) or type(found).__module__.startswith("agentmem"):
                    yield found


@contextmanager
def capture_output() -> Iterator[OutputCapture]:
    """Collect the log of all libraries from INFO on, and what else is looked at."""
    overheard, root = OutputCapture(), logging.getLogger()
    level = root.level
    root.addHandler(overheard)
    root.setLevel(logging.INFO)
    try:
        yield overheard
    finally:
        root.removeHandler(overheard)
        root.setLevel(level)


def find_files_with_secret(folder: Path, secret: str) -> list[str]:
    """Files below a folder that hold a part of a secret."""
    parts = [part.encode() for part in fragments(secret)]
    return [
        path.name for path in folder.rglob("*") if path.is_file() and any(part in path.read_bytes() for part in parts)
    ]
