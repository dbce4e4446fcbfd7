"""A release of Neo4j that needs a newer Java than the usual one looks for it, and says what it found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import neo4j
from tests.servers.downloads import CannotStart


def java(folder: Path, name: str, version: str) -> str:
    """A program that says which version of Java it is, as Java does."""
    program = folder / name / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    program.chmod(0o755)
    return str(program)


def test_a_java_that_is_new_enough_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "usual"))
    monkeypatch.setattr(neo4j, "INSTALLED", tmp_path)
    usual, newer = java(tmp_path, "usual", "17.0.15"), java(tmp_path, "jdk-25", "25.0.3")
    assert neo4j._find_java(21) == newer
    assert neo4j._find_java(17) == usual
    with pytest.raises(CannotStart, match="needs Java 26 or newer") as caught:
        neo4j._find_java(26)
    assert f"there is {usual} (17), {newer} (25)" in str(caught.value)
    (tmp_path / "jdk-25" / "bin" / "java").chmod(0o644)
    with pytest.raises(CannotStart, match="does not run"):
        neo4j._find_java(21)
