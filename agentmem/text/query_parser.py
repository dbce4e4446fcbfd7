"""Query parsing: the names and times in a query, what it asks for, and the words to search."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from agentmem.text.temporal import DateHint, parse_date_hint
from agentmem.text.tokenizer import stop_words, tokenize

_ROLES = frozenset({"user", "assistant", "system", "tool", "human", "agent"})
# Scripts that put no space between words, so that a name has no word boundary.
_UNSPACED_SCRIPTS = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]"
# Names that a query in lower case more probably means as a word; stop words (will) are known as such.
_AMBIGUOUS_NAME = re.compile(
    "art|angel|april|august|bill|bob|chip|christian|dawn|faith|frank|grace|hope|iris|ivy|jack|jade|jasmine|joy|june|lily|"
    "mark|may|melody|mercy|miles|olive|page|pat|ray|rich|robin|rob|rose|ruby|sandy|summer|sue|violet"
)

_ASKS_WHEN = re.compile(
    r"""^\s*(?:and\s+)?when\b
      | \bhow\s+long\b
      | \bhow\s+(?:many|much)\s+(?:days|weeks|months|years|time)\b
      | \b(?:on|in|during|by|since|until)\s+(?:what|which)\s+(?:date|day|week|month|year)\b
      | \bwhich\s+(?:month|year|day|week)s?\b
      | \bwhat\s+(?:dates?|time|year|month)\b
      | \b(?:since|until|by)\s+when\b""",
    re.IGNORECASE | re.VERBOSE,
)
_AUXILIARY_VERB = "is|are|was|were|am|do|does|did|has|have|had|will|would|can|could|should|shall|might|may|must"
_WORD = rf"(?!(?:{_AUXILIARY_VERB}|the|this|that|else)\b)[\w'\u2019-]+"
_PLURAL = rf"(?:people|children|men|women|(?!(?:{_AUXILIARY_VERB}|this)\b)\w\w+s(?<!ss|us|is))"
_ASKS_LIST = re.compile(
    rf"""\b(?:what|which)\s+(?:{_WORD}\s+){{0,3}}?{_PLURAL}\s+(?:{_AUXILIARY_VERB}|i|you|we|they|in|for|of|from)\b
      | ^\s*(?:what|who|where)\s+(?:all\s+)?(?:are|were)\s+(?!you\b)
      | ^\s*(?:what|where|whom?)\s+(?:has|have)\b
      | \b(?:kinds|types|sorts|forms|categories)\s+of\b
      | \bhow\s+many\b(?!\s+(?:days|weeks|months|years|hours|minutes)\b)
      | \b(?:list|name|enumerate)\s+(?:all|every|each|the|some|my|his|her|their|three|two|\d+)\b
      | ^\s*list\b
      | \ball\s+(?:of\s+)?(?:the|my|his|her|their|our|these|those)\b
      | \b(?:every|each)\s+(?:one|time|of)\b
      | \bin\s+(?:what|which)\s+ways\b
      | \b(?:events|chronolog\w+|timeline|sequence|in\s+(?:what|which|the)\s+order|order\s+(?:in|of))\b
      | \b(?:summar(?:y|ies|ise|ize)|overview|recap|walk\s+me\s+through)\b
      | \b(?:what|who|where|which)\s+else\b
      | \bin\s+common\b
      | \b(?:what|which)\s+(?:two|three|four|five|\d+)\b""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query as recall reads it.

    `text_without_names` is the text without the names of speakers, `named_speakers` those names in the order of the
    text; `terms` are the index terms of `text_without_names`, or of `text` where `text_without_names` has none, and may
    be empty. `asks_when` and `asks_list`: whether it asks for a time and for several things (English only). `date_hint`
    is None when it names no year or month.
    """

    text: str
    text_without_names: str
    named_speakers: tuple[str, ...]
    terms: list[str]
    asks_when: bool
    asks_list: bool
    date_hint: DateHint | None


def parse_query(text: str, names: Collection[str] = ()) -> ParsedQuery:
    """Read a query; `names` are the speakers whose names are metadata and not matched as words.

    Names count as whole words in the case given, in a query without capitals in any case unless they are ordinary words
    too. Roles such as `user` are not names. A query of names alone keeps them.
    """
    places = _find_name_spans(text, names)
    bare = strip_names(text, names)
    return ParsedQuery(
        text=text,
        text_without_names=bare,
        named_speakers=tuple(dict.fromkeys(name for _, _, name in places)),
        terms=tokenize(bare) or tokenize(text),
        asks_when=_ASKS_WHEN.search(text) is not None,
        asks_list=_ASKS_LIST.search(text) is not None,
        date_hint=parse_date_hint(bare),
    )


def strip_names(text: str, names: Collection[str]) -> str:
    """The text as `parse_query` bares it; the text itself where nothing else is in it."""
    bare = _remove_spans(text, _find_name_spans(text, names))
    return bare if any(character.isalnum() for character in bare) else text


def _find_name_spans(text: str, names: Collection[str]) -> list[tuple[int, int, str]]:
    """Spans of names in the text, with their 's and the white space after it; a long name before its parts."""
    without_capitals = text == text.lower()
    written: dict[str, str] = {}
    for name in sorted(set(names), key=lambda name: (-len(name), name)):
        sought = name.strip()
        if without_capitals and sought not in text and not _is_ordinary_word(sought.lower()):
            sought = sought.lower()
        if sought and sought in text and sought.lower() not in _ROLES:
            written.setdefault(sought, name)
    if not written:
        return []
    pattern = rf"({'|'.join(map(whole_word_pattern, written))})(?:['\u2019](?:s(?!\w)|(?!\w)))?\s*"
    return [(found.start(), found.end(), written[found[1]]) for found in re.finditer(pattern, text)]


def _is_ordinary_word(name: str) -> bool:
    return name in stop_words() or _AMBIGUOUS_NAME.fullmatch(name) is not None


def whole_word_pattern(name: str) -> str:
    """A pattern that finds a name as a whole word; anywhere, where its script puts no spaces between words."""
    before = "" if re.match(_UNSPACED_SCRIPTS, name) else r"(?<!\w)"
    after = "" if re.match(_UNSPACED_SCRIPTS, name[-1]) else r"(?!\w)"
    return before + re.escape(name) + after


def _remove_spans(text: str, spans: list[tuple[int, int, str]]) -> str:
    kept, at = [], 0
    for start, end, _ in spans:
        kept.append(text[at:start])
        at = end
    return "".join([*kept, text[at:]])
