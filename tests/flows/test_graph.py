"""Questions to the graph: who is near, how two are tied, who belongs together, who matters."""

from __future__ import annotations

import random
import sys
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import networkx as nx
import pytest

from agentmem import AgentMemory, ConfigError, Entity, InvalidRecord, NotFound
from agentmem.memory.graph import analysis, edge_reader, path_search
from agentmem.memory.graph.knowledge_graph import GraphPaths
from tests.flows.given import ManualClock, open_memory
from tests.scale import scaled


def add_entities(memory: AgentMemory, *names: str) -> dict[str, str]:
    return {name: memory.upsert_entity({"name": name, "type": "person"}).id for name in names}


def list_names(found: GraphPaths) -> list[list[str]]:
    return [
        [record.name if isinstance(record, Entity) else record.kind for record in each.records] for each in found.paths
    ]


def test_a_neighborhood_is_asked_by_name_or_id(memory: AgentMemory) -> None:
    ids = add_entities(memory, "Ann", "Ben", "Cleo")
    memory.semantic.relate(ids["Ann"], "KNOWS", ids["Ben"])
    memory.semantic.relate(ids["Ben"], "KNOWS", ids["Cleo"])
    near = memory.graph.neighborhood("ann")
    assert [each.name for each in near.entities] == ["Ann", "Ben"]
    assert near == memory.graph.neighborhood(ids["Ann"])
    assert [edge.target for edge in near.edges] == [ids["Ben"]]  # that Ben knows Cleo is a step further
    assert [each.name for each in memory.graph.neighborhood("Ann", 2).entities] == ["Ann", "Ben", "Cleo"]


def test_a_name_that_none_or_several_have_is_refused_with_what_to_do(memory: AgentMemory) -> None:
    place, person = (memory.upsert_entity({"name": "Paris", "type": each}).id for each in ("place", "person"))
    with pytest.raises(NotFound, match=r"no entity has the id, name or alias 'Rome'; semantic.entities\(\) lists them"):
        memory.graph.neighborhood("Rome")
    with pytest.raises(InvalidRecord, match="give the id of one") as refused:
        memory.graph.paths("Paris", "Paris")
    assert refused.value.field == "a"
    assert all(f"{each} (" in str(refused.value) for each in (place, person))


def test_paths_are_the_shortest_first_and_say_what_they_rest_on(memory: AgentMemory) -> None:
    ids = add_entities(memory, "Ann", "Ben", "Cleo", "Dan")
    turn = memory.store_turn("Ben works with Cleo.")
    fact = memory.learn_fact("Ben knows Cleo", source_turn_ids=[turn.id])
    memory.semantic.relate(ids["Ann"], "KNOWS", ids["Ben"])
    tie = memory.semantic.relate(ids["Ben"], "KNOWS", ids["Cleo"], fact_id=fact.id)
    memory.semantic.relate(ids["Ann"], "KNOWS", ids["Dan"])
    memory.semantic.relate(ids["Dan"], "KNOWS", ids["Ben"])
    found = memory.graph.paths("Ann", "Cleo")
    assert list_names(found) == [["Ann", "Ben", "Cleo"], ["Ann", "Dan", "Ben", "Cleo"]]
    assert found.notices == ()
    assert (found.paths[0].steps[1].edges, found.paths[0].steps[1].rests_on) == ((tie,), (fact,))
    assert list_names(memory.graph.paths("Ann", "Cleo", 2)) == [["Ann", "Ben", "Cleo"]]
    assert list_names(memory.graph.paths("Ann", "Cleo", limit=1)) == [["Ann", "Ben", "Cleo"]]
    assert memory.graph.paths("Ann", "Cleo", 1).paths == ()


def test_without_relations_facts_that_name_both_tie_two(memory: AgentMemory) -> None:
    ids = add_entities(memory, "Ann", "Ben", "Cleo")
    fact = memory.learn_fact("Ann and Ben sing", entity_ids=[ids["Ann"], ids["Ben"]])
    (path,) = memory.graph.paths("Ann", "Ben").paths
    assert path.records[1] == fact
    assert [step.rests_on for step in path.steps] == [(fact,), (fact,)]
    assert memory.graph.paths("Ann", "Ben", kinds=["KNOWS"]).paths == ()
    tie = memory.semantic.relate(ids["Ann"], "KNOWS", ids["Ben"])
    assert [step.edges for each in memory.graph.paths("Ann", "Ben").paths for step in each.steps] == [(tie,)]
    assert [len(each.records) for each in memory.graph.paths("Ann", "Ben", kinds=["ABOUT"]).paths] == [3]


def test_a_path_ends_at_the_user_and_never_goes_through(memory: AgentMemory) -> None:
    ids = add_entities(memory, "Ola", "Oslo", "Acme")
    for slot, name in (("home", "Oslo"), ("employer", "Acme")):
        memory.learn_fact(f"The user has {name}", slot=slot, value=name, entity_ids=[ids[name]])
    (path,) = memory.graph.paths("user", "Oslo").paths
    assert [record.kind for record in path.records] == ["User", "Entity"]
    assert [edge.edge_kind.value for step in path.steps for edge in step.edges] == ["LIVES_IN"]
    assert memory.graph.paths("Oslo", "Acme", 6).paths == ()
    assert memory.graph.communities().communities == ()
    memory.semantic.relate(ids["Ola"], "WORKS_FOR", ids["Acme"])
    assert list_names(memory.graph.paths("Ola", "User")) == [["Ola", "Acme", "User"]]


def test_an_entity_with_the_id_of_the_profile_is_not_the_user(memory: AgentMemory) -> None:
    ids = add_entities(memory, "Ann", "Ben")
    odd = memory.upsert_entity({"name": "Odd", "id": "profile"})
    assert odd.id == "profile"
    memory.semantic.relate(ids["Ann"], "KNOWS", "profile")
    memory.semantic.relate("profile", "KNOWS", ids["Ben"])
    memory.learn_fact("Odd and Ann sing", entity_ids=["profile", ids["Ann"]])
    assert list_names(memory.graph.paths("Ann", "Ben")) == [["Ann", "Odd", "Ben"]]
    assert list_names(memory.graph.paths("Ann", "Odd", kinds=["ABOUT"])) == [["Ann", "Fact", "Odd"]]


@pytest.mark.parametrize("seed", range(scaled(300, least=6)))
def test_the_paths_are_those_of_a_search_of_everything(memory: AgentMemory, seed: int) -> None:
    pick = random.Random(seed)
    names = [f"P{n}" for n in range(9)]
    ids = add_entities(memory, *names)
    graph = nx.Graph()
    graph.add_nodes_from(names)
    for _ in range(pick.randint(9, 14)):
        one, other = pick.sample(names, 2)
        graph.add_edge(one, other)
        memory.semantic.relate(ids[one], "KNOWS", ids[other])
    for steps, limit in ((2, 50), (4, 50), (6, 3)):
        every = sorted(map(len, nx.all_simple_paths(graph, "P0", "P1", cutoff=steps)))
        found = list_names(memory.graph.paths("P0", "P1", steps, limit=limit, kinds=["KNOWS"]))
        assert [len(path) for path in found] == every[:limit]
        assert len(set(map(tuple, found))) == len(found)
        assert all(nx.is_simple_path(graph, path) for path in found)


def test_what_is_forgotten_over_or_in_another_channel_ties_nobody(memory: AgentMemory, clock: ManualClock) -> None:
    ids = add_entities(memory, "Ann", "Ben", "Cleo", "Dan")
    gone = memory.semantic.relate(ids["Ann"], "KNOWS", ids["Ben"])
    memory.semantic.relate(ids["Ann"], "KNOWS", ids["Cleo"], valid_to=clock.time + timedelta(days=1))
    bot = memory.scoped(agent_id="bot", channel="_self_bot")
    bot.semantic.relate(ids["Ann"], "KNOWS", ids["Dan"])
    assert [len(memory.graph.paths("Ann", name).paths) for name in ("Ben", "Cleo", "Dan")] == [1, 1, 0]
    assert [len(each.entities) for each in memory.graph.communities().communities] == [3]
    clock.advance(days=2)
    memory.forget(gone.id)
    assert [len(memory.graph.paths("Ann", name).paths) for name in ("Ben", "Cleo", "Dan")] == [0, 0, 0]
    assert len(bot.graph.paths("Ann", "Dan").paths) == 1
    assert (memory.graph.communities().communities, memory.graph.central_entities().entities) == ((), ())


def test_a_search_tells_when_its_bound_ended_it(memory: AgentMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"P{n}" for n in range(6)]
    ids = add_entities(memory, *names)
    for one, other in pairwise(names):
        memory.semantic.relate(ids[one], "KNOWS", ids[other])
    assert memory.graph.paths("P0", "P5", 5).notices == ()
    monkeypatch.setattr(path_search, "MAX_VISITED", 4)
    found = memory.graph.paths("P0", "P5", 5)
    assert (found.paths, len(found.notices)) == ((), 1)


def test_entities_with_very_many_edges_are_read_in_parts(memory: AgentMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = add_entities(memory, "Hub", *(f"P{n}" for n in range(6)))
    for name in list(ids)[1:]:
        memory.semantic.relate(ids["Hub"], "KNOWS", ids[name])
    monkeypatch.setattr(edge_reader, "BATCH_EDGES", 7)
    assert (len(memory.graph.communities().communities[0].entities), memory.graph.communities().notices) == (7, ())
    monkeypatch.setattr(edge_reader, "BATCH_EDGES", 3)
    assert len(memory.graph.communities().notices) == 1


def test_communities_and_centrality_follow_the_ties(memory: AgentMemory) -> None:
    ids = add_entities(memory, "Ann", "Ben", "Cleo", "Dan", "Eve", "Fay", "Gus")
    for pair in ("Ann Ben", "Ben Cleo", "Cleo Ann", "Ann Dan"):
        one, other = pair.split()
        memory.semantic.relate(ids[one], "KNOWS", ids[other])
    memory.learn_fact("Eve and Fay sing", entity_ids=[ids["Eve"], ids["Fay"]])
    groups = memory.graph.communities()
    assert [sorted(each.name for each in group.entities) for group in groups.communities] == [
        ["Ann", "Ben", "Cleo", "Dan"],
        ["Eve", "Fay"],
    ]
    assert groups.communities[0].entities[0].name == "Ann"
    assert groups == memory.graph.communities()
    assert [group.size for group in memory.graph.communities(3, members=1).communities] == [4]
    best = memory.graph.central_entities().entities
    assert (best[0].entity.name, {each.entity.name for each in best}) == ("Ann", set(ids) - {"Gus"})
    assert sum(each.score for each in best) == pytest.approx(1)
    assert memory.graph.central_entities(limit=2).entities == best[:2]


def test_of_too_many_entities_the_latest_are_taken(memory: AgentMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = add_entities(memory, "Ann", "Ben", "Cleo")
    memory.semantic.relate(ids["Ann"], "KNOWS", ids["Ben"])
    memory.semantic.relate(ids["Ben"], "KNOWS", ids["Cleo"])
    monkeypatch.setattr(analysis, "MAX_ENTITIES", 2)
    found = memory.graph.central_entities()
    assert ({each.entity.name for each in found.entities}, len(found.notices)) == ({"Ben", "Cleo"}, 1)


def test_communities_without_networkx_say_what_to_install(memory: AgentMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = add_entities(memory, "Ann", "Ben")
    memory.semantic.relate(ids["Ann"], "KNOWS", ids["Ben"])
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ConfigError, match=r"pip install 'agentmem-graph\[graph-analysis\]'"):
        memory.graph.communities()
    assert len(memory.graph.central_entities().entities) == 2


@pytest.mark.server("postgres")
def test_postgres_answers_as_the_file_does(tmp_path: Path, postgres_copy: str) -> None:
    def ask(**urls: str) -> list[object]:
        with open_memory(tmp_path / f"home{len(urls)}", clock=ManualClock(), seed=7, **urls) as memory:
            ids = add_entities(memory, "Ann", "Ben", "Cleo", "Dan")
            memory.semantic.relate(ids["Ann"], "KNOWS", ids["Ben"])
            memory.semantic.relate(ids["Ben"], "KNOWS", ids["Cleo"])
            memory.learn_fact("Cleo and Dan sing", entity_ids=[ids["Cleo"], ids["Dan"]])
            graph = memory.graph
            paths = [list_names(graph.paths("Ann", each)) for each in ("Cleo", "Dan")]
            groups = [[each.name for each in group.entities] for group in graph.communities().communities]
            scores = [(each.entity.name, round(each.score, 6)) for each in graph.central_entities().entities]
            return [paths, groups, scores, [each.name for each in graph.neighborhood("Ann").entities]]

    assert ask(log_url=postgres_copy) == ask()
