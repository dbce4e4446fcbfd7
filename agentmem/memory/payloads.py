"""What goes into a tool and what comes out of it, as JSON of a bounded size."""

from __future__ import annotations

import json
from typing import Any

from agentmem.errors import InvalidRecord

MAX_JSON_DEPTH = 100  # lists and objects inside of one another; what reads JSON has limits of its own


def truncate_json(value: Any, field: str, max_chars: int) -> Any:
    """The value as plain JSON; one that is too long or too deep is cut.

    A cut one is `{"cut": true, "characters": n, "beginning": "…"}`: the length of its JSON, and the first `max_chars`
    characters of it. Raises InvalidRecord naming the field for what JSON cannot say.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
        plain = json.loads(text)
    except RecursionError as error:
        raise InvalidRecord(f"{field} is nested too deeply to be JSON", field=field) from error
    except (TypeError, ValueError) as error:
        said = "it holds lone surrogates" if isinstance(error, UnicodeEncodeError) else str(error)
        raise InvalidRecord(f"{field} must be something that JSON can say: {said}", field=field) from error
    if len(text) <= max_chars and _json_depth(text) <= MAX_JSON_DEPTH:
        return plain
    return {"cut": True, "characters": len(text), "beginning": text[:max_chars]}


def _json_depth(text: str) -> int:
    """How deep it is at most, brackets within strings counted as if they opened something."""
    depth = deepest = 0
    for character in text:
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest
