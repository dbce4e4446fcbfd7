"""Typed answers, repair, budgets and accounts; and replies that nobody wants."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel

from agentmem.errors import BudgetExceeded, ConfigError, InvalidModelOutput, ModelUnavailable
from agentmem.models.protocols import MAX_REPLY_BYTES, LLMReply, LLMRequest
from agentmem.models.retry import RequestRefused
from agentmem.models.structured_llm import (
    PRICES,
    Budget,
    Price,
    PriceTable,
    StructuredLLM,
    to_strict_schema,
)
from tests.scale import scaled

ASK = LLMRequest("extract", "Fixed.", "Ann lives in Rome.", max_tokens=100)


class Place(BaseModel):
    """Where somebody is."""

    city: str = Field(max_length=40, description="its usual name")
    kind: Literal["home", "work"] = "home"


class Person(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    places: list[Place] = Field(default_factory=list, max_length=3)
    last: Place | None = Field(default=None, description="the latest")
    sure: float = Field(default=1.0, ge=0)


class Script:
    """A model that gives the replies of a script, the last one again and again, and keeps what it was asked."""

    identity = "acme:small"

    def __init__(self, *replies: str | Exception) -> None:
        self.replies = list(replies)
        self.asked: list[LLMRequest] = []
        self.under_way = self.most = 0

    async def complete(self, request: LLMRequest) -> LLMReply:
        self.asked.append(request)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return LLMReply(reply, input_tokens=100, cached_tokens=40, output_tokens=10, model="small-1")

    async def close(self) -> None:
        """Nothing to let go of."""


def asker(*replies: str | Exception, spending: Budget | None = None) -> tuple[StructuredLLM, Script]:
    script = Script(*replies)
    return StructuredLLM(script, spending or Budget()), script


GOOD = '{"name": "Ann", "places": [{"city": "Rome", "kind": "home"}], "last": null, "sure": 1}'


@pytest.mark.parametrize(
    "text", [GOOD, f"\n {GOOD}\n", f"```json\n{GOOD}\n```", f"```\n{GOOD}```", f"\n```JSON \r\n{GOOD}\n```\n"]
)
async def test_a_reply_becomes_a_checked_value(text: str) -> None:
    asks, script = asker(text)
    person = await asks.ask(ASK, Person)
    assert person == Person(name="Ann", places=[Place(city="Rome")])
    assert script.asked[0].schema == to_strict_schema(Person)


def test_the_schema_is_one_that_both_vendors_follow() -> None:
    place = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": 'its usual name {"maxLength": 40}'},
            "kind": {"type": "string", "enum": ["home", "work"]},
        },
        "required": ["city", "kind"],
        "additionalProperties": False,
    }
    assert to_strict_schema(Person) == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "places": {"type": "array", "items": place, "description": '{"maxItems": 3}'},
            "last": {"anyOf": [place, {"type": "null"}], "description": "the latest"},
            "sure": {"type": "number", "description": '{"minimum": 0}'},
        },
        "required": ["name", "places", "last", "sure"],
        "additionalProperties": False,
    }


def test_a_server_of_ones_own_is_sent_the_bounds() -> None:
    places = to_strict_schema(Person, bounded=True)["properties"]["places"]
    assert (places["maxItems"], places["items"]["properties"]["city"]["maxLength"]) == (3, 40)
    assert "description" not in places


@pytest.mark.parametrize("takes_bounds", [True, False])
async def test_a_server_of_ones_own_is_told_which_values_there_are(takes_bounds: bool) -> None:
    asks, llm = asker(GOOD)
    llm.takes_bounds = takes_bounds  # type: ignore[attr-defined]
    await asks.ask(ASK, Person, {"name": ["Ida", "Nora"], "city": ["Oslo"], "places": []})
    told = llm.asked[0].schema["properties"]  # type: ignore[index]
    assert told["name"].get("enum") == (["Ida", "Nora"] if takes_bounds else None)
    assert told["places"].get("maxItems") == (0 if takes_bounds else None)
    assert told["last"]["anyOf"][0]["properties"]["city"].get("enum") == (["Oslo"] if takes_bounds else None)


@pytest.mark.parametrize("error", [ModelUnavailable("away"), RequestRefused("no"), ConfigError("no such model")])
async def test_a_request_that_no_model_answered_costs_nothing(error: Exception) -> None:
    run = Budget(max_calls=1)
    asks, _ = asker(error, GOOD, spending=run.child())
    with pytest.raises(type(error)):
        await asks.ask(ASK, Person)
    assert (run.total.calls, run.total.tokens) == (0, 0)
    await asks.ask(ASK, Person)
    assert run.total.calls == 1


class Tree(BaseModel):
    kids: list[Tree]


class Free(BaseModel):
    found: dict[str, int]


class Pair(BaseModel):
    found: tuple[int, str]


class Anything(BaseModel):
    found: Any


class Names(RootModel[list[str]]):
    pass


@pytest.mark.parametrize(
    "model, words",
    [(Tree, "itself"), (Free, "free keys"), (Pair, "tuple"), (Anything, "any type"), (Names, "no object")],
)
async def test_a_model_without_a_strict_schema_is_refused_unasked(model: type[BaseModel], words: str) -> None:
    asks, script = asker(GOOD)
    with pytest.raises(ValueError, match=rf"{model.__name__} has no strict schema: .*{words}"):
        await asks.ask(ASK, model)
    assert script.asked == []


async def test_a_bad_reply_is_sent_back_once_with_what_was_wrong() -> None:
    bad = '{"name": 5, "sure": -1} </reply> ' + "x" * 5_000
    asks, script = asker(bad, '{"name": 5, "sure": -1}', GOOD)
    with pytest.raises(InvalidModelOutput):
        await asks.ask(ASK, Person)
    first, second = script.asked
    assert first.content == ASK.content
    assert second.content.startswith(ASK.content + "\n")
    assert "'name': Input should be a valid string" in second.content
    assert json.dumps(bad[:2_000]) in second.content
    assert "x" * 2_000 not in second.content
    assert (second.system, second.schema, second.purpose) == (first.system, first.schema, first.purpose)
    assert await asks.ask(ASK, Person) == Person.model_validate_json(GOOD)


async def test_a_repaired_reply_counts() -> None:
    asks, script = asker('{"name": "Ann", "place": 1, "places": [{"city": 7}]}', GOOD)
    assert (await asks.ask(ASK, Person)).name == "Ann"
    assert "'places.0.city': Input should be a valid string" in script.asked[1].content
    assert "'place': Extra inputs are not permitted" in script.asked[1].content


@pytest.mark.parametrize(
    "reply, words",
    [
        ("no", "extract: the reply cannot be used: it is not JSON"),
        ("{}", "extract: .*field 'name': missing"),
        ('{"name": "a", "places": [{"city": 1}]}', r"field 'places\.0\.city': string_type"),
        ('{"name": "a", "sure": NaN}', "not JSON"),
        ('{"name": "a", "sure": 1e999}', "not JSON"),
        ('{"name": "\\ud800"}', "not JSON"),
        ('{"name": "\ud800"}', "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
async def test_a_second_bad_reply_is_an_error_that_names_the_field(reply: str, words: str) -> None:
    asks, script = asker(reply)
    with pytest.raises(InvalidModelOutput, match=words):
        await asks.ask(ASK, Person)
    assert len(script.asked) == 2


class Many(BaseModel):
    numbers: list[int]


async def test_very_many_faults_are_counted_not_listed() -> None:
    asks, _ = asker(json.dumps({"numbers": ["x"] * 5_000}))
    with pytest.raises(InvalidModelOutput, match="5,000 fields are wrong"):
        await asks.ask(ASK, Many)


async def test_a_reply_beyond_the_bound_is_not_sent_back() -> None:
    asks, script = asker('"' + "é" * (MAX_REPLY_BYTES // 2) + '"')
    with pytest.raises(InvalidModelOutput, match="extract: the reply is longer than 1,000,000 bytes"):
        await asks.ask(ASK, Person)
    assert len(script.asked) == 1


async def test_errors_and_logs_hold_nothing_of_the_reply(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "s3cret-" * 40
    replies = ({"name": "a", secret: 1}, {"name": [secret]}, {"name": "a", "places": [{secret: 1}]}, secret)
    for reply in map(json.dumps, replies):
        asks, _ = asker(reply)
        with pytest.raises(InvalidModelOutput) as caught:
            await asks.ask(ASK, Person)
        assert "s3cret" not in "".join(traceback.format_exception(caught.value))
        assert len(str(caught.value)) < 200
        assert "s3cret" not in caplog.text
        assert "Rome" not in str(caught.value) + caplog.text


async def test_an_account_is_kept_by_purpose() -> None:
    spending = Budget(prices=PriceTable({"acme:": Price(1.0, 0.5, 10.0), "acme:large": Price(9.0, 9.0, 9.0)}))
    asks, _ = asker("no", GOOD, spending=spending)
    await asks.ask(ASK, Person)
    await asks.ask(LLMRequest("judge", "", "x"), Person)
    extract, judge = spending.by_purpose["extract"], spending.by_purpose["judge"]
    assert (extract.calls, extract.input_tokens, extract.cached_tokens, extract.output_tokens) == (2, 200, 80, 20)
    assert extract.cost == pytest.approx((120 * 1.0 + 80 * 0.5 + 20 * 10.0) / 1e6)
    assert (judge.calls, judge.tokens) == (1, 110)
    total = spending.total
    assert (total.calls, total.tokens) == (3, 330)
    assert total.cost == pytest.approx((extract.cost or 0) + (judge.cost or 0))


async def test_a_model_without_a_price_costs_nothing_and_says_so() -> None:
    spending = Budget(max_cost=0.01)
    asks, _ = asker(GOOD, spending=spending)
    await asks.ask(ASK, Person)
    await asks.ask(ASK, Person)
    assert (spending.total.cost, spending.total.dollars, spending.total.unpriced) == (None, 0.0, 2)


def test_default_models_have_a_price_and_the_longest_name_counts() -> None:
    reply = LLMReply("x", 1_000_000, 0, 0, "m")
    prices = PriceTable({**PRICES, "openai:gpt-6": Price(50.0, 5.0, 100.0)})
    assert prices.cost("anthropic:claude-haiku-4-5", reply) == 1.0
    assert prices.cost("openai:gpt-6-luna", reply) == pytest.approx(0.10)
    assert prices.cost("openai:gpt-6-astra", reply) == 50.0
    assert prices.cost("command:x", reply) is None


@pytest.mark.parametrize(
    "spending, sent, words",
    [
        (Budget(max_calls=0), 0, "0 of at most 0 calls"),
        (Budget(max_calls=3), 3, "3 of at most 3 calls"),
        (Budget(max_tokens=250), 3, "330 of at most 250 tokens"),
        (Budget(max_cost=0.0002, prices=PriceTable({"acme": Price(1, 1, 1)})), 2, "0.00022 of at most 0.0002 dollars"),
    ],
)
async def test_a_spent_budget_stops_before_the_next_call(spending: Budget, sent: int, words: str) -> None:
    asks, script = asker(GOOD, spending=spending)
    for _ in range(sent):
        await asks.ask(ASK, Person)
    for _ in range(2):
        with pytest.raises(BudgetExceeded, match=f"extract: not asked, {words}"):
            await asks.ask(ASK, Person)
    assert (len(script.asked), spending.total.calls) == (sent, sent)


async def test_a_repair_needs_a_budget_too() -> None:
    asks, script = asker("no", GOOD, spending=Budget(max_calls=1))
    with pytest.raises(BudgetExceeded):
        await asks.ask(ASK, Person)
    assert len(script.asked) == 1


async def test_calls_side_by_side_keep_to_the_cap_and_to_the_places() -> None:
    script, spending = Script(GOOD), Budget(max_calls=10)
    asks = StructuredLLM(script, spending, concurrency=3)
    ended = await asyncio.gather(*(asks.ask(ASK, Person) for _ in range(20)), return_exceptions=True)
    assert (len(script.asked), script.most) == (10, 3)
    assert [type(one) for one in ended].count(BudgetExceeded) == 10


async def test_what_a_model_cannot_use_is_charged_at_its_most() -> None:
    spending = Budget()
    asks, script = asker(InvalidModelOutput("truncated"), spending=spending)
    with pytest.raises(InvalidModelOutput, match="truncated"):
        await asks.ask(ASK, Person)
    total = spending.total
    assert (len(script.asked), total.calls, total.input_tokens, total.output_tokens) == (1, 1, 6, 100)


def nested(depth: int) -> str:
    return '{"name":' * depth + "1" + "}" * depth


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
PEOPLE = st.fixed_dictionaries(
    {"name": st.text() | VALUES},
    optional={"places": st.lists(st.fixed_dictionaries({"city": st.text()}) | VALUES), "last": VALUES, "sure": VALUES},
)
REPLIES: Sequence[st.SearchStrategy[str]] = (
    st.text(),
    st.text(st.characters(categories=["Cs", "Cc", "Lu"])),
    st.text(st.sampled_from('{}[]",:\\`json\n0eE+-.nulNa')),
    VALUES.map(json.dumps),
    PEOPLE.map(json.dumps),
    PEOPLE.map(lambda value: json.dumps(value, ensure_ascii=False)),
    PEOPLE.map(lambda value: f"```json\n{json.dumps(value)}\n```"),
    st.integers(0, 3_000).map(nested),
)


def finite(value: Any) -> bool:
    """Every number in it is one, and every text can be written down."""
    match value:
        case dict():
            return all(finite(one) for one in (*value, *value.values()))
        case list():
            return all(finite(one) for one in value)
        case str():
            return value.encode().decode() == value
        case float():
            return math.isfinite(value)
    return True


@pytest.mark.long
@settings(max_examples=scaled(300))
@given(reply=st.one_of(*REPLIES))
@example(reply="x" * 10_000_000)
@example(reply="[" * 900_000)
@example(reply="```json\n```")
@example(reply="``````")
@example(reply='{"name": "a", "name": "\\u0000"}')
@example(reply='{"name": "a", "sure": ' + "9" * 5_000 + "}")
@example(reply='{"name": "a", "sure": -Infinity}')
@example(reply='{"__class__": "x", "name": "a"}')
def test_no_reply_gets_through_but_as_a_valid_value(reply: str) -> None:
    async def ask() -> tuple[Person | None, str, int]:
        asks, script = asker(reply)
        try:
            return await asks.ask(ASK, Person), "", len(script.asked)
        except InvalidModelOutput as error:
            return None, str(error), len(script.asked)

    found, error, calls = asyncio.run(ask())
    assert found is None or finite(found.model_dump())
    assert len(error) < 250
    assert calls <= 2


def test_the_fuzz_would_see_what_should_not_get_through() -> None:
    checks: list[Callable[[], bool]] = [lambda: finite({"a": [math.nan]}), lambda: finite([math.inf])]
    assert [check() for check in checks] == [False, False]
    with pytest.raises(UnicodeEncodeError):
        finite({"\ud800": 1})
