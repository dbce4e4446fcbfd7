"""Loads what is written in other languages: named blocks beside the code that uses them, and the steps of a schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

_BLOCK_NAME = re.compile(r"^(?:--|//|<!--)\s*name:\s*(\w+)\s*(?:-->)?\s*$", re.MULTILINE)
_MIGRATION_FILE = re.compile(r"(\d{4})_(\w+)\.(?:sql|cypher)")


class Templates(Mapping[str, str]):
    """The text of each `-- name: x` block of a file inside `package`, by name; text before the first name is ignored.

    The file is read when a block is first asked for, which raises FileNotFoundError when it is missing and ValueError
    when two blocks share a name.
    """

    def __init__(self, package: str, filename: str) -> None:
        self._package = package
        self._filename = filename

    @cached_property
    def _blocks(self) -> Mapping[str, str]:
        text = files(self._package).joinpath(self._filename).read_text(encoding="utf-8")
        pieces = _BLOCK_NAME.split(text)[1:]
        names, bodies = pieces[::2], pieces[1::2]
        if len(set(names)) != len(names):
            raise ValueError(f"{self._package}/{self._filename} names a block twice")
        return {name: body.strip().rstrip(";") for name, body in zip(names, bodies, strict=True)}

    def __getitem__(self, name: str) -> str:
        return self._blocks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)


@cache
def load_templates(package: str, filename: str) -> Templates:
    """The blocks of a file inside `package`; each file is read once, when its first block is asked for."""
    return Templates(package, filename)


@cache
def load_statement(package: str, name: str) -> str:
    """The block `file.name` of an SQL file inside `package`."""
    file, _, block = name.partition(".")
    return load_templates(package, f"{file}.sql")[block]


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
