"""Procedures, schedules, working memory, jobs and the audit log over HTTP."""

from __future__ import annotations

import base64
from typing import Any

import pytest


async def test_a_procedure_is_proposed_accepted_and_retired(client: Any) -> None:
    asked = {"instruction": "Always answer in metric units.", "trigger": "distances"}
    staged = (await client.post("/v1/procedures", json=asked)).json()
    assert staged["procedure_status"] == "candidate"
    accepted = (await client.post(f"/v1/procedures/{staged['id']}/accept", json={})).json()
    assert accepted["procedure_status"] == "active"
    assert [each["id"] for each in (await client.get("/v1/procedures?status=active")).json()] == [staged["id"]]
    retired = (await client.post(f"/v1/procedures/{staged['id']}/retire", json={"reason": "no longer"})).json()
    assert (retired["procedure_status"], retired["reason"]) == ("retired", "no longer")
    assert (await client.get("/v1/procedures?status=odd")).json()["field"] == "status"


async def test_a_strategy_is_learned_found_and_judged(client: Any) -> None:
    told = {"description": "Use the cached index for reports", "tool_sequence": ["load", "report"]}
    learned = (await client.post("/v1/strategies", json=told)).json()
    found = (await client.get("/v1/strategies", params={"task": "make the reports"})).json()
    assert [match["strategy"]["id"] for match in found] == [learned["id"]]
    worse = (await client.post(f"/v1/strategies/{learned['id']}/reinforce", json={"success": False})).json()
    assert worse["failure_count"] == 1
    assert (await client.get(f"/v1/strategies/{learned['id']}")).json()["failure_count"] == 1


async def test_calls_of_tools_are_counted_and_outcomes_told(client: Any) -> None:
    turn = (await client.post("/v1/turns", json={"content": "Look it up.", "conversation_id": "c"})).json()
    call = {"tool_name": "search", "tool_input": {"q": "x"}, "success": True, "turn_id": turn["id"]}
    made = await client.post("/v1/invocations", json=call)
    assert (made.status_code, made.json()["conversation_id"]) == (201, "c")
    assert [(each["tool_name"], each["calls"]) for each in (await client.get("/v1/tools")).json()] == [("search", 1)]
    told = await client.post("/v1/outcomes", json={"outcome": "failure: too slow", "conversation_id": "c"})
    assert (told.status_code, told.json()["success"]) == (201, False)


async def test_a_schedule_is_added_paused_resumed_and_removed(client: Any) -> None:
    assert (await client.post("/v1/schedules", json={"name": "walk", "prompt": "Walk", "every": 60})).status_code == 201
    assert (await client.post("/v1/schedules/walk/pause", json={})).json()["paused"] is True
    assert (await client.post("/v1/schedules/walk/resume", json={})).json()["paused"] is False
    assert [each["name"] for each in (await client.get("/v1/schedules")).json()] == ["walk"]
    assert (await client.get("/v1/schedules/walk")).json()["prompt"] == "Walk"
    assert (await client.delete("/v1/schedules/walk")).status_code == 200
    assert (await client.get("/v1/schedules/walk")).status_code == 404
    neither = await client.post("/v1/schedules", json={"name": "walk", "prompt": "Walk"})
    assert (neither.status_code, neither.json()["field"]) == (422, "cron")


async def test_working_memory_belongs_to_the_conversation(client: Any) -> None:
    here = {"conversation_id": "c"}
    await client.post("/v1/turns", json={"content": "Hello.", **here})
    assert (await client.put("/v1/working/values/city", json={"value": {"name": "Oslo"}, **here})).status_code == 204
    assert (await client.get("/v1/working/values/city", params=here)).json() == {"value": {"name": "Oslo"}}
    assert (await client.get("/v1/working/values/city", params={"conversation_id": "d"})).json() == {"value": None}
    assert (await client.get("/v1/working/values", params=here)).json() == {"city": {"name": "Oslo"}}
    assert (await client.delete("/v1/working/values/city", params=here)).status_code == 204
    await client.post("/v1/working/thoughts", json={"thought": "Ask about Oslo.", **here})
    assert (await client.get("/v1/working/thoughts", params=here)).json() == ["Ask about Oslo."]
    assert [turn["content"] for turn in (await client.get("/v1/working/turns", params=here)).json()] == ["Hello."]
    goal = (await client.post("/v1/goals", json={"description": "Pack", **here})).json()
    assert (await client.get("/v1/working/goal", params=here)).json() is None
    assert (await client.put("/v1/working/goal", json={"goal_id": goal["id"], **here})).json()["id"] == goal["id"]
    assert (await client.get("/v1/working/goal", params=here)).json()["id"] == goal["id"]
    assert (await client.delete("/v1/working", params=here)).status_code == 204
    assert (await client.get("/v1/working/thoughts", params=here)).json() == []


async def test_jobs_run_and_usage_audit_and_figures_are_told(client: Any) -> None:
    turn = (await client.post("/v1/turns", json={"content": "My sister Anna lives in Porto."})).json()
    reports = (await client.post("/v1/jobs/run", json={"job": "consolidate"})).json()
    assert [(report["job"], report["counts"]["turns"]) for report in reports] == [("consolidate", 1)]
    unknown = await client.post("/v1/jobs/run", json={"job": "tidy"})
    assert unknown.status_code == 422
    assert (await client.post("/v1/usage", json={"ids": [turn["id"], "nobody"]})).json() == {"found": 1}
    rows = (await client.get("/v1/audit", params={"operation": "observe_usage"})).json()
    assert [row["operation"] for row in rows] == ["observe_usage"]
    stats = (await client.get("/v1/stats")).json()
    assert (stats["user_id"], stats["records"]["Turn"]) == ("ann", 1)


async def test_all_records_are_read_page_by_page_each_once(client: Any) -> None:
    turns = [{"content": f"Day {day}."} for day in range(5)]
    await client.post("/v1/turns/batch", json={"turns": turns, "conversation_id": "c"})
    await client.post("/v1/facts", json={"claim": "Ann lives in Oslo"})
    seen, asked = [], {"limit": 2}
    while True:
        page = (await client.get("/v1/records", params=asked)).json()
        seen += [(item["kind"], item["id"]) for item in page["items"]]
        if page["next_cursor"] is None:
            break
        asked["cursor"] = page["next_cursor"]
        if len(seen) == 2:
            await client.post("/v1/turns", json={"content": "Late.", "conversation_id": "c"})
    whole = (await client.get("/v1/records", params={"limit": 1000})).json()["items"]
    assert len(seen) == len(set(seen))
    assert set(seen) == {(item["kind"], item["id"]) for item in whole}
    facts = (await client.get("/v1/records", params={"kind": "Fact"})).json()["items"]
    assert [item["kind"] for item in facts] == ["Fact"]
    bob = {"X-Agentmem-User": "bob"}
    assert (await client.get("/v1/records", params=asked, headers=bob)).json() == {"items": [], "next_cursor": None}


@pytest.mark.parametrize(
    "asked, field",
    [
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "é" * 9}, "cursor"),
        ({"cursor": base64.urlsafe_b64encode(b'[1,"Fact"]').decode()}, "cursor"),
        ({"cursor": base64.urlsafe_b64encode(b'[true,"Fact","x"]').decode()}, "cursor"),
        ({"cursor": base64.urlsafe_b64encode(b'[1,"Nothing","x"]').decode()}, "cursor"),
        ({"cursor": base64.urlsafe_b64encode(b'[99999999999999999999,"Fact","x"]').decode()}, "cursor"),
        ({"cursor": base64.urlsafe_b64encode(b'[1,"Fact","\\u0000"]').decode()}, "cursor"),
        ({"cursor": "W" * 10_000}, "cursor"),
        ({"kind": "Nothing"}, "kinds"),
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
    ],
)
async def test_a_cursor_of_ones_own_making_is_refused(client: Any, asked: dict[str, Any], field: str) -> None:
    refused = await client.get("/v1/records", params=asked)
    assert (refused.status_code, refused.json()["field"]) == (422, field)
