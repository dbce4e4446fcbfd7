"""mem0's own client before the routes that answer it. The client is installed once per machine, in its own folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.programs.served import ALL_SCOPES, create_key, serve
from tests.servers.downloads import CannotStart, cached_folder, run
from tests.servers.plugin import _skip_or_fail

RELEASE = "mem0ai==2.2.1"
SCRIPT = Path(__file__).with_name("mem0_client.py")


@pytest.fixture
def seen(home: Path, tmp_path: Path) -> dict[str, Any]:
    """What the client saw."""
    try:
        folder = cached_folder(f"mem0-client-{RELEASE.partition('==')[2]}", _install)
    except CannotStart as error:
        _skip_or_fail(str(error))
    settings = {"AGENTMEM_HOME": str(home)}
    keys = create_key(settings, "ann"), create_key(settings, "*", ALL_SCOPES)
    own = {**os.environ, "PYTHONPATH": str(folder), "MEM0_DIR": str(tmp_path), "MEM0_TELEMETRY": "False"}
    with serve(settings, "--mem0") as address:
        command = [sys.executable, str(SCRIPT), f"{address}/mem0", *keys]
        done = subprocess.run(command, env=own, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.nightly
def test_the_client_adds_finds_pages_corrects_and_deletes(seen: dict[str, Any]) -> None:
    kept = "The spare key is under the pot."
    told = {"The user moved to Lisbon", "The user plays the cello"}
    assert _read_texts(seen["added"]) == told
    assert seen["found"][0]["memory"] == "The user moved to Lisbon"
    assert seen["one"] == kept
    assert _read_texts(seen["all"]) == {*told, kept}
    assert [len(page) for page in seen["pages"]] == [1, 1, 1, 0]
    assert {each["memory"] for page in seen["pages"] for each in page} == {*told, kept}
    assert [(each["name"], each["total_memories"]) for each in seen["users"] if each["type"] == "user"] == [("ann", 3)]
    assert seen["updated"] == "The spare key is under the mat."
    assert [(each["old_memory"], each["new_memory"]) for each in seen["history"]] == [
        (None, kept),
        (kept, seen["updated"]),
    ]
    assert seen["batch"] == "The spare key is in the box."
    assert _read_texts(seen["left"]) == told
    assert len(seen["fewer"]) == 1
    assert seen["none"] == seen["no_bob"] == []
    assert _read_texts(seen["others"]) == {"The user lives in Oslo"}


def _read_texts(memories: list[dict[str, Any]]) -> set[str]:
    return {each["memory"] for each in memories}


def _install(folder: Path) -> None:
    run([sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, RELEASE], cwd=folder)
