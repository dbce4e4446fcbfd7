"""The rules: which plain statement in the first person becomes which claim. The first one that fits is taken."""

from __future__ import annotations

import re
from dataclasses import replace

from agentmem.extraction.rules import readings, verbs
from agentmem.extraction.rules.readings import (
    NAME_PATTERN,
    ReadingParser,
    StatementReading,
    build_past_parser,
    build_slot_parser,
    build_statement_parser,
    parse_favorite,
)
from agentmem.extraction.rules.third_person import is_standalone, to_third_person

_REST = r"\s+(?P<rest>.+)"
_ADVERBS = (
    r"(?:(?:also|currently|still|now|really|just|even|totally|always|already|so|super|very|quite|pretty|mostly|mainly|"
    r"actually|absolutely|especially|recently|completely|severely|deathly|highly|mildly) )*"
)
_TALK_VERBS = "be|thank|tell|know|hear|see|check|say"  # "I want to thank you" is talk, not a wish
_PLACE_START = r"(?:an?|the|my|our|one|two|[A-Z]|downtown|upstate|northern|southern|eastern|western|central|rural)"
_TWO_WORDS, _THREE_WORDS = r"\S+ \S", r"\S+ \S+ \S"
# Stems of verbs that say nothing plain of what was done.
_UNINFORMATIVE_STEMS = (
    "want|need|seem|look|appear|hope|wish|believ|realiz|realis|agree|appreciat|us|happen|end|manag|decid|miss|car|"
    "matter|"
    "mean|figur|enjoy|lov|lik|hat|ne|fe|ble|imagin|guess|suppos|assum|expect|intend|plann|consider|notic|rememb|"
    "remember|"
    "turn|mov|pass|start|stopp|thank|wonder|worri|fail|nail|receiv|talk|learn|tri|call|chang|show|follow|pull|kick|"
    "push|"
    "crush|rock"
)
_REGULAR_PAST = rf"(?!(?:{'|'.join(f'{stem}e?d' for stem in _UNINFORMATIVE_STEMS.split('|'))})\b)[a-z]{{2,}}ed"
_OBJECT_START = r"(?:an?|my|our|some|two|three|four|five|\d+|[A-Z]\w|money|\w+s|the \w+ \w+)\b"
_FEELING = (
    "excited|thrilled|stoked|pumped|eager|nervous|worried|anxious|curious|determined|ready|proud|scared|afraid|"
    "terrified|"
    "happy|committed|motivated"
)
_EXCLUDED_LIKES = (
    r"(?:the (?!outdoors|ocean|sea|beach|mountains|rain|[A-Z])|hearing|knowing|all|every|our (?:chat|talk)|"
    r"to (?:see|hear|know|think|say|be)\b|to\b.*\bwith$|\w+ed$|catching up|chatting)"
)
_RELATIVE_STATEMENT = re.compile(
    rf"(?i:my|our)\s+(?P<who>(?:{verbs.KIN}|{verbs.PET}|grandparents|parents|kids|children|family)(?: "
    rf"{NAME_PATTERN})?)\s+"
    r"(?:just |also |recently |really )?"
    r"(?P<verb>is|has|loves|lives|works|likes|plays|hates|owns|love|like|enjoy|live|work|play|have|passed away|died|"
    r"graduated|got|visited|moved to|joined|bought|adopted|started|won|gave birth|came from|grew up|made|used to)\b"
    r"\s*(?P<what>[^,]*)$"
)
_RELATIVE_COMPLEMENT = re.compile(
    rf"(?:from [A-Z]|called |named |an? {verbs.OCCUPATION}\b|allergic to |\d+ years old|married|pregnant|learning |"
    r"studying )"
)
_STATIVE_VERBS = frozenset(
    {
        "is",
        "has",
        "loves",
        "lives",
        "works",
        "likes",
        "plays",
        "hates",
        "owns",
        "love",
        "like",
        "enjoy",
        "live",
        "work",
        "play",
        "have",
    }
)
_WEAK_OBJECTS = frozenset({"been", "always", "so", "really", "very", "such", "the", "all", "to", "made", "got"})
_POSSESSIVE_RULES = (
    (
        re.compile(
            r"(?i:my|our)\s+(?:all[- ]time )?(?:favou?rite|fave)\s+(?P<what>[\w' -]{2,40}?)\s*"
            r"(?:['\u2019]s|is|are|has always been)\s+(?P<rest>.+)$"
        ),
        parse_favorite,
    ),
    (
        re.compile(rf"(?i:my name(?:['\u2019]s| is)|call me) (?P<rest>{NAME_PATTERN})$"),
        build_slot_parser("name", "is called"),
    ),
    (
        re.compile(
            r"(?i:my|our)\s+(?:main |biggest |big |ultimate |next )?(?P<said>goal|dream|hobby|passion|dream job|"
            r"hometown|home country)\s+(?:is|has always "
            r"been)\s+(?P<rest>.+)$"
        ),
        build_statement_parser("goal", "current", "{said} is"),
    ),
)


def match_possessive(statement: str) -> StatementReading | None:
    """What a statement says that begins with what is the speaker's: a name, a favorite, a goal, a relative."""
    for pattern, make in _POSSESSIVE_RULES:
        if found := pattern.match(statement):
            reading = make(found)
            aim = reading is not None and reading.rule == "goal" and found["said"] in ("goal", "dream")
            if aim and not found["rest"].startswith("to "):
                return None
            return replace(reading, subject="'s") if reading and reading.rule == "goal" else reading
    return _match_relative(statement)


def _match_relative(statement: str) -> StatementReading | None:
    """What a statement says of one's relative or pet, behind "My"; None where no rule fits."""
    found = _RELATIVE_STATEMENT.match(statement)
    if found is None:
        return None
    verb, what, who = found["verb"], found["what"], f"their {found['who']}"
    if not what and verb in ("passed away", "died", "graduated"):
        return StatementReading("relative", verb, "past", subject=who)
    if (
        not is_standalone(what)
        or what.split()[0].lower() in _WEAK_OBJECTS
        or (verb == "is" and not _RELATIVE_COMPLEMENT.match(what))
    ):
        return None
    return StatementReading(
        "relative", f"{verb} {to_third_person(what)}", "current" if verb in _STATIVE_VERBS else "past", subject=who
    )


def match_statement(statement: str) -> StatementReading | None:
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


def _compile_rule(pattern: str, parser: ReadingParser) -> tuple[re.Pattern[str], ReadingParser]:
    return re.compile(pattern + r"$", re.DOTALL), parser


_PAST_VERB = re.compile(rf"(?:{'|'.join(verbs.PAST.values())})\b")

_ENDED_RULES = (
    _compile_rule(r"no longer (?P<verb>\w+)(?P<rest>(?: .+)?)", readings.parse_no_longer),
    _compile_rule(r"(?:don['\u2019]t|do not) (?P<verb>\w+)\s+(?P<rest>.+?) any ?more", readings.parse_no_longer),
    _compile_rule(r"used to (?P<verb>\w+)(?P<rest>(?: .+)?)", readings.parse_used_to),
    _compile_rule(
        r"(?P<verb>stopped|quit|gave up)\s+(?P<rest>(?:\w+ing\b|smoking|meat|coffee|alcohol|sugar|gluten|dairy).*)",
        readings.parse_stopped,
    ),
)
_SELF_RULES = (
    _compile_rule(rf"{_ADVERBS}live in{_REST}", build_slot_parser("home", "lives in", _PLACE_START)),
    _compile_rule(rf"am {_ADVERBS}(?:living|based) in{_REST}", build_slot_parser("home", "lives in", _PLACE_START)),
    _compile_rule(
        rf"(?:have )?{_ADVERBS}moved (?:back )?to{_REST}", build_slot_parser("home", "moved to", _PLACE_START)
    ),
    _compile_rule(rf"(?:have )?moved (?:over )?from{_REST}", build_statement_parser("moved", "past", "moved from")),
    _compile_rule(
        rf"{_ADVERBS}work (?:at|for)(?! (?:home|night|least|a living|free)){_REST}",
        build_slot_parser("employer", "works at", _PLACE_START),
    ),
    _compile_rule(
        rf"am {_ADVERBS}working (?:at|for)(?! (?:home|night|it|least)){_REST}",
        build_slot_parser("employer", "works at", _PLACE_START),
    ),
    _compile_rule(
        rf"have been {_ADVERBS}working (?:at|for)(?! (?:home|night|it|least)){_REST}",
        build_slot_parser("employer", "has been working at", _PLACE_START),
    ),
    _compile_rule(
        rf"{_ADVERBS}work (?P<said>as|in){_REST}",
        build_statement_parser("job", "current", "works {said}", excluded="the "),
    ),
    _compile_rule(
        rf"am {_ADVERBS}(?P<rest>an? {verbs.OCCUPATION}(?: (?:at|for|in|from|and|of) .+)?)",
        build_statement_parser("job", "current", "is"),
    ),
    _compile_rule(rf"am called (?P<rest>{NAME_PATTERN})", build_slot_parser("name", "is called")),
    _compile_rule(rf"am {_ADVERBS}(?P<rest>(?:1[0-9]|[2-9][0-9])(?: years old)?)", build_slot_parser("age", "is")),
    _compile_rule(
        rf"(?:am (?:originally )?from|come from|hail from) (?P<rest>(?:the )?{NAME_PATTERN}(?:, {NAME_PATTERN})?)",
        build_statement_parser("origin", "current", "is from"),
    ),
    _compile_rule(
        r"(?P<said>grew up|was born|was raised) (?P<rest>(?:in|on) .+)",
        build_statement_parser("origin", "past", "{said}"),
    ),
    _compile_rule(
        rf"am {_ADVERBS}(?P<what>allergic to|intolerant of|vegetarian|vegan|lactose intolerant|diabetic|gluten[- ]free)"
        r"(?P<rest>.*)",
        readings.parse_health,
    ),
    _compile_rule(
        r"(?:am|have been) (?P<rest>married|engaged|divorced|single|widowed|pregnant|retired|transgender|bisexual|gay|"
        r"lesbian)(?: to (?P<who>.+))?",
        readings.parse_status,
    ),
    _compile_rule(
        rf"(?:{_ADVERBS}have(?! (?:\w+ )?got\b)|have "
        rf"{_ADVERBS}got){_REST}",
        build_statement_parser("having", "current", "has", required=verbs.POSSESSED_OBJECTS),
    ),
    _compile_rule(
        rf"am {_ADVERBS}(?P<rest>(?:part of|a member of) (?:an? |the |my )[\w-]+.*)",
        build_statement_parser("member", "current", "is"),
    ),
)
_PREFERENCE_RULES = (
    _compile_rule(
        r"(?P<verb>(?:don['\u2019]t|do not) (?:like|eat|drink|enjoy|own|smoke|drive)|"
        rf"can(?:['\u2019]t|not) (?:stand|eat|drink)){_REST}",
        readings.parse_dislike,
    ),
    _compile_rule(
        rf"{_ADVERBS}(?P<verb>{verbs.LIKING}){_REST}",
        build_statement_parser("preference", "current", "{verb}", memory_type="preference", excluded=_EXCLUDED_LIKES),
    ),
    _compile_rule(
        rf"(?:am|have (?:always )?been) (?:always |such )?an? (?:\w+ ){{0,2}}?fan of{_REST}",
        build_statement_parser("fan", "current", "is a fan of", memory_type="preference"),
    ),
    _compile_rule(
        r"am an? (?:(?:huge|big|total|massive|real|true|great) )*(?P<rest>(?!huge|big)(?:\w+ ){1,2}fan)",
        build_statement_parser("fan", "current", "is a", memory_type="preference"),
    ),
    _compile_rule(
        rf"am {_ADVERBS}(?P<said>passionate about|into|obsessed with|keen on|fond of|interested in|addicted to|"
        rf"hooked on)"
        rf"{_REST}",
        build_statement_parser("fan", "current", "is {said}", memory_type="preference", excluded="the "),
    ),
    _compile_rule(
        r"(?:really |thoroughly |absolutely )?(?P<verb>loved|enjoyed|hated|liked)\s+"
        r"(?P<rest>(?:\w+ing|\"|\u201c|[A-Z]|my).*)",
        build_past_parser("liked"),
    ),
)
_FUTURE_RULES = (
    _compile_rule(
        rf"am {_ADVERBS}(?P<said>going to|planning to|about to){_REST}",
        build_statement_parser(
            "plan",
            "future",
            "is {said}",
            excluded=rf"(?:{_TALK_VERBS}|try|do|have|need|look|miss|love|let|give|"
            rf"take it)\b",
        ),
    ),
    _compile_rule(
        rf"am {_ADVERBS}gonna{_REST}",
        build_statement_parser(
            "plan",
            "future",
            "is going to",
            excluded=rf"(?:{_TALK_VERBS}|try|do|have|need|look|miss|love|let|give|"
            rf"take it)\b",
        ),
    ),
    _compile_rule(
        rf"am {_ADVERBS}planning (?P<rest>(?:on |a |an |my |our ).+)",
        build_statement_parser("plan", "future", "is planning"),
    ),
    _compile_rule(
        rf"am {_ADVERBS}thinking (?:about|of){_REST}",
        build_statement_parser("plan", "future", "is thinking about", required=r"\w+ing\b"),
    ),
    _compile_rule(
        rf"have been {_ADVERBS}thinking (?:about|of){_REST}",
        build_statement_parser("plan", "future", "has been thinking about", required=r"\w+ing\b"),
    ),
    _compile_rule(rf"am {_ADVERBS}considering{_REST}", build_statement_parser("plan", "future", "is considering")),
    _compile_rule(
        rf"am {_ADVERBS}looking forward to{_REST}", build_statement_parser("plan", "future", "is looking forward to")
    ),
    _compile_rule(
        r"am off to (?P<rest>(?:a|an|my|[A-Z]\w+)\b.*)", build_statement_parser("plan", "future", "is off to")
    ),
    _compile_rule(rf"am {_ADVERBS}hoping to{_REST}", build_statement_parser("plan", "future", "hopes to")),
    _compile_rule(
        rf"{_ADVERBS}hope to{_REST}",
        build_statement_parser("wish", "future", "hopes to", excluded=rf"(?:{_TALK_VERBS})\b"),
    ),
    _compile_rule(rf"{_ADVERBS}plan to{_REST}", build_statement_parser("plan", "future", "plans to")),
    _compile_rule(
        rf"{_ADVERBS}want to{_REST}",
        build_statement_parser(
            "wish",
            "current",
            "wants to",
            required=_TWO_WORDS,
            excluded=rf"(?:{_TALK_VERBS}|make sure|ask|do|let|give back|add|"
            rf"mention|brag)\b",
        ),
    ),
    _compile_rule(rf"have always wanted to{_REST}", build_statement_parser("wish", "current", "has always wanted to")),
    _compile_rule(
        rf"am {_ADVERBS}(?P<said>(?:{_FEELING}) (?:about|to|for|of|with)){_REST}",
        build_statement_parser(
            "feeling",
            "current",
            "is {said}",
            required=_TWO_WORDS,
            excluded=rf"(?:{_TALK_VERBS}|have|the|all|announce|share|"
            rf"report)\b",
        ),
    ),
)
_ONGOING_RULES = (
    _compile_rule(rf"have been {_ADVERBS}(?P<doing>{verbs.ONGOING})\b(?P<rest>.*)", readings.parse_ongoing),
    _compile_rule(rf"am {_ADVERBS}(?P<doing>{verbs.ONGOING})\b(?P<rest>.*)", readings.parse_ongoing),
    _compile_rule(
        rf"am {_ADVERBS}(?P<doing>\w{{3,}}ing)\b(?P<rest> (?:a|an|my|at|in|for|with|some|two|the \w+ \w+) .+)",
        readings.parse_ongoing,
    ),
    _compile_rule(
        rf"have been {_ADVERBS}(?P<doing>(?!thinking|wondering|feeling|going|getting|keeping)\w{{3,}}ing)"
        r"(?P<rest> (?:an?|my|at|in|for|with|some|two) .+)",
        readings.parse_ongoing,
    ),
    _compile_rule(
        rf"have been {_ADVERBS}(?P<doing>busy) (?P<rest>(?:with (?!work$|life$)|\w+ing )\S.*)", readings.parse_ongoing
    ),
    _compile_rule(
        rf"am {_ADVERBS}(?P<rest>on (?:an? (?:\w+ )?diet|the (?:hunt|lookout) for .+))",
        build_statement_parser("ongoing", "current", "is"),
    ),
    _compile_rule(
        r"have always (?P<said>been|had|loved|enjoyed|liked|felt|dreamed of|dreamt of)\s+(?P<rest>.+)",
        build_statement_parser("always", "current", "has always {said}"),
    ),
)
_PAST_RULES = (
    _compile_rule(rf"have (?:already |also )?been to{_REST}", build_statement_parser("been", "past", "has been to")),
    _compile_rule(
        rf"have never (?P<said>been to|tried|seen|visited|played|had|owned|eaten|driven){_REST}",
        build_statement_parser("never", "current", "has never {said}"),
    ),
    _compile_rule(
        rf"have (?:already |also |recently |just )?(?P<verb>{_REGULAR_PAST}|seen|done|taken|given|written|made|met|"
        rf"built|become|"
        r"gone|read|bought|sold|won|run|learnt|taught)(?P<rest> .+)",
        readings.parse_perfect,
    ),
    *(
        _compile_rule(
            rf"(?:have (?:just |also |already |recently )?)?(?P<verb>{words})\b(?P<rest>.*)", build_past_parser(rule)
        )
        for rule, words in verbs.PAST.items()
    ),
    _compile_rule(
        r"(?:just )?(?P<said>decided to|wanted to|tried to|managed to|got to|had to|was able to|learned to|chose to)"
        rf"{_REST}",
        build_statement_parser(
            "did",
            "past",
            "{said}",
            required=_THREE_WORDS,
            excluded=rf"(?:{_TALK_VERBS}|stay|keep|try|do|make sure|find|think|admit|let|give|share|show|get|have|"
            rf"add)\b",
        ),
    ),
    _compile_rule(
        r"was (?P<rest>(?:in|at) (?:an? |my |our )?(?:[A-Z]\w+|"
        r"\w+ (?:school|university|college|concert|conference|hospital|camp)).*)",
        build_statement_parser("was", "past", "was"),
    ),
    _compile_rule(r"was (?P<rest>(?:an? |in (?:an? |the )|part of ).+)", build_statement_parser("was", "past", "was")),
    _compile_rule(
        r"was (?:also |just |really |out )*(?P<rest>(?!thinking|wondering|hoping|going|planning|feeling|looking|trying|"
        r"being|having|getting)\w{3,}ing (?:an?|my|on|in|at|for|with|some)\b.+)",
        build_statement_parser("was", "past", "was"),
    ),
    _compile_rule(
        rf"(?:have )?(?P<verb>{_REGULAR_PAST}(?: (?:to|for|in|at|with|about|up|off|out|"
        rf"on))?)\s+(?P<rest>{_OBJECT_START}.*)",
        build_past_parser("event"),
    ),
)
_HABIT_RULES = (
    _compile_rule(
        r"(?P<often>usually|often|sometimes|regularly|generally|typically|mostly) (?P<verb>[a-z]+)(?P<rest> .+)",
        readings.parse_habit,
    ),
    _compile_rule(r"(?P<verb>try) (?P<rest>to \w+ \w+ .+)", readings.parse_habit),
    _compile_rule(
        r"(?:also |still |currently |even )?(?P<often>(?:usually |often |always |sometimes |regularly )?)"
        rf"(?P<verb>{verbs.PRESENT})\b{_REST}",
        readings.parse_habit,
    ),
)
_RULES = (*_ENDED_RULES, *_SELF_RULES, *_PREFERENCE_RULES, *_FUTURE_RULES, *_ONGOING_RULES, *_PAST_RULES, *_HABIT_RULES)
