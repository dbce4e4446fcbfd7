"""What the tracer of coverage leaves alone."""

from __future__ import annotations

import os


def test_child_processes_are_not_traced() -> None:
    """A traced program takes twice as long, and starting the tracer sets the variable by which it finds children."""
    assert "COVERAGE_PROCESS_CONFIG" not in os.environ
