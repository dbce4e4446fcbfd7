"""Made-up conversations of any length for measuring time and size; no data set, and no meaning worth recalling.

Words follow Zipf's law with Mandelbrot's shift ((rank + 2.7) ** -1.2), about as English text does: a few function
words are half of it, some hundred common words a fifth, and the rest is a long tail of compounds. So posting lists
and token counts have natural sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np

from agentmem.core.input_fields import TurnInput

_FUNCTION_WORDS = (
    "the to and i a of it you that in we was for my is with on but so have at be this they not had are just me your "
    "about what all like from up out if were when there one he she do our can then really would some more her him an"
)
_COMMON_WORDS = (
    "time day week year people friend family house home work school garden kitchen table window door street city river "
    "lake mountain forest beach road bridge train boat car bike ticket letter book story song music guitar piano film "
    "picture camera paint paper pencil lesson teacher student doctor nurse baker farmer driver sister brother mother "
    "father daughter son cousin uncle neighbour child dog cat horse bird fish tree flower apple bread cheese soup rice "
    "coffee tea sugar salt dinner lunch breakfast party birthday holiday summer winter spring autumn morning evening "
    "night weekend rain snow sun wind storm cloud light shadow colour red blue green yellow white black old new small "
    "big long short warm cold quiet loud quick slow early late good bad happy tired proud nervous strange easy hard "
    "start stop walk run swim climb ride drive fly sail read write draw sing dance play cook bake eat drink sleep wake "
    "plan build paint repair clean wash carry bring send buy sell lend borrow find lose keep leave stay move meet call "
    "visit invite ask answer tell listen learn teach help try choose change hope wish dream remember forget decide "
    "project meeting report market shop bank office team game match ball race prize goal class club museum theatre "
    "village island castle church tower hotel tent map key box bag coat shoe hat ring clock phone radio screen machine"
)
_SPEAKERS = ("Ana", "Ben")
_VOCABULARY_SIZE = 20_000
_ZIPF_SHIFT = 2.7
_ZIPF_EXPONENT = 1.2
_TURNS_PER_CONVERSATION = 20
_START_TIME = datetime(2024, 1, 1, 9, tzinfo=UTC)
_QUESTION_TEMPLATES = ("What did {} say about {}?", "When did {} talk about {}?", "Why was {} glad about {}?")


class SyntheticConversations:
    """A source of turns and questions; the same seed gives the same ones, and different seeds other ones."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._words = _build_vocabulary()
        self._function_words = frozenset(_FUNCTION_WORDS.split())
        weights = (np.arange(len(self._words)) + 1 + _ZIPF_SHIFT) ** -_ZIPF_EXPONENT
        self._cumulative_weights = np.cumsum(weights) / weights.sum()

    def generate_turns(self, count: int, prefix: str = "turn") -> Iterator[TurnInput]:
        """Turns of two speakers, 20 to a conversation, one conversation a day, with ids `<prefix>-<n>`."""
        for n in range(count):
            conversation, place = divmod(n, _TURNS_PER_CONVERSATION)
            yield TurnInput(
                role="user" if n % 2 == 0 else "assistant",
                content=self.generate_text(),
                turn_id=f"{prefix}-{n}",
                speaker=_SPEAKERS[n % 2],
                timestamp=_START_TIME + timedelta(days=conversation, minutes=place),
                conversation_id=f"{prefix}-conversation-{conversation}",
            )

    def generate_text(self) -> str:
        """Two or three sentences, 22 to 25 words together; about one sentence in five asks."""
        words = self._draw(int(self._random.integers(22, 26)))
        sentences = int(self._random.integers(2, 4))
        parts = np.array_split(np.array(words, dtype=object), sentences)
        return " ".join(" ".join(part).capitalize() + ("?" if self._random.random() < 0.2 else ".") for part in parts)

    def generate_questions(self, count: int) -> list[str]:
        """Questions about two to four words that are no function words."""
        found = []
        for n in range(count):
            words = self._draw(12)
            telling = [word for word in words if word not in self._function_words][: 2 + n % 3] or words[:2]
            found.append(_QUESTION_TEMPLATES[n % len(_QUESTION_TEMPLATES)].format(_SPEAKERS[n % 2], " ".join(telling)))
        return found

    def _draw(self, count: int) -> list[str]:
        return [self._words[i] for i in np.searchsorted(self._cumulative_weights, self._random.random(count))]


def _build_vocabulary() -> list[str]:
    """Function words, then common words, then compounds of two common words, in a fixed mixed order."""
    mixed = np.random.default_rng(1)
    function = _FUNCTION_WORDS.split()
    common = [str(word) for word in mixed.permutation(list(dict.fromkeys(_COMMON_WORDS.split())))]
    pairs = mixed.permutation(len(common) ** 2)[: _VOCABULARY_SIZE - len(function) - len(common)]
    return [*function, *common, *(common[i // len(common)] + common[i % len(common)] for i in pairs.tolist())]
