"""What null means in a body: routes are made from verbs, and each verb has its own meaning of None."""

from __future__ import annotations

from typing import Any


async def test_null_for_a_field_of_a_fact_means_the_same_as_leaving_it_out(client: Any) -> None:
    until = {"claim": "Ann lives in Oslo", "confidence": None, "valid_to": "2031-01-01T00:00:00Z"}
    fact = (await client.post("/v1/facts", json=until)).json()
    changed = await client.patch(f"/v1/facts/{fact['id']}", json={"valid_to": None, "tags": ["home"]})
    assert (changed.json()["valid_to"], changed.json()["confidence"]) == (fact["valid_to"], 0.8)


async def test_null_takes_the_deadline_of_a_goal_away(client: Any) -> None:
    goal = (await client.post("/v1/goals", json={"description": "ship", "deadline": "2031-01-01T00:00:00Z"})).json()
    await client.patch(f"/v1/goals/{goal['id']}", json={"priority": 5})
    kept = (await client.get(f"/v1/goals/{goal['id']}")).json()
    changed = (await client.patch(f"/v1/goals/{goal['id']}", json={"deadline": None})).json()
    assert (kept["deadline"], kept["priority"], changed["deadline"]) == (goal["deadline"], 5, None)


async def test_blocking_by_null_names_no_blocker(client: Any) -> None:
    goal = (await client.post("/v1/goals", json={"description": "ship"})).json()
    answers = [await client.post(f"/v1/goals/{goal['id']}/block", json=body) for body in ({}, {"by": None}, {"by": []})]
    assert len({(answer.status_code, answer.text) for answer in answers}) == 1
