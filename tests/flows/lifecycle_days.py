"""The days of a user's life that the test of the lifecycle on servers plays: each does verbs, and expects something."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from agentmem.agent_memory import AsyncAgentMemory
from agentmem.model.records import Goal
from tests.flows.both_stacks import BOT, HOME, HOUSE, Story
from tests.flows.given import START

DEPLOY = "Please deploy the staging server to Oslo."
CODE = "The door code is 1234"
DOWN = "The staging API is down"
COFFEE = ("Ann likes strong black coffee in the morning", "Ann liked strong black coffee in the mornings")
TEA = ("Ben drinks green tea with honey in the evening", "Ben drank green tea with honey in the evenings")
DESK, TRIP = "_global/desk", "_global/trip"
ALL = "house@bot"  # reads every channel of this story


# -- Sunday


async def talk(story: Story) -> None:
    """What is said, known and announced."""
    of = story.kept
    of["turns"] = await story.do("store_turns", [
        {"content": "My sister Anna lives in Porto. I work at Initech.", "conversation_id": "kitchen"},
        {"content": "From now on, answer in French.", "conversation_id": "kitchen"},
        {"content": "Please don't use emojis.", "conversation_id": "kitchen"},
    ])  # fmt: skip
    said = await story.do("store_turn", f"{CODE}.", at=HOUSE)
    of["code"] = await story.do("learn_fact", CODE, at=HOUSE, confidence=0.9, source_turn_ids=[said.id])
    of["lock"] = await story.do("learn_fact", "Guests can let themselves in", at=HOUSE, depends_on=[of["code"].id])
    york = await story.do("upsert_entity", {"name": "New York", "type": "place"})
    apple = await story.do("upsert_entity", {"name": "Big Apple", "type": "place"})
    await story.do("upsert_entity", {"name": "New York", "type": "place", "aliases": ["Big Apple"]})
    ann = of["ann"] = await story.do("upsert_entity", {"name": "Ann", "type": "person"})
    await story.do("semantic.relate", ann.id, "LOCATED_IN", york.id)
    await story.do("learn_fact", "Ann loves the Big Apple", entity_ids=[ann.id, apple.id])
    for claim in COFFEE:
        await story.do("learn_fact", claim, entity_ids=[ann.id], tags=["drinks"])
    for name, claim in (("plumber", "The plumber comes on Friday"), ("parcel", "The parcel waits at the gate"),
                        ("ladder", "The ladder leans on the wall")):  # fmt: skip
        of[name] = await story.do("learn_fact", claim, tier="short", tags=["house"])
    of["secret"] = await story.do("learn_fact", "The bot tries shorter answers", tier="short", at=BOT)
    await story.do("update_profile", preferences={"language": "French"}, expertise_areas=["sailing"])
    of["down"] = await story.do("announce", DOWN, expires_in=timedelta(days=3))
    again = await story.do("announce", DOWN, at="_global@bot")
    tea = await story.do("store_turn", "[ANNOUNCE] Tea is ready", role="assistant", at="_global/tea@bot")
    assert (again.id, again.valid_to) == (of["down"].id, START + timedelta(days=3))
    heard = await story.do("semantic.facts", {"channel": "_swarm"}, at=BOT)
    assert {fact.claim: fact.source_turn_ids for fact in heard} == {DOWN: (), "Tea is ready": (tea.id,)}


async def desk(story: Story) -> None:
    """What the session has at hand."""
    await story.do("store_turns", ["Where is the ladder?", "I need it for the roof."], at=DESK)
    await story.do("working.set", "room", "attic", at=DESK)
    await story.do("working.set", "draft", {"lines": [1, 2.5, None]}, 60.0, at=DESK)
    await story.do("working.set", "old", True, at=DESK)
    await story.do("working.delete", "old", at=DESK)
    assert await story.do("working.get", "draft", at=DESK) == {"lines": [1, 2.5, None]}
    for thought in ("look in the shed", "ask Ben"):
        await story.do("working.push_thought", thought, at=DESK)
    assert await story.do("working.thoughts", 1, at=DESK) == ["ask Ben"]
    for text in ("The ladder stands in the shed. It is red.", "Rain is expected on Monday"):
        await story.do("working.remember_output", text, source="search", metadata={"n": 1}, at=DESK)
    found = await story.do("working.search_outputs", "Where does the ladder stand?", 1, at=DESK)
    assert [each.output.text[:10] for each in found] == ["The ladder"]
    await story.do("working.turns", 1, at=DESK)
    (turn,) = await story.do("working.search", "roof", at=DESK)
    assert turn.content == "I need it for the roof."
    goal = await story.do("add_goal", "Mend the roof", at=DESK)
    await story.do("working.set_active_goal", goal.id, at=DESK)
    assert (await story.do("working.active_goal", at=DESK)).id == goal.id
    page = await story.do("working.current_markdown", at=DESK)
    assert all(words in page for words in ("**User:** I need it for the roof.", "- room: attic", "- ask Ben"))
    story.clock.ahead(minutes=2)
    assert await story.do("working.context", at=DESK) == {"room": "attic"}  # the draft had a minute
    await story.do("working.clear", at=DESK)
    assert await story.do("working.context", at=DESK) == {}
    assert await story.do("working.search_outputs", "ladder", at=DESK) == []
    await story.do("working.new_session", at=DESK)
    assert await story.do("working.turns", at=DESK) == []


async def plans(story: Story) -> None:
    """Goals that wait for each other, and one that is pursued."""
    of = story.kept
    await story.do("store_turn", "Let us plan the trip to Oslo.", at=TRIP)
    due = {"priority": 5, "deadline": START + timedelta(days=2)}
    trip = of["trip"] = await story.do("add_goal", {"description": "Travel to Oslo", **due}, at=TRIP)
    names = {"flight": "Book the flight", "passport": "Renew the passport", "visa": "Ask for a visa"}
    for name, text in names.items():
        of[name] = await story.do("add_goal", {"description": text, "parent_id": trip.id}, at=TRIP)
    flight, passport, visa = (of[name].id for name in names)
    await story.do("goals.block", flight, [passport, visa], at=TRIP)
    no = await story.refused("goals.block", passport, flight, at=TRIP)
    assert "a circle" in no, no
    assert "open sub-goals" in await story.refused("complete_goal", trip.id, at=TRIP)
    await story.do("goals.unblock", flight, visa, at=TRIP)
    await story.do("goals.progress", passport, 0.5, "photos are made", at=TRIP)
    await story.do("complete_goal", passport, "completed", "collected", at=TRIP)
    assert (await story.do("get_goal", flight, at=TRIP)).goal_status == "active"
    await story.do("complete_goal", visa, "abandoned", "none is needed", at=TRIP)
    tree = await story.do("goals.sub_goals", trip.id, at=TRIP)
    assert {each.goal.id: each.goal.goal_status for each in tree} == {
        flight: "active", passport: "completed", visa: "abandoned",
    }  # fmt: skip
    of["pursued"] = await story.deed("pursue a goal to its end", _pursued, TRIP)
    dropped = await story.deed("pursue a goal until an error", _dropped, TRIP)
    done = await story.do("goals.for_conversation", at=TRIP)
    ends = {goal.id: (goal.goal_status, goal.result) for goal in done}
    assert ends[of["pursued"].id] == ("completed", "")
    assert ends[dropped.id] == ("abandoned", "ValueError: no seats")


async def _pursued(memory: AsyncAgentMemory) -> Goal:
    async with memory.goals.pursue("Find a hotel", priority=2) as goal:
        pursued = await memory.goals.pursued()
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


async def timetable(story: Story) -> None:
    """Schedules, of which one is due on Monday morning."""
    asked = ("Summarise my day", "bot")
    added = await story.do("schedules.add", "morning", "0 9 * * *", *asked, timezone="Europe/Oslo")
    await story.do("schedules.heartbeat", "pulse", timedelta(hours=6))
    await story.do("schedules.heartbeat", "gone", 3600)
    await story.do("schedules.pause", "pulse")
    await story.do("schedules.remove", "gone")
    assert await story.do("schedules.due") == []
    assert [each.id for each in await story.do("schedules.due", START + timedelta(days=1))] == [added.id]
    resumed = await story.do("schedules.resume", "pulse")
    assert resumed.next_at == story.clock.at + timedelta(hours=6)
    await story.do("schedules.pause", "pulse")


async def work(story: Story, name: str) -> Any:
    """A task done with tools in a conversation of its own; returns the face it was done at."""
    face, start = f"_global/{name}", story.clock.at
    await story.do("store_turns", ["Hi!", DEPLOY], at=face)
    await story.do("store_turn", "On it.", role="assistant", at=face)
    await story.do("procedural.find_strategies", "deploy the server", 3, at=face)
    for number, (tool, well) in enumerate((("build", True), ("push", True), ("check", name != "deploy1"))):
        await story.do(
            "procedural.record_invocation", tool, {"target": "staging"}, ["done"], success=well, task_type="deploy",
            latency_ms=100.0 + number, error_message="" if well else "no answer", at=face,
        )  # fmt: skip
    assert story.clock.at == start
    return face


async def practice(story: Story) -> None:
    """What was done, and what is learned of it by hand."""
    of = story.kept
    face = await work(story, "deploy1")
    of["outcome"] = await story.do("reflect", {"success": True, "task_type": "deploy"}, at=face)
    learned = ("Ask a colleague to review the change", "Send the release notes to all")
    of["review"], of["notes"] = [
        await story.do("procedural.learn_strategy", text, tool_sequence=["mail"], task_type="deploy", at=face)
        for text in learned
    ]
    for well in (True, True, False):
        of["review"] = await story.do("procedural.reinforce_strategy", of["review"].id, well)
    assert (of["review"].success_count, of["review"].failure_count) == (3, 1)
    of["cite"] = await story.do("procedural.stage_candidate", "Always cite your sources")
    await story.do("procedural.accept_procedure", of["cite"].id)
    of["short"] = await story.do("procedural.stage_candidate", "Keep answers short", trigger="when I am on the phone")
    await story.do("procedural.stage_candidate", "Be short and never rude", idempotency_key="k")
    await story.do("procedural.stage_candidate", "Be short and never rude", idempotency_key="k")
    rude = [each for each in await story.do("procedural.procedures") if "rude" in each.instruction]
    assert [each.strength for each in rude] == [1]
    await story.do("procedural.retire_procedure", rude[0].id, "nobody meant it")
    stats = {each.tool_name: each for each in await story.do("procedural.tool_stats", "deploy")}
    assert (stats["build"].success_rate, stats["check"].failures, stats["check"].last_error) == (1.0, 1, "no answer")


# -- Monday


async def monday(story: Story) -> None:
    """The second deployment, and a goal that comes of it; what is recalled and used often."""
    of = story.kept
    face = await work(story, "deploy2")
    await story.do("store_turn", "I told you not to use emojis!", at=face)
    goal = await story.do("add_goal", "Get staging to Oslo", at=face)
    await story.do("complete_goal", goal.id, "completed", "it runs", at=face)
    (first, *_) = await story.do("procedural.find_strategies", "deploy the server")
    of["deploy"] = first.strategy
    learned = (first.strategy.description, first.strategy.tool_sequence, first.strategy.success_count)
    assert learned == (DEPLOY, ("build", "push"), 2), "by the job, without what failed; then by the goal's end"
    for conversation in "ababa":
        await story.do("remember", "What is the door code?", at=f"house/{conversation}")
    for _ in range(5):
        await story.do("curation.touch", of["plumber"].id)
    await story.do("observe_usage", [of["parcel"].id, of["lock"].id], ("travel", "mail"), at=HOUSE)


# -- the week after


async def curating(story: Story) -> None:
    """What fades, what says the same, and what is kept by hand."""
    of = story.kept
    urgent = await story.do("curation.queue")
    assert {each.fact.claim for each in urgent} == {of["ladder"].claim, "Tea is ready"}, [e.fact.claim for e in urgent]
    old, new = await story.do("curation.touch", of["ladder"].id, boost=0.5)
    assert old < 0.35 < 1.5 < new, "from the danger zone to a fresh use"
    assert [each.fact.claim for each in await story.do("curation.queue")] == ["Tea is ready"]
    for claim in TEA:
        await story.do("learn_fact", claim)
    (cluster,) = await story.do("curation.clusters")
    assert {fact.claim for fact in cluster.facts} == set(TEA)
    merged = await story.do("curation.merge", [fact.id for fact in cluster.facts])
    assert merged.id == cluster.facts[0].id
    assert await story.do("curation.clusters") == []
    kept = await story.do("curation.promote", of["parcel"].id)
    assert (kept.fact.tier, kept.fact.status) == ("long", "promoted")
    shared = await story.do("learn_fact", "The bins are emptied on Tuesday", at=HOUSE)
    copy = await story.do("semantic.promote_to_global", shared.id, "all need it", at=HOUSE)
    again = await story.do("curation.promote", shared.id, "global", at=HOUSE)
    assert (again.copy.id, again.operation_id) == (copy.id, "")
    of["bins"], of["bins copy"] = shared, copy
    of["short-lived"] = await story.do("learn_fact", "The cat sleeps on the sofa", tier="short")
    dry = await story.do("curation.gc")
    assert dry.counts == {}


async def copies(story: Story) -> None:
    """The copy of a project's fact ends with it, and comes back with it."""
    fact, copy = story.kept["bins"], story.kept["bins copy"]
    before = await story.stands()
    gone = await story.do("forget", fact.id, at=HOUSE)
    assert set(gone.ids) == {fact.id, copy.id}
    assert {each.id for each in await story.do("restore", fact.id, at=HOUSE)} == {fact.id, copy.id}
    assert await story.stands() == before
    gone = await story.do("forget", fact.id, at=HOUSE)
    await story.do("undo", gone.operation_id, at=HOUSE)
    assert await story.stands() == before
    new = await story.do("semantic.supersede_fact", fact.id, "The bins are emptied on Thursday", at=HOUSE)
    assert "The bins" not in str([each.claim for each in await story.do("semantic.facts", at="garden")])
    await story.do("undo", new.operation_id, at=HOUSE)
    assert await story.stands() == before
    wrong = await story.do("semantic.update_fact", fact.id, claim="The bins are never emptied", at=HOUSE)
    assert "The bins" not in str([each.claim for each in await story.do("semantic.facts", at="garden")])
    await story.do("undo", wrong.operation_id, at=HOUSE)
    assert await story.stands() == before


async def forgetting(story: Story) -> None:
    """One record of every kind: forgotten and restored, forgotten and undone, and all is as it was."""
    every = await story.stands()
    kinds = {name.split(" ", 1)[0]: name.split(" ", 1)[1] for name in every if name != "edges"}
    for kind, name in sorted(kinds.items()):
        gone = await story.do("forget", name, reason="a try", at=ALL)
        await story.do("remember", QUERY_OF.get(kind, DEPLOY), at=ALL, reinforce=False)
        await story.do("restore", name, at=ALL)
        again = await story.do("forget", name, at=ALL, idempotency_key=f"again {kind}")
        await story.do("undo", again.operation_id, at=ALL)
        assert gone.hard is False
    assert await story.stands() == every
    assert set(kinds) >= {"Fact", "Entity", "Goal", "Strategy", "Procedure", "Schedule", "ToolInvocation", "Outcome"}


QUERY_OF = {"Fact": "What does Ann drink?", "Goal": "the trip to Oslo", "Schedule": "my day", "Entity": HOME}


# -- the months after


async def collecting(story: Story) -> None:
    """What nobody needs is put away by hand, first only to see what that would be."""
    for claim in ("The soup is hot", "The bread is warm"):
        await story.do("learn_fact", claim, tier="short")
    story.clock.ahead(days=30)
    dry = await story.do("curation.gc")
    assert (dry.counts, dry.operation_ids) == ({"archived": 2}, [])
    done = await story.do("curation.gc", False)
    assert done.counts == {"archived": 2}
    await story.do("undo", done.operation_ids[0])
    assert (await story.do("curation.gc", False)).counts == {}, "what a person took back is not collected again at once"


# -- the end


async def undoing(story: Story, seq: int) -> None:
    """Every operation after a place in the journal taken back, the last one first."""
    for operation in await story.deed("operations", lambda memory: _operations(memory, seq)):
        await story.do("undo", operation, at=ALL)


async def head(memory: AsyncAgentMemory) -> int:
    """How far the journal reaches."""
    return (await memory.resources.log.head(memory.scope)).seq


async def _operations(memory: AsyncAgentMemory, seq: int) -> list[str]:
    entries = await memory.resources.log.changes(memory.scope, seq, 10_000)
    return list(reversed(dict.fromkeys(entry.operation_id for entry in entries)))


async def erasing(story: Story) -> None:
    """A record of every kind erased for good, then all of the user; the scans find nothing."""
    every = await story.stands()
    reasons = " ".join(every[name]["reason"] for name in every if name != "edges")
    alone = [name for name in every if name != "edges" and not every[name]["reason"]]  # not merged with another
    kinds = dict(name.split(" ", 1) for name in alone if name.split(" ", 1)[1] not in reasons)
    del kinds["Synopsis"]  # goes with whatever is erased first
    out: set[str] = set()
    for kind, name in sorted(kinds.items()):
        if name in out:
            continue  # it rested on what is gone
        gone = await story.do("forget", name, True, at=ALL)
        assert gone.hard
        assert name in gone.ids
        assert dict(gone.scan.remnants) == {}, kind
        out |= {*gone.ids, *gone.derived}
    left = await story.stands()
    assert not [name for name in left if name.partition(" ")[2] in out or name.startswith("Synopsis")]
    await story.look()
    receipt = await story.do("erase")
    assert dict(receipt.scan.remnants) == {}
    assert await story.stands() == {"edges": []}
