"""The log of the daemons: one JSON object on each line, from any logger."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any


class JsonLines(logging.Formatter):
    """Events of the package as they are; records of others without the parts that may quote stored text.

    Exceptions are shown by type. Only the first line is kept: others hold tracebacks and objects.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        if record.name == "agentmem":
            return record.getMessage()
        values: Any = record.args
        if isinstance(values, Mapping):
            values = {name: _hide_error(value) for name, value in values.items()}
        elif values:
            values = tuple(_hide_error(value) for value in values)
        text = str(_hide_error(record.msg))
        with suppress(TypeError, ValueError, KeyError):  # values that do not fit
            text = text % values if values else text
        line: dict[str, Any] = {
            "event": next(iter(text.splitlines()), ""),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
        return json.dumps(line)


def _hide_error(value: object) -> object:
    return type(value).__name__ if isinstance(value, BaseException) else value


def write_json_lines() -> None:
    """Write warnings of all libraries to standard error, a line of JSON each."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.captureWarnings(True)
