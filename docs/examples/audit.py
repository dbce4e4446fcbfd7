"""Audit queries in SQL: who read what, who erased what, and by which key.

Install:  pip install "agentmem-graph[local]"      (with servers: "agentmem-graph[local,postgres]")
Run:      python docs/examples/audit.py [USER]

The queries stand in audit_queries.sql beside this program. They run on the embedded file in the folder AGENTMEM_HOME
(~/.agentmem), or on Postgres when AGENTMEM_LOG_URL and AGENTMEM_GRAPH_URL name servers; there the role
`agentmem_auditor` may read the log. The program prints the rows of each question about the user (alice). Reads leave
rows only while AGENTMEM_AUDIT_LEVEL is `reads` or `verbose`, so set it before you run chat.py. An erasure blanks the
text of earlier rows and keeps the rows.
"""

# ruff: noqa: T201

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agentmem import Settings

QUERIES = Path(__file__).with_name("audit_queries.sql")
Row = tuple[Any, ...]


def main(arguments: Sequence[str] = ()) -> None:
    """Print the answer to each query about the user named by the first argument (alice)."""
    user_id = arguments[0] if arguments else "alice"
    for title, rows in ask_all(Settings(), user_id):
        print(f"\n{title}")
        for row in rows:
            print("  " + " | ".join("-" if value is None else str(value) for value in row))
        if not rows:
            print("  no rows")


def read_queries() -> dict[str, str]:
    """The queries of the file by their titles, in order."""
    return dict(re.findall(r"^-- # ([^\n]+)\n(.+?);", QUERIES.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))


def ask_all(settings: Settings, user_id: str) -> Iterator[tuple[str, list[Row]]]:
    """Yield each title with the rows about a user, from the log that the settings name."""
    query_log = query_embedded if settings.log_server_url is None else query_postgres
    for title, query in read_queries().items():
        yield title, query_log(settings, query, user_id)


def query_embedded(settings: Settings, query: str, user_id: str) -> list[Row]:
    """Rows of the embedded file. It is opened for reading only, by the library that agentmem itself uses."""
    import apsw

    if not settings.database.exists():
        sys.exit(f"There is no memory at {settings.database}. Run chat.py first, or set AGENTMEM_HOME.")
    connection = apsw.Connection(str(settings.database), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(connection.execute(query, {"user": user_id}))
    finally:
        connection.close()


def query_postgres(settings: Settings, query: str, user_id: str) -> list[Row]:
    """Rows of the Postgres that AGENTMEM_LOG_URL names."""
    import psycopg

    with psycopg.connect(settings.log_server_url or "") as connection:
        return connection.execute(query.replace(":user", "%(user)s"), {"user": user_id}).fetchall()


if __name__ == "__main__":
    main(sys.argv[1:])
