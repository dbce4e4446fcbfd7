"""Fails when something in the package is used by nobody, neither the package nor a test. Run by `make lint`.

Vulture finds the candidates. Fields of records and members of enums are data that others read, and the error tree is a
promise to callers, so they do not count; unused local names are ruff's.
"""

from __future__ import annotations

import sys
from pathlib import Path

from vulture import Vulture
from vulture.core import Item

ROOT = Path(__file__).parents[2]
LIKELY = 60  # vulture's confidence, in percent, that a name is used nowhere it looked

# Called by a framework, by name.
NAMES = ["__*__", "model_config", "pytest_*", "settings_customise_sources", "test_*", "Test*"]
NAMES += ["after_agent", "aafter_agent", "wrap_model_call", "awrap_model_call"]
NAMES += ["before_model_request", "delete_record", "_aget", "_aput"]
NAMES += ["format_options", "pipe_data_received", "process_exited", "connection_lost", "log_message", "describe"]
DECORATORS = [
    "@*.command",
    "@*.group",
    "@router.*",
    "@field_serializer",
    "@field_validator",
    "@model_serializer",
    "@model_validator",
]
DECORATORS += ["@given", "@initialize", "@invariant", "@pytest.fixture", "@rule"]


def counts(item: Item) -> bool:
    """True for code and module-level names of the package, False for fields, attributes and what tests define."""
    if ROOT / "tests" in item.filename.parents or item.filename == ROOT / "agentmem" / "errors.py":
        return False
    line = item.filename.read_text(encoding="utf-8").splitlines()[item.first_lineno - 1]
    return item.typ not in {"attribute", "variable"} or not line[:1].isspace()


def main() -> None:
    """Print each finding as `file:line: what`, and exit with 1 if there is one."""
    search = Vulture(ignore_names=NAMES, ignore_decorators=DECORATORS)
    search.scavenge(
        [str(ROOT / folder) for folder in ("agentmem", "packages", "workers", "tests") if (ROOT / folder).is_dir()]
    )
    found = [item for item in search.get_unused_code(min_confidence=LIKELY) if counts(item)]
    for item in found:
        print(f"{item.filename.relative_to(ROOT)}:{item.first_lineno}: nobody uses {item.typ} {item.name!r}")
    if found:
        sys.exit(1)
    print("dead code: none")


if __name__ == "__main__":
    main()
