"""What `doctor` finds on a Postgres server: nothing on a healthy one, and each trouble that is made for real."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from agentmem.core.changes import AuditEntry
from agentmem.core.clock import SystemClock, to_micros
from agentmem.core.records import Gloss, build_record
from agentmem.core.scope import Scope
from agentmem.errors import ConfigError, ScopeError, StoreUnavailable
from agentmem.stores.admin import Finding
from agentmem.stores.postgres import PostgresLog, database, diagnostics, migrate, open_log
from agentmem.stores.postgres.diagnostics import diagnose, heads, heads_after
from agentmem.stores.postgres.vectors import open_vectors
from agentmem.stores.sql.diagnostics import ReaderLimits
from agentmem.stores.values import DeadLetter
from agentmem.stores.vectors.search import projection_name
from agentmem.text.templates import load_templates
from tests.conformance.conftest import database_url
from tests.conformance.writing import build_fact, build_turn, build_turn_changes, write_records
from tests.servers.local import LocalServer, free_port
from tests.servers.postgres import Postgres

ALICE, BOB = Scope("alice"), Scope("bob")
HASH = "hash:words:8"
SECRET = "s3cret-word"
EVERYTHING = [
    "postgres",
    "clock",
    "connections",
    "pgvector",
    "schema",
    "store_id",
    "roles",
    "row_security",
    "indexes",
    "embedders",
    "leases",
    "audit",
    "invariants",
    "lag",
    "parked",
    "words",
    "graph",
    "future",
]


@dataclass
class Place:
    """A migrated database: its URL as the owner, who is a superuser, and as a user with the rights of a worker."""

    owner: str
    worker: str
    log: PostgresLog

    def run(self, *statements: str) -> None:
        """Make trouble, past every trigger and wall."""
        with psycopg.connect(self.owner, autocommit=True) as db:
            db.execute("SET session_replication_role = replica")
            for statement in statements:
                db.execute(statement)  # type: ignore[call-overload]

    async def wrong(self, url: str = "") -> dict[str, Finding]:
        """What is not fine: the worst finding about each thing, with the details and fixes of all of that level."""
        return wrong_of((await diagnose(url or self.worker, datetime.now(UTC))).findings)


def wrong_of(found: list[Finding]) -> dict[str, Finding]:
    assert all(bool(finding.fix) == (finding.level != "ok") for finding in found)
    worst: dict[str, Finding] = {}
    for finding in sorted(found, key=lambda finding: finding.level == "warning"):
        known = worst.get(finding.check)
        if finding.level == "ok" or (known is not None and known.level != finding.level):
            continue
        worst[finding.check] = (
            finding
            if known is None
            else replace(known, detail=f"{known.detail} | {finding.detail}", fix=f"{known.fix} | {finding.fix}")
        )
    return worst


def told(found: dict[str, Finding], what: str, level: str, *words: str) -> None:
    """Exactly this is wrong, and finding and fix have these words."""
    assert list(found) == [what]
    assert found[what].level == level
    assert [word for word in words if word not in f"{found[what].detail} {found[what].fix}"] == []


@pytest.fixture
def names(postgres_copy: str, postgres_url: str) -> Iterator[tuple[str, str]]:
    """A database without rows, as its owner and as a worker."""
    user, password = f"worker_{uuid.uuid4().hex}", uuid.uuid4().hex
    yield postgres_copy, database_url(postgres_copy, postgres_copy.rpartition("/")[2], f"{user}:{password}")
    with psycopg.connect(postgres_copy, autocommit=True) as db:
        db.execute(f"DROP OWNED BY {user}")
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute(f"DROP ROLE {user}")


@pytest.fixture
async def place(names: tuple[str, str]) -> AsyncIterator[Place]:
    """A store with some turns of two users, vectors of an embedder, and an audit row of today."""
    owner, worker = names
    login, _, password = worker.partition("//")[2].partition("@")[0].partition(":")
    with psycopg.connect(owner, autocommit=True) as db:
        db.execute(f"CREATE ROLE {login} LOGIN PASSWORD '{password}' IN ROLE agentmem_app, agentmem_worker")
    log = await open_log(worker, SystemClock())
    await log.append(
        build_turn_changes(ALICE, "a", "b"), AuditEntry(operation="store", memory_type="episodic", scope=ALICE)
    )
    await write_records(log, BOB, build_fact("f"))
    await open_vectors(log.database, HASH, 8)
    await log.set_meta({"embedder": HASH})
    made = Place(owner, worker, log)
    made.run(f"INSERT INTO projection_watermarks SELECT user_id, '{projection_name(HASH)}', head FROM memory_users")
    yield made
    await log.close()


# -- a healthy store


async def test_a_healthy_store_has_no_warning(place: Place) -> None:
    inspection = await diagnose(place.worker, datetime.now(UTC))
    assert wrong_of(inspection.findings) == {}
    assert [finding.check for finding in inspection.findings] == EVERYTHING
    assert inspection.meta["embedder"] == HASH
    assert inspection.meta["store_id"]


async def test_a_check_that_cannot_be_made_is_named_as_when_it_is_made(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = diagnostics.PostgresDiagnostics._rows

    async def refuse(self: Any, name: str, *arguments: Any, **values: Any) -> list[Any]:
        if name in ("server", "migrations"):
            return await fetch(self, name, *arguments, **values)
        raise StoreUnavailable("the server went away")

    monkeypatch.setattr(diagnostics.PostgresDiagnostics, "_rows", refuse)
    failed = await place.wrong()
    assert set(failed) <= set(EVERYTHING)
    assert {"connections", "pgvector"} <= set(failed)


async def test_looking_changes_nothing(place: Place) -> None:
    before = [await place.log.meta(), await place.log.changes(ALICE, 0, 10), await place.log.audit_rows(ALICE)]
    await diagnose(place.worker, datetime.now(UTC))
    after = [await place.log.meta(), await place.log.changes(ALICE, 0, 10), await place.log.audit_rows(ALICE)]
    assert before == after


async def test_a_superuser_is_told_that_the_second_wall_is_down(place: Place) -> None:
    told(await place.wrong(place.owner), "roles", "warning", "superuser", "IN ROLE agentmem_app, agentmem_worker")
    login = place.worker.partition("//")[2].partition(":")[0]
    place.run(f"ALTER ROLE {login} BYPASSRLS")
    told(await place.wrong(), "roles", "warning", "may bypass row-level security")


async def test_who_may_not_read_over_all_users_is_told_so(place: Place) -> None:
    login = place.worker.partition("//")[2].partition(":")[0]
    place.run(f"REVOKE agentmem_worker FROM {login}")
    found = (await diagnose(place.worker, datetime.now(UTC))).findings
    told(wrong_of(found), "roles", "warning", f'GRANT agentmem_worker TO "{login}"')
    assert {finding.check for finding in found}.isdisjoint({"audit", "invariants", "lag", "parked", "words", "future"})
    with pytest.raises(ScopeError):
        await heads(place.worker, ["alice"])


async def test_heads_are_read_by_name_and_by_page(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await heads(place.worker, ["bob", "alice", "nobody"]) == {"alice": 2, "bob": 1}
    monkeypatch.setattr(diagnostics, "USER_PAGE_SIZE", 1)
    assert await heads_after(place.worker, "") == {"alice": 2}
    assert await heads_after(place.worker, "alice") == {"bob": 1}
    assert await heads_after(place.worker, "bob") == {}


# -- the server


async def test_a_server_that_is_away_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "CONNECT_SECONDS", 2.0)
    found = (await diagnose(f"postgresql://agent:{SECRET}@127.0.0.1:{free_port()}/x", datetime.now(UTC))).findings
    told(wrong_of(found), "postgres", "error", "start it, or check log_url")
    assert len(found) == 1
    assert SECRET not in str(found)


async def test_a_wrong_password_is_said_and_not_shown(postgres_url: str) -> None:
    found = (await diagnose(database_url(postgres_url, "postgres", f"postgres:{SECRET}"), datetime.now(UTC))).findings
    told(wrong_of(found), "postgres", "error", "authentication failed")
    assert SECRET not in str(found)


async def test_a_url_that_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError, match="log_url"):
        await diagnose("mysql://localhost/x", datetime.now(UTC))


async def test_a_server_that_was_stopped_is_a_finding(own_postgres: LocalServer) -> None:
    await migrate(own_postgres.url, datetime.now(UTC))
    assert list(wrong_of((await diagnose(own_postgres.url, datetime.now(UTC))).findings)) == ["roles"]
    own_postgres.stop()
    told(
        wrong_of((await diagnose(own_postgres.url, datetime.now(UTC))).findings), "postgres", "error", "cannot be used"
    )


async def test_few_connections_left_are_a_warning(postgres_url: str) -> None:
    with Postgres(settings={"max_connections": "13"}) as server:
        held = [psycopg.connect(server.url) for _ in range(7)]
        found = wrong_of((await diagnose(server.url, datetime.now(UTC))).findings)
        for session in held:
            session.close()
    assert found["connections"].detail.endswith("of 10 connections are in use")
    assert "max_connections" in found["connections"].fix


@pytest.mark.parametrize("seconds,word", [(60, "behind"), (-60, "ahead of")])
async def test_a_clock_that_is_off_is_a_warning(place: Place, seconds: int, word: str) -> None:
    found = wrong_of((await diagnose(place.worker, datetime.now(UTC) + timedelta(seconds=seconds))).findings)
    told(found, "clock", "warning", word, "s ", "NTP")


# -- the schema


async def test_a_database_that_is_not_migrated(postgres_database: str) -> None:
    found = (await diagnose(postgres_database, datetime.now(UTC))).findings
    assert {what: finding.level for what, finding in wrong_of(found).items()} == {
        "pgvector": "error",
        "schema": "error",
    }
    assert all("agentmem admin migrate" in finding.fix for finding in found if finding.level == "error")
    assert found[-1].detail.startswith("version 0 of ")


async def test_another_programs_database(postgres_database: str) -> None:
    with psycopg.connect(postgres_database) as db:
        db.execute("CREATE TABLE invoices (id INTEGER)")
    found = wrong_of((await diagnose(postgres_database, datetime.now(UTC))).findings)
    assert "another program" in found["schema"].detail


async def test_an_older_and_a_newer_schema(place: Place) -> None:
    place.run("DELETE FROM schema_version WHERE version > 1")
    told(await place.wrong(), "schema", "error", "version 1 of ", "run: agentmem admin migrate")
    place.run("INSERT INTO schema_version (version, description) VALUES (99, 'x')")
    told(await place.wrong(), "schema", "error", "version 99 is newer", "pip install --upgrade")


@pytest.mark.parametrize(
    "statement,words",
    [
        ("DROP VIEW memory_timeline CASCADE", ["view memory_timeline missing"]),
        ("DROP FUNCTION drop_old_audit_partitions", ["function drop_old_audit_partitions"]),
        ("ALTER TABLE memory_audit_log DISABLE TRIGGER memory_audit_log_kept", ["the audit log is not protected"]),
        ("DROP TRIGGER memory_audit_log_kept_whole ON memory_audit_log", ["the audit log is not protected"]),
    ],
)
async def test_what_is_missing_of_the_schema(place: Place, statement: str, words: list[str]) -> None:
    place.run(statement)
    told(await place.wrong(), "schema", "error", *words)


async def test_a_missing_extension(place: Place) -> None:
    place.run("DROP EXTENSION vector CASCADE")
    found = await place.wrong()
    assert found["pgvector"].level == "error"
    assert "CREATE EXTENSION vector" in found["pgvector"].fix


async def test_a_dropped_index_is_made_again_by_its_fix(place: Place) -> None:
    place.run("DROP INDEX memory_versions_seq", "DROP INDEX idx_audit_user")
    found = await place.wrong()
    told(found, "indexes", "error", "memory_versions_seq", "idx_audit_user", "CREATE INDEX")
    place.run(*found["indexes"].fix.removeprefix("run: ").split("; "))
    assert await place.wrong() == {}


async def test_an_index_that_is_not_valid_is_named(place: Place) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation):
        place.run("CREATE UNIQUE INDEX CONCURRENTLY halfway ON memory_versions (user_id)")
    told(await place.wrong(), "indexes", "error", "not valid: halfway", "REINDEX INDEX CONCURRENTLY halfway")


async def test_a_table_without_its_key_is_named(place: Place) -> None:
    place.run("ALTER TABLE memory_records DROP CONSTRAINT memory_records_pkey")
    told(await place.wrong(), "indexes", "error", "no primary key on memory_records")


async def test_a_wall_that_is_down_is_put_up_by_its_fix(place: Place) -> None:
    place.run(
        "ALTER TABLE memory_records NO FORCE ROW LEVEL SECURITY", "ALTER TABLE passages_8 DISABLE ROW LEVEL SECURITY"
    )
    found = await place.wrong()
    told(found, "row_security", "error", "memory_records, passages_8")
    place.run(*found["row_security"].fix.removeprefix("run: ").split("; "))
    assert await place.wrong() == {}


# -- what is in it


async def test_missing_partitions_and_their_rows(place: Place) -> None:
    day = datetime.now(UTC).date()
    for n in range(1, 8):
        place.run(f"DROP TABLE memory_audit_log_{day + timedelta(days=n):%Y%m%d}")
    told(await place.wrong(), "audit", "warning", "made for 0 days after today", "create_audit_partitions(7)")
    place.run(f"DROP TABLE memory_audit_log_{day:%Y%m%d}")
    told(await place.wrong(), "audit", "warning", f"no partition for today, {day}")
    await place.log.write_audit([AuditEntry(operation="store", memory_type="episodic", scope=ALICE)])
    told(await place.wrong(), "audit", "warning", f"1 rows have no partition, the first of {day}")
    place.run("SELECT create_audit_partitions(7)")
    assert await place.wrong() == {}


async def test_rows_of_a_day_that_was_never_made_move_by_the_fix(place: Place) -> None:
    columns = "(timestamp, operation, memory_type, user_id)"
    place.run(
        f"INSERT INTO memory_audit_log {columns} VALUES ('2020-02-03 04:05Z', 'o', 'm', 'alice')",
        f"INSERT INTO memory_audit_log {columns} VALUES ('2999-02-03 04:05Z', 'o', 'm', 'alice')",
    )
    found = await place.wrong()
    told(found, "audit", "warning", "2 rows have no partition, the first of 2020-02-03")
    place.run(found["audit"].fix.partition(": ")[2])
    assert await place.wrong() == {}


def copied_fact(place: str, name: str) -> str:
    """The statement that makes one more version of Bob's fact, at a place and under an id."""
    rest = "channel, recorded_at, format, payload FROM memory_versions WHERE id = 'f'"
    return f"INSERT INTO memory_versions SELECT user_id, {place}, part, kind, {name}, {rest}"


@pytest.mark.parametrize(
    "trouble,words",
    [
        ("DELETE FROM memory_changes WHERE user_id = 'alice' AND seq = 1", ["has gaps", "versions without a change"]),
        ("DELETE FROM memory_users WHERE user_id = 'bob'", ["changes without a user: 1, such as bob 1"]),
        (
            "UPDATE memory_versions SET payload = NULL WHERE id = 'f'",
            ["records without their version: 1", "bob Fact f"],
        ),
        ("DELETE FROM memory_records WHERE id = 'f'", ["should be current and are not: 1, such as bob Fact f"]),
        ("UPDATE memory_users SET slots = 0 WHERE user_id = 'bob'", ["slots beyond the user's counter"]),
        ("UPDATE memory_versions SET erased = true WHERE id = 'f'", ["erased records that are still there"]),
        (copied_fact("slot, seq + 1", "id"), ["older than their last version: 1"]),
        (copied_fact("slot, seq + 1", "'g'"), ["slots that two records share: 1, such as bob 0"]),
        (copied_fact("slot + 1, seq", "id"), ["records in two slots: 1, such as bob Fact f"]),
    ],
)
async def test_what_does_not_agree_is_named(place: Place, trouble: str, words: list[str]) -> None:
    place.run(trouble)
    found = await place.wrong()
    assert found["invariants"].level == "error"
    assert [word for word in words if word not in found["invariants"].detail] == []


async def test_an_embedder_without_its_table(place: Place) -> None:
    place.run("DROP TABLE passages_8 CASCADE")
    told(await place.wrong(), "embedders", "error", f"{HASH} has 8 dimensions", "SELECT make_passages(8)")


async def test_a_projection_that_is_behind_names_who(place: Place) -> None:
    await write_records(place.log, BOB, build_fact("g"), build_fact("h"))
    await write_records(place.log, Scope("carol"), build_fact("i"))
    await write_records(place.log, Scope("carol"), build_fact("j"))
    told(
        await place.wrong(),
        "lag",
        "warning",
        f"{projection_name(HASH)} lacks 3 changes of 2 users: carol 2; bob 1",
        "run: agentmem admin sync",
    )


async def test_a_projection_ahead_of_the_log_is_an_error(place: Place) -> None:
    place.run("UPDATE projection_watermarks SET seq = seq + 5 WHERE user_id = 'alice'")
    told(await place.wrong(), "lag", "error", "is ahead of the log for 1 users: alice 5", "rebuild --what vectors")


async def test_a_parked_change_is_shown_with_its_reason(place: Place) -> None:
    await place.log.write_dead_letter(
        DeadLetter(projection_name(HASH), "alice", 2, "the text is too long", 5, datetime.now(UTC))
    )
    told(
        await place.wrong(),
        "parked",
        "warning",
        "1 changes were passed over",
        "alice 2",
        "the text is too long",
        "agentmem admin rebuild --what vectors --all-users",
    )


async def test_turns_that_were_read_only_in_part_are_named(place: Place) -> None:
    for name, extractor, size in (("by rules", "rules", 30), ("by a model", "llm", 30), ("short", "rules", 5)):
        turn = build_turn(name, "x" * size)
        await write_records(place.log, BOB, turn, build_record(Gloss, id=turn.id, extractor=extractor))
    readers = ReaderLimits("rules", 20, 40)
    found = (await diagnose(place.worker, datetime.now(UTC), readers)).findings
    (finding,) = [finding for finding in found if finding.check == "reading"]
    assert finding.detail == "turns read only in part: 1 (by rules of bob)"


async def test_a_long_lease_and_a_record_of_the_future(place: Place) -> None:
    assert await place.log.acquire_lease("decay", 7200, "worker 7") is not None
    told(await place.wrong(), "leases", "warning", "decay is held by worker 7 for 7,")
    await place.log.release_lease("decay", "worker 7")
    later = to_micros(datetime.now(UTC) + timedelta(hours=1))
    place.run(f"UPDATE memory_users SET last_at = {later} WHERE user_id = 'bob'")
    told(await place.wrong(), "future", "warning", "1 users were written to in the future, bob at ")


async def test_words_of_another_tokenizer_are_a_warning(place: Place) -> None:
    place.run("UPDATE word_state SET tokenizer = '0123456789ab' WHERE user_id = 'bob'")
    told(await place.wrong(), "words", "warning", "words of 1 users", "rebuild --what words --all-users")


async def test_a_store_without_an_id_is_an_error(place: Place) -> None:
    place.run("DELETE FROM store_meta WHERE name = 'store_id'")
    told(await place.wrong(), "store_id", "error", "no id")


async def test_rows_of_days_that_were_made_are_not_read_for_those_that_were_not(place: Place) -> None:
    statement = (
        "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "
        + load_templates("agentmem.stores.postgres", "diagnostics.sql")["in_default"]
    )
    with psycopg.connect(place.owner) as db:
        lines: list[Any] = [line for (line,) in db.execute(statement).fetchall()]  # type: ignore[call-overload]
    read = [line for line in lines if "on memory_audit_log_2" in line and "never executed" not in line]
    assert read == []
    assert any("on memory_audit_log_default" in line and "never executed" not in line for line in lines)
