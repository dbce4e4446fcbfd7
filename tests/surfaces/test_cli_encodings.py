"""Pipes whose encoding is not UTF-8: no text ends a command or a file half-way."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentmem.cli.render import echo, echo_stderr, escape_unencodable, show_json, show_json_lines

SAID = "🎉 Party → Zoë in 東京 \udc81"
ENCODINGS = ("cp1252", "cp936", "latin-1", "ascii", "utf-8")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_any_text_is_printed_in_any_encoding(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    raw = {name: io.BytesIO() for name in ("stdout", "stderr")}
    for name, buffer in raw.items():
        monkeypatch.setattr(sys, name, io.TextIOWrapper(buffer, encoding=encoding))
    escape_unencodable()
    show_json({"said": SAID})
    show_json_lines([SAID])
    first, line = raw["stdout"].getvalue().decode(encoding).rstrip("\n").rsplit("\n", 1)
    assert (json.loads(first)["said"], json.loads(line)) == (SAID, SAID)
    echo(SAID)
    echo_stderr(SAID)
    assert all("Party" in buffer.getvalue().decode(encoding, "replace") for buffer in raw.values())


def test_the_program_writes_whole_answers_into_any_pipe(cli: Any, home: Path) -> None:
    """The entry point prepares the streams, and an export stays UTF-8."""
    cli("add", SAID[:-2])
    script = "from agentmem.cli.main import main; main()"
    env = {**os.environ, "AGENTMEM_HOME": str(home), "PYTHONIOENCODING": "cp1252"}

    def run(*words: str) -> bytes:
        return subprocess.run([sys.executable, "-c", script, *words], capture_output=True, check=True, env=env).stdout

    assert b"\\u2192 Zo\xeb" in run("turns")
    assert SAID[:-2] in json.dumps(
        [json.loads(line) for line in run("export").decode().splitlines()], ensure_ascii=False
    )


@pytest.mark.parametrize("encoded", [b"Caf\xc3\xa9\r\n", b"\xef\xbb\xbfCaf\xc3\xa9\n", b"Caf\xe9\n"])
def test_standard_input_of_another_encoding_is_read(cli: Any, encoded: bytes) -> None:
    turn = json.loads(cli("add", "-", "--json", stdin=encoded))
    assert re.fullmatch("Caf[é\ufffd]\n?", turn["content"])
