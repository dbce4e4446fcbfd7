"""What counts as asking an agent for something for good, and what only looks like it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.extraction.standing_instructions import ExtractedInstruction, extract_instructions
from agentmem.text.normalization import hash_instruction, normalize_instruction

STANDING = {
    "Always answer in metric units.": "Always answer in metric units",
    "From now on, answer in French.": "Answer in French",
    "from now on please reply in short sentences": "Reply in short sentences",
    "Never use tabs in my Python code!": "Never use tabs in my Python code",
    "You should always cite your sources.": "Always cite your sources",
    "I'm vegetarian, so never suggest meat dishes.": "Never suggest meat dishes",
    "Make sure to always run the tests before you commit.": "Always run the tests before you commit",
    "Remember to always double-check the figures.": "Always double-check the figures",
    "Please never share my address with anyone.": "Never share my address with anyone",
    "Keep your answers short from now on.": "Keep your answers short",
    "Use British spelling in all reports going forward.": "Use British spelling in all reports",
    "Going forward, don't mention my ex.": "Do not mention my ex",
    "Call me Ann from now on, please.": "Call me Ann",
    "Hey, from now on please end every message with a summary, thanks!": "End every message with a summary",
    "Don\u2019t ever send emails without my approval.": "Never send emails without my approval",
    "I want you to always explain your reasoning.": "Always explain your reasoning",
    "Thanks! In the future, no bullet points please.": "No bullet points",
    "Always be concise.": "Always be concise",
}
ONCE = {
    "Please don't use emojis.": "Do not use emojis",
    "Stop using bullet points, please.": "Stop using bullet points",
    "I'd like you to call me Bob.": "Call me Bob",
    "I told you to use metric units.": "Use metric units",
    "I asked you not to use emojis.": "Do not use emojis",
    "No emojis, please.": "No emojis",
    "No more bullet points.": "No more bullet points",
    "Avoid using jargon.": "Avoid using jargon",
}
WITH_TRIGGER = {
    "When I ask for code, always include type hints.": ("Always include type hints", "when i ask for code"),
    "Whenever you write Python, add type hints.": ("Add type hints", "whenever you write python"),
    "Always add type hints when you write Python.": ("Always add type hints", "when you write python"),
    "Every time I send a draft, check the spelling.": ("Check the spelling", "every time i send a draft"),
}
ENDED = {
    "You no longer need to add a summary.": "add a summary",
    "You don't need to sign your messages anymore.": "sign your messages",
    "You can stop adding emojis now.": "adding emojis",
    "I no longer want you to send daily summaries.": "send daily summaries",
    "You can use emojis again.": "Never use emojis",
    "Stop doing that.": "",
    "Please don't do that again.": "",
}
TRAPS = [
    "I always eat breakfast at eight.",
    "We never use tabs at work.",
    "He never answers in French.",
    "Always a pleasure!",
    "Always happy to help.",
    "Never give up!",
    "Never say never.",
    "Never mind, use the other one.",
    "Could you always answer in French?",
    "Should I always use metric units?",
    "Why do you never cite your sources?",
    "My boss said to always reply within an hour.",
    "She told me to never share passwords and always use a vault.",
    '"Always answer in rhyme," said the poet.',
    "Translate this sentence: from now on, answer in French.",
    "The motto goes: always check the sources.",
    "> From now on, answer in French.",
    "Maybe you should always cite sources.",
    "I wish you would always answer in French.",
    "Let's always use metric units.",
    "Just kidding, always answer in rhyme.",
    "From now on I work in Oslo.",
    "From now on, Ann leads the team.",
    "In the future robots will always use lasers.",
    "I try to eat well and always use olive oil.",
    "I like salt but never add sugar.",
    "Don't always use tables.",
    "Don't worry about it.",
    "Please don't hesitate to ask.",
    "No problem, please continue.",
    "Translate the letter to German.",
    "Please use this format.",
    "Don't send that today.",
    "If you can, use the blue one.",
    "I want you to meet my wife.",
    "Make sure you send the mail to Bob.",
    "Always look on the bright side of life.",
    "You can use the blue one.",
    "Imagine you always answer in French.",
    "Suppose that from now on you reply in German.",
    "I no longer need to add a summary.",
    "",
]


def one(text: str) -> ExtractedInstruction:
    (found,) = extract_instructions(text)
    return found


@pytest.mark.parametrize("text", STANDING)
def test_standing_orders_are_read(text: str) -> None:
    assert one(text) == ExtractedInstruction(STANDING[text], is_standing=True)


@pytest.mark.parametrize("text", ONCE)
def test_what_is_asked_for_once_is_read(text: str) -> None:
    assert one(text) == ExtractedInstruction(ONCE[text])


@pytest.mark.parametrize("text", WITH_TRIGGER)
def test_what_holds_on_an_occasion_names_it(text: str) -> None:
    found = one(text)
    assert (found.instruction, found.trigger.lower(), found.is_standing) == (*WITH_TRIGGER[text], True)


@pytest.mark.parametrize("text", ENDED)
def test_what_is_asked_no_longer_ends(text: str) -> None:
    assert one(text) == ExtractedInstruction(ENDED[text], is_revocation=True)


@pytest.mark.parametrize("text", TRAPS)
def test_what_only_looks_like_an_order_is_none(text: str) -> None:
    assert extract_instructions(text) == []


def test_there_are_enough_cases_and_a_third_of_them_are_traps() -> None:
    cases = len(STANDING) + len(ONCE) + len(WITH_TRIGGER) + len(ENDED)
    assert cases + len(TRAPS) >= 40
    assert 3 * len(TRAPS) >= cases + len(TRAPS)


def test_several_orders_in_one_turn_are_each_read() -> None:
    found = extract_instructions(
        "Thanks. Always cite your sources, and never use emojis. Is that clear? Stop doing that."
    )
    assert [order.instruction for order in found] == ["Always cite your sources", "Never use emojis", ""]


@pytest.mark.parametrize(
    "first, second",
    [
        ("Always answer in French.", "From now on, answer in French, please"),
        ("Never use emojis", "don't use emojis"),
        ("Never use emojis", "Stop using emojis!"),
        ("Use 2 decimals", "Always use 2 decimals"),
    ],
)
def test_the_same_instruction_in_other_clothes_has_one_hash(first: str, second: str) -> None:
    assert hash_instruction(first) == hash_instruction(second)


@pytest.mark.parametrize(
    "first, second",
    [
        ("Always use emojis", "Never use emojis"),
        ("Answer with tables", "Answer without tables"),
        ("Use 2 decimals", "Use 3 decimals"),
        ("Answer in French", "Answer in German"),
    ],
)
def test_polarity_numbers_and_objects_tell_instructions_apart(first: str, second: str) -> None:
    assert hash_instruction(first) != hash_instruction(second)


def test_a_trigger_is_part_of_the_hash() -> None:
    assert hash_instruction("Add type hints", "when I ask for code") != hash_instruction("Add type hints")


@settings(max_examples=25)
@given(st.text(max_size=300))
def test_any_text_can_be_read_and_whatever_is_found_stands_in_it(text: str) -> None:
    normalize_instruction(text)
    for order in extract_instructions(text):
        assert order.instruction or order.is_revocation


OPENINGS = [
    "",
    "Hey, ",
    "Please ",
    "From now on, ",
    "Thanks! ",
    "always ",
    "never ",
    "don't ",
    "stop ",
    "He said ",
    '"',
]
BODIES = [
    "answer in French",
    "using emojis",
    "use 3 decimals",
    "give up",
    "call me Bob",
    "I eat fish",
    "that",
    "it's ok",
]
ENDINGS = ["", ".", "!", "?", " please", " from now on.", " when I ask for code.", ' " he said', " anymore"]


@settings(max_examples=25)
@given(st.lists(st.tuples(*map(st.sampled_from, (OPENINGS, OPENINGS, BODIES, ENDINGS))), min_size=1, max_size=4))
def test_orders_are_worded_as_they_were_said(parts: list[tuple[str, ...]]) -> None:
    text = " ".join("".join(part) for part in parts)
    said = {word.strip('.,!?"') for word in text.lower().replace("don't", "do not").split()}
    for order in extract_instructions(text):
        assert set(order.instruction.lower().split()) <= said | {"never", "always"}


@settings(max_examples=25)
@given(st.tuples(*map(st.sampled_from, (OPENINGS, OPENINGS, BODIES))))
def test_a_question_is_no_order(parts: tuple[str, ...]) -> None:
    assert extract_instructions("".join(parts) + "?") == []
