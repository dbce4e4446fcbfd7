"""First person to third: what remains of a clause once it is cut to one plain statement that stands alone."""

from __future__ import annotations

import re

MAX_STATEMENT_WORDS = 24
_STATEMENT_END = re.compile(
    r"\s+[-\u2013\u2014]+\s+|--|\s*[\u2013\u2014]\s*|[;(\u2026*]|:(?=\s|$)|\.\.+|"
    r",(?!\s?\d)(?!\s+(?!I\b|It\b|We\b|The\b|My\b)[A-Z])|"
    r"\s+(?:but|because|['\u2019]cause|cuz|cause(?=\s+(?:I|we|it|they|he|she|my))|although|though|even\s+(?:though|"
    r"if|when)|while|whereas|when|whenever|where|which|who|whose|so|as\s+well|"
    r"that|since(?=\s+(?:I|we|it|my|the|then))|as(?=\s+(?:I|we|it|my|he|she|they|the\s+\w+\s+(?:is|was)))|after|"
    r"before|until|"
    r"too|also|lately|recently|like\s+(?:I|you|we|crazy|a)|"
    r"and(?=\s+(?:I|we|it|he|she|they|you|wow|oh|man|boy|yeah|this|that|these|those|there|here|just|then|now|even|"
    r"also|really|so|am|is|was|are|were|"
    r"have|had|has|will|can|do|did|don['\u2019]t|didn['\u2019]t|feel|love|want|hope|see|think|know|get|go|"
    r"\w+ed|bought|built|wrote|drew|sold|lost|held|quit|sang|spoke|taught|drove|flew|got|made|took|saw|met|"
    r"went|felt|found|came|gave|won|ran|ate|left|thought|knew|kept|told|said|stuff|"
    r"(?:the|my|our|their|everyone|everything|one|some|all)\b[^,]*\b(?:is|was|are|were|will|have|has|had|gave|made|"
    r"got|\w+ed))\b))\b",
)
_OPENING = re.compile(
    r"(?:I|We|My|Our|[A-Z][a-z]+)(?:['\u2019](?:m|ve|re))?(?:\s+(?:have|am|are|had))?(?:\s+(?:also|even|recently|so|"
    r"just|lately|all|both|really|always|actually|"
    r"finally|since))*(?:\s+[\w-]+){0,3}?\s+and\s+I\b|(?:I|We)(?:['\u2019](?:m|ve|re))?(?:\s+(?:have|am|are|had|"
    r"also|even|recently|so|just|lately|all|both|really|"
    r"always|actually|finally|since))*\s+",
)
_UNFINISHED_PHRASE = re.compile(r"\b(?:a|an|so|very|such|more)\s+(?:\w+ly\s+)?[a-z]+$")
_DURATION_UNIT = re.compile(r"\b(?:minutes?|hours?|days?|weeks?|months?|years?)$")
_TRAILING = re.compile(
    r"(?:[\s,.!?\u2026'\u2019)-]+|\s+(?:too|also|lately|recently|now|right now|at the moment|these days|today|"
    r"already|soon|again|as well|"
    r"either|together|so much|a lot|more|of course|for sure|actually|though|and|or|to|of|with|for|the|a|in|at|on|lol|"
    r"btw|by the way|mate|man|dude|bro|buddy|tho|yet|myself|ourselves|[-\u2013\u2014]|and (?:stuff|more|all|such|so "
    r"on)))$",
    re.IGNORECASE,
)
# Words that point at something outside of the clause, or at nothing in particular.
_DEICTIC = re.compile(
    r"\b(?:I|we|me|us|their|theirs|you|your|yours|yourself|ya|y['\u2019]?all|it|its|itself|this|that|these|those|"
    r"there|here|them|they|themselves|he|him|his|she|her|"
    r"hers|our (?:military|country|society|world|nation|planet|generation|actions)|ones|one(?! (?:day|week|month|"
    r"year|hour|of (?:my|our)\b(?! own)))|others?|similar|some(?= (?:to|of|for|with)\b|$)|such|same|above|below|"
    r"following|something|someone|somebody|somewhere|anything|anyone|"
    r"anywhere|everything|nothing|nobody|whatever|what|how(?! to\b)|why|which|who|stuff|things?|lots?|tons?|bunch|"
    r"bit|blast|both|"
    r"either|neither|each other|one another|too|then|again|not|no|never|\w+n['\u2019]t|without|instead|rather|than|"
    r"way|ways|back in|(?<=\w )(?<!get )together|let|let['\u2019]s|\w+['\u2019](?:re|ll|ve|d|m)|(?:it|that|there|he|"
    r"she|what|who)['\u2019]s)\b",
    re.IGNORECASE,
)
_GENERIC_NOUN = (
    r"(?:events?|places?|spots?|class(?:es)?|groups?|teams?|shows?|games?|books?|songs?|movies?|films?|trips?|pics?|"
    r"photos?|pictures?|"
    r"views?|ideas?|projects?|rest|time|times|others|process|work|job|journey|experience|experiences|moments?|"
    r"adventure|people|"
    r"kind|type|guys?|gang|story|stories|details?|plans?|news|recipes?|results?|results|challenges?|opportunity|chance|"
    r"feeling|vibe|atmosphere|colou?rs?|design|party|meeting|match|exam|test|tests|house|car|dog|day|week|month|year|"
    r"whole|"
    r"course|concert|festival|workshop|series|characters?|skills|piece|painting|picnic|visit|area|program|page|level|"
    r"lessons?|"
    r"one|name|world|hike|race|store|shop|food|support|community|conference|competition|tournament|conversation|"
    r"situation|money|stage|season|season opener|ball|art|shelter|center|centre|campaign|crowd|award|performance|"
    r"magazine|gym|app|trails?|memories|nature|situation)"
)
_EMPTY_OBJECT = re.compile(
    r"^(?:hard|well|out|up|around|forward|fast|late|early|online|better|options|my own journey|a situation|ok|OK|"
    r"fine)$|\b(?:best effort|spirits|real "
    r"difference|good time|as usual|keep going|keep pushing|dig deep|good laugh|turnout)\b"
)
_UNSPECIFIED_NOUN = re.compile(
    rf"\bthe\s+(?:\w+\s+)?{_GENERIC_NOUN}(?=$|\s+(?:and|with|last|yesterday|on|to|for|as|by|from|in)\b|\s*,)",
    re.IGNORECASE,
)
_VAGUE_OBJECT = re.compile(
    r"^(?:(?:a|an|the|some|quite|very|really|so|my|our|super|pretty)\s+)*(?:\w+\s+)?(?:time|times|fun|break|chance|"
    r"idea|feeling|moment|"
    r"moments|experience|experiences|reason|point|day|days|week|weekend|month|look|talk|chat|go|try|try|best|life|"
    r"few|lot|part|sense|situation|journey|while|project|projects|call|kind|level|progress|impact|difference|step|"
    r"steps|mess|pic|"
    r"picture|photo|pics|photos)(?:\s+(?:at|to|on|of|with|in|for)\b.*)?$",
    re.IGNORECASE,
)
_THIRD_PERSON = {
    "my": "their",
    "our": "their",
    "mine": "theirs",
    "ours": "theirs",
    "me": "them",
    "us": "them",
    "myself": "themself",
    "ourselves": "themselves",
}
_FIRST_PERSON = re.compile(r"\b(my|our|mine|ours|me|us|myself|ourselves)\b", re.IGNORECASE)
_FILLER = re.compile(
    r"\b(?:super|really|so|very|totally|kinda|kind of|sort of|actually|definitely|basically|literally|just|finally)\s+"
)
_IRREGULAR = {"have": "has", "do": "does", "go": "goes", "am": "is", "are": "is", "can't": "can't", "cannot": "cannot"}


def cut_statement(text: str) -> str:
    """The stretch up to where the plain statement ends, without what trails; "" when it would be cut amid a phrase."""
    opening = _OPENING.match(text)
    found = _STATEMENT_END.search(text, opening.end() if opening else 0)
    if found is None:
        return trim_trailing(text)
    left = text[: found.start()]
    if found[0] == ":" or (found[0].strip() in ("before", "after") and _DURATION_UNIT.search(left)):
        return ""
    if (
        found[0].strip() == ","
        and _UNFINISHED_PHRASE.search(left)
        and not re.match(
            r"\s*(?:and|but|so|then|which|it|I|we|a|an|the|my|our|he|she|they|to|with|for|just|thanks|not|or|even|"
            r"especially|like|plus|too|\w+ly)\b",
            text[found.end() :],
        )
    ):
        return ""
    if found[0].strip() == "that" and re.search(
        r"(?:\b(?:to|help|of|for|on|with|in|at|up|the|a|from)(?: \w+)?|\w+ing|\b(?:think|love|saw|know|hope|read|had|"
        r"got|made|took))$",
        left,
    ):
        return ""
    return trim_trailing(left)


def trim_trailing(text: str) -> str:
    """Without punctuation and words that add nothing at the end."""
    while True:
        shorter = _TRAILING.sub("", text)
        if shorter == text:
            return text
        text = shorter


def is_standalone(text: str) -> bool:
    """Whether a statement's object is understood without what was said around it."""
    if (
        not text
        or len(text.split()) > MAX_STATEMENT_WORDS
        or text.count('"') % 2
        or text.count("\u201c") != text.count("\u201d")
    ):
        return False
    return not (
        _DEICTIC.search(_mask_titles(text))
        or _UNSPECIFIED_NOUN.search(text)
        or _VAGUE_OBJECT.match(text)
        or _EMPTY_OBJECT.search(text)
    )


def _mask_titles(text: str) -> str:
    """Quoted titles may hold any word."""
    return re.sub(
        r'"([^"]{1,80})"|\u201c([^\u201d]{1,80})\u201d',
        lambda found: found[0] if _DEICTIC.fullmatch(found[0][1:-1]) else "X",
        text,
    )


def to_third_person(text: str) -> str:
    """The object of a statement in the third person: "my kids" becomes "their kids"."""
    return _FIRST_PERSON.sub(lambda found: _THIRD_PERSON[found[0].lower()], _FILLER.sub("", text))


def conjugate_third_person(verb: str) -> str:
    """A verb of the present, as it follows a name: "study" becomes "studies"."""
    first, _, rest = verb.partition(" ")
    first = _conjugate_word(first.lower())
    return f"{first} {rest}" if rest else first


def _conjugate_word(verb: str) -> str:
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return verb + "es"
    return verb[:-1] + "ies" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else verb + "s"
