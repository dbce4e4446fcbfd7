"""`python -m tests.benchmarks.servers`: recalls and writes on Postgres, Neo4j and Redis, measured at scale.

Starts servers of its own, or takes those of AGENTMEM_TEST_POSTGRES_URL, …_NEO4J_URL and …_REDIS_URL (two new databases
of that Postgres, as its superuser; that Neo4j's and Redis' data are added to). 1,000,000 passages take some 6 GB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.benchmarks.report import render_table
from tests.benchmarks.servers.run import SMALL, BenchmarkStores, ServerBenchmarkPlan, measure
from tests.servers.downloads import CannotStart
from tests.servers.host import url_variable
from tests.servers.local import LocalServer
from tests.servers.neo4j import Neo4j
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis
from tests.servers.stack import database_of, prepare

# As one would set them on a machine of its own with some gigabytes; what is acknowledged is on the disk.
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "2GB",
    "effective_cache_size": "6GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "wal_compression": "on",
    "random_page_cost": "1.1",
    "work_mem": "16MB",
    "maintenance_work_mem": "256MB",
}
OPTIONS = {
    "users": int,
    "passages": int,
    "large": int,
    "seconds": float,
    "warming": float,
    "recalls": float,
    "writes": float,
    "processes": int,
    "embedder": str,
    "seed": int,
    "cache_mb": int,
}


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    found = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.servers", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    found.add_argument("--scale", choices=["full", "small"], default="full", help="what the other options start from")
    for name, kind in OPTIONS.items():
        default = getattr(ServerBenchmarkPlan(), name)
        found.add_argument(f"--{name.replace('_', '-')}", type=kind, help=f"{default} at full scale")
    found.add_argument("--json", type=Path, help="also write the figures there")
    return found


@contextmanager
def servers() -> Iterator[dict[str, str]]:
    """The URLs of a running server of each kind."""
    made: dict[str, LocalServer] = {"postgres": Postgres(settings=SETTINGS), "neo4j": Neo4j(), "redis": Redis()}
    with ExitStack() as running:
        yield {
            kind: os.environ.get(url_variable(kind)) or running.enter_context(server).url
            for kind, server in made.items()
        }


@contextmanager
def database(url: str) -> Iterator[tuple[str, str]]:
    """A database that goes in the end: its URL as the owner, and as a role that sees one user's rows at a time."""
    name, password = f"bench_{secrets.token_hex(6)}", secrets.token_hex(16)
    own, known = database_of(url, name), conninfo_to_dict(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
            yield own, f"postgresql://{name}:{password}@{known['host']}:{known.get('port', 5432)}/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
            connection.execute(f"DROP ROLE IF EXISTS {name}")


@contextmanager
def place(urls: Mapping[str, str]) -> Iterator[BenchmarkStores]:
    """Empty stores, with a database of their own."""
    with database(urls["postgres"]) as (owner, client):
        asyncio.run(prepare(owner, urls["neo4j"]))
        with psycopg.connect(owner, autocommit=True) as connection:
            role = conninfo_to_dict(client)["user"]
            connection.execute(f"GRANT agentmem_app, agentmem_worker TO {role}")
        yield BenchmarkStores({"log_url": client, "graph_url": urls["neo4j"], "session_url": urls["redis"]}, owner)


def say(line: str) -> None:
    """Progress, beside the figures."""
    print(line, file=sys.stderr, flush=True)


def shown(document: Mapping[str, Any]) -> str:
    """All figures as tables."""
    one = {name: {k: v for k, v in document[name].items() if not isinstance(v, dict)} for name in ("load", "graph")}
    growth = [{"loaded": name, **document["growth"][name]} for name in ("few", "many")]
    parts = {
        "Asked and measured, without the embedding": document["asked"],
        "Loaded; only watermarks in the graph, because links of turns are not needed by recall": [one["load"]],
        "Open loop, from the moment when each was due, without the embedding": document["latency"],
        "Techniques in warm recalls": document["techniques"],
        "Calls of the stores": document["steps"],
        "Alone: the first recall of a user in a process": document["first"],
        "Clients who wait": document["clients"],
        "Exactness": [document["vector_recall"]],
        "One user where a tenth and where all users are loaded, asked in turns": growth,
        "Graph": [one["graph"]],
    }
    return "\n\n".join(f"## {title}\n\n{render_table(rows)}" for title, rows in parts.items()) + "\n"


def main() -> int:
    """Measure and print; 1 when a server cannot be had."""
    given = parser().parse_args()
    chosen = {name: getattr(given, name) for name in OPTIONS if getattr(given, name) is not None}
    plan = replace(
        SMALL if given.scale == "small" else ServerBenchmarkPlan(), mark=f" {secrets.token_hex(3)}", **chosen
    )
    try:
        with ExitStack() as running:
            urls = running.enter_context(servers())
            few, many = running.enter_context(place(urls)), running.enter_context(place(urls))
            home = running.enter_context(tempfile.TemporaryDirectory(prefix="agentmem-bench-"))
            document = asyncio.run(measure(plan, few, many, Path(home), say))
    except CannotStart as error:
        say(str(error))
        return 1
    print(shown(document))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
