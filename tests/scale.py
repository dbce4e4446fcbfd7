"""How far random and long tests go: a part of the way in `make test`, all of it in `make nightly`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

NIGHTLY = os.environ.get("AGENTMEM_TEST_SCALE") == "nightly"
SHARE = 50  # `make test` makes one in so many


def scaled(count: int, *, least: int = 3) -> int:
    """How many of `count` examples, seeds or histories to run: all in `make nightly`, else a fiftieth, or `least`."""
    return count if NIGHTLY else max(min(count, least), count // SHARE)


def scaled_settings(count: int, *, least: int) -> settings:
    """Settings of a property over whole memories: `scaled` examples, the same ones on every run of `make test`."""
    examples, checks = scaled(count, least=least), list(HealthCheck)
    return settings(max_examples=examples, deadline=None, derandomize=not NIGHTLY, suppress_health_check=checks)
