"""Stories about beliefs: what is said, withdrawn, erased and taken back, and what is believed at the end.

A story is a heading `# rule: name`, steps, and lines that begin with `=`. A step is what the user says on a day
(`day 3: …`), or `undo`, `erase N` and `forget N` of what was said in step N, counted from 1. An expectation is
`= subject.slot current | former | planned | stale | doubtful: value, value`, with `-` for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

STORIES = """
# cascade: a new employer leaves boss and role behind
day 0: I work at Acme as a nurse.
day 0: My boss is called Priya.
day 9: I no longer work at Acme. I work at Globex now.
= user.employer current: Globex
= user.employer former: Acme
= user.boss current: -
= user.boss stale: Priya

# cascade: a move to no known place leaves the rent in doubt and not the job
day 0: I live in Lund. Our rent is 900 euros a month.
day 0: I work at Acme.
day 5: We moved to Oslo.
= user.home doubtful: Lund
= user.rent stale: 900 euros a month
= user.employer current: Acme

# diamond: the commute rests on home and job, and falls once
day 0: I live in Lund and I work at Acme.
day 0: I cycle to work every day.
day 4: I no longer work at Acme. I work at Globex now.
day 8: We live in Oslo now.
= user.home current: Oslo
= user.employer current: Globex

# diamond: back at one of two, what rests on the other stays behind
day 0: I live in Lund. Our rent is 900 euros a month.
day 0: I work at Acme. My boss is called Priya.
day 4: We live in Oslo now.
day 6: I no longer work at Acme. I work at Globex now.
day 8: We live in Lund again.
= user.rent current: 900 euros a month
= user.boss stale: Priya

# absence: an end with nothing in its place
day 0: I work at Acme.
day 3: I no longer work at Acme.
= user.employer current: -
= user.employer former: Acme

# absence: a plan is not what is so, and casts no doubt
day 0: I live in Lund.
day 1: We're moving to Oslo in June.
= user.home current: Lund

# absence: somebody else's end is not mine
day 0: I work at Acme.
day 2: My sister Nora works at Bosch.
day 3: Nora no longer works at Bosch.
= user.employer current: Acme
= Nora.employer current: -

# deletion: an erased change brings the old value back
day 0: I live in Lund.
day 3: We live in Oslo now.
erase 2
= user.home current: Lund
= user.home former: -

# deletion: an erased step in the middle leaves the ends to the next one
day 0: I live in Lund.
day 3: We live in Oslo now.
day 6: We live in Rome now.
erase 2
= user.home current: Rome
= user.home former: Lund

# deletion: an erased correction brings back what it put right
day 0: Our rent is 1,360 euros a month.
day 1: Our rent is 1,380 euros a month, not 1,360.
erase 2
= user.rent current: 1,360 euros a month

# deletion: what rests on a value that came back holds again
day 0: I live in Lund. Our rent is 900 euros a month.
day 3: We live in Oslo now.
erase 2
= user.rent current: 900 euros a month

# deletion: one of two sources erased leaves the belief
day 0: I'm allergic to walnuts.
day 1: I'm allergic to walnuts.
erase 1
= user.allergies current: walnuts

# deletion: the only source erased takes the belief along
day 0: I'm allergic to walnuts.
erase 1
= user.allergies current: -

# deletion: what another person is stays
day 0: My sister Nora is vegan.
day 0: I'm vegetarian.
erase 2
= Nora.diet current: vegan
= user.diet current: -

# return: there and back again
day 0: I live in Lund. Our rent is 900 euros a month.
day 3: We live in Oslo now.
day 6: We live in Lund again.
= user.home current: Lund
= user.rent current: 900 euros a month

# return: back at the old employer
day 0: I work at Acme.
day 2: I no longer work at Acme. I work at Globex now.
day 4: I no longer work at Globex. I work at Acme again.
= user.employer current: Acme

# return: a habit that was given up and taken up again
day 0: I'm vegetarian.
day 5: I eat fish again.
day 9: I'm vegetarian again.
= user.diet current: vegetarian

# correction: it never was so
day 0: I live in Lund.
day 1: Sorry, I meant Oslo, I live in Oslo, not Lund.
= user.home current: Oslo
= user.home former: -

# correction: of an age by a natural word
day 0: My son Nils is 3.
day 1: Nils is 4, not 3.
= Nils.age current: 4
= Nils.age former: -

# correction: of a correction
day 0: Our rent is 1,360 euros a month.
day 1: Our rent is 1,380 euros a month, not 1,360.
day 2: Our rent is 1,360 euros a month, not 1,380.
= user.rent current: 1,360 euros a month
= user.rent former: -

# correction: a date put right twice
day 0: The release is on 10 April.
day 1: The release is on 12 April, not 10 April.
day 2: The release is on 11 April, not 12 April.
= user.date:release planned: 11 April

# correction: of one of two allergies
day 0: I'm allergic to walnuts. I'm allergic to shrimp.
day 1: I'm allergic to hazelnuts, not walnuts.
= user.allergies current: hazelnuts, shrimp

# decoy: the same change in another life
day 0: I live in Lund. My sister Nora lives in Lund.
day 3: Nora lives in Oslo now.
= user.home current: Lund
= Nora.home current: Oslo

# decoy: a wish, a question and a quote change nothing
day 0: I live in Lund.
day 1: I wish I lived in Oslo.
day 2: Do I live in Oslo?
day 3: He wrote "I live in Oslo now".
= user.home current: Lund

# undo: a change taken back
day 0: I live in Lund.
day 3: We live in Oslo now.
undo
= user.home current: Lund
= user.home former: -

# undo: an end taken back
day 0: I work at Acme. My boss is called Priya.
day 3: I no longer work at Acme.
undo
= user.boss current: Priya

# forgetting: a belief that was forgotten is not told
day 0: I'm allergic to walnuts.
forget 1
= user.allergies current: -

# cascade: a partner's move is not mine
day 0: I live in Lund. My partner Mateo lives in Lund.
day 4: Mateo lives in Oslo now.
= user.home current: Lund
= Mateo.home current: Oslo
= Mateo.home former: Lund

# cascade: a later word about the rent holds after the move
day 0: I live in Lund. Our rent is 900 euros a month.
day 4: We live in Oslo now.
day 5: Our rent is 1,100 euros a month.
= user.rent current: 1,100 euros a month

# doubt: a car that was sold
day 0: I drive a Golf.
day 4: We sold the Golf.
= user.car current: -
= user.car doubtful: Golf

# return: a plan comes true and the old home is past
day 0: I live in Lund.
day 1: We're moving to Oslo in March.
day 20: We live in Oslo now.
= user.home current: Oslo
= user.home former: Lund

# return: three homes, and the first again
day 0: I live in Lund.
day 2: We live in Oslo now.
day 4: We live in Rome now.
day 6: We live in Lund again.
= user.home current: Lund

# correction: of the newest value, not of the one before
day 0: I work at Acme.
day 2: I no longer work at Acme. I work at Globex now.
day 3: I work at Globix, not Globex.
= user.employer former: Acme

# correction: somebody else's age stays
day 0: My daughter Elsa is 6. My son Nils is 3.
day 1: Nils is 4, not 3.
= Elsa.age current: 6
= Nils.age current: 4

# decoy: a joke taken back
day 0: I live in Lund.
day 1: We moved to Mars, just kidding.
= user.home current: Lund

# decoy: a text to translate
day 0: I'm vegetarian.
day 1: Translate this: "I eat fish again."
= user.diet current: vegetarian

# opposites: a liking that turned
day 0: I love olives.
day 5: I can't stand olives.
= user.likes current: -
= user.dislikes current: olives

# languages: an answer language that changed
day 0: From now on, answer in English.
day 3: Ab jetzt antworte mir bitte auf Deutsch.
= user.answer_language current: German

# languages: a move told in German
day 0: Ich wohne in Hamburg.
day 3: Ich wohne jetzt in Leipzig.
= user.home current: Leipzig
= user.home former: Hamburg
"""


@dataclass
class BeliefStory:
    """One story: what happens, and what is believed at the end, by subject, slot and standing."""

    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)
    wanted: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)


def list_stories() -> Iterator[BeliefStory]:
    """Every story, in order."""
    for text in re.split(r"^# ", STORIES, flags=re.MULTILINE)[1:]:
        name, *lines = text.strip().splitlines()
        story = BeliefStory(name)
        for line in lines:
            if found := re.fullmatch(r"= (?P<subject>[^.]+)\.(?P<slot>\S+) (?P<standing>\w+): (?P<values>.+)", line):
                key = (found["subject"], found["slot"], found["standing"])
                values = found["values"].split(", ") if found["slot"] != "rent" else [found["values"]]
                story.wanted[key] = [] if found["values"] == "-" else sorted(values)
            elif said := re.fullmatch(r"day (\d+): (.+)", line):
                story.steps.append((said[1], said[2]))
            else:
                verb, _, number = line.partition(" ")
                story.steps.append((verb, number))
        yield story
