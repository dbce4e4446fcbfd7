"""Stored text as one harmless line: what every renderer puts into a prompt goes through here.

A stored text may hold line breaks, headings, invisible characters or the markers of a context. On a line of its own it
would look like a section or a turn that somebody else wrote.
"""

from __future__ import annotations

import re

MEMORY_TAG = "memory"
"""The tag between whose markers a context stands; `to_plain_line` breaks every other one."""

MAX_NAME_CHARS = 60
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
    """The text on one line: white space as single spaces, without characters that are not shown, markers broken.

    What comes back starts no line, section or turn where it stands behind a word of ours, and closes no context.
    Idempotent. Empty for a text of white space and unseen characters alone.
    """
    shown = _SURROGATES.sub("\ufffd", _UNSEEN.sub("", text))
    return _TAG_START.sub("\u2039", " ".join(shown.split()))


def to_plain_name(name: str, role: str = "") -> str:
    """A speaker's name as it may begin a line: on one line, from its first letter or digit on, without a colon.

    `role` is the role of who speaks, shown where the name is empty or is that of another role.
    """
    plain = _NAME_START.sub("", to_plain_line(name.replace(":", " ")))[:MAX_NAME_CHARS].strip()
    return plain if plain and (plain.casefold() == role or plain.casefold() not in _ROLES) else role
