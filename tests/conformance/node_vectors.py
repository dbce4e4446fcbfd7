"""Vector indexes of a Neo4j that the tests share: there is one set of them, so one test at a time has them."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import neo4j

from agentmem.stores.neo4j.vectors import VECTOR_INDEXES


@contextmanager
def lock_vector_indexes(url: str) -> Iterator[None]:
    """Have the database's vector indexes for oneself; there are none before and after."""
    place = urlsplit(url)
    with (Path(tempfile.gettempdir()) / f"agentmem-vector-indexes-{place.port}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            address, login = f"bolt://{place.hostname}:{place.port}", (place.username or "", place.password or "")
            with neo4j.GraphDatabase.driver(address, auth=login) as driver:
                for name in VECTOR_INDEXES:
                    driver.execute_query(f"DROP INDEX {name} IF EXISTS")
