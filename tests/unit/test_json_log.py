"""The log of the daemons: lines of JSON, without what may quote stored text."""

from __future__ import annotations

import io
import json
import logging
import sys
import warnings
from typing import Any

import pytest

from agentmem.cli.json_log import JsonLines, write_json_lines

SAID = "I am allergic\nto peanuts"


def render(message: object, *values: object, exc_info: Any = None) -> dict[str, Any]:
    """The object for a record of a library."""
    line = JsonLines().format(logging.LogRecord("some.library", logging.WARNING, "", 0, message, values, exc_info))
    assert len(line.splitlines()) == 1
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_record_of_a_library_is_an_object() -> None:
    line = render("%d tries", 3)
    assert line.pop("timestamp").endswith("+00:00")
    assert line == {"event": "3 tries", "level": "warning", "logger": "some.library"}


def test_an_exception_is_told_by_its_type_wherever_it_stands() -> None:
    error = ValueError(SAID)
    assert render("it failed", exc_info=(ValueError, error, None))["error"] == "ValueError"
    found = [render(error), render("failed: %s", error), render("failed: %(why)s", {"why": error})]
    assert [line["event"] for line in found] == ["ValueError", "failed: ValueError", "failed: ValueError"]


@pytest.mark.parametrize("end", ["\n", "\u2028", "\r"])
def test_only_the_first_line_of_a_message_is_told(end: str) -> None:
    assert render(f"Task exception was never retrieved{end}future: {SAID}")["event"] == (
        "Task exception was never retrieved"
    )


@pytest.mark.parametrize("values", [("one", "two"), ("one",), ({"name": "one"},)])
def test_values_that_do_not_fit_their_message_cost_no_line(values: tuple[Any, ...]) -> None:
    assert render("%d done %s", *values)["event"] == "%d done %s"


def test_an_event_of_the_package_stays_as_it_is() -> None:
    record = logging.LogRecord("agentmem", logging.INFO, "", 0, '{"event": "stored"}', None, None)
    assert JsonLines().format(record) == '{"event": "stored"}'


def test_warnings_are_lines_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging.getLogger(), "level", logging.WARNING)
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        write_json_lines()
        try:
            warnings.warn("this will go", DeprecationWarning, stacklevel=1)
            (line,) = said.getvalue().splitlines()
        finally:
            logging.captureWarnings(False)
    assert "this will go" in json.loads(line)["event"]
    assert json.loads(line)["logger"] == "py.warnings"
