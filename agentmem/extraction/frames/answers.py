"""Short answers: a question of the assistant and the user's word after it are one statement."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from agentmem.extraction.frames.plain_text import split_plain_sentences

MAX_ANSWER_CHARS = 120
MAX_ANSWER_WORDS = 8
_ARTICLE = re.compile(r"\A(?:an?|the|me|my) ", re.IGNORECASE)
_COUNTED = re.compile(r"\A(?:one|two|three|four|five|\d),? (?=\w)", re.IGNORECASE)


@cache
def _patterns() -> Mapping[str, Any]:
    """Yes, no, and what an answer of a few words means after some questions."""
    data = json.loads(files(__package__).joinpath("answers.json").read_text(encoding="utf-8"))
    words = {name: re.compile(data[name], re.IGNORECASE) for name in ("yes", "no", "ceased", "nothing", "lead")}
    return {**data, **words}


def complete_answer(text: str, asked: str) -> str:
    """The statement that a short answer makes with the question before it; "" where the answer stands by itself.

    `asked` is the assistant's turn. Only its last question counts, and only an answer of a few words.
    """
    answer = text.strip()
    if not asked.strip().endswith("?") or not answer or len(answer) > MAX_ANSWER_CHARS or "?" in answer:
        return ""
    question = _last_question(asked)
    plain = " ".join(sentence.plain.strip() for sentence in split_plain_sentences(answer))
    known = _patterns()
    if known["ceased"].match(plain):
        return _answer_yes_no(question, is_yes=False).replace("do not", "no longer").replace("am not", "am no longer")
    if known["yes"].match(plain) or known["no"].match(plain):
        return _answer_yes_no(question, is_yes=known["yes"].match(plain) is not None)
    if len(answer.split()) > MAX_ANSWER_WORDS or known["nothing"].match(answer) or _is_statement(plain):
        return ""
    lead = known["lead"].match(answer)
    cleaned = answer[lead.end() :] if lead and not lead[0].lower().startswith(("the", "a ")) else answer
    for pattern, statement in known["open_questions"]:
        if found := re.search(pattern, question, re.IGNORECASE):
            groups = found.groupdict()
            noun = groups.get("noun") or groups.get("noun2") or groups.get("noun3") or ""
            words = _ARTICLE.sub("", cleaned.rstrip(".! "))
            people = _COUNTED.sub("", words)
            count = len(re.split(r",| and | & ", people))
            filled = {
                "answer": people if "{count}" in statement else cleaned.rstrip(".! "),
                "bare": words,
                "count": count,
            }
            return str(statement).format(**filled, noun=noun.lower(), who=groups.get("who") or "")
    return ""


def _answer_yes_no(question: str, *, is_yes: bool) -> str:
    for pattern, yes, no in _patterns()["yes_no_questions"]:
        if found := re.fullmatch(pattern, question.rstrip("? "), re.IGNORECASE):
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
    return re.sub(r"^(?:and|so|but|ok|okay|great|thanks|noted|got it)[,.!:]? ", "", question, flags=re.IGNORECASE)


def _is_statement(plain: str) -> bool:
    """Whether an answer has a subject and a verb of its own."""
    return re.match(r"(?:i|we|my|our|he|she|they|it is (?:not|just)|that)\b", plain) is not None
