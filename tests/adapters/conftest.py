"""Fixtures of the tests of adapters."""

from __future__ import annotations

import pytest

from tests.flows.given import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
