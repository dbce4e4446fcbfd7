"""Numbers of claims, in one form."""

from __future__ import annotations

from agentmem.text.normalization import claimed_numbers, comparable_numbers, quotable_numbers, rewrite_numbers


def test_numbers_are_compared_in_one_form_and_in_their_order() -> None:
    text = "One of 21 runs of twenty-five hundred steps, her second, took 2.50 hours at 5k, once"
    assert comparable_numbers(text) == ["1", "21", "2500", "2", "2.5", "5000", "1"]
    assert claimed_numbers(text) == {"21", "2500", "2.5", "5"}
    assert {"5", "5000", "2", "1"} <= quotable_numbers(text)
    assert comparable_numbers("") == []
    assert rewrite_numbers("5k, 5,000 and two hundred and forty of 0123") == "5000, 5000 and 240 of 0123"
