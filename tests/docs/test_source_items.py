"""Every name of the documents stands in docs/source-items.md, and what stands there is true of servers and file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.docs import inventories
from tests.docs.source_names import ITEMS

PAGE = Path(__file__).resolve().parents[2] / "docs/source-items.md"


class Item(NamedTuple):
    """One row of the page."""

    name: str
    kind: str
    servers: tuple[str, ...]
    file: tuple[str, ...]
    how: str
    why: str


def _row(line: str) -> Item:
    name, kind, servers, file, how, why = (cell.strip() for cell in line.strip("| ").split(" | "))
    here, there = (tuple(re.findall(r"`([^`]+)`", cell)) for cell in (servers, file))
    return Item(name.strip("`"), kind, here, there, how, why)


ROWS = [_row(line) for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]


def named(item: Item) -> str:
    """The last part of the name that an item has on servers, without what it is on and its type."""
    first = item.servers[0].removeprefix("view ").removeprefix("partitioned table ").removeprefix("table ")
    return re.split(r"[ (]", first)[0].rpartition(".")[2]


def test_every_name_of_the_documents_is_there_once() -> None:
    for kind, names in ITEMS.items():
        listed = [row.name for row in ROWS if row.kind == kind]
        assert (set(names) - set(listed), set(listed) - set(names)) == (set(), set()), kind
        assert len(listed) == len(names), kind
    assert {row.kind for row in ROWS} == {*ITEMS, "choice"}


def test_every_row_says_how_and_why() -> None:
    assert [row for row in ROWS if row.how not in ("kept", "widened", "replaced") or not row.why] == []
    assert [row for row in ROWS if row.how != "kept" and row.why == "as named"] == []


def test_what_is_kept_or_widened_is_named_on_servers() -> None:
    assert [row.name for row in ROWS if row.how != "replaced" and not row.servers] == []


def test_what_is_kept_has_its_name() -> None:
    kept = [row for row in ROWS if row.how == "kept" and row.kind in ("table", "column", "property") and row.servers]
    assert len(kept) > 80
    assert [row.name for row in kept if named(row) != row.name.rpartition(".")[2]] == []
    indexes = [row for row in ROWS if row.how == "kept" and row.name.startswith("idx_")]
    assert [row.name for row in indexes if named(row) != row.name] == []


async def test_all_of_it_is_on_the_servers(
    postgres_database: str, neo4j_url: str, redis_database: str, home: Path, tmp_path: Path
) -> None:
    found = await inventories.postgres(postgres_database)
    found |= await inventories.neo4j(neo4j_url, tmp_path)
    await inventories.session(home, redis_database)
    found |= inventories.redis_keys(redis_database)
    assert {(row.name, cell) for row in ROWS for cell in row.servers if cell not in found} == set()


async def test_all_of_it_is_in_the_file(home: Path, tmp_path: Path) -> None:
    found = await inventories.file(tmp_path)
    await inventories.session(home, None)
    found |= inventories.session_keys(home)
    assert {(row.name, cell) for row in ROWS for cell in row.file if cell not in found} == set()
