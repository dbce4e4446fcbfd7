"""Short answers: a question of the assistant and the user's word after it are one statement."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from agentmem.extraction.frames.plain_text import split_plain_sentences

MAX_ANSWER_CHARS = 120
MAX_ANSWER_WORDS = 10
MAX_ASKED_CHARS = 160  # at the end of the assistant's turn: where its question stands
# Whoever is named after a question about one of these is whom the next words are about.
_PERSON_NOUNS = frozenset(
    ["boss", "manager", "partner", "wife", "husband", "sister", "brother", "landlord", "daughter", "son", "mum", "dad"]
)
_ARTICLE = re.compile(r"\A(?:an?|the|me|my) ", re.IGNORECASE)
_FIRST_SENTENCE = re.compile(
    r"[^.!;\n]*(?:(?:[.](?=\S)|(?<=\d)[.](?= (?:Jan|Feb|M\u00e4r|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)\w*))[^.!;\n]*)*"
)
_TRAILING = re.compile(r",? (?:at all|these days|now|then|yourself|any ?more|by the way)\Z", re.IGNORECASE)
_DOUBT = re.compile(r"\b(?:maybe|perhaps|guess|dunno|don'?t know|not sure|haha\w*|lol)\b", re.IGNORECASE)
_STATEMENT = re.compile(
    r"(?:i|we|he|she|they|it is (?:not|just)|that)\b"
    r"|(?:my|our|me) (?:\w+ ){1,3}?"
    r"(?:is|was|are|were|has|had|lives?|works?|moved|got|says?|said|loves?|likes?|hates?)\b"
)
_TOPIC = re.compile(
    r"\b(?i:is|are|was|does|did|has|will|can|how is|how's|about)"
    r" (?P<who>he|she|(?!I\b|You\b|The\b|There\b|This\b)[A-Z]\w+)\b"
    r"|^(?:And|Und|Y|E|Et) (?:die |der |la |el |o |a )?"
    r"(?P<alone>(?!(?:You|Yours|The|There|This|Du|What|How|When|Where|Who)\b)[A-Z]\w+)\?"
)
_ABOUT_USER = re.compile(r"\b(?:you|your|yours)\b", re.IGNORECASE)
_TAKEN_BACK = re.compile(
    r"[^a-z]*(?:no,? |nein,? |n\u00e3o,? |non,? )?(?:i )?"
    r"(?:tell a lie|no wait|wait no|scrub that|scratch that|hang on|no sorry|sorry no|i meant|quatsch|ich meinte?"
    r"|perd\u00f3n|quise decir|desculpa|queria dizer|pardon)\b",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"(?:what about |how about )?"
    r"(?:you(?:rself)?|yours|any(?:one|body|thing)? (?:else|others?|more)|others?|und du|y t\u00fa|et toi)\W*",
    re.IGNORECASE,
)
_DECLARATIVE = re.compile(
    r"(?:so,? )?(?P<statement>(?:you(?:'re| are| were| have|'ve| live| work| drive| take)"
    r"|your \w+(?: \w+)? (?:is|are|was))\b[^?]{2,80})\?",
    re.IGNORECASE,
)
_SWAPPED = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (r"\byou(?:'re| are)\b", "I am"),
        (r"\byou were\b", "I was"),
        (r"\byou(?:'ve| have)\b", "I have"),
        (r"\byour\b", "my"),
        (r"\byou\b", "I"),
        (r",? (?:right|then|is that right|correct|do you|are you|aren't you|don't you|did you say)\Z", ""),
    )
)
_CLAUSE_REST = re.compile(
    r"\s*(?:,(?!\s*\d)|[;(]|\b(?:but|cos|because|when|if|and (?:i|my|me|she|he|we))\b).*\Z", re.IGNORECASE
)
# "Lina six, Tom is 3": who is how old.
_AGE_PAIR = re.compile(
    r"\b(?P<name>[^\W\d_]\w+)(?: is|'s| ist| tiene| tem| a)? (?P<age>\d{1,2}|[^\W\d_]+)"
    r"(?: a\u00f1os| jahre| ans| anos| years?)?"
    r"(?=\s*(?:,|$|and\b|und\b|y\b|et\b|e\b))",
    re.IGNORECASE,
)
_OWNER_BEFORE = re.compile(r"\A(?:our|my|me|a|o|la|el|die|der) ", re.IGNORECASE)
_BY = re.compile(r"\A(?:mit (?:dem|der)|by|on (?:the|me|my)|en|em|de|com o) ", re.IGNORECASE)  # "by bike"
_COUNTED = re.compile(r"\A(?:one|two|three|four|five|\d),? (?=\w)", re.IGNORECASE)


@cache
def _patterns() -> Mapping[str, Any]:
    """Yes, no, and what an answer of a few words means after some questions."""
    data = json.loads(files(__package__).joinpath("answers.json").read_text(encoding="utf-8"))
    words = {
        name: re.compile(data[name], re.IGNORECASE)
        for name in ("yes", "no", "ceased", "yes_then_ceased", "nothing", "lead", "opening")
    }
    return {**data, **words}


@dataclass(frozen=True, slots=True)
class CompletedAnswer:
    """A question and its answer as one statement; `end` is where the answer ends in the turn, `who` whom it names.

    Where the answer alone is the value of a `slot` of the user's, `statement` is that value.
    """

    statement: str
    end: int
    who: str = ""
    slot: str = ""


def find_question(asked: str, before: str = "") -> str:
    """The last question of an assistant's turn; that of the turn before for "And you?" and "Anyone else?"."""
    question = _translate_question(_last_question(asked)) if "?" in asked[-MAX_ASKED_CHARS:] else ""
    return before if before and _GOES_ON.fullmatch(question) else question


def _translate_question(question: str) -> str:
    """A question in another language as one in English; any other as it is."""
    for pattern, english in _patterns()["questions"]:
        if question and (found := re.search(pattern, question, re.IGNORECASE)):
            named = {re.sub(r"\d", "", name): text for name, text in found.groupdict().items() if text}
            return str(english).format_map({"what": "it", **named})
    return question


def complete_answer(text: str, question: str) -> CompletedAnswer | None:
    """The statement that a short answer makes with the question before it; None where the answer stands by itself.

    Only a first sentence of a few words is an answer.
    """
    first = _FIRST_SENTENCE.match(text)
    answer = first[0].strip() if first else ""
    if not first or not question or not answer or len(answer) > MAX_ANSWER_CHARS:
        return None
    if text[first.end() : first.end() + 1] == "?" or "?" in answer:
        return None
    if _TAKEN_BACK.match(text, first.end()):
        return None
    ceased = _patterns()["yes_then_ceased"].match(text)
    if ceased:  # "nah. packed it in years back"
        first, answer = ceased, ceased["ceased"]
    statement, who = _state_answer(answer, re.sub(r" or (?:vape|not)\b", "", question))
    if statement.startswith("="):
        slot, _, value = statement[1:].partition("=")
        return CompletedAnswer(value, first.end(), who, slot)
    return CompletedAnswer(statement, first.end(), who) if statement and statement != text else None


def _state_answer(answer: str, question: str) -> tuple[str, str]:
    plain = " ".join(sentence.plain.strip() for sentence in split_plain_sentences(answer))
    known = _patterns()
    if known["ceased"].match(plain):
        said = _answer_yes_no(question, is_yes=False)
        return said.replace("do not", "no longer").replace("am not", "am no longer"), ""
    if known["yes"].match(plain) or known["no"].match(plain):
        is_yes = known["yes"].match(plain) is not None
        return _answer_yes_no(question, is_yes=is_yes) or (_restate(question) if is_yes else ""), ""
    cleaned = known["opening"].sub("", answer).rstrip(".! ")
    plain = known["opening"].sub("", plain)
    if len(cleaned.split()) > MAX_ANSWER_WORDS:  # "Am 13. April, a Friday, it was raining as ever": up to the comma
        cleaned = answer = cleaned.partition(",")[0]
    if not cleaned or len(cleaned.split()) > MAX_ANSWER_WORDS or _DOUBT.search(answer):
        return "", ""
    if known["nothing"].match(cleaned) or _is_statement(plain):
        return "", ""
    return _answer_open(question, cleaned)


def _answer_open(question: str, answer: str) -> tuple[str, str]:
    """The statement of the first open question that fits, and whom the answer names or the question asks about."""
    lead = _patterns()["lead"].match(answer)
    cleaned = answer[lead.end() :] if lead and not lead[0].lower().startswith(("the", "a ")) else answer
    for pattern, statement, *only in _patterns()["open_questions"]:
        is_fit = not only or re.match(only[0], answer, re.IGNORECASE)
        if is_fit and (found := re.search(pattern, question, re.IGNORECASE)):
            groups = found.groupdict()
            noun = groups.get("noun") or groups.get("noun2") or groups.get("noun3") or ""
            if statement.startswith("="):
                is_list = statement == "=languages"
                answer = _BY.sub("", answer)
                return f"{statement}={answer if is_list else _CLAUSE_REST.sub('', answer)}", ""
            words = _ARTICLE.sub("", cleaned)
            people = _COUNTED.sub("", words)
            numbers = re.findall(r"\d+", words)
            if "{number}" in statement and not numbers:
                return "", ""
            filled = {
                "pairs": _AGE_PAIR.sub(r"\g<name> is \g<age> years old", answer),
                "person": _OWNER_BEFORE.sub("", words),
                "answer": people if "{count}" in statement else cleaned,
                "bare": words,
                "whole": answer,
                "count": len(re.split(r",| and | & ", people)),
                "number": numbers[-1] if numbers else "",
            }
            is_person = noun.lower() in _PERSON_NOUNS or "{count}" in statement or "{person}" in statement
            who = groups.get("who") or (words if is_person else "")
            return str(statement).format(**filled, noun=noun.lower(), who=groups.get("who") or ""), who
    return "", ""


def _restate(question: str) -> str:
    """A question in the form of a statement, as the one who says yes would say it; "" for any other."""
    said = _DECLARATIVE.match(question)
    if said is None:
        return ""
    statement = said["statement"]
    for pattern, words in _SWAPPED:
        statement = pattern.sub(words, statement)
    return statement


def _answer_yes_no(question: str, *, is_yes: bool) -> str:
    for pattern, yes, no in _patterns()["yes_no_questions"]:
        asked = _TRAILING.sub("", question.rstrip("? "))
        if found := re.fullmatch(pattern, asked, re.IGNORECASE):
            statement = yes if is_yes else no
            return statement.format(**found.groupdict()) if " or " not in question else ""
    return ""


def _last_question(asked: str) -> str:
    asked = (
        asked.replace("\u2019", "'")
        .replace("What's", "What is")
        .replace("what's", "what is")
        .replace("Who's", "Who is")
        .replace("When's", "When is")
        .replace("Where's", "Where is")
    )
    found = re.findall(r"[^.!?\n]*\?", asked)
    question = found[-1].strip() if found else ""
    return re.sub(r"^(?:(?:and|so|but|ok|okay|great|thanks|noted|got it)[,.!:]? )+", "", question, flags=re.IGNORECASE)


def find_topic(question: str) -> str:
    """Whom a question is about, where that is not the user: a name, "he" or "she"; "" else."""
    found = _TOPIC.search(question)
    return (found["who"] or found["alone"]) if found and not _ABOUT_USER.search(question) else ""


def _is_statement(plain: str) -> bool:
    """Whether an answer has a subject and a verb of its own."""
    return _STATEMENT.match(plain) is not None
