"""How the tests of formats read a file: detected, then looked at item by item."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from agentmem.importers.format import detect_format
from agentmem.importers.items import Omission
from agentmem.importers.source import list_source_files


def read(
    folder: Path, written: Any, name: str = "file.json", *, indent: int | None = 1
) -> tuple[list[Any], Counter[str], list[str]]:
    """What comes in of a file, what is left out by its reason, and what is wrong."""
    path = folder / name
    path.write_text(written if isinstance(written, str) else json.dumps(written, indent=indent), encoding="utf-8")
    source = list_source_files(path)[0]
    found = detect_format(source)
    assert found is not None
    errors: list[str] = []
    items = list(found.read(source, lambda error: errors.append(str(error))))
    left = Counter(item.reason for item in items if isinstance(item, Omission))
    return [item for item in items if not isinstance(item, Omission)], left, errors
