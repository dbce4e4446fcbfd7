"""The days of a user's life that the test of the lifecycle on servers plays: each does verbs, and expects something."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from agentmem.core.records import Goal
from agentmem.facade.async_memory import AsyncAgentMemory
from tests.flows.both_stacks import BOT, HOME, HOUSE, Scenario
from tests.flows.given import START

DEPLOY = "Please deploy the staging server to Oslo."
CODE = "The door code is 1234"
DOWN = "The staging API is down"
COFFEE = ("Ann likes a strong black coffee in the morning", "Ann likes the strong black coffee in the morning")
TEA = ("Ben drinks a green tea with honey in the evening", "Ben drinks the green tea with honey in the evening")
DESK, TRIP = "_global/desk", "_global/trip"
ALL_CHANNELS_VIEW = "house@bot"  # reads every channel of this story


# -- Sunday


async def talk(story: Scenario) -> None:
    """What is said, known and announced."""
    of = story.saved
    of["turns"] = await story.run_verb(
        "store_turns",
        [
            {"content": "My sister Anna lives in Porto. I work at Initech.", "conversation_id": "kitchen"},
            {"content": "From now on, answer in French.", "conversation_id": "kitchen"},
            {"content": "Please don't use emojis.", "conversation_id": "kitchen"},
        ],
    )
    said = await story.run_verb("store_turn", f"{CODE}.", view=HOUSE)
    of["code"] = await story.run_verb("learn_fact", CODE, view=HOUSE, confidence=0.9, source_turn_ids=[said.id])
    await story.run_verb("learn_fact", CODE, view="garage")  # said in two projects, so that it may flow
    of["lock"] = await story.run_verb(
        "learn_fact", "Guests can let themselves in", view=HOUSE, depends_on=[of["code"].id]
    )
    york = await story.run_verb("upsert_entity", {"name": "New York", "type": "place"})
    apple = await story.run_verb("upsert_entity", {"name": "Big Apple", "type": "place"})
    await story.run_verb("upsert_entity", {"name": "New York", "type": "place", "aliases": ["Big Apple"]})
    ann = of["ann"] = await story.run_verb("upsert_entity", {"name": "Ann", "type": "person"})
    await story.run_verb("semantic.relate", ann.id, "LOCATED_IN", york.id)
    await story.run_verb("learn_fact", "Ann loves the Big Apple", entity_ids=[ann.id, apple.id])
    for claim in COFFEE:
        await story.run_verb("learn_fact", claim, entity_ids=[ann.id], tags=["drinks"])
    for name, claim in (
        ("plumber", "The plumber comes on Friday"),
        ("parcel", "The parcel waits at the gate"),
        ("ladder", "The ladder leans on the wall"),
    ):
        of[name] = await story.run_verb("learn_fact", claim, tier="short", tags=["house"])
    of["secret"] = await story.run_verb("learn_fact", "The bot tries shorter answers", tier="short", view=BOT)
    await story.run_verb("update_profile", preferences={"language": "French"}, expertise_areas=["sailing"])
    of["down"] = await story.run_verb("announce", DOWN, expires_in=timedelta(days=3))
    again = await story.run_verb("announce", DOWN, view="_global@bot")
    tea = await story.run_verb("store_turn", "[ANNOUNCE] Tea is ready", role="assistant", view="_global/tea@bot")
    assert (again.id, again.valid_to) == (of["down"].id, START + timedelta(days=3))
    heard = await story.run_verb("semantic.facts", {"channel": "_swarm"}, view=BOT)
    assert {fact.claim: fact.source_turn_ids for fact in heard} == {DOWN: (), "Tea is ready": (tea.id,)}


async def desk(story: Scenario) -> None:
    """What the session has at hand."""
    await story.run_verb("store_turns", ["Where is the ladder?", "I need it for the roof."], view=DESK)
    await story.run_verb("working.set", "room", "attic", view=DESK)
    await story.run_verb("working.set", "draft", {"lines": [1, 2.5, None]}, 60.0, view=DESK)
    await story.run_verb("working.set", "old", True, view=DESK)
    await story.run_verb("working.delete", "old", view=DESK)
    assert await story.run_verb("working.get", "draft", view=DESK) == {"lines": [1, 2.5, None]}
    for thought in ("look in the shed", "ask Ben"):
        await story.run_verb("working.push_thought", thought, view=DESK)
    assert await story.run_verb("working.thoughts", 1, view=DESK) == ["ask Ben"]
    for text in ("The ladder stands in the shed. It is red.", "Rain is expected on Monday"):
        await story.run_verb("working.remember_output", text, source="search", metadata={"n": 1}, view=DESK)
    found = await story.run_verb("working.search_outputs", "Where does the ladder stand?", 1, view=DESK)
    assert [each.output.text[:10] for each in found] == ["The ladder"]
    await story.run_verb("working.turns", 1, view=DESK)
    (turn,) = await story.run_verb("working.search", "roof", view=DESK)
    assert turn.content == "I need it for the roof."
    goal = await story.run_verb("add_goal", "Mend the roof", view=DESK)
    await story.run_verb("working.set_active_goal", goal.id, view=DESK)
    assert (await story.run_verb("working.active_goal", view=DESK)).id == goal.id
    page = await story.run_verb("working.current_markdown", view=DESK)
    assert all(words in page for words in ("**User:** I need it for the roof.", "- room: attic", "- ask Ben"))
    story.clock.advance(minutes=2)
    assert await story.run_verb("working.context", view=DESK) == {"room": "attic"}  # the draft had a minute
    await story.run_verb("working.clear", view=DESK)
    assert await story.run_verb("working.context", view=DESK) == {}
    assert await story.run_verb("working.search_outputs", "ladder", view=DESK) == []
    await story.run_verb("working.new_session", view=DESK)
    assert await story.run_verb("working.turns", view=DESK) == []


async def plan_goals(story: Scenario) -> None:
    """Goals that wait for each other, and one that is pursued."""
    of = story.saved
    await story.run_verb("store_turn", "Let us plan the trip to Oslo.", view=TRIP)
    due = {"priority": 5, "deadline": START + timedelta(days=2)}
    trip = of["trip"] = await story.run_verb("add_goal", {"description": "Travel to Oslo", **due}, view=TRIP)
    names = {"flight": "Book the flight", "passport": "Renew the passport", "visa": "Ask for a visa"}
    for name, text in names.items():
        of[name] = await story.run_verb("add_goal", {"description": text, "parent_id": trip.id}, view=TRIP)
    flight, passport, visa = (of[name].id for name in names)
    await story.run_verb("goals.block", flight, [passport, visa], view=TRIP)
    no = await story.expect_refusal("goals.block", passport, flight, view=TRIP)
    assert "a circle" in no, no
    assert "open sub-goals" in await story.expect_refusal("complete_goal", trip.id, view=TRIP)
    await story.run_verb("goals.unblock", flight, visa, view=TRIP)
    await story.run_verb("goals.record_progress", passport, 0.5, "photos are made", view=TRIP)
    await story.run_verb("complete_goal", passport, "completed", "collected", view=TRIP)
    assert (await story.run_verb("get_goal", flight, view=TRIP)).goal_status == "active"
    await story.run_verb("complete_goal", visa, "abandoned", "none is needed", view=TRIP)
    tree = await story.run_verb("goals.sub_goals", trip.id, view=TRIP)
    assert {each.goal.id: each.goal.goal_status for each in tree} == {
        flight: "active",
        passport: "completed",
        visa: "abandoned",
    }
    of["pursued"] = await story.run_action("pursue a goal to its end", _pursued, TRIP)
    dropped = await story.run_action("pursue a goal until an error", _dropped, TRIP)
    done = await story.run_verb("goals.for_conversation", view=TRIP)
    ends = {goal.id: (goal.goal_status, goal.result) for goal in done}
    assert ends[of["pursued"].id] == ("completed", "")
    assert ends[dropped.id] == ("abandoned", "ValueError: no seats")


async def _pursued(memory: AsyncAgentMemory) -> Goal:
    async with memory.goals.pursue("Find a hotel", priority=2) as goal:
        pursued = await memory.goals.find_active_in_conversation()
        assert pursued is not None
        assert pursued.id == goal.id
    return goal


async def _dropped(memory: AsyncAgentMemory) -> Goal:
    goals = []
    try:
        async with memory.goals.pursue("Find cheap seats") as goal:
            goals.append(goal)
            raise ValueError("no seats")
    except ValueError:
        return goals[0]


async def add_schedules(story: Scenario) -> None:
    """Schedules, of which one is due on Monday morning."""
    asked = ("Summarise my day", "bot")
    added = await story.run_verb("schedules.add", "morning", "0 9 * * *", *asked, timezone="Europe/Oslo")
    await story.run_verb("schedules.add_heartbeat", "pulse", timedelta(hours=6))
    await story.run_verb("schedules.add_heartbeat", "gone", 3600)
    await story.run_verb("schedules.pause", "pulse")
    await story.run_verb("schedules.remove", "gone")
    assert await story.run_verb("schedules.due") == []
    assert [each.id for each in await story.run_verb("schedules.due", START + timedelta(days=1))] == [added.id]
    resumed = await story.run_verb("schedules.resume", "pulse")
    assert resumed.next_at == story.clock.time + timedelta(hours=6)
    await story.run_verb("schedules.pause", "pulse")


async def work(story: Scenario, name: str) -> Any:
    """A task done with tools in a conversation of its own; returns the face it was done at."""
    face, start = f"_global/{name}", story.clock.time
    await story.run_verb("store_turns", ["Hi!", DEPLOY], view=face)
    await story.run_verb("store_turn", "On it.", role="assistant", view=face)
    await story.run_verb("procedural.find_strategies", "deploy the server", 3, view=face)
    for number, (tool, well) in enumerate((("build", True), ("push", True), ("check", False))):
        await story.run_verb(
            "procedural.record_invocation",
            tool,
            {"target": "staging"},
            ["done"],
            success=well,
            task_type="deploy",
            latency_ms=100.0 + number,
            error_message="" if well else "no answer",
            view=face,
        )
    assert story.clock.time == start
    return face


async def learn_strategies(story: Scenario) -> None:
    """What was done, and what is learned of it by hand."""
    of = story.saved
    face = await work(story, "deploy1")
    of["outcome"] = await story.run_verb("reflect", {"success": True, "task_type": "deploy"}, view=face)
    learned = ("Ask a colleague to review the change", "Send the release notes to all")
    of["review"], of["notes"] = [
        await story.run_verb("procedural.learn_strategy", text, tool_sequence=["mail"], task_type="deploy", view=face)
        for text in learned
    ]
    for well in (True, True, False):
        of["review"] = await story.run_verb("procedural.reinforce_strategy", of["review"].id, well)
    assert (of["review"].success_count, of["review"].failure_count) == (3, 1)
    of["cite"] = await story.run_verb("procedural.stage_candidate", "Always cite your sources")
    await story.run_verb("procedural.accept_procedure", of["cite"].id)
    of["short"] = await story.run_verb(
        "procedural.stage_candidate", "Keep answers short", trigger="when I am on the phone"
    )
    await story.run_verb("procedural.stage_candidate", "Be short and never rude", idempotency_key="k")
    await story.run_verb("procedural.stage_candidate", "Be short and never rude", idempotency_key="k")
    rude = [each for each in await story.run_verb("procedural.procedures") if "rude" in each.instruction]
    assert [each.strength for each in rude] == [1]
    await story.run_verb("procedural.retire_procedure", rude[0].id, "nobody meant it")
    stats = {each.tool_name: each for each in await story.run_verb("procedural.tool_stats", "deploy")}
    assert (stats["build"].success_rate, stats["check"].failures, stats["check"].last_error) == (1.0, 1, "no answer")


# -- Monday


async def monday(story: Scenario) -> None:
    """The second deployment, and a goal that comes of it; what is recalled and used often."""
    of = story.saved
    face = await work(story, "deploy2")
    await story.run_verb("store_turn", "I told you not to use emojis!", view=face)
    goal = await story.run_verb("add_goal", "Get staging to Oslo", view=face)
    await story.run_verb("complete_goal", goal.id, "completed", "it runs", view=face)
    (first, *_) = await story.run_verb("procedural.find_strategies", "deploy the server")
    of["deploy"] = first.strategy
    learned = (first.strategy.description, first.strategy.tool_sequence, first.strategy.success_count)
    assert learned == (DEPLOY, ("build", "push"), 2), "by the job, without what failed; then by the goal's end"
    for conversation in "abcde":
        await story.run_verb("remember", "What is the door code?", view=f"house/{conversation}")
    for _ in range(5):
        await story.run_verb("curation.touch", of["plumber"].id)
    await story.run_verb("observe_usage", [of["parcel"].id, of["lock"].id], ("travel", "mail"), view=HOUSE)


# -- the week after


async def curate(story: Scenario) -> None:
    """What fades, what says the same, and what is kept by hand."""
    of = story.saved
    urgent = await story.run_verb("curation.queue")
    assert {each.fact.claim for each in urgent} == {of["ladder"].claim, "Tea is ready"}, [e.fact.claim for e in urgent]
    old, new = await story.run_verb("curation.touch", of["ladder"].id, boost=0.5)
    assert old < 0.35 < 1.5 < new, "from the danger zone to a fresh use"
    assert [each.fact.claim for each in await story.run_verb("curation.queue")] == ["Tea is ready"]
    for claim in TEA:
        await story.run_verb("learn_fact", claim)
    (cluster,) = await story.run_verb("curation.clusters")
    assert {fact.claim for fact in cluster.facts} == set(TEA)
    merged = await story.run_verb("curation.merge", [fact.id for fact in cluster.facts])
    assert merged.id == cluster.facts[0].id
    assert await story.run_verb("curation.clusters") == []
    kept = await story.run_verb("curation.promote", of["parcel"].id)
    assert (kept.fact.tier, kept.fact.status) == ("long", "promoted")
    shared = await story.run_verb("learn_fact", "The bins are emptied on Tuesday", view=HOUSE)
    copy = await story.run_verb("semantic.promote_to_global", shared.id, "all need it", view=HOUSE)
    again = await story.run_verb("curation.promote", shared.id, "global", view=HOUSE)
    assert (again.copy.id, again.operation_id) == (copy.id, "")
    of["bins"], of["bins copy"] = shared, copy
    of["short-lived"] = await story.run_verb("learn_fact", "The cat sleeps on the sofa", tier="short")
    dry = await story.run_verb("curation.gc")
    assert dry.counts == {}


async def promote_copies(story: Scenario) -> None:
    """The copy of a project's fact ends with it, and comes back with it."""
    fact, copy = story.saved["bins"], story.saved["bins copy"]
    before = await story.read_state()
    gone = await story.run_verb("forget", fact.id, view=HOUSE)
    assert set(gone.ids) == {fact.id, copy.id}
    assert {each.id for each in await story.run_verb("restore", fact.id, view=HOUSE)} == {fact.id, copy.id}
    assert await story.read_state() == before
    gone = await story.run_verb("forget", fact.id, view=HOUSE)
    await story.run_verb("undo", gone.operation_id, view=HOUSE)
    assert await story.read_state() == before
    new = await story.run_verb("semantic.supersede_fact", fact.id, "The bins are emptied on Thursday", view=HOUSE)
    assert "The bins" not in str([each.claim for each in await story.run_verb("semantic.facts", view="garden")])
    await story.run_verb("undo", new.operation_id, view=HOUSE)
    assert await story.read_state() == before
    wrong = await story.run_verb("semantic.update_fact", fact.id, claim="The bins are never emptied", view=HOUSE)
    assert "The bins" not in str([each.claim for each in await story.run_verb("semantic.facts", view="garden")])
    await story.run_verb("undo", wrong.operation_id, view=HOUSE)
    assert await story.read_state() == before


async def forget_and_restore(story: Scenario) -> None:
    """One record of every kind: forgotten and restored, forgotten and undone, and all is as it was."""
    every = await story.read_state()
    kinds = {name.split(" ", 1)[0]: name.split(" ", 1)[1] for name in every if name != "edges"}
    for kind, name in sorted(kinds.items()):
        gone = await story.run_verb("forget", name, reason="a try", view=ALL_CHANNELS_VIEW)
        await story.run_verb("remember", QUERY_OF.get(kind, DEPLOY), view=ALL_CHANNELS_VIEW, reinforce=False)
        await story.run_verb("restore", name, view=ALL_CHANNELS_VIEW)
        again = await story.run_verb("forget", name, view=ALL_CHANNELS_VIEW, idempotency_key=f"again {kind}")
        await story.run_verb("undo", again.operation_id, view=ALL_CHANNELS_VIEW)
        assert gone.hard is False
    assert await story.read_state() == every
    assert set(kinds) >= {"Fact", "Entity", "Goal", "Strategy", "Procedure", "Schedule", "ToolInvocation", "Outcome"}


QUERY_OF = {"Fact": "What does Ann drink?", "Goal": "the trip to Oslo", "Schedule": "my day", "Entity": HOME}


# -- the months after


async def collect_garbage(story: Scenario) -> None:
    """What nobody needs is put away by hand, first only to see what that would be."""
    for claim in ("The soup is hot", "The bread is warm"):
        await story.run_verb("learn_fact", claim, tier="short")
    story.clock.advance(days=30)
    dry = await story.run_verb("curation.gc")
    assert (dry.counts, dry.operation_ids) == ({"archived": 2}, [])
    done = await story.run_verb("curation.gc", False)
    assert done.counts == {"archived": 2}
    await story.run_verb("undo", done.operation_ids[0])
    assert (await story.run_verb("curation.gc", False)).counts == {}, (
        "what a person took back is not collected again at once"
    )


# -- the end


async def undo_operations(story: Scenario, seq: int) -> None:
    """Every operation after a place in the journal taken back, the last one first."""
    for operation in await story.run_action("operations", lambda memory: _operations(memory, seq)):
        await story.run_verb("undo", operation, view=ALL_CHANNELS_VIEW)


async def read_head(memory: AsyncAgentMemory) -> int:
    """How far the journal reaches."""
    return (await memory.engine.log.head(memory.scope)).seq


async def _operations(memory: AsyncAgentMemory, seq: int) -> list[str]:
    entries = await memory.engine.log.changes(memory.scope, seq, 10_000)
    return list(reversed(dict.fromkeys(entry.operation_id for entry in entries)))


async def erase_records(story: Scenario) -> None:
    """A record of every kind erased for good, then all of the user; the scans find nothing."""
    every = await story.read_state()
    reasons = " ".join(every[name]["reason"] for name in every if name != "edges")
    alone = [name for name in every if name != "edges" and not every[name]["reason"]]  # not merged with another
    kinds = dict(name.split(" ", 1) for name in alone if name.split(" ", 1)[1] not in reasons)
    del kinds["Synopsis"]  # goes with whatever is erased first
    out: set[str] = set()
    for kind, name in sorted(kinds.items()):
        if name in out:
            continue  # it rested on what is gone
        gone = await story.run_verb("forget", name, True, view=ALL_CHANNELS_VIEW)
        assert gone.hard
        assert name in gone.ids
        assert dict(gone.scan.leftovers) == {}, kind
        out |= {*gone.ids, *gone.derived}
    left = await story.read_state()
    assert not [name for name in left if name.partition(" ")[2] in out or name.startswith("Synopsis")]
    await story.compare_all()
    receipt = await story.run_verb("erase")
    assert dict(receipt.scan.leftovers) == {}
    assert await story.read_state() == {"edges": []}
