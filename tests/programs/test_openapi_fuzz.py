"""Every route before Schemathesis, which makes requests from the server's own description of them.

It checks that an answer is one that the description declares, in its form, and that a request against the description
is refused. Left out is `positive_data_acceptance`: a description cannot tell the rules of the library, such as that an
id exists or that a period ends after its start. By day tests/surfaces/test_rest_openapi.py sends one request a route.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentmem.server.auth import USER_HEADER
from tests.programs.served import ALL_SCOPES, create_key, serve
from tests.servers.stack import Stack

SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))
ROOT = Path(__file__).parents[2]
LEFT_OUT = "positive_data_acceptance"
SEED = "1"
EXAMPLES = 36
PHASES = "examples,coverage,fuzzing"  # coverage alone makes 40 requests per route

pytestmark = pytest.mark.nightly


def test_every_route_keeps_to_its_description(home: Path, tmp_path: Path) -> None:
    check_routes({"AGENTMEM_HOME": str(home)}, "ann", tmp_path)


def test_every_route_keeps_to_its_description_on_servers(home: Path, tmp_path: Path, stack: Stack) -> None:
    settings = {f"AGENTMEM_{name.upper()}": value for name, value in stack.urls.items()}
    check_routes({"AGENTMEM_HOME": str(home), **settings}, stack.user("ann"), tmp_path)


def check_routes(settings: dict[str, str], user: str, folder: Path) -> None:
    """Run Schemathesis on every route of a server with these settings; fails with what it found."""
    own = {**settings, "AGENTMEM_SERVER__REQUESTS_PER_MINUTE": "1000000"}
    key = create_key(own, "*", ALL_SCOPES)  # a key of the user's would go when he is erased
    report = folder / "report.json"
    asked = ["--no-color", "--continue-on-failure", "--exclude-checks", LEFT_OUT, "--request-timeout", "60"]
    asked += ["-H", f"Authorization: Bearer {key}", "-H", f"{USER_HEADER}: {user}"]
    asked += [
        "--phases",
        PHASES,
        "--seed",
        SEED,
        "--max-examples",
        str(EXAMPLES),
        "--report",
        "json",
        "--report-json-path",
        str(report),
    ]
    hooks = {"SCHEMATHESIS_HOOKS": "tests.programs.schemathesis_hooks", "PYTHONPATH": str(ROOT)}
    with serve(own, "--mem0") as address:
        command = [SCHEMATHESIS, "run", f"{address}/openapi.json", *asked]
        done = subprocess.run(command, cwd=folder, env={**os.environ, **hooks}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    found = json.loads(report.read_text())
    assert found["operations"]["tested"] == found["operations"]["total"] > 0
    assert found["warnings"]["missing_auth"] == []
    print(f"{found['operations']['tested']} routes, {found['test_cases']['generated']:,} requests")
