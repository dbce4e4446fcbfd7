"""docs/cli.md is what the commands say of themselves."""

from __future__ import annotations

from pathlib import Path

from docs.examples.reference import render_reference

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_is_in_step_with_the_commands() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_reference(), (
        "run: python -m docs.examples.reference > docs/cli.md"
    )


def test_the_page_names_options_values_and_defaults() -> None:
    page = render_reference()
    assert "| `--user NAME` | Whose memory. Default: default. Environment: AGENTMEM_USER. |" in page
    assert "| `--max-tokens INTEGER` |" in page
    assert "## `agentmem import PATH|-…`" in page
    assert "Examples:" not in page
    assert "`--status active\\|blocked\\|completed\\|abandoned`" in page
