"""Whether an open claim and a relation are about the people of whom the words speak."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from agentmem.beliefs.slots import USER_SUBJECT
from agentmem.extraction.drafts import FactDraft
from agentmem.extraction.frames.frame_set import LANGUAGES, load_frames
from agentmem.extraction.frames.people import PeopleReader
from agentmem.extraction.frames.plain_text import PlainSentence
from agentmem.extraction.value_words import SOMEBODY, detect_language, find_possessors, read_value_words
from agentmem.text.tokenizer import tokenize

_USER_DOES = re.compile(r"The user (?!and\b)")
_FIRST_PERSON = re.compile(r"\b(?:i|me|we|us|mine|ours|myself|ourselves|(?:my|our)(?= [\w-]+))\b")
_THIRD_PERSON = re.compile(r"\b(?:he|she|they|him|her|them|his|their|who)\b")
_WRONG = "person: the words say it of somebody else"
# A word that the quote of a relation of this kind needs; other built-in kinds are said in too many ways.
_RELATION_CUES: Mapping[str, re.Pattern[str]] = {
    "WORKS_FOR": re.compile(r"work|job|join|employ|hire|start|boss|team|company|role|position|at\b|for\b|'s\b"),
    "LOCATED_IN": re.compile(r"\b(?:in|at|near|from|to|on|by)\b|live|move|base|locat|home"),
    "CREATED_BY": re.compile(r"\b(?:by|'s)\b|made|make|wrote|writ|built|build|creat|paint|found|design|author|compos"),
}


def check_owner(draft: FactDraft, sentences: Iterable[PlainSentence], people: PeopleReader) -> str:
    """Why an open claim is about the wrong person: "my sister rows" does not say that the user rows; "" when it is not.

    A claim that says "the user's sister", and a sentence in which the speaker has a part, are left alone.
    """
    words = set(tokenize(draft.claim)) - set(tokenize(f"user {draft.subject}"))
    for sentence in sentences:
        shared = [found for found in re.finditer(r"[^\W_]+", sentence.plain) if words & set(tokenize(found[0]))]
        if not shared or not detect_language(sentence.plain):
            continue
        reading = read_value_words(sentence, shared[-1].span(), people)
        if draft.subject == USER_SUBJECT:
            others = reading.owners and USER_SUBJECT not in reading.owners
            if others and _USER_DOES.match(draft.claim) and not _has_part(sentence.plain):
                return _WRONG
        elif reading.owners == {USER_SUBJECT} and draft.claim.casefold().startswith(draft.subject.casefold()):
            is_named = draft.subject.casefold().split()[0] in sentence.plain.split()
            if not is_named and not _THIRD_PERSON.search(sentence.plain):
                return _WRONG
    return ""


def _has_part(plain: str) -> bool:
    """Whether the speaker stands in a sentence otherwise than as whose sister somebody is."""
    frames = load_frames(LANGUAGES[0])
    bare = re.sub(rf"\b(?:my|our|me) (?:[\w-]+ )?(?:{frames.noun_pattern}|[\w-]+'s)\b", "", plain)
    bare = re.sub(r"\b(?:my|our) [\w-]+\b", "", bare)
    return _FIRST_PERSON.search(bare) is not None


def check_relation_words(
    kind: str, ends: tuple[str, str], sentences: Iterable[PlainSentence], people: PeopleReader, speaker: str
) -> str:
    """Why a relation is not said: its word does not stand in the quote, or belongs to another person; "" when it is.

    `ends` are the names of both, `kind` is a built-in one or the words that were said ("sister of").
    """
    wanted = {name.casefold().split()[0] for name in ends}
    wanted |= {USER_SUBJECT} if speaker and speaker.casefold().split()[0] in wanted else set()
    for sentence in sentences:
        language = detect_language(sentence.plain)
        if not language or (kind not in _RELATION_CUES and kind.isupper()):
            return ""
        if kind in _RELATION_CUES:
            if language != LANGUAGES[0] or _RELATION_CUES[kind].search(sentence.plain):
                return ""
            continue
        if _has_relation_word(kind, sentence.plain, wanted, people):
            return ""
    return "its word was not said of these two"


def _has_relation_word(kind: str, plain: str, wanted: set[str], people: PeopleReader) -> bool:
    frames = load_frames(detect_language(plain) or LANGUAGES[0])
    stems = set(tokenize(kind))
    if not stems <= set(tokenize(plain)):
        return False
    nouns = [word for word in re.findall(r"[\w-]+", kind.casefold().replace("_", " ")) if word in frames.nouns]
    if not nouns:
        return True
    for found in re.finditer(rf"\b{re.escape(nouns[0])}\b(?!'s)", plain):
        of = re.match(r" of (?:my |our )?([^\W\d_][\w-]*)", plain[found.end() :])
        owners = frozenset({of[1]}) if of else find_possessors(plain, found.start(), people, frames)
        if owners == {SOMEBODY}:
            return _is_between(found.span(), plain, wanted)
        if not owners or {name.split()[0] for name in owners} & wanted:
            return True
    return False


def _is_between(noun: tuple[int, int], plain: str, ends: set[str]) -> bool:
    """Whether "her daughter" ties two people whom the sentence names: one beside these words, the other anywhere."""
    after = re.match(r"(?: is|,)? (?:called |named )?((?:[a-z]+\. )?[^\W\d_][\w-]*)", plain[noun[1] :])
    before = re.search(
        r"((?:[\w-]+ ){0,2}[\w-]+)(?:,| is| was| has been)? (?:his|her|their) (?:\w+ )?\Z", plain[: noun[0]]
    )
    beside = [word for found in (after, before) if found for word in found[1].split()]
    named = {name for name in ends if re.search(rf"\b{re.escape(name)}\b", plain)}
    return len(named) > 1 and bool(named & set(beside))
