"""`agentmem config`: every setting with its value and where it is from, secrets masked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def test_settings_are_listed_with_where_they_come_from(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "agentmem.toml"
    file.write_text(
        'llm = "openai:gpt-6-luna"\nlog_url = "postgresql://a:hunter2@db/m"\ngraph_url = "neo4j://b:hunter2@graph"\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("AGENTMEM_CONFIG", str(file))
    monkeypatch.setenv("AGENTMEM_RECALL__RANKING__POOL", "7")
    rows = {row["setting"]: row for row in cli.json("config", "--seed", "4")}
    assert (rows["seed"]["value"], rows["seed"]["from"]) == ("4", "option")
    assert rows["llm"]["from"] == f"{file}, line 1"
    assert (rows["recall.ranking.pool"]["value"], rows["recall.ranking.pool"]["from"]) == (
        "7",
        "environment variable AGENTMEM_RECALL__RANKING__POOL",
    )
    text = cli("config", "--changed")
    assert "log_url" in text
    assert "hunter2" not in text + str(rows)
    assert "time_zone" not in text
