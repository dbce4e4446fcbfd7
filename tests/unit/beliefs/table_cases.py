"""Cases of the decision table in a short notation, and what plays them.

`said` are claims a week apart, each `subject.slot=value` with words behind it: `over`, `deny`, `plan`, `past`,
`correct`, `change`, `guess`, `reported`, `unsure`, `since+3` and `until-4` in days from when it is said. The subject is
the user unless another stands before a dot. `told` is what holds a day after the last claim, of its slot unless `of`
names another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from agentmem.beliefs.belief import Belief, BeliefSet, Claim, Ground
from agentmem.beliefs.slots import find_slot
from agentmem.beliefs.table import Settlement, settle

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
WEEK = timedelta(days=7)
_WORDS: dict[str, dict[str, Any]] = {
    "over": {"operation": "over"},
    "deny": {"operation": "deny"},
    "plan": {"tense": "planned"},
    "past": {"tense": "past"},
    "correct": {"mark": "correct"},
    "change": {"mark": "change"},
    "guess": {"ground": Ground.INFERRED},
    "reported": {"ground": Ground.REPORTED},
    "unsure": {"is_subject_unsure": True},
}


@dataclass(frozen=True)
class Case:
    """One case; `action` is what the last claim does."""

    said: str
    action: str
    told: str
    of: str = ""


def parse_claim(text: str, said_at: datetime) -> Claim:
    """A claim of the notation."""
    found = re.fullmatch(r"(?:([A-Z][^.=]*)\.)?([a-z_]+(?::[^=]+)?)=([^|]*?)((?: \|.*)?)", text.strip())
    assert found, text
    subject, slot, value, flags = found.groups()
    fields: dict[str, Any] = {}
    for word in flags.replace("|", "").split():
        if moment := re.fullmatch(r"(since|until)([+-]\d+)", word):
            fields[moment[1]] = said_at + timedelta(days=int(moment[2]))
        else:
            fields |= _WORDS[word]
    return Claim(subject=subject or "user", slot=find_slot(slot), value=value.strip(), said_at=said_at, **fields)


@dataclass
class Beliefs:
    """Beliefs in memory, settled claim by claim as a store does."""

    found: dict[str, Belief] = field(default_factory=dict)

    def settle(self, claim: Claim) -> Settlement:
        """Settle a claim and keep what it writes."""
        known = [each for each in self.found.values() if (each.subject, each.slot) == (claim.subject, claim.slot.name)]
        contrary = [
            each
            for each in self.found.values()
            if (each.subject, each.slot) == (claim.subject, claim.slot.opposite)
            and each.standing(claim.said_at) == "held"
        ]
        decision = settle(claim, sorted(known, key=lambda each: each.said_at), contrary)
        for belief in decision.writes:
            key = belief.key or str(len(self.found))
            self.found[key] = replace(belief, key=key)
        return decision

    def told(self, subject: str, slot: str, moment: datetime) -> list[str]:
        """The values that are told as current."""
        wanted = {each.slot for each in self.found.values()} | {slot}
        for name in tuple(wanted):
            wanted |= set(find_slot(name).rests_on)
        for name in tuple(wanted):
            wanted |= set(find_slot(name).rests_on)
        known = BeliefSet(
            sorted(self.found.values(), key=lambda each: each.said_at), {name: find_slot(name) for name in wanted}
        )
        return [each.value for each in known.state(subject, slot, moment).current]


def play(said: str | Iterable[str]) -> tuple[Beliefs, Settlement, Claim]:
    """Settle claims a week apart; the beliefs, the last decision and the last claim."""
    beliefs, now = Beliefs(), START
    texts = said.split(";") if isinstance(said, str) else said
    for text in texts:
        claim = parse_claim(text, now)
        decision = beliefs.settle(claim)
        now += WEEK
    return beliefs, decision, claim


CASES = [
    # rows 1 and 2: the first value, and the same again
    Case("employer=Ikea", "add", "Ikea"),
    Case("employer=Ikea; employer=IKEA", "reinforce", "Ikea"),
    Case("employer=Ikea | over; employer=Lidl", "add", "Lidl"),
    Case("rent=1,200 euros; rent=1200 euros", "reinforce", "1,200 euros"),
    Case("Ann.home=Rome; home=Oslo", "add", "Oslo"),
    Case("Sara Holm.home=Lund; Sara.home=Oslo", "add", "Oslo"),
    # rows 3 and 4: more or less exact
    Case("home=Vienna; home=Vienna Neubau", "refine", "Vienna Neubau"),
    Case("home=Vienna Neubau; home=Vienna", "reinforce", "Vienna Neubau"),
    Case("role=engineer; role=test engineer", "refine", "test engineer"),
    Case("role=engineer; role=former engineer", "end", "former engineer"),
    Case("rent=900 euros; rent=950 euros", "end", "950 euros"),
    Case("rent=900 euros; rent=900 euros warm", "refine", "900 euros warm"),
    Case("rent=900 euros; rent=900 euros for 3 rooms", "end", "900 euros for 3 rooms"),
    Case("age=4; age=4 and a half", "end", "4 and a half"),
    Case("coffee=drinks coffee; coffee=drinks no coffee", "end", "drinks no coffee"),
    Case("home=Oslo; home=Oslo East | correct", "retire", "Oslo East"),
    Case("home=Oslo East; home=Oslo | correct", "retire", "Oslo"),
    # row 5: the world changed
    Case("employer=Ikea; employer=Lidl", "end", "Lidl"),
    Case("home=Lund; home=Malmö | change", "end", "Malmö"),
    Case("home=Lund; home=Malmö | since-3", "end", "Malmö"),
    Case("home=Lund | reported; home=Malmö", "end", "Malmö"),
    Case("home=Lund | reported; home=Malmö | reported", "end", "Malmö"),
    Case("employer=Ikea; employer=Lidl; employer=Ikea", "end", "Ikea"),
    Case("employer=Ikea; employer=Lidl; employer=Ikea; employer=Aldi", "end", "Aldi"),
    Case("answer_language=French; answer_language=English", "end", "English"),
    Case("Mateo.diet=vegan; Mateo.diet=pescatarian | change", "end", "pescatarian"),
    # row 6: it was wrong
    Case("home=Lund; home=Lomma | correct", "retire", "Lomma"),
    Case("age=3; age=4 | correct", "retire", "4"),
    Case("birthplace=Turin; birthplace=Rome", "retire", "Rome"),
    Case("blood_type=A; blood_type=0", "retire", "0"),
    Case("birthplace=Turin; birthplace=Turin", "reinforce", "Turin"),
    Case("home=Lund; home=Lomma | correct; home=Lund | correct", "retire", "Lund"),
    # row 7: sets
    Case("pets=Rex (dog); pets=Mia (cat)", "add", "Rex (dog), Mia (cat)"),
    Case("allergies=hazelnuts; allergies=walnuts | correct", "retire", "walnuts"),
    Case("allergies=milk; allergies=eggs; allergies=fish | correct", "add", "milk, eggs, fish"),
    Case(
        "conditions=pain in the left hip; conditions=pain in the right hip",
        "add",
        "pain in the left hip, pain in the right hip",
    ),
    Case("dislikes=olives; likes=olives", "add", "olives"),
    Case("dislikes=olives; likes=olives", "add", "", of="dislikes"),
    Case("likes=tea; dislikes=coffee", "add", "tea", of="likes"),
    # rows 8 to 10: over and denied
    Case("employer=Ikea; employer=Ikea | over", "end", ""),
    Case("employer=Ikea; employer= | over", "end", ""),
    Case("employer=Ikea; employer=Ikea | over until+20", "end", "Ikea"),
    Case("employer=Lidl; employer=Ikea | over", "add past", "Lidl"),
    Case("employer= | over", "nothing", ""),
    Case("bank=Monzo; bank=Monzo | over since-20; bank=Wise", "add", "Wise"),
    Case("employer=city of Graz; employer=Graz | over", "end", ""),
    Case("pets=Rex (dog); pets=Mia (cat); pets=Rex (dog) | over", "end", "Mia (cat)"),
    Case("Ann.allergies=nuts; Ann.allergies=nuts | deny correct", "retire", ""),
    Case("Ann.allergies=nuts; Ann.allergies=nuts | deny", "end", ""),
    Case("Ann.allergies=cats | deny", "add denial", ""),
    Case("diet=vegan; diet=vegetarian | deny", "add denial", "vegan"),
    Case("diet=vegan; diet=vegan | over guess", "nothing", "vegan"),
    Case("answer_format=lists; answer_format=lists | over", "end", ""),
    Case("answer_format=lists, no emoji; answer_format=lists | over", "end", "no emoji"),
    Case("hobbies=chess, judo and golf; hobbies=judo | over", "end", "chess and golf"),
    Case("hobbies=chess and golf; hobbies=golf | deny", "end", "chess"),
    Case("hobbies=chess and golf; hobbies=golf | over reported", "review", "chess and golf"),
    Case("employer=Smith and Sons; employer=Sons | over", "end", ""),
    # row 11: the past
    Case("home=Oslo; home=Turin | past", "add past", "Oslo"),
    Case("home=Turin | past; home=Turin | past", "reinforce", ""),
    Case("home=Turin | past; home=Oslo", "add", "Oslo"),
    # rows 12 to 14: plans
    Case("home=Lund; home=Oslo | plan", "add plan", "Lund"),
    Case("home=Lund; home=Oslo | plan; home=Oslo | change", "end", "Oslo"),
    Case("home=Lund; home=Oslo | plan; home=Oslo | plan over", "give up plan", "Lund"),
    Case("home=Lund; home=Oslo | plan; home= | plan over", "give up plan", "Lund"),
    Case("home=Oslo | plan; home=Bergen | plan", "add plan", ""),
    Case("home=Oslo | plan; home=Oslo | plan since+30", "reinforce", ""),
    Case("home=Oslo | plan since+2; home=Lund", "add", "Lund"),
    Case("home=Oslo | plan since+2; home=Oslo West | past", "add past", "Oslo"),
    Case("employer=Ikea; employer=Lidl | plan since+2; employer=Ikea", "reinforce", "Ikea"),
    Case("employer=Ikea; employer=Lidl | plan since+2; employer=Ikea | over", "end", "Lidl"),
    Case("home=Oslo Frogner | plan; home=Oslo | change", "add", "Oslo Frogner"),
    Case("pets=Rex (dog) | plan; pets=Mia (cat) | plan", "add plan", ""),
    # row 15 and 16: events
    Case("date:release=10 April | since+10; date:release=17 April | since+17", "retire", ""),
    Case("date:release=10 April | since+10; date:release=9 April | since+9 correct", "retire", ""),
    Case("date:exam=9 May | since+2; date:exam=9 May | over past", "end", ""),
    Case("date:exam=9 May | over past", "nothing", ""),
    Case("date:exam=9 May; date:exam=10 May | reported", "review", ""),
    # row 17: guesses
    Case("home=Lund; home=Oslo | guess", "keep as guess", "Lund"),
    Case("work_hours=from nine | guess", "keep as guess", ""),
    Case("work_hours=from nine | guess; work_hours=from nine", "reinforce", "from nine"),
    Case("work_hours=from nine | guess; work_hours=from ten", "end", "from ten"),
    # rows 18 and 19: reviews
    Case("home=Lund; home=Oslo | reported", "review", "Lund"),
    Case("Nora.home=Oslo | unsure", "review", ""),
    Case("home=Lund; home=Lund | reported", "reinforce", "Lund"),
    # what rests on what
    Case("employer=Ikea; boss=Priya; employer=Lidl", "end", "", of="boss"),
    Case("employer=Ikea; boss=Priya; employer=Lidl; employer=Ikea", "end", "Priya", of="boss"),
    Case("employer=Ikea; boss=Priya; employer=Lidl; boss=Omar", "end", "Omar", of="boss"),
    Case("employer=Ikea; boss=Priya; employer=Ikea | over", "end", "", of="boss"),
    Case("boss=Priya; employer=Ikea", "add", "Priya", of="boss"),
    Case("home=Lund; employer=Ikea; commute=by bike; home=Malmö", "end", "", of="commute"),
    Case("home=Lund; employer=Ikea; commute=by bike; rent=900 euros", "add", "by bike", of="commute"),
    # more of rows 1 and 2
    Case("name=Ola Berg", "add", "Ola Berg"),
    Case("pets=Rex (dog); pets=rex (dog)", "reinforce", "Rex (dog)"),
    Case("phone=0171 555-12; phone=0171 55512", "end", "0171 55512"),
    Case("email=a@b.org; email=A@B.org", "reinforce", "a@b.org"),
    Case("the:staging server=stg-2; the:staging server=stg-2", "reinforce", "stg-2"),
    Case("home=Lund | reported; home=Lund", "reinforce", "Lund"),
    Case("home=Lund; home=Lund | since-30", "reinforce", "Lund"),
    # more of rows 3 and 4
    Case("conditions=diabetes; conditions=type 1 diabetes", "add", "diabetes, type 1 diabetes"),
    Case("partner=Mateo; partner=Mateo Ruiz", "refine", "Mateo Ruiz"),
    Case("partner=Mateo Ruiz; partner=Mateo", "reinforce", "Mateo Ruiz"),
    Case("address=Elm Road 12; address=Elm Road 14", "end", "Elm Road 14"),
    Case("address=Elm Road; address=Elm Road 14", "refine", "Elm Road 14"),
    Case("role=nurse; role=night nurse", "end", "night nurse"),
    Case("role=nurse; role=senior nurse", "refine", "senior nurse"),
    Case("landlord=Ada Rowe; landlord=old Ada Rowe", "end", "old Ada Rowe"),
    Case("home=Bern; home=not Bern", "end", "not Bern"),
    Case("date:exam=9 May | since+9; date:exam=9 May, room 4 | since+2", "retire", ""),
    Case("about:sport=table tennis; about:sport=tennis", "end", "tennis"),
    # more of row 5
    Case("smoking=smokes; smoking=does not smoke | change", "end", "does not smoke"),
    Case("car=VW Golf; car=none", "end", "none"),
    Case("currency=euros; currency=pounds", "end", "pounds"),
    Case("version:Django=4.2; version:Django=5.1 | change", "end", "5.1"),
    Case("favourite:color=green; favourite:color=blue", "end", "blue"),
    Case("favourite:color=green; favourite:film=Alien", "add", "Alien"),
    Case("favourite:color=green; favourite:film=Alien", "add", "green", of="favourite:color"),
    Case("tool:design=Figma; tool:design=Sketch", "end", "Sketch"),
    Case("home=A; home=B; home=C; home=D", "end", "D"),
    Case("home=A; home=B; home=A; home=B", "end", "B"),
    Case("phone=111 222 | reported; phone=111 333 | reported; phone=111 444", "end", "111 444"),
    # more of row 6
    Case("phone=111 222; phone=111 333 | correct", "retire", "111 333"),
    Case("boss=Priya; boss=Omar | correct; boss=Priya", "end", "Priya"),
    Case("birthday=3 May; birthday=4 May", "retire", "4 May"),
    Case("birth_date=3 May 1990; birth_date=3 May 1991; birth_date=3 May 1990", "retire", "3 May 1990"),
    Case("age=40; age=41 | change", "end", "41"),
    Case("employer=Ikea | guess; employer=Lidl | correct", "retire", "Lidl"),
    # more of row 7
    Case("languages=Polish; languages=Welsh; languages=Polish", "reinforce", "Welsh, Polish"),
    Case("medications=5 mg of X; medications=10 mg of X", "end", "10 mg of X"),
    Case("medications=X; medications=5 mg of X", "refine", "5 mg of X"),
    Case("medications=5 mg of X; medications=X", "reinforce", "5 mg of X"),
    Case("medications=5 mg of X; medications=5 mg of Y", "add", "5 mg of X, 5 mg of Y"),
    Case("medications=Y; medications=5 mg of X; medications=10 mg of X", "end", "Y, 10 mg of X"),
    Case("habit:running=on Mondays; habit:running=on Fridays", "add", "on Mondays, on Fridays"),
    Case("children=Ida; children=Nils; children=Ida | deny correct", "retire", "Nils"),
    Case("likes=jazz; dislikes=jazz; likes=jazz", "add", "jazz"),
    Case("likes=jazz; dislikes=jazz; likes=jazz", "add", "", of="dislikes"),
    Case("siblings=Ana; siblings=Anna", "add", "Ana, Anna"),
    Case("nationality=Swiss; nationality=Italian | correct", "retire", "Italian"),
    # more of rows 8 to 10
    Case("pets=Rex (dog); pets= | over", "end", ""),
    Case("medications=ramipril; medications=statins; medications=ramipril | over", "end", "statins"),
    Case("rent=900 euros; rent=900 euros | over; rent=900 euros", "add", "900 euros"),
    Case("employer=Ikea; employer=Ikea | over; employer=Ikea | over", "nothing", ""),
    Case("car=VW Golf; car=Golf | over", "end", ""),
    Case("diet=vegan | deny; diet=vegan", "add", "vegan"),
    Case("diet=vegan; diet=vegan | deny; diet=vegan", "add", "vegan"),
    Case("home=Lund; home=Oslo | over until-40", "add past", "Lund"),
    Case("employer=Ikea; employer= | over until+10; employer=Lidl | plan since+2", "add plan", "Ikea"),
    # more of row 11
    Case("employer=Lidl | past; employer=Ikea; employer=Aldi | past", "add past", "Ikea"),
    Case("pets=Rex (dog) | past; pets=Mia (cat)", "add", "Mia (cat)"),
    Case("home=Oslo; home=Oslo | past", "add past", "Oslo"),
    # more of rows 12 to 14
    Case("home=Lund; home=Oslo | plan; home=Bergen | plan; home=Oslo | plan over", "nothing", "Lund"),
    Case("employer=Ikea; employer=Lidl | plan since+20; employer= | over until+5", "end", "Ikea"),
    Case("home=Lund; home=Oslo | plan; home=Lund | deny", "end", ""),
    Case("boss=Priya; boss=Omar | plan; boss=Omar | correct", "retire", "Omar"),
    Case("flight:Faro=2 May | plan since+20; flight:Faro=3 May | plan since+14", "retire", ""),
    Case("flight:Faro=2 May | plan since+20; flight:Oslo=3 May | plan since+14", "add plan", ""),
    Case("school=Elm School | plan since+3; school=Oak School | plan since+3", "add plan", ""),
    Case("home=Oslo | plan since+2; home=Oslo | plan over", "give up plan", ""),
    # more of 17 to 20
    Case("employer=Ikea | guess; employer=Ikea | guess", "reinforce", ""),
    Case("employer=Ikea | guess; employer=Lidl | reported", "end", "Lidl"),
    Case("pets=Rex (dog); pets=Mia (cat) | reported", "add", "Rex (dog), Mia (cat)"),
    Case("employer=Ikea | reported; employer=Lidl | guess", "keep as guess", "Ikea"),
    Case("employer=Ikea; employer=Ikea | over reported", "review", "Ikea"),
    # more of what rests on what
    Case("home=Lund; landlord=Ada Rowe; home=Oslo; home=Lund", "end", "Ada Rowe", of="landlord"),
    Case("home=Lund; rent=900 euros; home=Oslo | plan", "add plan", "900 euros", of="rent"),
    Case("home=Lund; rent=900 euros; home=Lund Mitte", "refine", "900 euros", of="rent"),
    Case("home=Lund; address=Elm Road 1; home=Lomma | correct", "retire", "Elm Road 1", of="address"),
    Case("employer=Ikea; work_mode=from home; employer=Lidl; work_mode=from home", "reinforce", "from home"),
    Case("home=Lund; rent=900 euros; home=Lund Mitte; home=Malmö", "end", "", of="rent"),
    Case("employer=Ikea; employer=Ikea | deny reported", "review", "Ikea"),
]
