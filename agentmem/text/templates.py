"""Loads what is written in other languages: named blocks beside the code that uses them, and the steps of a schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

_BLOCK_NAME = re.compile(r"^(?:--|//|<!--)\s*name:\s*(\w+)\s*(?:-->)?\s*$", re.MULTILINE)
_MIGRATION_FILE = re.compile(r"(\d{4})_(\w+)\.(?:sql|cypher)")


@cache
def load_templates(package: str, filename: str) -> Mapping[str, str]:
    """Return `{name: text}` for every `-- name: x` block of a file inside `package`.

    Text before the first name is ignored. Each file is read once. Raises FileNotFoundError when it is missing and
    ValueError when two blocks share a name.
    """
    text = files(package).joinpath(filename).read_text(encoding="utf-8")
    pieces = _BLOCK_NAME.split(text)[1:]
    names, bodies = pieces[::2], pieces[1::2]
    if len(set(names)) != len(names):
        raise ValueError(f"{package}/{filename} names a block twice")
    blocks = {name: body.strip().rstrip(";") for name, body in zip(names, bodies, strict=True)}
    return MappingProxyType(blocks)


class Migration(NamedTuple):
    """One numbered file of a schema: applied once, in order, and recorded in `schema_version`."""

    version: int
    name: str
    text: str


def load_migrations(backend: str, folder: Path | None = None) -> list[Migration]:
    """Return the steps of a backend's schema by version, from `folder` or else from where the package keeps them.

    A wheel carries the folder `schema/` as `agentmem/_schema`; a checkout has it beside the package. Raises
    FileNotFoundError when there is none, and ValueError when the versions are not 1, 2, 3, …
    """
    source: Traversable = folder or _schema_folder() / backend
    steps = sorted(
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in source.iterdir()
        if (match := _MIGRATION_FILE.fullmatch(file.name))
    )
    if not steps:
        raise FileNotFoundError(f"no schema files NNNN_name.sql in {source}")
    if [step.version for step in steps] != list(range(1, len(steps) + 1)):
        raise ValueError(f"the schema files in {source} are not numbered 0001, 0002, …")
    return steps


def _schema_folder() -> Traversable:
    packed = files("agentmem") / "_schema"
    return packed if packed.is_dir() else Path(str(files("agentmem"))).parent / "schema"
