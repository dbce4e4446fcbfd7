"""The job that stores communities: what it writes, what answers from them, and what takes them away."""

from __future__ import annotations

import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from agentmem import AgentMemory, JobReport
from agentmem.admin.export_import import export_user, import_user
from agentmem.core.graph_records import Community
from agentmem.core.record import Status
from agentmem.jobs.worker import ConsolidationWorker
from agentmem.memory.erasure import list_across_channels
from agentmem.memory.graph import analysis, knowledge_graph
from agentmem.stores.values import Where
from tests.flows.given import ManualClock, context_of, engine_of, open_memory, read_head, run
from tests.servers.stack import Stack

PAIRS = ("Ann Ben", "Ben Cleo", "Cleo Ann", "Ann Dan", "Eve Fay", "Fay Gus")


def add_ties(memory: AgentMemory, *pairs: str) -> dict[str, str]:
    """Ids of the entities that these pairs name, each pair tied."""
    names = dict.fromkeys(name for pair in pairs for name in pair.split())
    ids = {name: memory.upsert_entity({"name": name, "type": "person"}).id for name in names}
    for pair in pairs:
        one, other = pair.split()
        memory.semantic.relate(ids[one], "KNOWS", ids[other])
    return ids


def find(memory: AgentMemory, **more: Any) -> JobReport:
    """Run the job."""
    (report,) = memory.consolidate("communities", **more)
    return report


def stored(memory: AgentMemory) -> list[Community]:
    """The communities in force, of every channel, the largest first."""
    records = run(list_across_channels(context_of(memory), Where(kinds=("Community",), status=(Status.ACTIVE,))))
    found = [record for record in records if isinstance(record, Community)]
    return sorted(found, key=lambda each: (-len(each.entity_ids), sorted(each.entity_ids)))


def ask(memory: AgentMemory) -> list[object]:
    """What the two verbs say."""
    graph = memory.graph
    return [
        graph.communities(),
        graph.communities(3, members=2),
        graph.central_entities(),
        graph.central_entities(limit=2),
    ]


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often the verbs read the graph to compute an answer."""
    computed: list[str] = []
    read = analysis.read_network

    async def note(context: Any) -> Any:
        computed.append(context.scope.channel)
        return await read(context)

    monkeypatch.setattr(knowledge_graph, "read_network", note)
    return computed


def test_what_is_stored_is_what_is_computed(memory: AgentMemory, unread: list[str]) -> None:
    ids = add_ties(memory, *PAIRS)
    computed = ask(memory)
    assert (find(memory).counts, len(unread)) == ({"communities": 2}, 4)
    assert ask(memory) == computed
    assert len(unread) == 4, "nothing was computed again"
    first, second = stored(memory)
    assert first.entity_ids[0] == ids["Ann"]
    assert [len(each.entity_ids) for each in (first, second)] == [4, 3]
    assert sum(first.scores + second.scores) == pytest.approx(1)
    assert "Ann" not in first.model_dump_json(), "names are not copied"


@pytest.mark.parametrize("change", ["relation", "fact", "end", "undone fact", "undone run", "forgotten community"])
def test_what_changed_is_computed_until_the_next_run(
    memory: AgentMemory, clock: ManualClock, unread: list[str], change: str
) -> None:
    ids = add_ties(memory, *PAIRS)
    memory.semantic.relate(ids["Dan"], "KNOWS", ids["Eve"], valid_to=clock.time + timedelta(days=1))
    both = {"entity_ids": [ids["Ann"], ids["Gus"]]}
    fact = memory.learn_fact("Ann and Gus dance", **both)
    find(memory)
    if change == "undone run":
        memory.semantic.relate(ids["Dan"], "KNOWS", ids["Gus"])
    last = find(memory).operation_ids
    before = ask(memory)
    assert unread == []
    {
        "relation": lambda: memory.semantic.relate(ids["Gus"], "KNOWS", ids["Eve"]),
        "fact": lambda: memory.learn_fact("Ann and Gus sing", **both),
        "end": lambda: clock.advance(days=2),
        "undone fact": lambda: memory.undo(fact.operation_id),
        "undone run": lambda: memory.undo(last[0]),
        "forgotten community": lambda: memory.forget(stored(memory)[-1].id),
    }[change]()
    found = ask(memory)
    assert len(unread) == 4
    assert (found == before) == (change in ("undone run", "forgotten community"))
    find(memory)
    assert ask(memory) == found
    assert len(unread) == 4


def test_a_second_run_writes_and_computes_nothing(memory: AgentMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = add_ties(memory, *PAIRS, "Hal Ida")
    assert find(memory, dry_run=True).counts == {"communities": 3}
    assert stored(memory) == []
    find(memory)
    names, head = [each.id for each in stored(memory)], read_head(memory)
    with monkeypatch.context() as patch:
        patch.setattr(analysis, "read_network", None)
        assert find(memory).counts == {}
    assert read_head(memory) == head
    memory.learn_fact("Hal and Ida sing", entity_ids=[ids["Hal"], ids["Ida"]])
    assert find(memory).counts == {"communities": 3}
    assert [each.id for each in stored(memory)] == names
    memory.forget(ids["Hal"])
    assert find(memory).counts == {"communities": 2}
    assert [each.id for each in stored(memory)] == names[:2], "the place of the third one is empty"


def test_the_worker_serves_users_whose_graph_changed(memory: AgentMemory, clock: ManualClock) -> None:
    add_ties(memory, *PAIRS)
    worker = ConsolidationWorker(engine_of(memory), jobs=["communities"])
    reports = []
    for _ in range(2):
        reports += run(worker.run_once())
        clock.advance(days=1)
    assert [(each.users, each.counts) for each in reports] == [(1, {"communities": 2}), (0, {})]


def test_networkx_never_runs_on_the_event_loop(memory: AgentMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    add_ties(memory, *PAIRS)
    threads, louvain = [], nx.community.louvain_communities

    def note(*given: Any, **named: Any) -> Any:
        threads.append(threading.current_thread().name)
        return louvain(*given, **named)

    async def name_loop() -> str:
        return threading.current_thread().name

    monkeypatch.setattr(nx.community, "louvain_communities", note)
    find(memory)
    assert len(threads) == 1
    assert threads[0] != run(name_loop())


def test_without_networkx_one_notice_and_nothing_else(memory: AgentMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    add_ties(memory, *PAIRS)
    monkeypatch.setitem(sys.modules, "networkx", None)
    report = find(memory)
    assert (report.counts, len(report.notes), stored(memory)) == ({}, 1, [])
    assert "agentmem-graph[graph-analysis]" in report.notes[0]


def test_what_one_analysis_does_not_take_is_not_stored(memory: AgentMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = add_ties(memory, *PAIRS)
    find(memory)
    memory.semantic.relate(ids["Gus"], "KNOWS", ids["Eve"])
    monkeypatch.setattr(analysis, "MAX_ENTITIES", 5)
    report = find(memory)
    assert (report.counts, len(report.notes), stored(memory)) == ({}, 1, [])
    assert "more than 5 entities" in report.notes[0]
    assert len(memory.graph.communities().notices) == 1


@pytest.mark.parametrize("how", ["forgotten", "merged", "erased"])
def test_a_member_that_goes_takes_its_community_along(memory: AgentMemory, how: str) -> None:
    ids = add_ties(memory, *PAIRS)
    operation = find(memory).operation_ids[0]
    if how == "merged":
        memory.semantic.merge_entities(ids["Fay"], ids["Gus"])
    else:
        memory.forget(ids["Gus"], hard=how == "erased")
    left = stored(memory)
    assert len(left) == (0 if how == "erased" else 1)
    assert not any(ids["Gus"] in each.entity_ids for each in left)
    assert "Gus" not in {each.name for group in memory.graph.communities().communities for each in group.entities}
    if how == "erased":
        entries = run(engine_of(memory).log.operation(operation, context_of(memory).scope))
        assert not any(entry.upserts for entry in entries), "no version is left"
    find(memory)
    assert not any(ids["Gus"] in each.entity_ids for each in stored(memory))


@pytest.mark.parametrize("how", ["forgotten", "merged"])
def test_what_the_job_wrote_since_hinders_no_undoing(memory: AgentMemory, how: str) -> None:
    ids = add_ties(memory, *PAIRS)
    find(memory)
    before = ask(memory)
    if how == "merged":
        kept = memory.semantic.merge_entities(ids["Fay"], ids["Gus"])
        find(memory)
        memory.undo(kept.operation_id)
    else:
        gone = memory.forget(ids["Gus"])
        find(memory)
        memory.undo(gone.operation_id)
    assert len(memory.graph.communities().communities) == len(before[0].communities)  # type: ignore[attr-defined]
    find(memory)
    names = [[each.name for each in group.entities] for group in memory.graph.communities().communities]
    assert names == [[each.name for each in group.entities] for group in before[0].communities]  # type: ignore[attr-defined]


def test_a_turn_that_goes_leaves_the_communities_of_those_who_stay(memory: AgentMemory) -> None:
    add_ties(memory, *PAIRS)
    turn = memory.store_turn("It rains.")
    find(memory)
    memory.forget(turn.id, hard=True)
    assert len(stored(memory)) == 2


def test_each_channel_has_communities_of_its_own(memory: AgentMemory, unread: list[str]) -> None:
    open_ids = add_ties(memory, *PAIRS)
    bot = memory.scoped(agent_id="bot", channel="_self_bot")
    secret = add_ties(bot, "Ida Jon", "Jon Kim")
    bot.semantic.relate(secret["Ida"], "KNOWS", open_ids["Ann"])
    bot.semantic.relate(open_ids["Gus"], "KNOWS", open_ids["Dan"])
    everybody, mine = ask(memory), ask(bot)
    assert find(memory).counts == {"communities": 3}
    assert len(unread) == 8
    assert ask(memory) == everybody
    assert len(unread) == 8
    assert ask(bot) == mine, "computed: it reads two channels"
    assert len(unread) == 12
    for each in stored(memory):
        own = secret if each.channel == "_self_bot" else open_ids
        assert set(each.entity_ids) <= set(own.values())
    private = {each.id for each in stored(memory) if each.channel == "_self_bot"}
    assert len(private) == 1
    assert not private & {each.id for each in memory.list_records(["Community"])}
    assert private <= {each.id for each in bot.list_records(["Community"])}


def test_communities_move_with_an_export(memory: AgentMemory, tmp_path: Path, unread: list[str]) -> None:
    add_ties(memory, *PAIRS)
    find(memory)
    before, groups = stored(memory), memory.graph.communities()
    lines: list[str] = []
    run(export_user(engine_of(memory), context_of(memory).scope, lines.append))
    with open_memory(tmp_path / "other", "bob", seed=8) as other:
        run(import_user(engine_of(other), context_of(other).scope, iter(lines)))
        assert [each.entity_ids for each in stored(other)] == [each.entity_ids for each in before]
        again = other.graph.communities()
        assert [len(each.entities) for each in again.communities] == [len(each.entities) for each in groups.communities]
        other.forget(before[0].entity_ids[0], hard=True)
        assert stored(other) == []


def test_they_are_kept_as_of_any_time_and_never_recalled(memory: AgentMemory, clock: ManualClock) -> None:
    ids = add_ties(memory, *PAIRS)
    find(memory)
    (first, _), moment = stored(memory), clock.time
    clock.advance(days=1)
    memory.semantic.relate(ids["Gus"], "KNOWS", ids["Eve"])
    find(memory)
    log, scope = engine_of(memory).log, context_of(memory).scope
    then = run(log.snapshot_at([first.key], scope, run(log.seq_at_time(scope, moment))))
    assert then[first.key] == first != stored(memory)[0]
    assert not [item for item in memory.remember("Ann Ben Cleo", top_k=50).items if item.record.kind == "Community"]


@pytest.mark.server("postgres", "neo4j", "redis")
def test_on_servers_the_same_is_stored_and_erased(tmp_path: Path, stack: Stack) -> None:
    def tell(user: str, **urls: Any) -> list[object]:
        with open_memory(tmp_path / f"home{len(urls)}", user, clock=ManualClock(), seed=7, **urls) as memory:
            ids = add_ties(memory, *PAIRS)
            names = {identifier: name for name, identifier in ids.items()}
            computed = ask(memory)
            find(memory)
            assert ask(memory) == computed
            kept = [
                ([names[each] for each in group.entity_ids], [round(score, 6) for score in group.scores])
                for group in stored(memory)
            ]
            receipt = memory.forget(ids["Gus"], hard=True)
            assert receipt.scan is not None
            assert receipt.scan.leftovers == {}
            return [kept, len(stored(memory)), len(receipt.derived)]

    assert tell(stack.user(), **stack.urls) == tell("alice")
