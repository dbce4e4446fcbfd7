"""What a user asks an agent to do for good, by rules for plain English: "always…", "from now on…", "please don't…".

Precision before recall. Questions, quotes, what others said, wishes, habits ("I always…") and what is meant for this
once ("translate this") are no such orders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agentmem.extraction.imperatives import NOUNS, starts_doing, starts_order
from agentmem.extraction.rules.sentences import plain_part, sentences

LONGEST = 300
LEAST_WORDS = 2


@dataclass(frozen=True, slots=True)
class Order:
    """One order. `trigger` says when it applies, empty for always; `standing` that it was given for good.

    `ends`: it is an order no longer; then an empty `instruction` means the one before.
    """

    instruction: str
    trigger: str = ""
    standing: bool = False
    ends: bool = False


_I = re.IGNORECASE
_JOKE = re.compile(r"\b(?:just |only )?(?:kidding|joking)\b|\bjk\b|(?:^|\s)/s\b|\blol\b|\bhaha", _I)
_UNSURE = re.compile(
    r"\b(?:maybe|perhaps|possibly|might|wish|imagine|pretend|suppose|hypothetically|i guess|i think|i feel|hopefully|"
    r"probably|i hope|if only|let'?s|we (?:should|must|always|never)|as if|supposedly|for (?:once|now|today)|"
    r"this (?:once|time)|just (?:once|now))\b",
    _I,
)
_REPORT = re.compile(
    r"\b(?:says|said|tells|told (?!you)|telling (?:me|us|him|her)|asks|asked (?!you)|wrote|writes|claim(?:s|ed) that|"
    r"according to|quoth|motto|proverb|slogan|as the (?:saying|song) goes|advis(?:es|ed)|taught|teaches|"
    r"remind(?:s|ed) me|learned|learnt|heard|wants? (?:me|us)|wanted (?:me|us)|rule (?:number|no|#))\b",
    _I,
)
_OWN_REPORT = re.compile(
    r"\bI(?:['\u2019]ve)? (?:already |just |have |once )*(?:said|told you|asked you|want(?:ed)?)\b", _I
)
_QUOTED = re.compile(r"^[\"\u201c\u2018\u00ab'>*]|[\"\u201c\u201d\u00ab\u00bb]")
_JOINT = re.compile(
    r"(?:;\s+|\s+[-\u2013\u2014]+\s+|:\s+|,?\s+(?P<word>so|and|but)\s+"
    r"(?=(?:please|from now on|going forward|in future|always|never|don['\u2019]?t|do not|stop)\b)|"
    r",\s+(?=(?:please (?:always|never|don['\u2019]?t|do not|stop)|from now on|going forward)\b))",
    _I,
)
_LEAD = re.compile(
    r"(?:(?:please|pls|kindly|hey|hi|hello|ok|okay|also|and|so|but|then|oh|well|yes|thanks|thank you|btw|again|"
    r"listen|note|important|reminder|remember|fyi|assistant|agent|bot|one more thing|one (?:last )?thing|by the way|"
    r"as i said(?: before)?|like i said|in general|generally|as a rule|great|good|perfect|nice|sorry|actually)\b"
    r"(?:\s*[,.:!\u2013\u2014-]+\s*|\s+)|(?:no|nope)\s*[,.:!]+\s*)",
    _I,
)
_HENCEFORTH = re.compile(
    r"(?:from (?:now|here|this (?:point|moment)|today) (?:on(?:wards?)?|forward|out)|from here on out|going forward|"
    r"moving forward|henceforth|in (?:the )?future|for (?:the )?future(?: reference)?|"
    r"as a standing (?:rule|order))\b[\s,:]*",
    _I,
)
_WHENEVER = re.compile(
    r"(?P<when>whenever|every (?:single )?time(?: that)?|each time|any ?time)\s+(?P<what>[^,.;:]{3,100}),\s*", _I
)
_WHEN = re.compile(r"(?P<when>when|if|before|after|while)\s+(?P<what>[^,.;:]{3,100}),\s*", _I)
_BEHIND = re.compile(
    r",?\s+(?P<when>whenever|every (?:single )?time(?: that)?|each time|any ?time|when|if|unless)\s+"
    r"(?P<what>.{3,100})$",
    _I,
)
_TOLD = re.compile(
    r"(?:(?:you (?:should|must|have to|need to|are to|shall|ought to))"
    r"|(?P<soft>I(?:['\u2019]d| would)?(?: really| much)? (?:want|like|need|prefer|expect)(?: for)? you(?: to)?)"
    r"|(?P<again>I(?:['\u2019]ve| have)?(?: already| just)? (?:told|asked|said to) you"
    r"(?: already| before| many times)?(?: to(?= (?!not\b)))?)"
    r"|(?P<sure>(?:make|be) sure(?: that)?(?: you| to)?|remember(?: to)?|see to it that you))\s+",
    _I,
)
_ALWAYS = re.compile(r"(?:to )?always\s+(?:to )?", _I)
_NEVER = re.compile(
    r"(?:to )?never(?: ever)?\s+(?:to )?|(?:do not|don['\u2019]?t) ever\s+|(?:must|should) never\s+", _I
)
_NOT = re.compile(r"(?:please )?(?:do not|don['\u2019]?t|not to|not)\s+", _I)
_STOP = re.compile(r"(?P<verb>stop|avoid|quit|refrain from)\s+", _I)
_NO = re.compile(
    rf"(?P<what>no (?:more )?{NOUNS}(?: (?:in|at|with|for) [\w' -]{{2,60}})?)(?: (?:any ?more|at all))?(?P<lasting>,? "
    r"(?:from now on|going forward|in (?:the )?future|ever))?(?P<please>,? (?:please|pls|thanks|thank you))?$",
    _I,
)
_STANDING_TAIL = re.compile(
    r"[\s,]+(?:from now on|from here on out|going forward|moving forward|in (?:the )?future|at all times|"
    r"every (?:single )?time|each and every time|by default)$",
    _I,
)
_TAIL = re.compile(
    r"[\s,]+(?:please|pls|thanks|thank you|thx|ok|okay|any ?more|any longer|again and again|at all|will you)$", _I
)
_ENDS = (
    re.compile(r"you (?:no longer (?:need|have) to|(?:do not|don['\u2019]?t) (?:need|have) to"
        r"(?=.*\b(?:any ?more|any longer)$))\s+(?P<what>.+)$", _I),
    re.compile(r"(?:there(?:['\u2019]s| is) )?no (?:more |longer (?:any )?)?need to\s+"
        r"(?P<what>.+?)\s+(?:any ?more|any longer|from now on)$", _I),
    re.compile(r"I (?:no longer (?:want|need)|(?:do not|don['\u2019]?t) (?:want|need)"
        r"(?=.*\b(?:any ?more|any longer)$)) you to\s+(?P<what>.+)$", _I),
    re.compile(r"(?:you can|you may|feel free to) stop\s+(?P<what>\w+ing\s+.+?)(?: now)?$", _I),
)  # fmt: skip
_ALLOWED_AGAIN = re.compile(r"(?:you (?:can|may)|feel free to)\s+(?P<what>.+?)\s+again(?: now)?$", _I)
_ENDS_LAST = re.compile(
    r"(?:you can |you may )?(?:stop (?:doing )?(?:that|this|it)|(?:do not|don['\u2019]?t) do (?:that|this|it) "
    r"(?:any ?more|again|any longer))(?: now| already)*$",
    _I,
)
_POINTS = re.compile(
    r"\b(?:this|these|those|here|above|below|attached|today|tonight|tomorrow|yesterday|right now|right away|just now|"
    r"asap|following|next time)\b|\bthat$|\b(?:like|do|doing|about|of|with|to|for|on) that\b",
    _I,
)
_PRONOUN = re.compile(r"\b(?:it|them|they|him|her)\b", _I)


def orders(text: str) -> list[Order]:
    """The orders of a user's turn, in order, each once; [] for none and for a turn that jokes."""
    if _JOKE.search(text):
        return []
    found: list[Order] = []
    for sentence in sentences(plain_part(text)):
        if not sentence.question and "?" not in sentence.text:
            found += _of(sentence.text)
    return list(dict.fromkeys(found))


def _of(sentence: str) -> Iterator[Order]:
    """The orders of one sentence that asks nothing."""
    whole = sentence.strip().rstrip(".!\u2026 ")
    told = _OWN_REPORT.sub("", whole)
    if len(whole) > 2 * LONGEST or _QUOTED.search(whole) or _UNSURE.search(whole) or _REPORT.search(told):
        return
    given, start = False, 0
    for joint in [*_JOINT.finditer(whole), None]:
        clause = whole[start : joint.start() if joint else len(whole)].strip()
        carried = start > 0 and _carries(whole, start)
        order = None if carried and not given else _order(clause)
        given = given or order is not None
        if order is not None:
            yield order
        start = joint.end() if joint else start


def _carries(whole: str, start: int) -> bool:
    """Whether a clause may go on with the subject of the one before: "I eat well and always use oil"."""
    said = re.search(r"(?:and|but)\s+$", whole[:start], _I)
    return said is not None and re.match(r"(?:always|never)\b", whole[start:], _I) is not None


def _order(clause: str) -> Order | None:
    """The order that a clause gives, if it gives one."""
    text, standing = _without_leads(clause)
    if _ENDS_LAST.match(text):
        return Order("", ends=True)
    if without := _NO.match(text):
        return _doing_without(without, standing)
    text, ended = _trimmed(text)
    standing = standing or ended
    if (ended_order := _ending(clause, text)) is not None:
        return ended_order
    trigger, text, often = _triggered(text)
    standing = standing or often
    again, lead = _without_leads(text)
    return _instruction(again, trigger, standing or lead)


def _without_leads(text: str) -> tuple[str, bool]:
    """The clause without what leads up to it; whether that says that it holds for good."""
    standing = False
    while True:
        if (henceforth := _HENCEFORTH.match(text)) and henceforth.end() < len(text):
            text, standing = text[henceforth.end() :], True
        elif (lead := _LEAD.match(text)) and not _TOLD.match(text):
            text = text[lead.end() :]
        else:
            return text, standing


def _trimmed(text: str) -> tuple[str, bool]:
    """The clause without what trails behind it; whether that says that it holds for good."""
    standing = False
    while True:
        if tail := _STANDING_TAIL.search(text):
            standing = True
        elif not (tail := _TAIL.search(text)):
            return text, standing
        text = text[: tail.start()]


def _ending(clause: str, text: str) -> Order | None:
    """An order that is one no longer."""
    full = _without_leads(clause.rstrip(" .!"))[0]
    full = re.sub(r",? please$", "", full, flags=_I)
    for pattern in _ENDS:
        if found := pattern.match(full):
            what, _ = _trimmed(found["what"])
            return Order(what, ends=True) if starts_order(what) or starts_doing(what) else None
    if (found := _ALLOWED_AGAIN.match(full)) and starts_order(found["what"]):
        return Order(f"Never {found['what']}", ends=True)
    return None


def _triggered(text: str) -> tuple[str, str, bool]:
    """When it applies, what is left, and whether that says that it holds each time."""
    for pattern, often in ((_WHENEVER, True), (_WHEN, False)):
        if found := pattern.match(text):
            return f"{found['when'].lower()} {found['what'].strip()}", text[found.end() :], often
    return "", text, False


def _instruction(text: str, trigger: str, standing: bool) -> Order | None:
    told = _TOLD.match(text)
    body = text[told.end() :] if told else text
    head, body, forever = _polarity(body)
    if head is None:
        return None
    if not trigger and (behind := _BEHIND.search(body)):
        often = behind["when"].lower() not in ("when", "if", "unless")
        trigger, body = f"{behind['when'].lower()} {behind['what'].strip()}", body[: behind.start()]
        standing = standing or often
    standing = standing or forever
    doing = head in ("Stop", "Avoid", "Quit", "Refrain from")
    if not (starts_doing(body) if doing else starts_order(body)) or not _stands_alone(body, trigger):
        return None
    plain = head == "" and told is None and not standing  # "Translate the letter": once
    if plain or (told is not None and told["sure"] and not standing) or (trigger and not standing):
        return None
    return Order(_capital(f"{head} {body}".strip()), trigger, standing)


def _doing_without(found: re.Match[str], standing: bool) -> Order | None:
    """ "No emojis, please": an order where it is polite, for good, or said with "more"."""
    asked = found["please"] or found["lasting"] or standing or found["what"].lower().startswith("no more ")
    return Order(_capital(found["what"]), "", standing or bool(found["lasting"])) if asked else None


def _polarity(text: str) -> tuple[str | None, str, bool]:
    """How the instruction begins, the rest, and whether it says always or never. None for what is not clear."""
    if found := _ALWAYS.match(text):
        rest = text[found.end() :]
        return (None, rest, False) if _NOT.match(rest) or _NEVER.match(rest) else ("Always", rest, True)
    if found := _NEVER.match(text):
        return "Never", text[found.end() :], True
    if found := _NOT.match(text):
        rest = text[found.end() :]
        return (None, rest, False) if _ALWAYS.match(rest) or _NEVER.match(rest) else ("Do not", rest, False)
    if found := _STOP.match(text):
        return found["verb"].capitalize(), text[found.end() :], False
    return "", re.sub(r"^to\s+", "", text), False


def _stands_alone(body: str, trigger: str) -> bool:
    """Whether it can be followed without knowing what was pointed at."""
    if len(body) > LONGEST or len(body.split()) < LEAST_WORDS or _POINTS.search(body) or _POINTS.search(trigger):
        return False
    pronoun = _PRONOUN.search(body)
    return (
        pronoun is None
        or bool(trigger)
        or len(body[: pronoun.start()].split()) >= 3
        or body.lower().startswith("keep ")
    )


def _capital(text: str) -> str:
    text = " ".join(text.split()).strip(" ,.;:")
    return text[:1].upper() + text[1:]
