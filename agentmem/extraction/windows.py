"""Which turns are read together, and which say nothing worth a call."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from agentmem.core.records import Turn
from agentmem.text.tokenizer import estimate_tokens

MAX_TURNS = 6
MAX_TOKENS = 1_200
MIN_TURN_CHARS = 10
"""Characters below which a turn is not read for itself."""

_MAX_PLEASANTRY_CHARS = 300  # characters up to which a text may be nothing but pleasantries


def split_words(words: str) -> list[str]:
    """Words and phrases of one string, which vertical bars keep apart."""
    return words.split("|")


_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_GREETINGS = split_words(
    "hi|hi there|hey|hey there|hello|hello there|good morning|good afternoon|good evening|good night|"
    "goodnight|bye|bye bye|goodbye|see you|see you soon|see you later|see ya|cheers|take care|thanks|"
    "many thanks|thanks a lot|thanks so much|thanks again|thank you|thank you so much|thank you very much|"
    "thanks for your help|thank you for your help|welcome|welcome back|sorry|no problem|no worries|"
    "you're welcome|youre welcome|you are welcome"
)
_FILLERS = split_words(
    "yo|ok|okay|k|alright|all right|right|sure|sure thing|of course|yes|yeah|yep|no|nope|not at all|got it|"
    "i see|understood|makes sense|that makes sense|sounds good|that sounds good|sounds great|"
    "that sounds great|good|great|nice|cool|awesome|perfect|lovely|wonderful|excellent|fine|haha|hahaha|lol|"
    "wow|oh|ah|aha|hm|hmm|well|please|you too|same to you|my pleasure|anytime|any time|never mind|nevermind|"
    "how are you|how are you doing|how are you today|how's it going|how is it going|how have you been|"
    "what's up|i'm fine|i'm good|i'm doing well|i am fine|nice to meet you|good to see you|"
    "good to hear from you|nice to see you|great to see you|great to hear from you|have a good day|"
    "have a great day|have a nice day|have a good one|have a good weekend|have a great weekend|have fun|"
    "good luck|talk soon|talk to you soon|talk to you later|talk later|catch you later|until next time|"
    "see you tomorrow|so much|very much|again|indeed|absolutely|exactly|definitely|then|and|so|that's great|"
    "that's nice|that is great|that's awesome|that's wonderful|glad to hear it|glad to hear that|that's all|"
    "that is all|that's it|can you help me|could you help me|i appreciate it|much appreciated"
)


def _build_alternation(phrases: Sequence[str]) -> str:
    return "|".join(re.escape(phrase).replace("\\ ", " ") for phrase in sorted(phrases, key=len, reverse=True))


# Without going back over what was read, the longest phrase first: the time is linear. A greeting may name somebody.
_PLEASANTRIES = re.compile(
    rf"(?>(?i:(?:{_build_alternation(_GREETINGS)}))(?![^ ])(?: "
    rf"(?!(?i:{_build_alternation([*_GREETINGS, *_FILLERS])})(?![^ ]))[A-Z][^ ]*)?"
    rf"|(?i:{_build_alternation(_FILLERS)})(?![^ ]))(?: (?=.)|$)"
)


def split_into_windows(
    turns: Sequence[Turn], *, max_turns: int = MAX_TURNS, max_tokens: int = MAX_TOKENS
) -> list[list[Turn]]:
    """Consecutive turns of one conversation in windows of at most `max_turns` turns and `max_tokens` tokens, in their
    order.

    Every turn is in exactly one window. A longer turn is a window by itself. No turns give no windows.
    """
    windows: list[list[Turn]] = []
    size = 0
    for turn in turns:
        cost = estimate_tokens(turn.search_text())
        last = windows[-1] if windows else []
        full = len(last) >= max_turns or size + cost > max_tokens
        if not last or full or last[-1].conversation_id != turn.conversation_id:
            windows.append([])
            size = 0
        windows[-1].append(turn)
        size += cost
    return windows


def is_substantive(turn: Turn) -> bool:
    """Whether a turn may say something: it has ten characters or more, and not only English pleasantries.

    A character as wide as a Chinese one counts for three. Punctuation and emoji say nothing; what was shared does.
    """
    text = turn.search_text()
    if len(text) > _MAX_PLEASANTRY_CHARS:
        return True
    wide = sum(unicodedata.east_asian_width(character) in "WF" and character.isalnum() for character in text)
    if len(text.strip()) + 2 * wide < MIN_TURN_CHARS:
        return False
    return not _is_only_pleasantries(" ".join(_WORD.findall(text.replace("’", "'"))))


def _is_only_pleasantries(words: str) -> bool:
    at = 0
    while at < len(words):
        found = _PLEASANTRIES.match(words, at)
        if found is None:
            return False
        at = found.end()
    return True
