"""The people of the simulated year: who talks when, what they say, learn and ask, and what is true of them.

Every person bears a name that no other one bears, and nearly every sentence names its person: so what turns up in
another's memory can be told by the name. All of it depends on the seed alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

ACTIVE, SILENT, RETURNING = "active", "silent", "returning"
SILENT_AFTER_DAYS = 30
AWAY_DAYS = 150  # days that a returning person stays away
MEAN_VISIT_INTERVAL_DAYS = 6  # days between two talks of one person, about


def _split_words(text: str) -> list[str]:
    """Words with commas, or else with blanks between them."""
    return text.split(", ") if "," in text else text.split()


_FIRST = _split_words("Ba Ce Di Fo Gu Ha Je Ki Lo Mu Na Pe Ri So Tu Va We Xi Yo Za")
_MIDDLE = _split_words("bel cor dan fim gol han jor kel lum mar nil pol ras sen tor vin wim zan")
_LAST = _split_words("a e i o u ia eo ua")


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """What is true of a person under one topic, how it is asked for, and the word that an answer must hold."""

    topic: str
    claim: str
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Visit:
    """What a person does on one day. Each part may be empty.

    `utterances` are turns of a conversation. `important` is learned by hand for good, `noise` and `useful` as
    short-lived; `stated` is true from now on by what is said. `questions` are questions, `tool` one that is called with
    success.
    """

    hour: int
    utterances: tuple[str, ...] = ()
    important: tuple[GroundTruth, ...] = ()
    stated: tuple[GroundTruth, ...] = ()
    noise: tuple[str, ...] = ()
    useful: tuple[GroundTruth, ...] = ()
    project: str = ""
    questions: tuple[GroundTruth, ...] = ()
    tool: str = ""


# topic: claim, question, values; {n} is the person, {v} the value. Those of `CHANGING_TOPICS` change once in the year.
IMPORTANT_TOPICS = {
    "allergy": (
        "{n} is allergic to {v}.",
        "What is {n} allergic to?",
        "peanuts penicillin shellfish strawberries latex sesame walnuts aspirin soy mustard celery pollen",
    ),
    "doctor": (
        "{n}'s doctor is Dr. {v}.",
        "Who is {n}'s doctor?",
        "Fennick Aldous Brandt Castell Dorner Ellery Farrow Gauss Hollin Imhof Jarvis Kessel",
    ),
    "contact": (
        "In an emergency, call {n}'s sister {v}.",
        "Who is to be called in an emergency of {n}?",
        "Mirela Odette Petra Quila Rosalind Sabine Tamsin Ursel Violetta Wilma Xenia Ylva",
    ),
    "blood": (
        "{n} has the blood group {v}.",
        "Which blood group does {n} have?",
        "AB-negative AB-positive A-negative A-positive B-negative B-positive zero-negative zero-positive",
    ),
    "daughter": (
        "{n}'s daughter is called {v}.",
        "What is {n}'s daughter called?",
        "Alma Bettina Cilla Dorit Elfie Frida Greta Hedda Ines Jolanda Kaja Liv",
    ),
    "medicine": (
        "{n} takes {v} every morning.",
        "Which medicine does {n} take every morning?",
        "metformin ramipril thyroxine insulin warfarin atorvastatin lithium bisoprolol candesartan digoxin",
    ),
}
CHANGING_TOPICS = ("doctor", "contact", "medicine")

# What a person says, and the rules learn: one value at a time.
STATED_TOPICS = {
    "home": (
        "I live in {v} now.",
        "Where does {n} live now?",
        "Porto Oslo Bergen Lisbon Leeds Turin Vienna Ghent Krakow Cork Malaga Dresden",
    ),
    "employer": (
        "I work at {v} now.",
        "Where does {n} work now?",
        "Brightwell Fernhill Stonegate Kestrel Maplewood Northgate Ashford Redfield Larkspur Thornbury",
    ),
    "tea": (
        "My favourite tea is {v}.",
        "What is {n}'s favourite tea?",
        "oolong sencha rooibos darjeeling assam jasmine chamomile matcha ceylon keemun",
    ),
}

INSTRUCTIONS = ("Always answer in French.", "Please always keep your answers short.", "From now on, use metric units.")
_HOBBIES = _split_words(
    "rock climbing, fencing, pottery, chess, sailing, beekeeping, origami, archery, birdwatching, calligraphy, rowing, "
    "astronomy, juggling, baking bread, jazz, river swimming, woodcarving, card tricks, gardening, mountain hiking"
)
_THINGS = _split_words(
    "rowing machine, wooden table, red bicycle, tent, piano, camera, sewing machine, telescope, kayak, cello, lamp, "
    "bookshelf, pair of boots, wool coat, drum kit, coffee grinder, hammock, ladder, globe, typewriter"
)
_PLACES = _split_words(
    "seed market, lighthouse, science museum, flower show, boat race, food fair, castle, concert hall, book fair, zoo, "
    "chess tournament, pottery class, film festival, county fair, old harbour, bakery"
)
_CHAT_TEMPLATES = (
    "I went to a {place} yesterday.",
    "I love {hobby}.",
    "I bought a {thing} last week.",
    "I enjoy {hobby}.",
    "I'm learning {hobby}.",
    "Yesterday I sold my {thing}.",
    "I visited a {place} last week.",
    "I don't like {hobby}.",
    "I have a {thing}.",
    "I joined a {place} club last month.",
)
_NOISE_TEMPLATES = (
    "{n}'s car is parked on level {a}, spot {b}, on day {d}.",
    "It rains where {n} is, {a} degrees, on day {d}.",
    "{n}'s train leaves from platform {a} at {b} past on day {d}.",
    "{n} is waiting for parcel {a}{b} on day {d}.",
    "The shop beside {n}'s office closes at {a} on day {d}.",
    "{n} has ticket {a}{b} for the pool on day {d}.",
)
_EVENTS = _split_words(
    "trade fair, school play, house sale, choir concert, tax report, garden party, street race, art show"
)
_ROOMS = _split_words("kitchen hall cellar attic bathroom study porch pantry")
_COLORS = _split_words("blue green white yellow grey red black brown")
TOOLS = ("search_web", "read_calendar", "send_mail")


def make_name(number: int) -> str:
    """The name of a person; no two persons share one."""
    first, rest = number % len(_FIRST), number // len(_FIRST)
    middle, last = (rest + first) % len(_MIDDLE), rest // len(_MIDDLE)
    return _FIRST[first] + _MIDDLE[middle] + _LAST[last % len(_LAST)] + "n" * (last // len(_LAST))


@dataclass
class Person:
    """One person. `truths` and `stated` hold what is true by now, by topic; `former_answers` what was true before."""

    number: int
    days: int
    seed: int
    truths: dict[str, GroundTruth] = field(default_factory=dict)
    stated: dict[str, GroundTruth] = field(default_factory=dict)
    former_answers: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = make_name(self.number)
        self._random = np.random.default_rng([self.seed, self.number])
        self.kind = (SILENT, ACTIVE, SILENT, ACTIVE, SILENT, ACTIVE, SILENT, ACTIVE, SILENT, RETURNING)[
            self.number % 10
        ]
        self.changes_mind = self.number % 3 == 0
        self.visit_days = self._plan_visits()
        self._instruction = str(self._random.choice(INSTRUCTIONS))
        self._important = self._shuffle(IMPORTANT_TOPICS)[: 4 + self.number % 3]
        self._mentions = self._plan_mentions()
        self._project = 0

    def _plan_visits(self) -> tuple[int, ...]:
        """The days on which the person talks."""
        gaps = self._random.integers(1, 2 * MEAN_VISIT_INTERVAL_DAYS, size=self.days)
        days = np.cumsum(gaps) - int(gaps[0]) + int(self._random.integers(0, MEAN_VISIT_INTERVAL_DAYS))
        away = {
            ACTIVE: (self.days, self.days),
            SILENT: (SILENT_AFTER_DAYS, self.days),
            RETURNING: (SILENT_AFTER_DAYS, SILENT_AFTER_DAYS + AWAY_DAYS),
        }[self.kind]
        return tuple(int(day) for day in days if day < self.days and not away[0] <= day < away[1])

    def _plan_mentions(self) -> dict[int, list[tuple[str, bool]]]:
        """By number of visit: topics to tell, and whether by a new value. Half are told twice, some change later."""
        plan: dict[int, list[tuple[str, bool]]] = {}
        for place, topic in enumerate(self._important):
            plan.setdefault(place % max(1, len(self.visit_days)), []).append((topic, True))
            if place % 2 and len(self.visit_days) > 6:
                plan.setdefault(5 + place % 2, []).append((topic, False))
        if self.changes_mind and len(self.visit_days) > 4:
            late = len(self.visit_days) * 2 // 3
            plan.setdefault(late, []).extend((topic, True) for topic in CHANGING_TOPICS if topic in self._important)
        return plan

    def plan_visit(self, day: int) -> Visit:
        """What the person does on one of the days of `visit_days`; to be asked for in order."""
        n = self.visit_days.index(day)
        told = tuple(self._iter_stated(n))
        important = tuple(
            self._update_truth(IMPORTANT_TOPICS, self.truths, topic, new) for topic, new in self._mentions.get(n, ())
        )
        said = [each.claim for each in told] + [self._make_small_talk() for _ in range(1 + n % 2)]
        if n in (1, 4, 9):
            said.append(self._instruction)
        self._project += n % 12 == 0
        busy = self._make_useful_truths(n)
        return Visit(
            hour=int(self._random.integers(8, 22)),
            utterances=tuple(said),
            important=important,
            stated=told,
            noise=tuple(self._make_noise(day) for _ in range(1 + n % 2)),
            useful=busy,
            project=self._make_project_fact(n),
            questions=tuple(self._iter_questions(n, day)),
            tool=TOOLS[n % 3] if n % 4 == 0 else "",
        )

    def _iter_stated(self, n: int) -> Iterator[GroundTruth]:
        """What the person tells of home, work and taste: once in the beginning, and again after a change of mind."""
        topics = list(STATED_TOPICS)
        turn = len(self.visit_days) // 2
        changes: tuple[int, ...] = (
            (turn, turn + max(1, len(self.visit_days) // 4)) if self.changes_mind and len(self.visit_days) > 6 else ()
        )
        if n < len(topics):
            yield self._update_truth(STATED_TOPICS, self.stated, topics[n], True)
        if n in changes:
            topic = topics[self.number % len(topics)]
            back = n != changes[0] and self.number % 2 == 0  # A, B, and A again
            yield self._update_truth(
                STATED_TOPICS, self.stated, topic, True, min(self.former_answers[topic]) if back else ""
            )

    def _update_truth(
        self,
        topics: dict[str, tuple[str, str, str]],
        known: dict[str, GroundTruth],
        topic: str,
        new: bool,
        value: str = "",
    ) -> GroundTruth:
        """What is true under a topic: a value that was not true before, or the one there is."""
        claim, question, values = topics[topic]
        before = known.get(topic)
        if before is not None and not new:
            return before
        former = self.former_answers.setdefault(topic, set())
        if before is not None:
            former.add(before.answer)
        value = value or str(self._random.choice([each for each in values.split() if each not in former]))
        former.discard(value)
        known[topic] = GroundTruth(topic, claim.format(n=self.name, v=value), question.format(n=self.name), value)
        return known[topic]

    def _make_small_talk(self) -> str:
        words = {"place": _PLACES, "hobby": _HOBBIES, "thing": _THINGS}
        chosen = {name: str(self._random.choice(some)) for name, some in words.items()}
        return str(self._random.choice(_CHAT_TEMPLATES)).format(**chosen)

    def _make_noise(self, day: int) -> str:
        a, b = (int(number) for number in self._random.integers(1, 60, size=2))
        return str(self._random.choice(_NOISE_TEMPLATES)).format(n=self.name, a=a, b=b, d=day)

    def _make_useful_truths(self, n: int) -> tuple[GroundTruth, ...]:
        """Every tenth visit begins something that is asked for on the next ones, too."""
        if n % 10 or n + 3 >= len(self.visit_days) or self.visit_days[n + 2] - self.visit_days[n] > 12:
            return ()
        what = _EVENTS[(n // 10 + self.number) % len(_EVENTS)]
        claim = f"{self.name} is busy with the {what} number {n}."
        return (GroundTruth(f"busy {n}", claim, f"What is {self.name} busy with, the {what} number {n}?", what),)

    def _make_project_fact(self, n: int) -> str:
        """A fact of a project that the person talks about in its own channel."""
        if n % 12:
            return ""
        room, colour = _ROOMS[self._project % len(_ROOMS)], _COLORS[(self._project + self.number) % len(_COLORS)]
        return f"The {room} of {self.name}'s house gets {colour} tiles."

    def _iter_questions(self, n: int, day: int) -> Iterator[GroundTruth]:
        """One of the things that are true; now and then where the car is, which was noted today or never."""
        topics: Sequence[GroundTruth] = [*self.truths.values(), *self.stated.values()]
        if topics:
            yield topics[n % len(topics)]
        if n % 3 == 0:
            yield GroundTruth("car", "", f"Where is {self.name}'s car parked?", f"on day {day}.")

    def _shuffle(self, names: dict[str, tuple[str, str, str]]) -> list[str]:
        return [str(name) for name in self._random.permutation(sorted(names))]


def build_people(users: int, days: int, seed: int) -> list[Person]:
    """Everybody: half of them fall silent after a month, four in ten talk all year, one in ten comes back."""
    return [Person(number, days, seed) for number in range(users)]


def distribute(persons: Sequence[Person], parts: int) -> list[list[Person]]:
    """The people in as many parts of about the same work: those who talk most are dealt first. Each part is in order.

    By number alone it would not be even: who falls silent hangs on it.
    """
    busiest = sorted(persons, key=lambda person: -len(person.visit_days))
    return [sorted(busiest[hand::parts], key=lambda person: person.number) for hand in range(parts)]
