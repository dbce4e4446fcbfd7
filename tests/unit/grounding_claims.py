"""Claims about slots that a model might make of a turn: those that the words say, and those that they do not.

A line is `text | about.slot=value [op] [tense] | wanted`, with `asked:` before a question of the assistant. `wanted` is
`kept`, `refused`, or the tense as which it is kept. `about` is `me` or a name. KNOWN people stand in every window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

KNOWN = {"Mateo": "partner", "Nora": "siblings", "Ida": "children", "Ines": "parents", "Priya": "boss"}

PERSON = """
My sister is vegan. | me.diet=vegan | refused
My sister Nora lives in Graz. | me.home=Graz | refused
My sister Nora lives in Graz. | Nora.home=Graz | kept
My sister Nora lives in Graz. | Mateo.home=Graz | refused
I'm vegetarian and Mateo is vegan. | me.diet=vegan | refused
I'm vegetarian and Mateo is vegan. | Mateo.diet=vegetarian | refused
I'm vegetarian and Mateo is vegan. | Mateo.diet=vegan | kept
I'm vegetarian and Mateo is vegan. | me.diet=vegetarian | kept
Mateo told me he is allergic to shrimp. | me.allergies=shrimp | refused
My boss Priya works from Leeds these days. | me.home=Leeds | refused
My neighbor is allergic to cats. | me.allergies=cats | refused
My neighbor is allergic to cats. | Mateo.allergies=cats | refused
Her mother is a diabetic and lives in Porto. | me.home=Porto | refused
Her mother is a diabetic and lives in Porto. | Nora.home=Porto | refused
You live in Berlin, right, dear assistant. | me.home=Berlin | refused
The new colleague takes citalopram. | me.medications=citalopram | refused
My uncle works at Siemens. | me.employer=Siemens | refused
I work at Bosch, my uncle works at Siemens. | me.employer=Siemens | refused
I work at Bosch, my uncle works at Siemens. | me.employer=Bosch | kept
Nora hates olives, I love them. | me.dislikes=olives | refused
Nora hates olives. | Nora.dislikes=olives | kept
Nora hates olives. | Ida.dislikes=olives | refused
Ida is 5 and I'm 34. | Ida.age=34 | refused
Ida is 5 and I'm 34. | me.age=5 | refused
Ida is 5 and I'm 34. | Ida.age=5 | kept
Ida is 5 and I'm 34. | me.age=34 | kept
Mateo drives a Golf. | me.car=Golf | refused
Our landlord speaks Polish. | me.languages=Polish | refused
A friend of mine joined Shopify. | me.employer=Shopify | refused
My roommate smokes like a chimney. | me.smoking=smokes | refused
Mateo's mother lives in Braga. | Mateo.home=Braga | refused
Mateo's mother lives in Braga. | me.home=Braga | refused
Nora's phone number is 0151 2345. | me.phone=0151 2345 | refused
Meine Schwester ist allergisch gegen Nüsse. | me.allergies=Nüsse | refused
Ich bin allergisch gegen Nüsse. | me.allergies=Nüsse | kept
Mi hermana vive en Sevilla. | me.home=Sevilla | refused
Ma sœur habite à Lyon. | me.home=Lyon | refused
The guy who moved in next door plays the cello. | me.hobbies=cello | refused
I told Mateo that I'm vegan. | Mateo.diet=vegan | refused
Everyone at the office speaks French. | me.languages=French | refused
Priya is on 20 mg of citalopram, poor thing. | me.medications=20 mg of citalopram | refused
Ida goes to school in Altona. | me.school=Altona | refused
My team moved to Rotterdam. | me.home=Rotterdam | refused
My grandmother was born in Turin. | me.birthplace=Turin | refused
My grandmother was born in Turin. | Ines.birthplace=Turin | refused
A colleague is actually moving to Lisbon. Nora, I mean. | Nora.home=Lisbon [planned] | kept
A colleague is actually moving to Lisbon. Nora says hi. | Nora.home=Lisbon [planned] | refused
A colleague is actually moving to Lisbon. Nora, I mean. | Mateo.home=Lisbon [planned] | refused
Our mother-in-law Carmen drinks no alcohol. | Carmen.drinking=no alcohol | kept
Meine Schwiegermutter Carmen arbeitet in der Bäckerei Blum. | Carmen.employer=Bäckerei Blum | kept
Meine Schwiegermutter Carmen arbeitet in der Bäckerei Blum. | Mateo.employer=Bäckerei Blum | refused
Mi cuñada Lola trabaja en el hospital del Mar. | Lola.employer=hospital del Mar | kept
Mi cuñada Lola trabaja en el hospital del Mar. | me.employer=hospital del Mar | refused
I think Mateo's night shifts start at nine. | Mateo.work_hours=night shifts start at nine | kept
I think Mateo's night shifts start at nine. | me.work_hours=night shifts start at nine | refused
I guess Nora is on citalopram. | Nora.medications=citalopram | kept
asked: How is Nora? She takes 20 mg of citalopram now. | Nora.medications=20 mg of citalopram | kept
asked: How is Nora? She takes 20 mg of citalopram now. | Ida.medications=20 mg of citalopram | refused
asked: Wie geht es Nora? Sie nimmt jetzt Ibuprofen. | Nora.medications=Ibuprofen | kept
asked: Wie geht es Nora? Sie nimmt jetzt Ibuprofen. | me.medications=Ibuprofen | refused
She takes 20 mg of citalopram. | Nora.medications=20 mg of citalopram | refused
Ab jetzt antworte mir bitte auf Deutsch. | me.answer_language=Deutsch | kept
You don't have to use emojis any more. | me.emoji=emojis [over] | kept
Mateo's phone answers him in German. | me.answer_language=German | refused
You are allergic to nuts, you said. | me.allergies=nuts | refused
Mateo and I are moving to Leeds, near the station. | me.home=Leeds [planned] | kept
Mateo and I are moving to Leeds, near the station. | Mateo.home=Leeds [planned] | kept
Me and Mateo rent a flat in Leeds. | Mateo.home=Leeds | kept
Mateo and I met Nora, who lives in Leeds. | Mateo.home=Leeds | refused
Signed: Mateo und ich ziehen am 1. April um, nach Geidorf. | me.home=Geidorf [planned] | kept
Signed: Mateo und ich ziehen am 1. April um, nach Geidorf. | Nora.home=Geidorf [planned] | refused
Eu e o meu cachorro moramos no Porto. | me.home=Porto | kept
Eu já não moro no Porto. | me.home=Porto | refused
"""

ANSWERS = """
asked: How was the new boss? Lorraine started today. | me.boss=Lorraine | kept
asked: How was the new boss? Anna met Lorraine. | me.boss=Lorraine | refused
Trevor is retiring. The boss. | me.boss=Trevor | kept
Trevor is retiring. The boss cried. | me.friends=Trevor | refused
Tenho 38 anos e ainda não sei cozinhar. | me.age=38 anos | kept
Uma correção: a renda não é 1.480, são 1.380 euros. | me.rent=1.380 euros | kept
Uma correção: a renda não é 1.480, são 1.380 euros. | me.rent=1.480 | refused
Agora não temos carro nenhum. | me.car=carro nenhum | kept
Desde ayer tenemos una tortuga, se llama Bolota. | me.pets=Bolota | kept
La vecina tiene una tortuga, se llama Bolota. | me.pets=Bolota | refused
My brother Tomás comes from Bilbao, that's where he lives. | Tomás.home=Bilbao | kept
Benedikt und ich ziehen im April um, nach Geidorf. | me.home=Geidorf [planned] | kept
Du kannst mich Tatá nennen. | me.call_me=Tatá | kept
asked: What are your pets called? Luna and Oliver! | me.pets=Oliver | kept
Once my wife Sarah and I have had a look, we'll book it. | me.partner=Sarah | kept
HND to KIX is flight JL101. | me.flight:KIX=JL101 [planned] | kept
asked: Where does your sister live? Graz. | me.home=Graz | refused
asked: Where does Nora live? Graz, in her own flat. | Nora.home=Graz | kept
asked: Where does Nora live? Graz, in her own flat. | Ida.home=Graz | refused
asked: Where do you live? I saw Paris last week. | me.home=Paris | refused
asked: Where do you live? Near Anna's bakery. | me.likes=Anna | refused
asked: How old is Ida? 6. | Ida.age=6 | kept
asked: How old is Ida? 6. | me.age=6 | refused
asked: How old is Ida? 6. | Nora.age=6 | refused
asked: How old are you? 57 | me.age=57 | kept
asked: Who is your boss? Priya told me about Anna. | me.boss=Anna | refused
asked: What does Mateo do? Nurse at the infirmary. | Mateo.employer=the infirmary | kept
asked: What does Mateo do? Nurse at the infirmary. | me.employer=the infirmary | refused
asked: Do you drink? Three pints on Fridays. | me.drinking=Three pints on Fridays | kept
asked: Do you drink? I told Anna about it. | me.drinking=Anna | refused
asked: Any pets? Nip, a whippet. | me.pets=Nip | kept
asked: Any pets? No, my neighbor has a whippet called Nip. | me.pets=Nip | refused
asked: Do you have siblings? No, there's Christine as well. | me.siblings=Christine | kept
asked: Anything else he said? no more coffee for me | me.coffee=no more coffee | kept
asked: And what does he drink? no more coffee, he says | me.coffee=no more coffee | refused
"""

POLARITY = """
Mateo went to Lisbon. | me.partner=Mateo [over] | refused
Mateo went this morning. | me.partner=Mateo [over] | kept
We drove to Rome with Ida. | me.children=Ida [over] | refused
It's 88 micrograms from now on instead of 75. | me.medications=88 micrograms | kept
It's 88 micrograms from now on instead of 75. | me.medications=75 | refused
Dalston not Carlisle, that's where I live. | me.home=Dalston | kept
Dalston not Carlisle, that's where I live. | me.home=Carlisle | refused
I was wrong, my age is 57. | me.age=57 [deny] | refused
The rent is 1,360, not 1,380. | me.rent=1,380 [deny] | kept
The rent is 1,360, not 1,380. | me.rent=1,360 [deny] | refused
Confidential: my budget is 80,000 euros for this quarter. | me.budget=80,000 euros | kept
Confidential: my budget is 80,000 euros for this quarter. | me.budget=8,000 euros | refused
The interview is on 12 March. | me.date:interview=12 March [over] | refused
My mother had her hip operation today. | Ines.date:hip operation=today [over] | kept
I don't eat meat. | me.diet=meat | refused
I'm not vegan. | me.diet=vegan | refused
I'm not vegan. | me.diet=vegan [deny] | kept
I'm vegan. | me.diet=vegan [deny] | refused
I'm vegan. | me.diet=vegan [over] | refused
I'm not allergic to nuts. | me.allergies=nuts | refused
I'm allergic to walnuts, not hazelnuts. | me.allergies=hazelnuts | refused
I'm allergic to walnuts, not hazelnuts. | me.allergies=walnuts | kept
I'm allergic to walnuts, not hazelnuts. | me.allergies=hazelnuts [deny] | kept
I no longer work at Nordlys. | me.employer=Nordlys | refused
I no longer work at Nordlys. | me.employer=Nordlys [over] | kept
I left Monzo last month and joined Wise. | me.employer=Monzo | refused
I left Monzo last month and joined Wise. | me.employer=Wise | kept
I left Monzo last month and joined Wise. | me.employer=Wise [over] | refused
I left Monzo last month and joined Wise. | me.employer=Monzo [over] | kept
We sold the Golf. | me.car=Golf | refused
We sold the Golf. | me.car=Golf [over] | kept
I drive a Golf. | me.car=Golf [over] | refused
Vendemos o Golf no sábado. | me.car=Golf [over] | kept
Wir haben den Golf verkauft. | me.car=Golf [over] | kept
Vendimos el Golf ayer. | me.car=Golf [over] | kept
On a vendu la Golf hier. | me.car=Golf [over] | kept
Wir fahren den Golf am Samstag. | me.car=Golf [over] | refused
I threw away the Golf's papers. | me.car=Golf | refused
Die Feier findet am 3. Mai statt. | me.date:Feier=3. Mai [planned] | kept
Mi hermano se fue a vivir a Lima. | me.home=Lima | refused
Agora tomo 88 em vez de 75. | me.medications=75 [over] | kept
I stopped smoking. | me.smoking=smokes | refused
I never liked olives. | me.likes=olives | refused
I love olives. | me.dislikes=olives | refused
I love olives. | me.likes=olives | kept
I can't stand olives. | me.likes=olives | refused
I can't stand olives. | me.dislikes=olives | kept
I hate olives. | me.likes=olives | refused
I don't live in Porto any more. | me.home=Porto | refused
I live in Porto. | me.home=Porto [deny] | refused
I live in Porto. | me.home=Porto [over] | refused
Nils isn't 3, he's 4 already. | Nils.age=3 | refused
Nils isn't 3, he's 4 already. | Nils.age=4 | kept
I don't take citalopram any longer. | me.medications=citalopram | refused
I've never been to Oslo and don't live in Oslo. | me.home=Oslo | refused
Berlin is off the table. | me.home=Berlin | refused
I don't speak German, only Dutch. | me.languages=German | refused
We have no cat called Miso. | me.pets=Miso (cat) | refused
Mateo isn't vegan. | Mateo.diet=vegan | refused
Mateo gave up meat, he's not a meat eater. | Mateo.diet=meat | refused
My phone number is not 0151 2345. | me.phone=0151 2345 | refused
I quit my job at Bosch. | me.employer=Bosch | refused
I quit my job at Bosch. | me.employer=Bosch [over] | kept
I got laid off in March. | me.employer= [over] | kept
I work as usual in March. | me.employer= [over] | refused
Ich wohne nicht mehr in Hamburg. | me.home=Hamburg | refused
Ich esse kein Fleisch. | me.diet=Fleisch | refused
Ya no vivo en Madrid. | me.home=Madrid | refused
No soy vegetariana. | me.diet=vegetariana | refused
Je ne fume pas. | me.smoking=fume | refused
Não moro em Lisboa. | me.home=Lisboa | refused
Please no emojis. | me.emoji=none | kept
Use emojis, please. | me.emoji=none | refused
I used to live in Rome. | me.home=Rome | refused
I used to live in Rome. | me.home=Rome [past] | kept
Neither of us is allergic to pollen. | me.allergies=pollen | refused
"""

TENSE = """
We're planning to move to Oslo. | me.home=Oslo | future
We're moving to Oslo in June. | me.home=Oslo | future
We might move to Berlin. | me.home=Berlin | future
I'll join Heliox soon. | me.employer=Heliox | future
I'm going to become vegan. | me.diet=vegan | future
I want to speak Basque. | me.languages=Basque | future
I live in Porto. | me.home=Porto [planned] | current
I'm vegan. | me.diet=vegan [planned] | current
I live in Porto. | me.home=Porto [past] | current
I work at Bosch. | me.employer=Bosch [past] | current
I lived in Rome as a child. | me.home=Rome | past
I worked at Acme back then. | me.employer=Acme | past
When I was a student I drove a Polo. | me.car=Polo | past
I start at Heliox on 4 May. | me.employer=Heliox | future
Mateo is going to work at Ikea. | Mateo.employer=Ikea | future
We're thinking of getting a dog called Rex. | me.pets=Rex (dog) | future
I was vegetarian in the past. | me.diet=vegetarian | past
Ich werde nach Wien ziehen, Wien wird mein Zuhause. | me.home=Wien | future
If I lived in Lisbon I'd surf. | me.home=Lisbon | refused
I wish I lived in Lisbon. | me.home=Lisbon | refused
Imagine I worked at NASA. | me.employer=NASA | refused
I would be vegan without cheese. | me.diet=vegan | refused
I almost joined Shopify. | me.employer=Shopify | refused
Suppose we move to Bern next year. | me.home=Bern | refused
Do I like olives? Guess! | me.likes=olives | refused
Am I allergic to cats? | me.allergies=cats | refused
"""

RELATION = """
My neighbor's mother is called Ines. | me.parents=Ines | refused
My neighbor is called Ines. | me.parents=Ines | refused
My colleague Tim brought cake. | me.siblings=Tim | refused
My brother Tim brought cake. | me.siblings=Tim | kept
My brother Tim brought cake. | me.children=Tim | refused
My brother Tim brought cake. | me.partner=Tim | refused
Mateo's brother Rui came over. | me.siblings=Rui | refused
Mateo's brother Rui came over. | Mateo.siblings=Rui | kept
Mateo's brother Rui came over. | Nora.siblings=Rui | refused
My favourite restaurant is vegan. | me.diet=vegan | refused
My diet is vegan. | me.diet=vegan | kept
I had lunch with Tom. | me.partner=Tom | refused
I had lunch with Tom. | me.friends=Tom | refused
I had lunch with Tom. | me.boss=Tom | refused
My boss is called Ingrid. | me.boss=Ingrid | kept
My boss is called Ingrid. | me.partner=Ingrid | refused
My boss is called Ingrid. | me.friends=Ingrid | refused
Nora has a dog named Pip. | me.pets=Pip (dog) | refused
I visited Porto last week. | me.home=Porto | refused
I was born in Porto. | me.home=Porto | refused
We flew to Porto. | me.home=Porto | refused
My favourite city is Porto. | me.home=Porto | refused
I met someone from Siemens. | me.employer=Siemens | refused
I read about vegan food today. | me.diet=vegan | refused
I cooked peanuts for the party. | me.allergies=peanuts | refused
I ordered sushi. | me.likes=sushi | refused
I watched a film about Turin. | me.birthplace=Turin | refused
I saw an Audi crash. | me.car=Audi | refused
We heard a Portuguese song. | me.languages=Portuguese | refused
The doctor talked about ibuprofen. | me.medications=ibuprofen | refused
Her friend Lea called. | me.friends=Lea | refused
My ex Paul called. | me.partner=Paul | refused
My son's teacher is Clara. | me.children=Clara | refused
My landlord Otto came by. | me.landlord=Otto | kept
My landlord Otto came by. | me.boss=Otto | refused
"""

PASTED = """
> I live in Rome and I'm vegan. | me.home=Rome | refused
Translate this: I am 52 and allergic to cats. | me.age=52 | refused
Translate this: I am 52 and allergic to cats. | me.allergies=cats | refused
Please proofread: I work at Bosch and live in Ulm. | me.employer=Bosch | refused
He wrote "I live in Rome now" on the card. | me.home=Rome | refused
The form says “I am allergic to latex”. | me.allergies=latex | refused
User: I live in Rome | me.home=Rome | refused
Assistant: you live in Rome | me.home=Rome | refused
`home = "Rome"` is in my config. | me.home=Rome | refused
ERROR: user lives in Rome | me.home=Rome | refused
2026-03-01 12:00:01 moved home to Rome | me.home=Rome | refused
SELECT home FROM users -- I live in Rome | me.home=Rome | refused
{"home": "Rome"} | me.home=Rome | refused
From: Ann, I live in Rome | me.home=Rome | refused
Write an email: I live in Rome and hate the noise. | me.home=Rome | refused
Say: I'm vegan. | me.diet=vegan | refused
Summarize: the author lives in Rome. | me.home=Rome | refused
Übersetze: Ich wohne in Rom. | me.home=Rom | refused
Traduce: vivo en Roma. | me.home=Roma | refused
$ echo I live in Rome | me.home=Rome | refused
"""

VALUE = """
The staging server is stg-3. | -.the:staging server=stg-3 | kept
I moved to Oslo and have 3 cats. | -.the:list=cats | refused
I moved to Oslo and have 3 cats. | me.home=cats | refused
It's built with React 17. | Heron.version:React=17 | kept
It's built with React 17. | Heron.version:Vue=17 | refused
I live in Porto. | me.home=Lisbon | refused
I live in Porto. | me.home=Porto, Portugal | refused
My rent is 1,240 euros. | me.rent=1,420 euros | refused
My rent is 1,240 euros. | me.rent=1,240 euros | kept
I'm 41. | me.age=14 | refused
I'm forty-one years old. | me.age=41 | kept
I take 20 mg of citalopram. | me.medications=40 mg of citalopram | refused
I'm allergic to nuts. | me.allergies=walnuts | refused
Use lena@example.org from now on. | me.email=lena@example.com | refused
Use lena@example.org as my mail from now on. | me.email=lena@example.org | kept
I work at Kestrel. | me.employer=Kestrel Labs | refused
Our cat is called Miso. | me.pets=Tofu (cat) | refused
Our cat is called Miso. | me.pets=Miso (cat) | kept
I'm a nurse. | me.role=doctor | refused
I'm a nurse. | me.role=nurse | kept
asked: Are you vegetarian? Yes, I am. | me.diet=vegetarian | kept
asked: Are you vegetarian? No, I'm not. | me.diet=vegetarian | refused
asked: Where do you live? Leeds. | me.home=Leeds | kept
asked: Where do you live? Leeds. | me.home=York | refused
The staging server is stg-3. | -.the:staging server=stg-3 | kept
The staging server is stg-3. | -.the:staging server=stg-2 | refused
The release is on 10 April. | -.date:release=10 April [planned] | kept
The release is on 10 April. | -.date:release=11 April [planned] | refused
From now on, answer in English. | me.answer_language=English | kept
Antworte mir bitte auf Deutsch. | me.answer_language=German | kept
Antworte mir bitte auf Deutsch. | me.answer_language=French | refused
"""

GROUPS = {
    "person": PERSON,
    "answers": ANSWERS,
    "polarity": POLARITY,
    "tense": TENSE,
    "relation": RELATION,
    "pasted": PASTED,
    "value": VALUE,
}
_LINE = re.compile(
    r"(?:asked: (?P<asked>[^?]*\?) )?(?P<text>.+) \| (?P<about>[^.|]+)\.(?P<slot>[^=|]+)=(?P<value>.*?)"
    r"(?: \[(?P<op>over|deny)\])?(?: \[(?P<tense>planned|past)\])? \| (?P<wanted>\w+)"
)


@dataclass(frozen=True, slots=True)
class ClaimCase:
    """One claim of a turn."""

    group: str
    line: str
    asked: str
    text: str
    about: str
    slot: str
    value: str
    op: str
    tense: str
    wanted: str


def list_cases() -> Iterator[ClaimCase]:
    """Every case, in order."""
    for group, lines in GROUPS.items():
        for line in lines.strip().splitlines():
            found = _LINE.fullmatch(line)
            assert found is not None, line
            said = {name: value or "" for name, value in found.groupdict().items()}
            said |= {"op": said["op"] or "is", "tense": said["tense"] or "current", "value": said["value"].strip()}
            yield ClaimCase(group=group, line=line, **said)
