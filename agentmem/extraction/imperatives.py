"""Words of standing instructions: verbs that give an assistant an order, what must follow them, what can be omitted.

Precision before recall: verbs of everyday advice (trust, wear, eat, give up) are not among them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from agentmem.extraction.windows import split_words

IMPERATIVE_VERBS = frozenset(
    split_words(
        "abbreviate|add|address|adopt|analyse|analyze|annotate|answer|append|ask|assume|attach|attribute|"
        "avoid|back-up|backup|be|begin|bold|book|bring|bullet|call|capitalise|capitalize|check|choose|cite|"
        "clarify|color|combine|comment|commit|compare|compose|confirm|consider|consult|convert|copy|correct|"
        "count|create|date|default|define|deliver|deploy|describe|display|divide|document|double-check|draft|"
        "email|end|estimate|exclude|explain|export|filter|finish|flag|follow|format|generate|give|greet|"
        "group|handle|hide|highlight|include|indent|indicate|inform|insert|introduce|italicise|italicize|"
        "justify|keep|label|limit|link|list|log|look|make|mark|measure|mention|message|name|notify|number|"
        "offer|omit|open|order|organise|organize|output|phrase|pin|ping|plan|post|prefer|prefix|present|"
        "prioritise|prioritize|produce|proofread|propose|provide|push|put|quote|rank|read|recommend|record|"
        "refer|remind|remove|rename|repeat|rephrase|reply|report|respond|return|review|rewrite|round|run|"
        "save|say|schedule|search|send|separate|set|share|shorten|show|sign|simplify|skip|sort|speak|specify|"
        "spell|split|start|state|stick|structure|submit|suffix|suggest|summarise|summarize|switch|tag|talk|"
        "tell|test|think|track|translate|treat|truncate|type|underline|update|use|validate|verify|warn|work|"
        "wrap|write"
    )
)

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
