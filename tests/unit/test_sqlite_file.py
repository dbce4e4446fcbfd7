"""The embedded store's file: where it may lie, what is refused, how an older schema becomes the current one."""

from __future__ import annotations

import asyncio
import shutil
import stat
from pathlib import Path

import apsw
import pytest

from agentmem.core.changes import AuditEntry
from agentmem.core.clock import SystemClock
from agentmem.core.scope import Operator, Scope
from agentmem.errors import ConfigError, CorruptStore, SchemaMismatch
from agentmem.stores.sql.graph import SqlGraph
from agentmem.stores.sqlite import SqliteLog, open_log
from agentmem.stores.sqlite.database import file_system, prepare_folder
from agentmem.text.templates import load_migrations, load_templates
from tests.conformance.writing import build_change, build_fact, build_turn, build_turn_changes, write_records

CLOCK = SystemClock()
SCOPE = Scope("alice")


async def opened(path: Path, schema: Path | None = None) -> SqliteLog:
    return await open_log(path, CLOCK, schema=schema)


@pytest.fixture
async def filled(home: Path) -> Path:
    """A closed store with one turn."""
    log = await opened(home / "memory.db")
    await write_records(log, SCOPE, build_turn("a"))
    await log.close()
    return home / "memory.db"


@pytest.fixture
def newer_schema(tmp_path: Path) -> Path:
    """The package's schema and one more step."""
    folder = tmp_path / "schema"
    folder.mkdir()
    for step in load_migrations("sqlite"):
        (folder / f"{step.version:04d}_{step.name}.sql").write_text(step.text)
    more = "CREATE TABLE more (x TEXT) STRICT; INSERT INTO more SELECT user_id FROM memory_users;"
    (folder / f"{len(load_migrations('sqlite')) + 1:04d}_more.sql").write_text(more)
    return folder


async def test_only_the_owner_can_read_the_files(home: Path) -> None:
    log = await opened(home / "deep" / "memory.db")
    await write_records(log, SCOPE, build_turn("a"))
    files = sorted((home / "deep").iterdir())
    assert [file.name for file in files] == ["memory.db", "memory.db-guard", "memory.db-shm", "memory.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((home / "deep").stat().st_mode) == 0o700
    assert await log.check(Operator()) == []
    files[0].chmod(0o644)
    assert [line for line in await log.check(Operator()) if "chmod 600" in line]
    await log.close()


async def test_the_folder_of_others_keeps_its_permissions(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    await (await opened(tmp_path / "memory.db")).close()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


@pytest.mark.parametrize("content", [b"not a database, " * 100, b"SQLite format 3\x00" + b"\xff" * 4000])
async def test_what_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(content)
    with pytest.raises(CorruptStore, match="Nothing was overwritten"):
        await opened(path)
    assert path.read_bytes() == content


async def test_a_damaged_page_is_a_corrupt_store(filled: Path) -> None:
    content = bytearray(filled.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    filled.write_bytes(content)
    with pytest.raises(CorruptStore):
        await opened(filled)
    assert filled.read_bytes() == bytes(content)


async def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE theirs (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(SchemaMismatch, match="another program"):
        await opened(path)
    assert path.read_bytes() == before


async def test_an_empty_file_is_a_new_store(tmp_path: Path) -> None:
    (tmp_path / "memory.db").touch()
    log = await opened(tmp_path / "memory.db")
    assert (await log.meta())["openings"] == "0"
    await log.close()


async def test_an_older_file_is_migrated_and_a_newer_one_refused(filled: Path, newer_schema: Path) -> None:
    log = await opened(filled, newer_schema)
    rows = await log.database.read(lambda db: list(db.execute("SELECT x FROM more")))
    versions = await log.database.read(lambda db: list(db.execute("SELECT version, description FROM schema_version")))
    assert (rows, versions[-1], len(versions)) == (
        [("alice",)],
        (len(versions), "more"),
        len(load_migrations("sqlite")) + 1,
    )
    assert len(await log.read_records("Turn", ["a"], SCOPE)) == 1
    await log.close()
    before = filled.read_bytes()
    with pytest.raises(SchemaMismatch, match="pip install --upgrade"):
        await opened(filled)
    assert filled.read_bytes() == before


async def test_what_a_file_with_more_indexes_holds_is_found_with_fewer(home: Path, tmp_path: Path) -> None:
    steps = {step.name: step.text for step in load_migrations("sqlite")}
    fewer_indexes = steps.pop("fewer_indexes")
    (tmp_path / "new").mkdir()
    for version, (name, text) in enumerate(steps.items(), 1):
        for folder in (tmp_path, tmp_path / "new"):
            (folder / f"{version:04d}_{name}.sql").write_text(text)
    (tmp_path / "new" / f"{len(steps) + 1:04d}_fewer_indexes.sql").write_text(fewer_indexes)
    audit = AuditEntry(operation="store", memory_type="episodic", scope=SCOPE)
    older = await opened(home / "memory.db", tmp_path)
    before = await older.append(
        [*build_turn_changes(SCOPE, "a", "b"), build_change(SCOPE, build_fact("f", source_turn_ids=("a", "b")))], None
    )
    log = await opened(home / "memory.db", tmp_path / "new")
    after = await older.append(build_turn_changes(SCOPE, "c"), audit)  # whoever had the file open goes on
    entries = [*before, *after]
    for entry in entries:
        assert entry.seq in [found.seq for found in await log.operation(entry.operation_id, SCOPE)]
        assert await log.seq_at_time(SCOPE, entry.recorded_at) >= entry.seq
    await log.append([build_change(SCOPE, deletes=(("Fact", "f"), ("Turn", "b")))], audit)
    assert len({row["id"] for row in await log.audit_rows(SCOPE)}) == 2
    assert await log.check(Operator()) == []
    edges = await log.database.read(_edges)
    graph = SqlGraph(log.database, SystemClock())
    await graph.rebuild(SCOPE)
    assert await log.database.read(_edges) == edges
    await older.close()
    await log.close()


def _edges(db: apsw.Connection) -> list[object]:
    return list(db.execute("SELECT * FROM graph_edges ORDER BY user_id, source, kind, target, edge"))


async def test_a_step_that_fails_leaves_the_older_schema(filled: Path, newer_schema: Path) -> None:
    (step,) = newer_schema.glob("*_more.sql")
    step.write_text("CREATE TABLE more (x TEXT) STRICT; INSERT INTO nowhere VALUES (1);")
    with pytest.raises(Exception, match="nowhere"):
        await opened(filled, newer_schema)
    log = await opened(filled)
    assert len(await log.read_records("Turn", ["a"], SCOPE)) == 1
    await log.close()


async def test_several_openers_at_once_agree(home: Path, newer_schema: Path) -> None:
    logs = await asyncio.gather(*(opened(home / "memory.db", newer_schema) for _ in range(4)))
    metas = [await log.meta() for log in logs]
    assert len({meta["store_id"] for meta in metas}) == 1
    assert await logs[0].database.read(lambda db: db.execute("SELECT count(*) FROM schema_version").get) == len(
        list(newer_schema.iterdir())
    )
    for log in logs:
        await log.close()


def test_schema_files_must_be_numbered_without_gaps(newer_schema: Path, tmp_path: Path) -> None:
    shutil.copy(newer_schema / "0001_initial.sql", newer_schema / f"{len(load_migrations('sqlite')) + 3:04d}_gap.sql")
    with pytest.raises(ValueError, match="0001, 0002"):
        load_migrations("sqlite", newer_schema)
    with pytest.raises(FileNotFoundError):
        load_migrations("sqlite", tmp_path)


def test_blocks_are_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "two.sql").write_text("-- name: x\nSELECT 1;\n\n-- name: y\nSELECT ';'\n")
    (tmp_path / "queries" / "twice.sql").write_text("-- name: x\nSELECT 1\n-- name: x\nSELECT 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert dict(load_templates("queries", "two.sql")) == {"x": "SELECT 1", "y": "SELECT ';'"}
    with pytest.raises(ValueError, match="twice"):
        dict(load_templates("queries", "twice.sql"))


def test_the_file_system_of_a_folder_is_read_from_the_mounts(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda / ext4 rw 0 0\nserver:/x /mnt/my\\040share nfs4 rw 0 0\ntmpfs /mnt tmpfs rw 0 0\nbroken\n"
    )
    folders = ("/home/a", "/mnt", "/mnt/my share/deep", "/mnt/my shares")
    assert [file_system(Path(folder), mounts) for folder in folders] == ["ext4", "tmpfs", "nfs4", "tmpfs"]
    assert file_system(Path("/home"), tmp_path / "missing") == ""


def test_places_that_cannot_work_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        prepare_folder(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be made"):
        prepare_folder(tmp_path / "file" / "memory.db")
    monkeypatch.setattr("agentmem.stores.sqlite.database.file_system", lambda folder: "nfs4")
    with pytest.raises(ConfigError, match="network file system"):
        prepare_folder(tmp_path / "memory.db")
