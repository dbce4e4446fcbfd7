"""The routes that Moxxy's document names, as it prints them."""

from __future__ import annotations

from typing import Any

AGENT = "/api/agents/default"


async def test_the_examples_of_the_document_work_as_printed(client: Any) -> None:
    kept = await client.post(f"{AGENT}/memory/ltm", json={"content": "The API discussion ended with REST."})
    assert (kept.status_code, kept.json()["success"]) == (201, True)
    asked = {"query": "API discussion", "limit": 5}
    found = (await client.post(f"{AGENT}/memory/ltm/search", json=asked)).json()
    assert found["success"] is True
    assert [(each["id"], each["content"]) for each in found["results"]] == [
        (kept.json()["id"], "The API discussion ended with REST.")
    ]
    assert found["results"][0]["score"] > 0
    assert found["results"][0]["created_at"]
    again = (await client.get(f"{AGENT}/memory/ltm", params=asked)).json()
    assert [each["id"] for each in again["results"]] == [kept.json()["id"]]
    assert [each["content"] for each in (await client.get(f"{AGENT}/memory/ltm")).json()["results"]] == [
        "The API discussion ended with REST."
    ]
    cleared = (await client.delete(f"{AGENT}/memory")).json()
    assert (cleared["success"], cleared["forgotten"]) == (True, 1)
    assert (await client.post(f"{AGENT}/memory/ltm/search", json=asked)).json()["results"] == []
    assert (await client.delete(f"{AGENT}/memory")).json() == {"success": True, "forgotten": 0, "operation_id": None}


async def test_turns_of_an_agent_are_its_short_term_memory_and_nobody_elses(client: Any) -> None:
    session = (await client.post(f"{AGENT}/session/new")).json()
    turn = {"content": "Hello.", "agent_id": "default", "conversation_id": session["conversation_id"]}
    assert (await client.post("/v1/turns", json=turn)).json()["channel"] == "_self_default"
    await client.post("/v1/turns", json={"content": "For everybody."})
    window = (await client.get(f"{AGENT}/memory/stm")).json()
    assert window["success"] is True
    assert [(each["role"], each["content"]) for each in window["messages"]] == [("user", "Hello.")]
    assert (await client.get("/api/agents/other/memory/stm")).json()["messages"] == []
    assert (await client.delete("/api/agents/other/memory")).json()["forgotten"] == 0
    assert len((await client.get(f"{AGENT}/memory/stm")).json()["messages"]) == 1


async def test_a_new_session_begins_a_new_window(client: Any) -> None:
    async def say(text: str, **more: str) -> None:
        assert (await client.post("/v1/turns", json={"content": text, "agent_id": "default", **more})).status_code < 300

    async def window() -> list[str]:
        return [each["content"] for each in (await client.get(f"{AGENT}/memory/stm")).json()["messages"]]

    for number in range(25):
        await say(f"Before {number}.")
    assert len(await window()) == 25, "as many as the setting working_turns allows, not 20"
    session = (await client.post(f"{AGENT}/session/new")).json()["session_id"]
    assert await window() == []
    await say("In it.", conversation_id=session)
    await say("Later, in a conversation of its own.")
    assert await window() == ["In it.", "Later, in a conversation of its own."]
    await client.post(f"{AGENT}/session/new")
    assert await window() == []


async def test_what_is_wrong_has_a_real_status(client: Any) -> None:
    assert (await client.post(f"{AGENT}/memory/ltm", json={"content": " "})).status_code == 422
    assert (await client.post(f"{AGENT}/memory/ltm/search", json={"query": " "})).status_code == 422
    assert (await client.get(f"{AGENT}/memory/stm?limit=0")).json()["field"] == "limit"
    assert (await client.get(f"/api/agents/{'x' * 300}/memory/stm")).json()["error"] == "InvalidRecord"
