"""Which English verbs begin something that an agent can be told to do, and what must follow the doubtful ones.

Precision before recall: verbs of everyday advice (trust, wear, eat, give up) are not among them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

IMPERATIVE_VERBS = frozenset({
    "abbreviate", "add", "address", "adopt", "analyse", "analyze", "annotate", "answer", "append", "assume", "attach",
    "attribute", "avoid", "back-up", "backup", "begin", "bold", "book", "bring", "bullet", "capitalise", "capitalize",
    "check", "choose", "cite", "clarify", "color", "combine", "comment", "commit", "compare", "compose", "confirm",
    "consider", "consult", "convert", "copy", "correct", "count", "create", "date", "default", "define", "deliver",
    "deploy", "describe", "display", "divide", "document", "double-check", "draft", "email", "end", "estimate",
    "exclude", "explain", "export", "filter", "finish", "flag", "follow", "format", "generate", "give", "greet",
    "group", "handle", "hide", "highlight", "include", "indent", "indicate", "inform", "insert", "introduce",
    "italicise", "italicize", "justify", "keep", "label", "limit", "link", "list", "log", "mark", "measure",
    "mention", "message", "name", "notify", "number", "offer", "omit", "order", "organise", "organize", "output",
    "phrase", "ping", "pin", "plan", "post", "prefer", "prefix", "present", "prioritise", "prioritize", "produce",
    "proofread", "propose", "provide", "push", "put", "quote", "rank", "recommend", "record", "refer", "remind",
    "remove", "rename", "repeat", "rephrase", "reply", "report", "respond", "return", "review", "rewrite", "round",
    "run", "save", "schedule", "search", "send", "separate", "set", "share", "shorten", "show", "sign", "simplify",
    "skip", "sort", "specify", "spell", "split", "start", "state", "stick", "structure", "submit", "suffix",
    "suggest", "summarise", "summarize", "switch", "tag", "talk", "tell", "test", "track", "translate", "treat",
    "truncate", "type", "underline", "update", "use", "validate", "verify", "warn", "wrap", "write", "ask", "be",
    "call", "say", "speak", "look", "read", "think", "work", "make", "open",
})  # fmt: skip

_OUTPUT_NOUNS = (
    r"(?:(?:your|the|my|all|any|every|each|its|their)\s+)*(?:[\w-]+\s+){0,2}?(?:answers?|repl(?:y|ies)|responses?|"
    r"messages?|"
    r"emails?|explanations?|summar(?:y|ies)|reports?|text|code|output|sentences?|paragraphs?|lists?|tone|style|format|"
    r"language|descriptions?|comments?|commits?|documents?|notes?|tables?|titles?|headings?|headers?|names?|replies)\b"
)
_ANSWER_NOUNS = (
    r"(?:your|the|each|every|all)\s+(?:\w+\s+)?(?:answers?|repl(?:y|ies)|responses?|messages?|emails?|reports?)"
)
VERB_COMPLEMENTS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        verb: re.compile(pattern, re.IGNORECASE)
        for verb, pattern in {
            "be": r"(?:so |too |very |more |as |extra |a bit |less )?(?:concise|brief|short|polite|formal|informal|"
            r"honest|"
            r"direct|specific|explicit|precise|accurate|blunt|terse|verbose|chatty|casual|professional|wordy|succinct|"
            r"objective|neutral|consistent|thorough)\b",
            "keep": rf"(?:it|things|them)\s+(?:short|brief|simple|concise|formal|casual|professional)|{_OUTPUT_NOUNS}",
            "ask": r"(?:me|for (?:my )?(?:confirmation|permission|approval)|before|first|whether|which|clarifying|"
            r"follow-?up)\b",
            "call": r"(?:me|my|the)\b",
            "say": r"(?!never\b|goodbye\b|die\b)\S+",
            "speak": r"(?:in |to me )",
            "talk": r"(?:in |to me )",
            "look": r"(?:up |at (?:the|my) (?:calendar|docs|documentation|notes|files?|logs?))",
            "read": r"(?:the|my) (?:\w+ ){0,2}(?:docs|documentation|files?|notes|readme|logs?|e?mails?)\b",
            "think": r"(?:step by step|out loud|aloud)\b",
            "work": r"(?:in|on) (?:the|a|my) (?:\w+ ){0,2}(?:branch|copy|draft|folder|directory)\b",
            "make": rf"(?:a |the |your |all )?(?:backups?|copy|copies|{_OUTPUT_NOUNS})",
            "open": r"(?:a |the )(?:\w+ ){0,2}(?:ticket|issue|pull request|pr|link|file)s?\b",
            "give": r"(?!up\b|in\b|away\b|thanks\b|your best\b|it a\b)\S+",
            "run": r"(?:the |all |my |a |unit )*(?:\w+ ){0,2}(?:tests?|linters?|checks?|scripts?|formatters?|"
            r"builds?|suite|commands?|migrations?|code)\b",
            "check": r"(?:the|my|your|all|for|that|with|whether|if)\b",
            "start": rf"(?:{_ANSWER_NOUNS}|with|by|from)\b",
            "begin": rf"(?:{_ANSWER_NOUNS}|with|by|from)\b",
            "end": rf"(?:{_ANSWER_NOUNS}|with)\b",
            "finish": rf"(?:{_ANSWER_NOUNS}|with)\b",
            "back-up": r"\S+",
            "order": r"(?:the|my|from|by|results?|lists?)\b",
            "follow": r"(?:the|my|our|pep|these|all)\b(?! (?:heart|dreams?|gut|instincts?|passion))",
            "stick": r"to (?:the|my|our|metric|plain|simple|one|short|british|american)\b",
            "put": r"(?!off\b|up\b|yourself\b|down\b|too\b|pressure\b)\S+",
            "set": r"(?:the|my|a|an|up)\b",
            "bring": r"up\b",
            "count": r"(?:in|the|words|tokens)\b",
            "consider": r"(?:the|my|all|edge)\b",
            "choose": r"(?:the|a|an|between|from|options?)\b(?! (?:bright|happiness|kindness))",
            "share": r"(?:the|your|my|links?|sources?|code)\b",
            "plan": r"(?:the|my|for|around|meetings?|in)\b(?! worst)",
            "treat": r"(?:the|my|all|every|each|dates?|numbers?|files?|tasks?)\b",
        }.items()
    }
)
"""What must follow these verbs, which also stand in everyday advice."""

OMITTABLE_NOUNS = (
    r"(?:emojis?|emoticons?|smileys|bullets?|bullet ?points?|bullet lists?|lists|tables?|markdown|jargon|headings?|"
    r"headers?|(?:code )?comments|exclamation (?:marks|points)|abbreviations|acronyms|small ?talk|apologies|"
    r"disclaimers?|links|footnotes|preambles?|summaries|fluff|filler(?: words)?|greetings|pleasantries|html|latex|"
    r"code blocks?|bold(?: text)?|italics|spoilers|buzzwords|hashtags|semicolons|em[- ]dashes|passive voice|jokes|"
    r"puns|flattery|sugar-?coating|one-liners|long (?:answers|explanations|replies)|(?:follow-?up )?questions)"
)
"""What an answer can be told to be without."""


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
