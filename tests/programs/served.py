"""`agentmem serve` as a program, for other programs to ask."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner

from agentmem.cli.main import cli_group

AGENTMEM = str(Path(sys.executable).with_name("agentmem"))
ALL_SCOPES = "read,write,erase,admin"
START = re.compile(r"serving on (http://127\.0\.0\.1:\d+)")


def create_key(settings: Mapping[str, str], user: str, scopes: str = "read,write") -> str:
    """The secret of a new key in the memory that environment variables tell."""
    asked = ["keys", "create", "--user", user, "--scopes", scopes, "--json"]
    made = CliRunner(env={**settings, "AGENTMEM_EMBEDDER": "hash"}).invoke(cli_group, asked)
    assert made.exit_code == 0, made.output
    return str(json.loads(made.stdout)["secret"])


@contextmanager
def serve(settings: Mapping[str, str], *options: str) -> Iterator[str]:
    """The address of a server on a free port, which ends in order when nobody asks any more."""
    environment = {**os.environ, **settings, "AGENTMEM_EMBEDDER": "hash"}
    command = [AGENTMEM, "serve", "--port", "0", *options]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    try:
        found = START.match(server.stdout.readline())
        assert found is not None
        yield found[1]
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.communicate()
