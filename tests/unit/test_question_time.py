"""The moment that a question is about, in five languages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agentmem.text.question_time import parse_question_time

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)

QUESTIONS = {
    "now": [
        "Where do I live?",
        "What's my phone number?",
        "my current employer",
        "Which day is choir practice?",
        "How much do I pay for the gym?",
        "How old am I?",
        "What do I need to pack before the trip?",
        "Wo wohne ich?",
        "Wie heißt mein Chef?",
        "¿Dónde vivo?",
        "¿Cuál es mi número?",
        "Où est-ce que j'habite ?",
        "Quel est mon numéro ?",
        "Onde eu moro?",
        "Qual é o meu plano de telefone?",
    ],
    "before": [
        "Where did I live before?",
        "Where did I use to work before Acme?",
        "What was my previous number?",
        "Who is my former boss?",
        "What is my old address?",
        "What car did I drive before the Honda?",
        "Wo habe ich früher gewohnt?",
        "Wer war damals mein Chef?",
        "¿Dónde vivía antes?",
        "¿Cuál era mi número anterior?",
        "Où est-ce que j'habitais avant ?",
        "Qui était mon ancien patron ?",
        "Onde eu morava antes?",
        "Qual era o meu número anterior?",
    ],
    "first": ["What was the original budget?", "What was my first phone?", "Was war ursprünglich der Plan?"],
    "at": [
        "Where did I live in February 2026?",
        "Where did I work in 2024?",
        "What was the price in March?",
        "Where did I live two months ago?",
        "Which phone did I have last year?",
        "What was the deadline on 3 June 2026?",
        "¿Dónde vivía en febrero de 2026?",
        "Wo habe ich im Februar 2026 gewohnt?",
        "Où est-ce que j'habitais en février 2026 ?",
        "Onde eu morava em fevereiro de 2026?",
    ],
    "always": [
        "On 20 June, who did I talk to on the phone while driving to work, and what was it about?",
        "In July 2025, over tea with a colleague, I mentioned that an old friend had some trouble of his own.",
        "In March, which morning did I meet Ann?",
        "Why did I leave Acme?",
        "What did I buy in May 2026?",
        "What did the doctor say?",
        "Should I take the job?",
        "Summarize my trip to Rome",
        "How has my rent changed?",
        "Have I ever been to Kyoto?",
        "What happened at the wedding?",
        "Warum bin ich umgezogen?",
        "¿Qué dijo el médico?",
        "Qu'est-ce que le médecin a dit hier soir, et pourquoi ?",
        "O que o médico disse?",
    ],
}


@pytest.mark.parametrize("text, moment", [(text, moment) for moment, texts in QUESTIONS.items() for text in texts])
def test_the_moment_of_a_question(text: str, moment: str) -> None:
    assert parse_question_time(text, NOW).moment == moment


@pytest.mark.parametrize(
    "text, start, end",
    [
        ("Where did I live in February 2026?", (2026, 2, 1), (2026, 3, 1)),
        ("What was the price in March?", (2026, 3, 1), (2026, 4, 1)),
        ("What was the price in December?", (2025, 12, 1), (2026, 1, 1)),
        ("Where did I work in 2024?", (2024, 1, 1), (2025, 1, 1)),
        ("What was the deadline on 3 June 2026?", (2026, 6, 3), (2026, 6, 4)),
        ("Which phone did I have last year?", (2025, 1, 1), (2026, 1, 1)),
    ],
)
def test_the_span_of_a_question(text: str, start: tuple[int, int, int], end: tuple[int, int, int]) -> None:
    asked = parse_question_time(text, NOW)
    assert (asked.start, asked.end) == (datetime(*start, tzinfo=UTC), datetime(*end, tzinfo=UTC))


def test_a_day_to_come_is_asked_for_as_now() -> None:
    assert parse_question_time("What am I doing on 3 January 2027?", NOW).moment == "now"


def test_what_comes_after_before_is_told() -> None:
    assert parse_question_time("Where did I work before Acme?", NOW).named == "Acme"
