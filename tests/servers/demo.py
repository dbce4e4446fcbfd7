"""`python -m tests.servers demo`: start the three servers, run the demo on them, and show what it left in each."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import neo4j
import psycopg
import redis

USER = "demo"
ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
LIVE = (
    ["add", "--user", USER, "I'm allergic to peanuts."],
    ["remember", "--user", USER, "what am I allergic to?", "--top-k", "2"],
)
SQL = """
SELECT turn_index, speaker, left(content, 60) AS content FROM conversation_logs ORDER BY timestamp, turn_index LIMIT 3;
SELECT operation, count(*), round(avg(latency_ms)) AS ms FROM memory_audit_log GROUP BY operation ORDER BY 1;
SELECT projection, seq, (SELECT head FROM memory_users) AS head FROM projection_watermarks ORDER BY projection
"""
CYPHER = """
MATCH (n:Record {user_id: $user}) RETURN [label IN labels(n) WHERE label <> 'Record'] AS label, count(*) ORDER BY label;
MATCH (:Record {user_id: $user})-[r]->() RETURN type(r) AS relationship, count(*) ORDER BY relationship;
MATCH (p:Projection {user_id: $user}) RETURN p.name AS projection, p.seq AS seq
"""


def demo(urls: dict[str, str], arguments: Sequence[str]) -> int:
    """Migrate, run, look; the exit code of what failed first, else 0."""
    with tempfile.TemporaryDirectory(prefix="agentmem-demo-") as home:
        environment = {
            **os.environ,
            "AGENTMEM_HOME": home,
            "AGENTMEM_LOG_URL": urls["postgres"],
            "AGENTMEM_GRAPH_URL": urls["neo4j"],
            "AGENTMEM_SESSION_URL": urls["redis"],
        }
        steps = [["agentmem", *words] for words in (["migrate"], *LIVE, ["stats", "--user", USER])]
        steps.insert(1, ["python", "-m", "docs.examples.demo", "--servers", "--user", USER, *arguments])
        for program, *words in steps:
            print(f"\n$ {program} {' '.join(words)}", flush=True)
            started = [PROGRAMS / program, *words]
            code = subprocess.run(started, env=environment, cwd=ROOT, check=False).returncode
            if code:
                return code
    _show_sql(urls["postgres"])
    _show_cypher(urls["neo4j"])
    _show_keys(urls["redis"])
    return 0


def _show_sql(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("SELECT set_config('agentmem.user_id', %s, false)", (USER,))
        for statement in SQL.strip().split(";\n"):
            print(f"\nSQL> {statement}")
            for row in connection.execute(statement):
                print("  " + " | ".join(map(str, row)))


def _show_cypher(url: str) -> None:
    address, _, rest = url.rpartition("@")
    scheme, _, user = address.partition("://")
    name, _, password = user.partition(":")
    with neo4j.GraphDatabase.driver(f"{scheme}://{rest}", auth=(name, password)) as driver:
        for statement in CYPHER.strip().split(";\n"):
            print(f"\ncypher> {statement}")
            for record in driver.execute_query(statement, user=USER).records:
                print("  " + " | ".join(str(value) for value in record.values()))


def _show_keys(url: str) -> None:
    with redis.Redis.from_url(url, decode_responses=True) as client:
        print("\nredis> SCAN, TTL")
        for key in sorted(client.scan_iter()):
            print(f"  {key} | {client.type(key)} | {client.ttl(key)} s")
