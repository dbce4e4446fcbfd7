"""Glosses: sentences of other languages with their verbs and small words in English, so that every frame can read them.

Values stay as they were typed: only words of the language's grammar, kin and a few things are replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from agentmem.extraction.frames.frame_set import load_markers
from agentmem.extraction.frames.plain_text import PlainSentence

_CLAUSE = re.compile(r"[^,;:]+[,;:]*\s*")
_Rules = tuple[tuple[re.Pattern[str], str], ...]


def gloss_sentence(sentence: PlainSentence) -> PlainSentence | None:
    """The sentence in English as far as its languages' glosses go; None for one in English."""
    language = _find_language(sentence.plain)
    if not language:
        return None
    out, end = sentence, len(sentence.plain)
    for joint in reversed([*_CLAUSE.finditer(sentence.plain)]):  # people change the language between clauses
        clause = replace(sentence, plain=out.plain[joint.start() : end], offsets=out.offsets[joint.start() : end])
        for pattern, words in _load_rules()[_find_language(clause.plain, language) or language]:
            clause = _replace_all(clause, pattern, words)
        out = replace(
            out,
            plain=out.plain[: joint.start()] + clause.plain + out.plain[end:],
            offsets=(*out.offsets[: joint.start()], *clause.offsets, *out.offsets[end:]),
        )
        end = joint.start()
    return None if out.plain == sentence.plain else out


def _find_language(plain: str, likely: str = "") -> str:
    """The language whose markers a text has most of, those that it shares with others for less; "" for none.

    Of languages with as many the `likely` one.
    """
    counts = dict.fromkeys(load_markers(), 0.0)
    words = {name: set(markers.findall(plain)) for name, markers in load_markers().items()}
    for name, own in words.items():
        counts[name] = sum(1 / sum(word in others for others in words.values()) for word in own)
    language = max(counts, key=lambda name: (counts[name], name == likely))
    return language if counts[language] else ""


def _replace_all(sentence: PlainSentence, pattern: re.Pattern[str], words: str) -> PlainSentence:
    for found in reversed([*pattern.finditer(sentence.plain)]):
        if found.end() > found.start():
            sentence = sentence.with_words(*found.span(), found.expand(words))
    return sentence


@cache
def _load_rules() -> Mapping[str, _Rules]:
    """What is replaced in a language, in this order: fixed phrases, verbs with their subjects, words, word order."""
    data = json.loads(files(__package__).joinpath("glosses.json").read_text(encoding="utf-8"))
    return {
        name: tuple(
            (re.compile(pattern), words)
            for pattern, words in (*gloss["before"], *_gloss_verbs(gloss), *gloss["words"], *data["order"])
        )
        for name, gloss in data["languages"].items()
    }


def _gloss_verbs(gloss: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each form of a verb with its subject, which may come after it or be left out."""
    first, plural, third = gloss["first"], gloss["we"], gloss["they"]
    for one, many, other, english, with_s in gloss["verbs"]:
        base = re.sub(r"^was\b", "were", re.sub(r"^am\b", "are", english))
        is_bare = gloss.get("bare", False)
        if many:
            bare = rf"|\b(?:{many})\b" if gloss.get("drop", False) else ""
            yield rf"\b(?:{plural}) (?:{many})\b|\b(?:{many}) (?:{plural})\b{bare}", f"we {base}"
        bare = rf"|\b(?:{one})\b" if is_bare and not set(one.split("|")) & set(other.split("|")) else ""
        yield rf"\b(?:{first}) ?(?:{one})\b|\b(?:{one}) (?:{first})\b{bare}", f"i {english}"
        yield rf"\b(?:{other}) ({third})\b", rf"\1 {with_s}"
        yield rf"\b(?:{other})\b", with_s
