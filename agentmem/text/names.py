"""Names and claims in the one form in which they are compared."""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256

_LATIN_ACCENT = re.compile(r"(?<=[a-z])[\u0300-\u036f]+")
_CLAIM_END = " .!?,;:…。、"
_QUOTES = {0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'}


def slugify(name: str) -> str:
    """Return a name as letters, digits and single hyphens, the same for all its spellings in case, accents and spaces.

    Letters of every script are kept; Latin letters lose their accents. `C++` becomes `c-plus-plus` and `C#` `c-sharp`.
    A name of symbols alone gives their code points (`u1f389`); only an invisible one gives an empty string.
    """
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    folded = unicodedata.normalize("NFC", _LATIN_ACCENT.sub("", folded))
    folded = re.sub(r"(?<=\w)#(?!\w)", "-sharp", re.sub(r"(?<=[\w+])\+(?=\+*(?!\w))", "-plus", folded))
    kept = "".join(_slugify_character(character) for character in folded)
    return re.sub("-+", "-", kept).strip("-") or _code_points(name)


def normalize_claim(text: str) -> str:
    """Return a claim as it is compared: NFKC, case folded, white space and quotes plain, no punctuation at its end.

    Words, numbers and negations stay. A claim of punctuation alone is kept as it is.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    plain = " ".join(folded.translate(_QUOTES).split())
    return plain.rstrip(_CLAIM_END) or plain


def hash_claim(text: str) -> str:
    """Return the SHA-256 of the normalised claim, 64 hexadecimal digits."""
    return sha256(normalize_claim(text).encode("utf-8", "surrogatepass")).hexdigest()


def _slugify_character(character: str) -> str:
    category = unicodedata.category(character)
    if category[0] in "LNM":
        return character
    return "" if category == "Cf" else "-"


def _code_points(name: str) -> str:
    """The visible characters of a name without letters, by number."""
    visible = [c for c in name if not c.isspace() and unicodedata.category(c)[0] != "C"]
    return "-".join(f"u{ord(c):x}" for c in visible)
