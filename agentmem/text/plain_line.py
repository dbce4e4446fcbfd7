"""Stored text as one harmless line: what every renderer puts into a prompt goes through here.

A stored text may hold line breaks, headings, invisible characters or the markers of a context. On a line of its own it
would look like a section or a turn that somebody else wrote.
"""

from __future__ import annotations

import re

from agentmem.core.plain_values import has_visible

MEMORY_TAG = "memory"
"""The tag around a context; `to_plain_line` breaks every other one."""

MAX_NAME_CHARS = 60
MAX_ESCAPED_CHARS = 8
_JOINERS = "\u200c\u200d"  # parts of words in some scripts and of emoji; a model reads over them
# Controls, lone surrogates, and what is not shown: direction marks, zero-width characters, tag characters.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_TAG_LETTERS = f"[{_JOINERS}]*".join(MEMORY_TAG)
_TAG_START = re.compile(rf"<(?=[\s/{_JOINERS}]*{_TAG_LETTERS})", re.IGNORECASE)
_NAME_START = re.compile(r"^[\W_]+")
_ROLES = frozenset({"user", "assistant", "system", "tool", "developer"})


def to_plain_line(text: str) -> str:
    """The text on one line: white space as single spaces, without invisible characters, markers broken.

    After a fixed word, the result cannot start a line, section or turn, and cannot close a context. Idempotent. A text
    without a visible character becomes escapes, such as `\\u200b`; white space becomes an empty text.
    """
    shown = _strip_unseen(text)
    return shown if has_visible(shown) else _escape(text.strip())


def _strip_unseen(text: str) -> str:
    shown = _SURROGATES.sub("\ufffd", _UNSEEN.sub("", text))
    return _TAG_START.sub("\u2039", " ".join(shown.split()))


def _escape(text: str) -> str:
    escaped = text[:MAX_ESCAPED_CHARS].encode("unicode_escape").decode()
    return escaped if len(text) <= MAX_ESCAPED_CHARS else f"{escaped}…"


def to_plain_name(name: str, role: str = "") -> str:
    """A speaker's name as it may begin a line: on one line, from its first letter or digit on, without a colon.

    `role` is the role of who speaks, shown where the name is empty or is that of another role.
    """
    plain = _NAME_START.sub("", _strip_unseen(name.replace(":", " ")))[:MAX_NAME_CHARS].strip()
    return plain if plain and (plain.casefold() == role or plain.casefold() not in _ROLES) else role
