"""Standing instructions by rules: "always …", "from now on …".

Precision before recall. Questions, quotes, what others said, wishes, habits ("I always…") and what is meant for this
once ("translate this") are no such orders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from agentmem.extraction.plain.turn_text import MASK, read_turn

_WORDS = json.loads(files("agentmem.extraction.plain").joinpath("orders.json").read_text(encoding="utf-8"))
# Verbs that give an assistant an order. Those of everyday advice (trust, wear, eat, give up) are not among them.
IMPERATIVE_VERBS = frozenset(_WORDS["verbs"].split("|"))
OMITTABLE_NOUNS: str = _WORDS["omittable"]  # what an answer can be told to be without
VERB_COMPLEMENTS = {  # what must follow verbs that also stand in everyday advice
    verb: re.compile(pattern.replace("OUTPUTS", _WORDS["outputs"]).replace("ANSWERS", _WORDS["answers"]), re.IGNORECASE)
    for verb, pattern in _WORDS["complements"].items()
}
MAX_INSTRUCTION_CHARS = 300
MIN_INSTRUCTION_WORDS = 2

_IGNORE_CASE = re.IGNORECASE
_JOKE = re.compile(r"\b(?:just |only )?(?:kidding|joking)\b|\bjk\b|(?:^|\s)/s\b|\blol\b|\bhaha", _IGNORE_CASE)
_UNCERTAIN = re.compile(
    r"\b(?:maybe|perhaps|possibly|might|wish|imagine|pretend|suppose|hypothetically|i guess|i think|i feel|hopefully|"
    r"probably|i hope|if only|let'?s|we (?:should|must|always|never)|as if|supposedly|for (?:once|now|today)|"
    r"this (?:once|time)|just (?:once|now))\b",
    _IGNORE_CASE,
)
_REPORTED_SPEECH = re.compile(
    r"\b(?:says|said|tells|told (?!you)|telling (?:me|us|him|her)|asks|asked (?!you)|wrote|writes|claim(?:s|ed) that|"
    r"according to|quoth|motto|proverb|slogan|as the (?:saying|song) goes|advis(?:es|ed)|taught|teaches|"
    r"remind(?:s|ed) me|learned|learnt|heard|wants? (?:me|us)|wanted (?:me|us)|rule (?:number|no|#))\b",
    _IGNORE_CASE,
)
_SELF_REPORT = re.compile(
    r"\bI(?:['\u2019]ve)? (?:already |just |have |once )*(?:said|told you|asked you|want(?:ed)?)\b", _IGNORE_CASE
)
_QUOTED = re.compile(r"^[\"\u201c\u2018\u00ab'>*]|[\"\u201c\u201d\u00ab\u00bb]")
_CLAUSE_JOINT = re.compile(
    r"(?:;\s+|\s+[-\u2013\u2014]+\s+|:\s+|,?\s+(?P<word>so|and|but)\s+"
    r"(?=(?:please|from now on|going forward|in future|always|never|don['\u2019]?t|do not|stop)\b)|"
    r",\s+(?=(?:please (?:always|never|don['\u2019]?t|do not|stop)|from now on|going forward)\b))",
    _IGNORE_CASE,
)
_LEAD_WORDS = re.compile(
    r"(?:(?:please|pls|kindly|hey|hi|hello|ok|okay|also|and|so|but|then|oh|well|yes|thanks|thank you|btw|again|"
    r"listen|note|important|reminder|remember|fyi|assistant|agent|bot|one more thing|one (?:last )?thing|by the way|"
    r"as i said(?: before)?|like i said|in general|generally|as a rule|great|good|perfect|nice|sorry|actually)\b"
    r"(?:\s*[,.:!\u2013\u2014-]+\s*|\s+)|(?:no|nope)\s*[,.:!]+\s*)",
    _IGNORE_CASE,
)
_FROM_NOW_ON = re.compile(
    r"(?:from (?:now|here|this (?:point|moment)|today) (?:on(?:wards?)?|forward|out)|from here on out|going forward|"
    r"moving forward|henceforth|in (?:the )?future|for (?:the )?future(?: reference)?|"
    r"as a standing (?:rule|order))\b[\s,:]*",
    _IGNORE_CASE,
)
_RECURRING_TRIGGER = re.compile(
    r"(?P<when>whenever|every (?:single )?time(?: that)?|each time|any ?time)\s+(?P<what>[^,.;:]{3,100}),\s*",
    _IGNORE_CASE,
)
_SINGLE_TRIGGER = re.compile(r"(?P<when>when|if|before|after|while)\s+(?P<what>[^,.;:]{3,100}),\s*", _IGNORE_CASE)
_TRAILING_TRIGGER = re.compile(
    r",?\s+(?P<when>whenever|every (?:single )?time(?: that)?|each time|any ?time|when|if|unless)\s+"
    r"(?P<what>.{3,100})$",
    _IGNORE_CASE,
)
_DIRECTIVE_LEAD = re.compile(
    r"(?:(?:you (?:should|must|have to|need to|are to|shall|ought to))"
    r"|(?P<soft>I(?:['\u2019]d| would)?(?: really| much)? (?:want|like|need|prefer|expect)(?: for)? you(?: to)?)"
    r"|(?P<again>I(?:['\u2019]ve| have)?(?: already| just)? (?:told|asked|said to) you"
    r"(?: already| before| many times)?(?: to(?= (?!not\b)))?)"
    r"|(?P<sure>(?:make|be) sure(?: that)?(?: you| to)?|remember(?: to)?|see to it that you))\s+",
    _IGNORE_CASE,
)
_ALWAYS = re.compile(r"(?:to )?always\s+(?:to )?", _IGNORE_CASE)
_NEVER = re.compile(
    r"(?:to )?never(?: ever)?\s+(?:to )?|(?:do not|don['\u2019]?t) ever\s+|(?:must|should) never\s+", _IGNORE_CASE
)
_NOT = re.compile(r"(?:please )?(?:do not|don['\u2019]?t|not to|not)\s+", _IGNORE_CASE)
_STOP = re.compile(r"(?P<verb>stop|avoid|quit|refrain from)\s+", _IGNORE_CASE)
_NO_NOUN = re.compile(
    rf"(?P<what>no (?:more )?{OMITTABLE_NOUNS}(?: (?:in|at|with|for) [\w' -]{{2,60}})?)(?: (?:any ?more|at "
    rf"all))?(?P<lasting>,? "
    r"(?:from now on|going forward|in (?:the )?future|ever))?(?P<please>,? (?:please|pls|thanks|thank you))?$",
    _IGNORE_CASE,
)
_STANDING_TAIL = re.compile(
    r"[\s,]+(?:from now on|from here on out|going forward|moving forward|in (?:the )?future|at all times|"
    r"every (?:single )?time|each and every time|by default)$",
    _IGNORE_CASE,
)
_POLITE_TAIL = re.compile(
    r"[\s,]+(?:please|pls|thanks|thank you|thx|ok|okay|any ?more|any longer|again and again|at all|will you)$",
    _IGNORE_CASE,
)
_REVOCATIONS = (
    re.compile(
        r"you (?:no longer (?:need|have) to|(?:do not|don['\u2019]?t) (?:need|have) to"
        r"(?=.*\b(?:any ?more|any longer)$))\s+(?P<what>.+)$",
        _IGNORE_CASE,
    ),
    re.compile(
        r"(?:there(?:['\u2019]s| is) )?no (?:more |longer (?:any )?)?need to\s+"
        r"(?P<what>.+?)\s+(?:any ?more|any longer|from now on)$",
        _IGNORE_CASE,
    ),
    re.compile(
        r"I (?:no longer (?:want|need)|(?:do not|don['\u2019]?t) (?:want|need)"
        r"(?=.*\b(?:any ?more|any longer)$)) you to\s+(?P<what>.+)$",
        _IGNORE_CASE,
    ),
    re.compile(r"(?:you can|you may|feel free to) stop\s+(?P<what>\w+ing\s+.+?)(?: now)?$", _IGNORE_CASE),
)
_ALLOWED_AGAIN = re.compile(r"(?:you (?:can|may)|feel free to)\s+(?P<what>.+?)\s+again(?: now)?$", _IGNORE_CASE)
_FINE_AGAIN = re.compile(
    rf"(?P<what>{OMITTABLE_NOUNS}) (?:is|are) (?:fine|ok|okay|allowed|welcome) again(?: now)?$", _IGNORE_CASE
)
_REVOKE_LAST = re.compile(
    r"(?:you can |you may )?(?:stop (?:doing )?(?:that|this|it)|(?:do not|don['\u2019]?t) do (?:that|this|it) "
    r"(?:any ?more|again|any longer))(?: now| already)*$",
    _IGNORE_CASE,
)
_DEICTIC = re.compile(
    r"\b(?:this|these|those|here|above|below|attached|today|tonight|tomorrow|yesterday|right now|right away|just now|"
    r"asap|following|next time)\b|\bthat$|\b(?:like|do|doing|about|of|with|to|for|on) that\b",
    _IGNORE_CASE,
)
_PRONOUN = re.compile(r"\b(?:it|them|they|him|her)\b", _IGNORE_CASE)


def starts_with_imperative(text: str) -> bool:
    """Whether a text begins with a verb, in the form that gives an order, that an agent can be told."""
    verb, rest = _split_verb(text)
    return verb in IMPERATIVE_VERBS and _has_complement(verb, rest)


def starts_with_gerund(text: str) -> bool:
    """Whether a text begins with such a verb in its -ing form."""
    word, rest = _split_verb(text)
    if not word.endswith("ing"):
        return False
    stem = word[:-3]
    shapes = (stem, f"{stem}e", stem[:-1] if stem[-2:-1] == stem[-1:] else stem)
    return any(verb in IMPERATIVE_VERBS and _has_complement(verb, rest) for verb in shapes)


def _split_verb(text: str) -> tuple[str, str]:
    verb, _, rest = text.strip().partition(" ")
    return verb.lower().rstrip(",.;:!"), rest.strip()


def _has_complement(verb: str, rest: str) -> bool:
    needed = VERB_COMPLEMENTS.get(verb)
    return bool(rest) and (needed is None or needed.match(rest) is not None)


@dataclass(frozen=True, slots=True)
class ExtractedInstruction:
    """One order. `trigger` says when it applies, empty for always; `is_standing` that it was given for good.

    `is_revocation`: it is an order no longer; then an empty `instruction` means the one before.
    """

    instruction: str
    trigger: str = ""
    is_standing: bool = False
    is_revocation: bool = False


def extract_instructions(text: str) -> list[ExtractedInstruction]:
    """The orders of a user's turn, in order, each once; [] for none and for a turn that jokes.

    What the turn pastes, quotes or hands over for work gives none.
    """
    if _JOKE.search(text):
        return []
    found: list[ExtractedInstruction] = []
    for sentence in read_turn(text).sentences:
        if not sentence.is_question:
            found += _extract_from_sentence(sentence.text.replace(MASK, " "))
    return list(dict.fromkeys(found))


def _extract_from_sentence(sentence: str) -> Iterator[ExtractedInstruction]:
    """The orders of one sentence that asks nothing."""
    whole = sentence.strip().rstrip(".!\u2026 ")
    told = _SELF_REPORT.sub("", whole)
    if (
        len(whole) > 2 * MAX_INSTRUCTION_CHARS
        or _QUOTED.search(whole)
        or _UNCERTAIN.search(whole)
        or _REPORTED_SPEECH.search(told)
    ):
        return
    given, start = False, 0
    for joint in [*_CLAUSE_JOINT.finditer(whole), None]:
        clause = whole[start : joint.start() if joint else len(whole)].strip()
        carried = start > 0 and _continues_subject(whole, start)
        order = None if carried and not given else _parse_instruction(clause)
        given = given or order is not None
        if order is not None:
            yield order
        start = joint.end() if joint else start


def _continues_subject(whole: str, start: int) -> bool:
    """Whether a clause may go on with the subject of the one before: "I eat well and always use oil"."""
    said = re.search(r"(?:and|but)\s+$", whole[:start], _IGNORE_CASE)
    return said is not None and re.match(r"(?:always|never)\b", whole[start:], _IGNORE_CASE) is not None


def _parse_instruction(clause: str) -> ExtractedInstruction | None:
    """The order that a clause gives, if it gives one."""
    text, standing = _strip_leads(clause)
    if _REVOKE_LAST.match(text):
        return ExtractedInstruction("", is_revocation=True)
    if without := _NO_NOUN.match(text):
        return _parse_prohibition(without, standing)
    text, ended = _strip_tails(text)
    standing = standing or ended
    if (ended_order := _parse_revocation(clause, text)) is not None:
        return ended_order
    trigger, text, often = _split_trigger(text)
    standing = standing or often
    again, lead = _strip_leads(text)
    return _build_instruction(again, trigger, standing or lead)


def _strip_leads(text: str) -> tuple[str, bool]:
    """The clause without what leads up to it; whether that says that it holds for good."""
    standing = False
    while True:
        if (henceforth := _FROM_NOW_ON.match(text)) and henceforth.end() < len(text):
            text, standing = text[henceforth.end() :], True
        elif (lead := _LEAD_WORDS.match(text)) and not _DIRECTIVE_LEAD.match(text):
            text = text[lead.end() :]
        else:
            return text, standing


def _strip_tails(text: str) -> tuple[str, bool]:
    """The clause without what trails behind it; whether that says that it holds for good."""
    standing = False
    while True:
        if tail := _STANDING_TAIL.search(text):
            standing = True
        elif not (tail := _POLITE_TAIL.search(text)):
            return text, standing
        text = text[: tail.start()]


def _parse_revocation(clause: str, text: str) -> ExtractedInstruction | None:
    """An order that is one no longer."""
    full = _strip_leads(clause.rstrip(" .!"))[0]
    full = re.sub(r",? please$", "", full, flags=_IGNORE_CASE)
    for pattern in _REVOCATIONS:
        if found := pattern.match(full):
            what, _ = _strip_tails(found["what"])
            return (
                ExtractedInstruction(what, is_revocation=True)
                if starts_with_imperative(what) or starts_with_gerund(what)
                else None
            )
    if (found := _ALLOWED_AGAIN.match(full)) and starts_with_imperative(found["what"]):
        return ExtractedInstruction(f"Never {found['what']}", is_revocation=True)
    if found := _FINE_AGAIN.match(full):
        return ExtractedInstruction(f"No {found['what'].lower()}", is_revocation=True)
    return None


def _split_trigger(text: str) -> tuple[str, str, bool]:
    """When it applies, what is left, and whether that says that it holds each time."""
    for pattern, often in ((_RECURRING_TRIGGER, True), (_SINGLE_TRIGGER, False)):
        if found := pattern.match(text):
            return f"{found['when'].lower()} {found['what'].strip()}", text[found.end() :], often
    return "", text, False


def _build_instruction(text: str, trigger: str, standing: bool) -> ExtractedInstruction | None:
    told = _DIRECTIVE_LEAD.match(text)
    body = text[told.end() :] if told else text
    head, body, forever = _split_polarity(body)
    if head is None:
        return None
    if not trigger and (behind := _TRAILING_TRIGGER.search(body)):
        often = behind["when"].lower() not in ("when", "if", "unless")
        trigger, body = f"{behind['when'].lower()} {behind['what'].strip()}", body[: behind.start()]
        standing = standing or often
    standing = standing or forever
    doing = head in ("Stop", "Avoid", "Quit", "Refrain from")
    if not (starts_with_gerund(body) if doing else starts_with_imperative(body)) or not _is_standalone(body, trigger):
        return None
    plain = head == "" and told is None and not standing  # "Translate the letter": once
    if plain or (told is not None and told["sure"] and not standing) or (trigger and not standing):
        return None
    return ExtractedInstruction(_capitalize(f"{head} {body}".strip()), trigger, standing)


def _parse_prohibition(match: re.Match[str], standing: bool) -> ExtractedInstruction | None:
    """ "No emojis, please": an order where it is polite, for good, or said with "more"."""
    asked = match["please"] or match["lasting"] or standing or match["what"].lower().startswith("no more ")
    return ExtractedInstruction(_capitalize(match["what"]), "", standing or bool(match["lasting"])) if asked else None


def _split_polarity(text: str) -> tuple[str | None, str, bool]:
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


def _is_standalone(body: str, trigger: str) -> bool:
    """Whether it can be followed without knowing what was pointed at."""
    if (
        len(body) > MAX_INSTRUCTION_CHARS
        or len(body.split()) < MIN_INSTRUCTION_WORDS
        or _DEICTIC.search(body)
        or _DEICTIC.search(trigger)
    ):
        return False
    pronoun = _PRONOUN.search(body)
    return (
        pronoun is None
        or bool(trigger)
        or len(body[: pronoun.start()].split()) >= 3
        or body.lower().startswith("keep ")
    )


def _capitalize(text: str) -> str:
    text = " ".join(text.split()).strip(" ,.;:")
    return text[:1].upper() + text[1:]
