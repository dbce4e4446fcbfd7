"""Whether the verb around a date tells of the past or of what is to come, in five languages."""

from __future__ import annotations

import re
from typing import Literal

Direction = Literal["past", "future", ""]

_IRREGULAR_PAST = (
    "left|quit|got|went|became|began|took|had|bought|sold|met|knew|came|made|switched|was|were|drove|rode"
    "|ran|spoke|wrote|taught|kept|lost|found|swapped|ate|drank|smoked|chose|gave|put|packed|split|cut"
)

_LANGUAGE_WORDS = {
    "english": "i|we|my|our|the|he|she|is|are|was|will|have|has|it|they|you|to|of|at",
    "german": "ich|wir|bin|habe|mein\\w*|der|das|nach|bei|er|ist|seit|und|nicht|am|im",
    "spanish": "yo|el|mi|en|me|nos|con|los|las|y|desde|hasta|hace|su|soy|voy|estoy",
    "french": "je|j|nous|mon|ma|le|les|chez|il|elle|et|depuis|en|est|du|dans|l|une",
    "portuguese": "eu|meu|minha|o|em|no|na|para|com|desde|at\u00e9|h\u00e1|e|sou|vou|estou|do|da",
}
_LANGUAGES = {name: re.compile(rf"(?<![\w])(?:{words})(?!\w)") for name, words in _LANGUAGE_WORDS.items()}
_FUTURE_VERBS = {
    "english": (
        r"\b(?:will|shall|(?<!was )(?<!were )(?:going|about|planning|hoping) (?:to|on)|plans? (?:to|on)"
        r"|(?:i|we|he|she|they|you) may|(?:wants?|hopes?|intends?) to"
        r"|(?:have|has|need|needs) to|might|(?<!have )(?<!has )decided to|off to"
        r"|(?:am|is|are|'m|'re) (?:\w+ )?\w+ing"
        r"|(?:is|are|am|'m|'re) (?:\w+ )?(?:scheduled|booked|planned|due|supposed|set))\b"
    ),
    "german": r"\b(?:werden?|wird|wirst|will|wollen|plane|planen|m\u00f6chten?|habe vor|haben vor)\b",
    "spanish": r"\b(?:(?:voy|vamos|va|van) a|pienso|pensamos|quiero|\w{2,}r(?:\u00e9|\u00e1n?|\u00e1s|emos))(?!\w)",
    "french": r"\b(?:vais|va|allons|vont|\w{2,}[eid]r(?:ai|as|a|ons|ez|ont))\b",
    "portuguese": r"\b(?:(?:vou|vamos|vai|v\u00e3o) |pretendo|quero|\w{2,}[aei]r(?:ei|\u00e1|emos|\u00e3o)(?!\w))",
}
_PAST_VERBS = {
    "english": (
        r"\b(?:was|were|had|did|used to|(?:have|has) (?!to\b|got\b)(?:\w+ )?(?:been|\w+ed|\w+en)"
        r"|(?!need|bed|red|feed|seed|speed|wed\b|hundred|sacred|naked)(?<!is )(?<!are )(?<!am )\w+ed"
        r"|IRREGULAR)\b"
    ),
    "german": (
        r"\b(?:war|waren|hatten?|wurden?|zog|zogen|ging|kam|fing|verlie\u00df|k\u00fcndigte"
        r"|(?:arbeit|wohn|leb|heirat|mach|wechsel|studier)e?ten?"
        r"|(?:bin|ist|sind|habe|hat|haben)\b.*\b(?:\w*ge\w{2,}(?:t|en)|\w+iert|(?:be|ver|er|ent|um)\w{3,}(?:t|en)))\b"
    ),
    "spanish": (
        r"\b(?:(?:he|ha|hemos|han) \w+(?:ado|ido|cho|sto|to)|fui|fue|fuimos|tuve|hice|estuve|vine|dej\u00e9"
        r"|(?!caf\u00e9)\w{2,}(?:\u00e9|\u00ed|i\u00f3|\u00f3|aron|ieron|aba|\u00e1bamos|imos)"
        r"|(?!d\u00eda|todav\u00eda|t\u00eda)\w{2,}\u00eda)(?!\w)"
    ),
    "french": (
        r"\b(?:(?:ai|a|avons|ont|suis|est|sommes|sont) (?:\w+ )?(?!ici\b|aussi\b)\w{2,}(?:\u00e9e?s?|i|u|ue|is|it|ert)"
        r"|(?:\u00e9t|av|habit|travaill|viv|all)(?:ais|ait|ions|aient))(?!\w)"
    ),
    "portuguese": (
        r"\b(?:fui|foi|fomos|tive|fiz|estive|era|(?!meu|seu|teu|sou|vou|estou|dou|outr)\w{2,}(?:ei|ou|eu|iu|aram|eram|iram|ava)"
        r"|(?:sa|viv|mor|part|conheci)\u00ed|sa\u00ed|\w+\u00edamos|tinha|vivia)(?!\w)"
    ),
}
_CLAUSE_END = re.compile(r"[,;:.!?](?!\d)|\b(?:and|but|because|und|aber|pero|mais|mas)\b")


def find_language(plain: str) -> str:
    """Which of five languages most small words of a text are of; English for none."""
    counts = {name: len(words.findall(plain)) for name, words in _LANGUAGES.items()}
    return max(counts, key=counts.__getitem__)


def find_direction(plain: str, at: int) -> Direction:
    """Whether the verb of the clause around a place tells of the past or of what is to come; "" for neither."""
    ends = [0, *(found.start() for found in _CLAUSE_END.finditer(plain)), len(plain)]
    start = max(end for end in ends if end <= at)
    clause = plain[start : min((end for end in ends if end > at), default=len(plain))]
    language = find_language(plain)
    is_led = not plain[start:at].strip(" ,;:.!?")  # "In May, I moved": the verb stands in another clause
    for text in (clause, plain) if is_led else (clause,):
        if _FUTURE[language].search(text):
            return "future"
        if _PAST[language].search(text):
            return "past"
    return ""


_FUTURE = {name: re.compile(words) for name, words in _FUTURE_VERBS.items()}
_PAST = {name: re.compile(words.replace("IRREGULAR", _IRREGULAR_PAST)) for name, words in _PAST_VERBS.items()}
