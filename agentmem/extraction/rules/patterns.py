"""The rules: which plain statement in the first person becomes which claim. The first one that fits is taken."""

from __future__ import annotations

import re
from dataclasses import replace

from agentmem.extraction.rules import readings, verbs
from agentmem.extraction.rules.readings import NAME, Maker, Reading, favourite, in_slot, past, stated
from agentmem.extraction.rules.voice import stands_alone, third

_REST = r"\s+(?P<rest>.+)"
_TOO = (
    r"(?:(?:also|currently|still|now|really|just|even|totally|always|already|so|super|very|quite|pretty|mostly|mainly|"
    r"actually|absolutely|especially|recently|completely|severely|deathly|highly|mildly) )*"
)
_NOT_SAID = "be|thank|tell|know|hear|see|check|say"  # "I want to thank you" is talk, not a wish
_SOMEWHERE = r"(?:an?|the|my|our|one|two|[A-Z]|downtown|upstate|northern|southern|eastern|western|central|rural)"
_TWO_WORDS, _THREE_WORDS = r"\S+ \S", r"\S+ \S+ \S"
# Stems of verbs that say nothing plain of what was done.
_IDLE = (
    "want|need|seem|look|appear|hope|wish|believ|realiz|realis|agree|appreciat|us|happen|end|manag|decid|miss|car|"
    "matter|"
    "mean|figur|enjoy|lov|lik|hat|ne|fe|ble|imagin|guess|suppos|assum|expect|intend|plann|consider|notic|rememb|"
    "remember|"
    "turn|mov|pass|start|stopp|thank|wonder|worri|fail|nail|receiv|talk|learn|tri|call|chang|show|follow|pull|kick|"
    "push|"
    "crush|rock"
)
_DID = rf"(?!(?:{'|'.join(f'{stem}e?d' for stem in _IDLE.split('|'))})\b)[a-z]{{2,}}ed"
_A_LOT = r"(?:an?|my|our|some|two|three|four|five|\d+|[A-Z]\w|money|\w+s|the \w+ \w+)\b"
_FEELING = (
    "excited|thrilled|stoked|pumped|eager|nervous|worried|anxious|curious|determined|ready|proud|scared|afraid|"
    "terrified|"
    "happy|committed|motivated"
)
_NOT_LIKED = (
    r"(?:the (?!outdoors|ocean|sea|beach|mountains|rain|[A-Z])|hearing|knowing|all|every|our (?:chat|talk)|"
    r"to (?:see|hear|know|think|say|be)\b|to\b.*\bwith$|\w+ed$|catching up|chatting)"
)
_OTHERS = re.compile(
    rf"(?i:my|our)\s+(?P<who>(?:{verbs.KIN}|{verbs.PET}|grandparents|parents|kids|children|family)(?: {NAME})?)\s+"
    r"(?:just |also |recently |really )?"
    r"(?P<verb>is|has|loves|lives|works|likes|plays|hates|owns|love|like|enjoy|live|work|play|have|passed away|died|"
    r"graduated|got|visited|moved to|joined|bought|adopted|started|won|gave birth|came from|grew up|made|used to)\b"
    r"\s*(?P<what>[^,]*)$"
)
_OTHERS_ARE = re.compile(
    rf"(?:from [A-Z]|called |named |an? {verbs.OCCUPATION}\b|allergic to |\d+ years old|married|pregnant|learning |"
    r"studying )"
)
_LASTING = frozenset({"is", "has", "loves", "lives", "works", "likes", "plays", "hates", "owns",
                      "love", "like", "enjoy", "live", "work", "play", "have"})  # fmt: skip
_WEAK = frozenset({"been", "always", "so", "really", "very", "such", "the", "all", "to", "made", "got"})
_OF_MINE = (
    (re.compile(r"(?i:my|our)\s+(?:all[- ]time )?(?:favou?rite|fave)\s+(?P<what>[\w' -]{2,40}?)\s*"
                r"(?:['\u2019]s|is|are|has always been)\s+(?P<rest>.+)$"), favourite),
    (re.compile(rf"(?i:my name(?:['\u2019]s| is)|call me) (?P<rest>{NAME})$"), in_slot("name", "is called")),
    (re.compile(r"(?i:my|our)\s+(?:main |biggest |big |ultimate |next )?(?P<said>goal|dream|hobby|passion|dream job|"
                r"hometown|home country)\s+(?:is|has always "
                r"been)\s+(?P<rest>.+)$"), stated("goal", "current", "{said} is")),
)  # fmt: skip


def of_mine(statement: str) -> Reading | None:
    """What a statement says that begins with what is the speaker's: a name, a favourite, a goal, a relative."""
    for pattern, make in _OF_MINE:
        if found := pattern.match(statement):
            reading = make(found)
            aim = reading is not None and reading.rule == "goal" and found["said"] in ("goal", "dream")
            if aim and not found["rest"].startswith("to "):
                return None
            return replace(reading, subject="'s") if reading and reading.rule == "goal" else reading
    return _of_others(statement)


def _of_others(statement: str) -> Reading | None:
    """What a statement says of one's relative or pet, behind "My"; None where no rule fits."""
    found = _OTHERS.match(statement)
    if found is None:
        return None
    verb, what, who = found["verb"], found["what"], f"their {found['who']}"
    if not what and verb in ("passed away", "died", "graduated"):
        return Reading("relative", verb, "past", subject=who)
    if not stands_alone(what) or what.split()[0].lower() in _WEAK or (verb == "is" and not _OTHERS_ARE.match(what)):
        return None
    return Reading("relative", f"{verb} {third(what)}", "current" if verb in _LASTING else "past", subject=who)


def read(statement: str) -> Reading | None:
    """What a statement says by the first rule that fits, such as "went to a zoo" behind "I"; None where none does."""
    for pattern, make in _RULES:
        found = pattern.match(statement)
        reading = make(found) if found else None
        if reading is not None:
            return reading
    return None


def is_past(text: str) -> bool:
    """Whether a text begins with a verb that tells what was done."""
    return _PAST_VERB.match(text) is not None


def _rule(pattern: str, make: Maker) -> tuple[re.Pattern[str], Maker]:
    return re.compile(pattern + r"$", re.DOTALL), make


_PAST_VERB = re.compile(rf"(?:{'|'.join(verbs.PAST.values())})\b")

_ENDED = (
    _rule(r"no longer (?P<verb>\w+)(?P<rest>(?: .+)?)", readings.no_longer),
    _rule(r"(?:don['\u2019]t|do not) (?P<verb>\w+)\s+(?P<rest>.+?) any ?more", readings.no_longer),
    _rule(r"used to (?P<verb>\w+)(?P<rest>(?: .+)?)", readings.used_to),
    _rule(
        r"(?P<verb>stopped|quit|gave up)\s+(?P<rest>(?:\w+ing\b|smoking|meat|coffee|alcohol|sugar|gluten|dairy).*)",
        readings.stopped,
    ),
)
_ABOUT_ME = (
    _rule(rf"{_TOO}live in{_REST}", in_slot("home", "lives in", _SOMEWHERE)),
    _rule(rf"am {_TOO}(?:living|based) in{_REST}", in_slot("home", "lives in", _SOMEWHERE)),
    _rule(rf"(?:have )?{_TOO}moved (?:back )?to{_REST}", in_slot("home", "moved to", _SOMEWHERE)),
    _rule(rf"(?:have )?moved (?:over )?from{_REST}", stated("moved", "past", "moved from")),
    _rule(
        rf"{_TOO}work (?:at|for)(?! (?:home|night|least|a living|free)){_REST}",
        in_slot("employer", "works at", _SOMEWHERE),
    ),
    _rule(
        rf"am {_TOO}working (?:at|for)(?! (?:home|night|it|least)){_REST}", in_slot("employer", "works at", _SOMEWHERE)
    ),
    _rule(
        rf"have been {_TOO}working (?:at|for)(?! (?:home|night|it|least)){_REST}",
        in_slot("employer", "has been working at", _SOMEWHERE),
    ),
    _rule(rf"{_TOO}work (?P<said>as|in){_REST}", stated("job", "current", "works {said}", refused="the ")),
    _rule(
        rf"am {_TOO}(?P<rest>an? {verbs.OCCUPATION}(?: (?:at|for|in|from|and|of) .+)?)", stated("job", "current", "is")
    ),
    _rule(rf"am called (?P<rest>{NAME})", in_slot("name", "is called")),
    _rule(rf"am {_TOO}(?P<rest>(?:1[0-9]|[2-9][0-9])(?: years old)?)", in_slot("age", "is")),
    _rule(
        rf"(?:am (?:originally )?from|come from|hail from) (?P<rest>(?:the )?{NAME}(?:, {NAME})?)",
        stated("origin", "current", "is from"),
    ),
    _rule(r"(?P<said>grew up|was born|was raised) (?P<rest>(?:in|on) .+)", stated("origin", "past", "{said}")),
    _rule(
        rf"am {_TOO}(?P<what>allergic to|intolerant of|vegetarian|vegan|lactose intolerant|diabetic|gluten[- ]free)"
        r"(?P<rest>.*)",
        readings.health,
    ),
    _rule(
        r"(?:am|have been) (?P<rest>married|engaged|divorced|single|widowed|pregnant|retired|transgender|bisexual|gay|"
        r"lesbian)(?: to (?P<who>.+))?",
        readings.status,
    ),
    _rule(
        rf"(?:{_TOO}have(?! (?:\w+ )?got\b)|have "
        rf"{_TOO}got){_REST}",
        stated("having", "current", "has", wanted=verbs.HAVING),
    ),
    _rule(rf"am {_TOO}(?P<rest>(?:part of|a member of) (?:an? |the |my )[\w-]+.*)", stated("member", "current", "is")),
)
_LIKED = (
    _rule(
        r"(?P<verb>(?:don['\u2019]t|do not) (?:like|eat|drink|enjoy|own|smoke|drive)|"
        rf"can(?:['\u2019]t|not) (?:stand|eat|drink)){_REST}",
        readings.disliking,
    ),
    _rule(
        rf"{_TOO}(?P<verb>{verbs.LIKING}){_REST}",
        stated("preference", "current", "{verb}", kind="preference", refused=_NOT_LIKED),
    ),
    _rule(
        rf"(?:am|have (?:always )?been) (?:always |such )?an? (?:\w+ ){{0,2}}?fan of{_REST}",
        stated("fan", "current", "is a fan of", kind="preference"),
    ),
    _rule(
        r"am an? (?:(?:huge|big|total|massive|real|true|great) )*(?P<rest>(?!huge|big)(?:\w+ ){1,2}fan)",
        stated("fan", "current", "is a", kind="preference"),
    ),
    _rule(
        rf"am {_TOO}(?P<said>passionate about|into|obsessed with|keen on|fond of|interested in|addicted to|hooked on)"
        rf"{_REST}",
        stated("fan", "current", "is {said}", kind="preference", refused="the "),
    ),
    _rule(
        r"(?:really |thoroughly |absolutely )?(?P<verb>loved|enjoyed|hated|liked)\s+"
        r"(?P<rest>(?:\w+ing|\"|\u201c|[A-Z]|my).*)",
        past("liked"),
    ),
)
_TO_COME = (
    _rule(
        rf"am {_TOO}(?P<said>going to|planning to|about to){_REST}",
        stated(
            "plan",
            "future",
            "is {said}",
            refused=rf"(?:{_NOT_SAID}|try|do|have|need|look|miss|love|let|give|"
            rf"take it)\b",
        ),
    ),
    _rule(
        rf"am {_TOO}gonna{_REST}",
        stated(
            "plan",
            "future",
            "is going to",
            refused=rf"(?:{_NOT_SAID}|try|do|have|need|look|miss|love|let|give|"
            rf"take it)\b",
        ),
    ),
    _rule(rf"am {_TOO}planning (?P<rest>(?:on |a |an |my |our ).+)", stated("plan", "future", "is planning")),
    _rule(rf"am {_TOO}thinking (?:about|of){_REST}", stated("plan", "future", "is thinking about", wanted=r"\w+ing\b")),
    _rule(
        rf"have been {_TOO}thinking (?:about|of){_REST}",
        stated("plan", "future", "has been thinking about", wanted=r"\w+ing\b"),
    ),
    _rule(rf"am {_TOO}considering{_REST}", stated("plan", "future", "is considering")),
    _rule(rf"am {_TOO}looking forward to{_REST}", stated("plan", "future", "is looking forward to")),
    _rule(r"am off to (?P<rest>(?:a|an|my|[A-Z]\w+)\b.*)", stated("plan", "future", "is off to")),
    _rule(rf"am {_TOO}hoping to{_REST}", stated("plan", "future", "hopes to")),
    _rule(rf"{_TOO}hope to{_REST}", stated("wish", "future", "hopes to", refused=rf"(?:{_NOT_SAID})\b")),
    _rule(rf"{_TOO}plan to{_REST}", stated("plan", "future", "plans to")),
    _rule(
        rf"{_TOO}want to{_REST}",
        stated(
            "wish",
            "current",
            "wants to",
            wanted=_TWO_WORDS,
            refused=rf"(?:{_NOT_SAID}|make sure|ask|do|let|give back|add|"
            rf"mention|brag)\b",
        ),
    ),
    _rule(rf"have always wanted to{_REST}", stated("wish", "current", "has always wanted to")),
    _rule(
        rf"am {_TOO}(?P<said>(?:{_FEELING}) (?:about|to|for|of|with)){_REST}",
        stated(
            "feeling",
            "current",
            "is {said}",
            wanted=_TWO_WORDS,
            refused=rf"(?:{_NOT_SAID}|have|the|all|announce|share|"
            rf"report)\b",
        ),
    ),
)
_GOING_ON = (
    _rule(rf"have been {_TOO}(?P<doing>{verbs.ONGOING})\b(?P<rest>.*)", readings.ongoing),
    _rule(rf"am {_TOO}(?P<doing>{verbs.ONGOING})\b(?P<rest>.*)", readings.ongoing),
    _rule(
        rf"am {_TOO}(?P<doing>\w{{3,}}ing)\b(?P<rest> (?:a|an|my|at|in|for|with|some|two|the \w+ \w+) .+)",
        readings.ongoing,
    ),
    _rule(
        rf"have been {_TOO}(?P<doing>(?!thinking|wondering|feeling|going|getting|keeping)\w{{3,}}ing)"
        r"(?P<rest> (?:an?|my|at|in|for|with|some|two) .+)",
        readings.ongoing,
    ),
    _rule(rf"have been {_TOO}(?P<doing>busy) (?P<rest>(?:with (?!work$|life$)|\w+ing )\S.*)", readings.ongoing),
    _rule(
        rf"am {_TOO}(?P<rest>on (?:an? (?:\w+ )?diet|the (?:hunt|lookout) for .+))", stated("ongoing", "current", "is")
    ),
    _rule(
        r"have always (?P<said>been|had|loved|enjoyed|liked|felt|dreamed of|dreamt of)\s+(?P<rest>.+)",
        stated("always", "current", "has always {said}"),
    ),
)
_DONE = (
    _rule(rf"have (?:already |also )?been to{_REST}", stated("been", "past", "has been to")),
    _rule(
        rf"have never (?P<said>been to|tried|seen|visited|played|had|owned|eaten|driven){_REST}",
        stated("never", "current", "has never {said}"),
    ),
    _rule(
        rf"have (?:already |also |recently |just )?(?P<verb>{_DID}|seen|done|taken|given|written|made|met|built|become|"
        r"gone|read|bought|sold|won|run|learnt|taught)(?P<rest> .+)",
        readings.perfect,
    ),
    *(
        _rule(rf"(?:have (?:just |also |already |recently )?)?(?P<verb>{words})\b(?P<rest>.*)", past(rule))
        for rule, words in verbs.PAST.items()
    ),
    _rule(
        r"(?:just )?(?P<said>decided to|wanted to|tried to|managed to|got to|had to|was able to|learned to|chose to)"
        rf"{_REST}",
        stated(
            "did",
            "past",
            "{said}",
            wanted=_THREE_WORDS,
            refused=rf"(?:{_NOT_SAID}|stay|keep|try|do|make sure|find|think|admit|let|give|share|show|get|have|"
            rf"add)\b",
        ),
    ),
    _rule(
        r"was (?P<rest>(?:in|at) (?:an? |my |our )?(?:[A-Z]\w+|"
        r"\w+ (?:school|university|college|concert|conference|hospital|camp)).*)",
        stated("was", "past", "was"),
    ),
    _rule(r"was (?P<rest>(?:an? |in (?:an? |the )|part of ).+)", stated("was", "past", "was")),
    _rule(
        r"was (?:also |just |really |out )*(?P<rest>(?!thinking|wondering|hoping|going|planning|feeling|looking|trying|"
        r"being|having|getting)\w{3,}ing (?:an?|my|on|in|at|for|with|some)\b.+)",
        stated("was", "past", "was"),
    ),
    _rule(
        rf"(?:have )?(?P<verb>{_DID}(?: (?:to|for|in|at|with|about|up|off|out|on))?)\s+(?P<rest>{_A_LOT}.*)",
        past("event"),
    ),
)
_HABITS = (
    _rule(
        r"(?P<often>usually|often|sometimes|regularly|generally|typically|mostly) (?P<verb>[a-z]+)(?P<rest> .+)",
        readings.habit,
    ),
    _rule(r"(?P<verb>try) (?P<rest>to \w+ \w+ .+)", readings.habit),
    _rule(
        r"(?:also |still |currently |even )?(?P<often>(?:usually |often |always |sometimes |regularly )?)"
        rf"(?P<verb>{verbs.PRESENT})\b{_REST}",
        readings.habit,
    ),
)
_RULES = (*_ENDED, *_ABOUT_ME, *_LIKED, *_TO_COME, *_GOING_ON, *_DONE, *_HABITS)
