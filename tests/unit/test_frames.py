"""What frames read from single turns: English as people type it, four more languages, and what they leave alone."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.extraction.frames.frame_set import LANGUAGES, load_frames
from agentmem.extraction.frames.plain_text import split_plain_sentences
from agentmem.extraction.frames.reader import FrameReader
from tests.unit.talk_cases import NOW, PEOPLE, count_claims, describe


def read(text: str, asked: str = "", people: tuple[str, ...] = ()) -> list[str]:
    """The claims of a turn as `subject.slot=value` with their marks."""
    return sorted(map(describe, FrameReader(people).read(text, NOW, asked)))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("I'm Ola Berg, call me Ola.", ["user.call_me=Ola", "user.name=Ola Berg"]),
        ("I live in Leeds.", ["user.home=Leeds"]),
        ("i live in leeds", ["user.home=leeds"]),
        ("im living in leeds atm", ["user.home=leeds"]),
        ("We've lived in Ghent since 2015.", ["user.home=Ghent"]),
        ("I used to live in Rome.", ["user.home=Rome over"]),
        ("I lived in Rome as a child.", ["user.home=Rome past"]),
        ("I don't live in Rome any more.", ["user.home=Rome over"]),
        ("I no longer live in Rome, I moved to Milan.", ["user.home=Milan change", "user.home=Rome over"]),
        ("we moved to hull last week", ["user.home=hull change"]),
        ("We're moving to Bergen in May.", ["user.home=Bergen planned"]),
        ("I might move to Spain.", ["user.home=Spain planned unsure"]),
        ("We're not moving to Bergen.", ["user.home=Bergen planned over"]),
        ("I work for Ikea as a carpenter.", ["user.employer=Ikea", "user.role=carpenter"]),
        ("I've started at Lidl.", ["user.employer=Lidl change"]),
        ("I got sacked in January", ["user.employer= over"]),
        ("I'm a plumber by trade", ["user.role=plumber"]),
        ("I'm 52 now", ["user.age=52 change"]),
        ("I'm allergic to eggs and milk.", ["user.allergies=eggs", "user.allergies=milk"]),
        ("I'm not allergic to eggs.", ["user.allergies=eggs deny"]),
        ("I'm vegan.", ["user.diet=vegan"]),
        ("I'm not a vegetarian any more", ["user.diet=vegetarian over"]),
        ("I have asthma", ["user.conditions=asthma"]),
        ("I quit smoking in 2019", ["user.smoking=smokes over"]),
        ("packed in smokin years ago", ["user.smoking=smokes over"]),
        ("I hate cucumber.", ["user.dislikes=cucumber"]),
        ("I don't like cucumber", ["user.dislikes=cucumber"]),
        ("My favorite film is Alien.", ["user.favourite:film=Alien"]),
        ("my number is 07700 900123", ["user.phone=07700 900123"]),
        ("My brother Sam lives in Cork.", ["Sam.home=Cork", "user.siblings=Sam"]),
        ("My new boss is called Ines.", ["user.boss=Ines change"]),
        ("Ines is my boss now.", ["user.boss=Ines change"]),
        ("We have a dog called Rex.", ["user.pets=Rex (dog)"]),
        ("My son Leo isn't 7, he's 8.", ["Leo.age=8 correct", "user.children=Leo"]),
        ("We sold the Fiesta.", ["user.car=Fiesta over"]),
        ("The wedding is on 4 July.", ["-.date:wedding=4 July planned"]),
        ("I always take the aisle seat", ["user.seat=aisle"]),
        ("Please answer in French from now on.", ["user.answer_language=French"]),
        ("no emojis please", ["user.emoji=none"]),
        ("We upgraded billing from Django 4 to Django 5.", ["billing.version:Django=5 change"]),
        ("the api url is api.example.org, not api.example.com", ["-.the:api url=api.example.org correct"]),
    ],
)
def test_english(text: str, expected: list[str]) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Ich heiße Jana Roth.", ["user.name=Jana Roth"]),
        ("Ich wohne in Kassel.", ["user.home=Kassel"]),
        ("Wir wohnen jetzt in Jena.", ["user.home=Jena change"]),
        ("Ich bin 44 Jahre alt.", ["user.age=44"]),
        ("Ich arbeite bei Bosch.", ["user.employer=Bosch"]),
        ("Ich arbeite nicht mehr bei Bosch.", ["user.employer=Bosch over"]),
        ("Ich arbeite als Tischler.", ["user.role=Tischler"]),
        ("Ich bin gegen Erdnüsse allergisch.", ["user.allergies=Erdnüsse"]),
        ("Ich bin jetzt Vegetarier.", ["user.diet=Vegetarier change"]),
        ("Meine Nummer ist 0171 5551234.", ["user.phone=0171 5551234"]),
        ("Meine Schwester heißt Lotte.", ["user.siblings=Lotte"]),
        ("Antworte bitte auf Englisch.", ["user.answer_language=English"]),
        ("Me llamo Inés Vega.", ["user.name=Inés Vega"]),
        ("Vivo en Bilbao.", ["user.home=Bilbao"]),
        ("Ya no vivo en Bilbao.", ["user.home=Bilbao over"]),
        ("Nos mudamos a Vigo.", ["user.home=Vigo change"]),
        ("Tengo 29 años.", ["user.age=29"]),
        ("Trabajo en Inditex.", ["user.employer=Inditex"]),
        ("Trabajo como enfermera.", ["user.role=enfermera"]),
        ("Soy alérgico al marisco.", ["user.allergies=marisco"]),
        ("Soy vegana.", ["user.diet=vegana"]),
        ("Mi número es 600 123 456.", ["user.phone=600 123 456"]),
        ("Mi hermano se llama Pablo.", ["user.siblings=Pablo"]),
        ("Responde siempre en español.", ["user.answer_language=Spanish"]),
        ("J'habite à Lille.", ["user.home=Lille"]),
        ("Je ne fume plus.", ["user.smoking=smokes over"]),
        ("Je suis allergique aux noix.", ["user.allergies=noix"]),
        ("Moro em Recife.", ["user.home=Recife"]),
        ("Sou vegetariana.", ["user.diet=vegetariana"]),
    ],
)
def test_other_languages(text: str, expected: list[str]) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    "asked, text, expected",
    [
        ("Are you vegan?", "Yes, I am.", ["user.diet=vegan"]),
        ("Are you still vegan?", "nope", ["user.diet=vegan deny"]),
        ("Where do you live?", "leeds", ["user.home=leeds"]),
        ("Thanks! And where do you work?", "at Lidl", ["user.employer=Lidl"]),
        ("Any allergies?", "peanuts", ["user.allergies=peanuts"]),
        ("Any allergies?", "no", []),
        ("How old are you?", "61", ["user.age=61"]),
        ("Do you smoke?", "aye", ["user.smoking=smokes"]),
        ("Do you want a list?", "yes", []),
        ("Shall I book it?", "Leeds", []),
        ("You live in Leeds.", "yes", []),
    ],
)
def test_a_short_answer_is_read_with_its_question(asked: str, text: str, expected: list[str]) -> None:
    assert read(text, asked) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Do I live in Rome?",
        "If I lived in Rome I'd be happy.",
        "I would move to Rome.",
        "I wish I lived in Rome.",
        'My aunt wrote: "I live in Rome."',
        'Translate this: "I am 52 and allergic to cats."',
        "Write an email: I live in Rome and I work at Lidl.",
        "```\nI live in Rome\n```",
        "> I live in Rome",
        "2026-03-01T10:00:00 INFO I live in Rome",
        "I live in Rome. Just kidding!",
        "Pretend I live in Rome.",
        "A question for a friend: I live in Rome, what now?",
        "Ben says I live in Rome.",
        "I moved to the fridge lol",
        "I live in fear.",
        "I love it when the build breaks.",
        "I love films that make me cry.",
        "Her mother lives in Rome.",
        "My neighbor lives in Rome.",
        "She lives in Rome.",
        "The PIN is 1234, but don't remember that.",
        "Remind me never to move to Rome.",
        "I move a lot.",
        "Sounds like fun! Their love gives me strength.",
        "Some sports, like golf, are fun.",
        "I stay in shape by running.",
        "I love going on trips with friends.",
        "We loved exploring the park, it was great.",
        "I joined the classes to find people.",
        "I'll enjoy writing them.",
        "I have worked with Python.",
        "Here's my horse painting.",
    ],
)
def test_nothing_is_better_than_a_guess(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "I'm off to go climbing soon, later!",
        "Veggies are his favorite.",
        "Love is a funny thing.",
        "Moving forward, we test more.",
        "Taking notes in class helps.",
        "I need to let go of it.",
        "He fired the clay twice.",
        "On step 4 I was stuck.",
        "I took a 15-minute nap.",
        "They will call me any time soon.",
        "I lost my umbrella.",
        "My favorite picture is one of the sea.",
        "We joined the running club.",
        "I'm 92.5% sure.",
        "The list has actors born in Madrid.",
        "Mrs Lowe is married and has 2 children, Tim (3) and Tom (5).",
        "There were cakes and drinks, as always.",
        "He runs on September 9 again.",
        "Being self-employed is hard.",
        "Her letter has a less formal tone.",
        "They write in British English.",
        "The second path is noted.",
        "name: Paul\nhome: Kiel\nage: 30",
        "10:14:03 I live in Kiel",
        "ERROR: my name is Paul",
        "$ echo I live in Kiel",
        "User: I live in Kiel",
        "Here is the mail:\nI live in Kiel and I work at Lidl.",
        "Dear Anna,\nI moved to Kiel last week.\nBest,\nPaul",
        "Meine Nachbarin wohnt in Kiel.",
        "Wenn ich in Kiel wohnen w\u00fcrde, w\u00e4re ich froh.",
        "Si viviera en Vigo, iría al mar.",
        "Anna dice que vivo en Vigo.",
        "\u00dcbersetze das: Ich wohne in Kiel.",
    ],
)
def test_words_that_only_look_like_a_claim_are_left_alone(text: str) -> None:
    assert [each for each in read(text, people=("Anna",)) if not each.endswith("known")] == []


@pytest.mark.parametrize("name", PEOPLE)
def test_people_are_read_as_they_type(name: str) -> None:
    count = count_claims(name)
    assert count["right"] >= 0.93 * count["expected"]
    assert count["wrong"] <= 0.03 * count["read"]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("My sister moved to Bonn.", ["Ida.home=Bonn change"]),
        ("Mum's operation is on 3 May.", ["Eva.date:operation=3 May planned"]),
        ("my brother lives in Bonn", []),  # nobody told who that is
        ("Ida's wedding has been moved to 4 July.", ["Ida.date:wedding=4 July planned"]),
        ("My mother is having a hip operation on 3 May.", ["Eva.date:hip operation=3 May planned"]),
        ("Vidal is the best.", []),
        ("Pedro moved to Bonn.", ["Pedro Vidal.home=Bonn change"]),
    ],
)
def test_a_word_for_somebody_means_who_is_known_by_it(text: str, expected: list[str]) -> None:
    reader = FrameReader(("Ida", "Eva", "Pedro Vidal"), {"sister": "Ida", "mum": "Eva"})
    assert [describe(each) for each in reader.read(text, NOW)] == expected


def test_a_flight_that_moved_is_the_one_spoken_of_last() -> None:
    reader = FrameReader()
    assert [describe(each) for each in reader.read("The flight got changed to 3 May.", NOW)] == [
        "user.flight:?=3 May planned"
    ]
    reader.read("My flight to Faro is on 2 May.", NOW)
    assert [each.slot for each in reader.read("It moved. My flight is now on 3 May.", NOW)] == ["flight:Faro"]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1. The capital of Norway is Oslo.", "Norway about:capital Oslo"),
        ("2) Ann Lee was born in the city of Paris", "Ann Lee about:born in the city of Paris"),
        ("3. Tom Cole plays the position of goalkeeper.", "Tom Cole about:plays the position of goalkeeper"),
        ("4. The author of House of Cards is Mia Dobbs.", "House of Cards about:author Mia Dobbs"),
        ("5. Jane Roe was educated at University of Oxford", "Jane Roe about:educated at University of Oxford"),
        ("6. The origin of basketball is Canada", "basketball about:origin Canada"),
        ("7. Tom Cole's child is Ina Cole", "Tom Cole about:child Ina Cole"),
        ("8. Python 3 was released in 2008", "Python 3 about:released in 2008"),
        ("9. Tom Cole works for Acme Corp", "Tom Cole employer Acme Corp"),
        ("9. Tom Cole works for Ember and Sons", "Tom Cole employer Ember and Sons"),
        ("10. I live in Leeds", "user home Leeds"),
        ("11. Use the blue paint for the door", ""),
        ("12. Is the capital of Norway Oslo?", ""),
        ("13. Buy milk", ""),
        ("The capital of Norway is Oslo.", ""),
    ],
)
def test_a_point_of_a_numbered_list_says_its_relation(text: str, expected: str) -> None:
    assert [f"{each.subject} {each.slot} {each.value}" for each in FrameReader().read(text, NOW)] == (
        [expected] if expected else []
    )


def test_a_day_that_a_year_lacks_is_no_error() -> None:
    leap = datetime(2028, 2, 29, 10, tzinfo=UTC)
    assert read("The exam is on 29 February.") == ["-.date:exam=29 February planned"]
    assert [each.since for each in FrameReader().read("The exam is on 29 February.", leap)] == [
        datetime(2028, 2, 29, tzinfo=UTC)
    ]
    assert FrameReader().read("I live in Rome.", leap.replace(tzinfo=None))


def test_a_pronoun_means_the_only_person_named() -> None:
    reader = FrameReader(("Nora", "Ida"))
    reader.read("Nora called.", NOW)
    assert [(each.subject, each.value) for each in reader.read("She lives in Graz.", NOW)] == [("Nora", "Graz")]
    reader.read("Nora and Ida called.", NOW)
    assert reader.read("She lives in Bonn.", NOW) == []


def test_a_span_is_the_stretch_of_the_turn() -> None:
    text = "Well, hello! I\u2019m living in  Porto these days."
    (claim,) = FrameReader().read(text, NOW)
    assert text[slice(*claim.span)].startswith("I\u2019m living") or "living in  Porto" in text[slice(*claim.span)]
    assert claim.value == "Porto"


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for claim in FrameReader(("Nora",)).read(text, NOW, "Where do you live?"):
        assert 0 <= claim.span[0] <= claim.span[1] <= len(text)
    for sentence in split_plain_sentences(text):
        assert len(sentence.plain) == len(sentence.offsets)


def test_every_language_compiles() -> None:
    assert all(load_frames(language).phrases for language in LANGUAGES)


@pytest.mark.parametrize(
    "text",
    [
        "what do I reply to this?\n\nI'm 58 and my wife and I live in Hobart now.",
        "paste of the mail, too long?\n\nHello all. I moved to Lille. I am vegan.",
        "qu\u00e9 contesto a esto\n\nDear Ines, I have ADHD and I live in Bergen. Yours, Sigrid",
        "fixed it\n\ncommit 5d0be12\nAuthor: Tom W.\n    I am vegan now and I moved to Lille",
        "Reviewer #2:\nI am 61 and I live in Oslo.",
        "My plan:\n1. **Power**: The light is a big headache.\n2. **Name**: The yard is at Leeds.",
        "1. Discussed the plan with Ann at Mario.\n2. Every Saturday the focus is on Circuits.",
    ],
)
def test_what_is_handed_over_and_plans_with_numbers_are_left_alone(text: str) -> None:
    assert read(text) == []


def test_the_author_speaks_again_after_what_is_handed_over() -> None:
    text = "is this ok?\n\nDear all, I live in Hobart.\n\nmy number is 0151 2345678 now"
    assert [
        claim.split("=")[0] for claim in read("can you check this mail\n\nI live in Hobart.\n\nmy rent is 900 euros")
    ] == ["user.rent"]
    assert all("Hobart" not in claim for claim in read(text))


def test_a_question_that_goes_on_asks_what_was_asked_before() -> None:
    reader = FrameReader()
    reader.read("nuts for her", NOW, "Any allergies in the house?")
    assert [describe(claim) for claim in reader.read("latex. brings us out in lumps", NOW, "Ha. And you?")] == [
        "user.allergies=latex"
    ]


def test_a_fragment_after_a_question_about_somebody_is_about_them() -> None:
    reader = FrameReader(["Jean"])
    assert [describe(claim) for claim in reader.read("diabetic, poor thing", NOW, "How is Jean keeping?")] == [
        "Jean.conditions=diabetic"
    ]


def test_im_in_a_german_sentence_is_not_i_am() -> None:
    assert read("ich wohne in Graz, im Lend, seit vier Jahren") == ["user.home=Graz"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_for_somebody_is_a_plain_word(language: str) -> None:
    """Phrases look their slot up by the word as it was said."""
    assert [noun for noun in load_frames(language).nouns if not re.fullmatch(r"[\w' .-]+", noun)] == []
