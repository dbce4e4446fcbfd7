"""What may be shown of settings and errors that can hold a secret or a user's words.

Messages, logs and stored reasons are made of our own words only. Three things replace foreign text: `SecretText` for
values, `redact` for showing one, and `failure_reason` for the errors of drivers and SDKs, which are then raised
`from None`, so that a traceback does not print them either.
"""

from __future__ import annotations

import os
import re
from socket import gaierror

_SHOWN_SCHEMES = re.compile(r"(?:postgres(?:ql)?|(?:neo4j|bolt)(?:\+s|\+ssc)?|rediss?|https?)://", re.IGNORECASE)
_MAX_CAUSES = 10


class SecretText(str):
    """A string that may hold a secret: equal to the string and used like it, but its `repr` shows `redact` of it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(redact(self))


def redact(text: str) -> str:
    """The text without what may be secret: of a server's URL the scheme, of a `command:` line only that it is one.

    Of other text with blanks nothing, because it may be a command line under a misspelled name.
    """
    if is_command(text):
        return "command:…"
    if text.startswith("sqlite:///"):
        return str(text)
    if "://" not in text:
        return "…" if " " in text.strip() else str(text)
    scheme = _SHOWN_SCHEMES.match(text)
    return f"{scheme[0]}…" if scheme else "…"


def is_command(spec: str) -> bool:
    """Whether a model's spec is the command line of a program."""
    return re.match(r"\s*command\s*[:/]", spec) is not None


def failure_reason(error: BaseException) -> str:
    """Why something failed: the system's words for its error number, else the kind of error, never the error's text."""
    found: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if isinstance(found, gaierror):
            return str(found.strerror)
        if isinstance(found, OSError) and found.errno is not None and type(found).__module__ == "builtins":
            return os.strerror(found.errno)
        if found is None:
            break
        found = found.__cause__ or found.__context__
    return type(error).__name__
