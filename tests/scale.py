"""How far random and long tests go: a part of the way in `make test`, all of it in `make nightly`."""

from __future__ import annotations

import os

NIGHTLY = os.environ.get("AGENTMEM_TEST_SCALE") == "nightly"
SHARE = 12  # `make test` makes one in so many


def scaled(count: int, *, least: int = 3) -> int:
    """How many of `count` examples, seeds or histories to run: all in `make nightly`, else a twelfth, or `least`."""
    return count if NIGHTLY else max(min(count, least), count // SHARE)
