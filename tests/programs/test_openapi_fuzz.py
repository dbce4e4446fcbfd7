"""Every route before Schemathesis, which makes requests from the server's own description of them.

It checks that an answer is one that the description declares, in its form, and that a request against the description
is refused. Left out is `positive_data_acceptance`: a description cannot tell the rules of the library, such as that an
id exists or that a period ends after its start.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentmem.cli.main import cli_group
from agentmem.server.auth import USER_HEADER
from tests.scale import scaled
from tests.servers.stack import Stack

AGENTMEM = str(Path(sys.executable).with_name("agentmem"))
SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))
ROOT = Path(__file__).parents[2]
LEFT_OUT = "positive_data_acceptance"
SEED = "1"
EXAMPLES = scaled(36)


@pytest.mark.long
def test_every_route_keeps_to_its_description(home: Path, tmp_path: Path) -> None:
    with serve({"AGENTMEM_HOME": str(home)}) as (address, key):
        fuzz(address, key, "ann", tmp_path)


@pytest.mark.nightly
def test_every_route_keeps_to_its_description_on_servers(home: Path, tmp_path: Path, stack: Stack) -> None:
    settings = {f"AGENTMEM_{name.upper()}": value for name, value in stack.urls.items()}
    with serve({"AGENTMEM_HOME": str(home), **settings}) as (address, key):
        fuzz(address, key, stack.user("ann"), tmp_path)


@contextmanager
def serve(settings: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The address of a server that runs as a program, and a key that may do everything and outlives every erasure."""
    own = {**settings, "AGENTMEM_EMBEDDER": "hash", "AGENTMEM_SERVER__REQUESTS_PER_MINUTE": "1000000"}
    asked = ["keys", "create", "--user", "*", "--scopes", "read,write,erase,admin", "--json"]
    made = CliRunner(env=own).invoke(cli_group, asked)
    assert made.exit_code == 0, made.output
    command = [AGENTMEM, "serve", "--port", "0", "--mem0"]
    server = subprocess.Popen(
        command, env={**os.environ, **own}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdout is not None
    try:
        found = re.match(r"serving on (http://127\.0\.0\.1:\d+)", server.stdout.readline())
        assert found is not None
        yield found[1], json.loads(made.stdout)["secret"]
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.communicate()


def fuzz(address: str, key: str, user: str, folder: Path) -> None:
    """Run Schemathesis on every route of a server; fails with what it found."""
    report = folder / "report.json"
    command = [SCHEMATHESIS, "run", f"{address}/openapi.json", "--no-color", "--continue-on-failure"]
    command += ["-H", f"Authorization: Bearer {key}", "-H", f"{USER_HEADER}: {user}"]
    command += ["--exclude-checks", LEFT_OUT, "--seed", SEED, "--max-examples", str(EXAMPLES)]
    command += ["--report", "json", "--report-json-path", str(report)]
    hooks = {"SCHEMATHESIS_HOOKS": "tests.programs.schemathesis_hooks", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env={**os.environ, **hooks}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    found = json.loads(report.read_text())
    assert found["operations"]["tested"] == found["operations"]["total"] > 0
    assert found["warnings"]["missing_auth"] == []
    print(f"{found['operations']['tested']} routes, {found['test_cases']['generated']:,} requests")
