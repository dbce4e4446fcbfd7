"""Stored text on its way to a terminal or a file: nothing in it is obeyed, reordered or hidden.

A terminal obeys escape sequences, also those of C1 controls; direction marks show text in another order than it has;
tag characters and zero-width characters are not shown at all.
"""

from __future__ import annotations

import re

# Joiners (U+200C, U+200D) are left: words of some scripts and emoji need them.
_UNSAFE_CHARS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
# What `click.style` makes of bold, dim and a color, and nothing else that begins with an escape.
_STYLE = re.compile("(\x1b\\[(?:0|1|2|3[1-7])m)")


def neutralize(text: str) -> str:
    """The text with each character that a terminal would obey or not show as U+FFFD; line ends and tabs stay."""
    return _UNSAFE_CHARS.sub("\ufffd", text)


def neutralize_styled(text: str) -> str:
    """The same for a text that holds styles of our own, which stay."""
    parts = _STYLE.split(text)
    return "".join(part if number % 2 else neutralize(part) for number, part in enumerate(parts))


def escape_json(document: str) -> str:
    """A JSON document with these characters as escapes, so that it says the same and any terminal shows it."""
    return _UNSAFE_CHARS.sub(_escape, document)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000  # JSON writes it as two halves
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
