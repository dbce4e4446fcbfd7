"""Keeps unit tests quick: they start no program and no server, and wait for nothing."""

from __future__ import annotations

import subprocess
import threading
from typing import Any

import pytest

SERVER_FIXTURES = (
    *("stack", "postgres_url", "redis_url", "neo4j_url", "neo4j_scratch_url"),
    *("own_postgres", "own_redis", "own_neo4j"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a unit test that asks for a server."""
    for item in items:
        if item.path.parent.name == "unit" and set(SERVER_FIXTURES) & set(getattr(item, "fixturenames", ())):
            raise pytest.UsageError(f"{item.nodeid} asks for a server: it belongs in tests/flows or tests/conformance")


@pytest.fixture(autouse=True)
def _no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    start = subprocess.Popen

    def refuse(*arguments: Any, **options: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return start(*arguments, **options)  # a server that other tests of this run have asked for
        raise AssertionError("a unit test starts no program: move it to tests/programs")

    monkeypatch.setattr(subprocess, "Popen", refuse)
