"""Each server answers, has what the stores need, and comes back after kill -9 with what it promised to keep."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import neo4j
import psutil
import psycopg
import pytest
import redis

from tests.servers.downloads import CannotStart, cached_folder
from tests.servers.local import LocalServer
from tests.servers.postgres import FOLDERS, Postgres

ROOT = Path(__file__).parents[2]


def test_postgres_has_vectors(postgres_database: str) -> None:
    with psycopg.connect(postgres_database) as db:
        assert db.info.server_version >= 160000
        db.execute("CREATE EXTENSION vector")
        db.execute("CREATE TABLE p (id int, v halfvec(3072))")
        db.execute("ALTER TABLE p ALTER v SET STORAGE PLAIN")
        db.execute("INSERT INTO p SELECT 1, array_fill(0.5::real, ARRAY[3072])::halfvec")
        row = db.execute("SELECT 1 - (v <=> v), vector_dims(v) FROM p").fetchone()
        assert row == (pytest.approx(1, abs=1e-3), 3072)


def test_a_database_of_ones_own_is_empty(postgres_database: str) -> None:
    with psycopg.connect(postgres_database) as db:
        assert db.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
        db.execute("CREATE TABLE leftover (n int)")


@pytest.mark.nightly
@pytest.mark.parametrize("major", sorted(FOLDERS))
def test_postgres_keeps_what_was_committed(postgres_url: str, major: int) -> None:
    with Postgres(major) as server:
        with psycopg.connect(server.url) as db:
            assert db.info.server_version // 10000 == major
            db.execute("CREATE TABLE kept AS SELECT 42 AS n")
            db.execute("CREATE EXTENSION vector")
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(server.url, connect_timeout=2)
        server.restart()
        with psycopg.connect(server.url) as db:
            assert db.execute("SELECT n FROM kept").fetchone() == (42,)


@pytest.mark.nightly
def test_a_paused_postgres_answers_when_it_goes_on(own_postgres: LocalServer) -> None:
    with psycopg.connect(own_postgres.url, autocommit=True) as db, ThreadPoolExecutor(1) as threads:
        own_postgres.pause()
        answer = threads.submit(lambda: db.execute("SELECT 1").fetchone())
        with pytest.raises(TimeoutError):
            answer.result(0.3)
        own_postgres.resume()
        assert answer.result() == (1,)


def test_redis_is_a_cache(redis_database: str) -> None:
    with redis.Redis.from_url(redis_database) as db:
        assert int(str(db.info("server")["redis_version"]).partition(".")[0]) >= 7
        assert db.dbsize() == 0
        assert db.config_get("save") == {"save": ""}
        assert db.eval("return redis.call('INCR', KEYS[1])", 1, "n") == 1


@pytest.mark.nightly
def test_redis_comes_back_empty_after_a_kill(own_redis: LocalServer) -> None:
    with redis.Redis.from_url(own_redis.url) as db:
        db.set("k", 1)
        own_redis.kill()
        with pytest.raises(redis.ConnectionError):
            db.get("k")
        own_redis.restart()
        assert db.get("k") is None
        own_redis.pause()
        with redis.Redis.from_url(own_redis.url, socket_timeout=0.1) as hasty, pytest.raises(redis.TimeoutError):
            hasty.get("k")
        own_redis.resume()
        assert db.get("k") is None


def test_neo4j_has_what_the_graph_needs(neo4j_url: str) -> None:
    with connected(neo4j_url) as driver:
        records, _, _ = driver.execute_query(
            "CALL dbms.components() YIELD versions, edition RETURN versions[0], edition"
        )
        version, edition = records[0].values()
        assert (version.split(".")[:2], edition) >= (["5", "26"], "community")
        for statement in (
            "CREATE CONSTRAINT servers_probe IF NOT EXISTS FOR (n:ServersProbe) REQUIRE (n.user_id, n.id) IS UNIQUE",
            "CREATE VECTOR INDEX servers_vector IF NOT EXISTS FOR (n:ServersProbe) ON n.e",
            "DROP CONSTRAINT servers_probe",
            "DROP INDEX servers_vector",
        ):
            driver.execute_query(statement)


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_neo4j_keeps_what_was_committed(own_neo4j: LocalServer) -> None:
    with connected(own_neo4j.url) as driver:
        driver.execute_query("CREATE (:Kept {n: 42})")
        own_neo4j.kill()
        with pytest.raises(neo4j.exceptions.ServiceUnavailable):
            driver.verify_connectivity()
        own_neo4j.restart()
        records, _, _ = driver.execute_query("MATCH (n:Kept) RETURN n.n")
        assert records[0].values() == [42]
    assert addresses(own_neo4j) == {("127.0.0.1", own_neo4j.port)}
    address, wrong = own_neo4j.url.rpartition("@")[2], ("neo4j", "not this one")
    with (
        neo4j.GraphDatabase.driver(f"bolt://{address}", auth=wrong) as driver,
        pytest.raises(neo4j.exceptions.AuthError),
    ):
        driver.verify_connectivity()


def connected(url: str) -> neo4j.Driver:
    """A driver for a URL that holds user and password."""
    scheme, _, rest = url.partition("://")
    login, _, address = rest.rpartition("@")
    user, _, password = login.partition(":")
    return neo4j.GraphDatabase.driver(f"{scheme}://{address}", auth=(user, password))


@pytest.mark.nightly
def test_servers_listen_on_loopback_only(own_postgres: LocalServer, own_redis: LocalServer) -> None:
    assert addresses(own_postgres) == {("127.0.0.1", own_postgres.port)}
    assert addresses(own_redis) == {("127.0.0.1", own_redis.port)}


def addresses(server: LocalServer) -> set[tuple[str, int]]:
    """Where a server takes connections."""
    found = psutil.Process(server.pid).net_connections("inet")
    return {(line.laddr.ip.removeprefix("::ffff:"), line.laddr.port) for line in found if line.status == "LISTEN"}


@pytest.mark.nightly
def test_the_end_of_the_log_is_in_the_message(postgres_url: str) -> None:
    server = Postgres(settings={"max_connections": "many"})
    with pytest.raises(CannotStart, match=r"(?s)postgres ended with 1:.*max_connections"):
        server.__enter__()
    with pytest.raises(AssertionError, match="not started"):
        assert not server.folder.exists(), "nothing is left behind"


def test_a_folder_of_the_cache_is_filled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTMEM_TEST_CACHE", str(tmp_path / "cache"))

    def fails(into: Path) -> None:
        (into / "half").touch()
        raise CannotStart("no line")

    with pytest.raises(CannotStart, match="no line"):
        cached_folder("thing", fails)
    assert not (tmp_path / "cache" / "thing").exists()
    assert [path.name for path in cached_folder("thing", lambda into: (into / "whole").touch()).iterdir()] == ["whole"]
    assert [path.name for path in cached_folder("thing", fails).iterdir()] == ["whole"]


@pytest.mark.nightly
def test_up_keeps_servers_until_it_is_told_to_stop(redis_url: str) -> None:
    command = [sys.executable, "-m", "tests.servers", "up", "redis"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name, _, url = process.stdout.readline().strip().partition("=")
        assert name == "export AGENTMEM_TEST_REDIS_URL"
        with redis.Redis.from_url(url) as db:
            assert db.ping()
            process.terminate()
            assert process.wait(30) == 0
            with pytest.raises(redis.ConnectionError):
                db.ping()
