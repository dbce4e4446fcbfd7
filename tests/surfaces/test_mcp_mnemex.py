"""The tools of Mnemex, with its parameters and results, over facts that fade."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from agentmem import AsyncAgentMemory
from agentmem.core.records import KINDS
from agentmem.server.mcp.server import TOOL_SETS, build_mcp_server
from agentmem.stores.values import Where
from tests.flows.given import ManualClock
from tests.surfaces.test_mcp import call, refusal

REQUIRED = object()
PAGES = {"page": None, "page_size": None}
FILTERS = {"query": None, "tags": None, "status": None, "window_days": None, "min_score": None, "preview_length": None}
MESSAGE = {"message": REQUIRED}
PARAMETERS: dict[str, dict[str, object]] = {
    "save_memory": {
        "content": REQUIRED,
        **dict.fromkeys(("tags", "entities", "source", "context", "meta", "strength")),
    },
    "search_memory": {
        **FILTERS,
        **PAGES,
        "top_k": 10,
        "use_embeddings": False,
        "include_review_candidates": True,
    },
    "touch_memory": {"memory_id": REQUIRED, "boost_strength": False},
    "observe_memory_usage": {"memory_ids": REQUIRED, "context_tags": None},
    "gc": {"dry_run": True, "archive_instead": False, "limit": None},
    "promote_memory": {
        "memory_id": None,
        "auto_detect": False,
        "dry_run": False,
        "target": "obsidian",
        "force": False,
    },
    "cluster_memories": {
        "strategy": "similarity",
        "threshold": None,
        "max_cluster_size": None,
        "find_duplicates": False,
        "duplicate_threshold": None,
    },
    "consolidate_memories": {
        "cluster_id": None,
        "mode": "preview",
        "auto_detect": False,
        "cohesion_threshold": 0.75,
    },
    "read_graph": {"status": "active", "include_scores": True, "limit": None, **PAGES},
    "open_memories": {"memory_ids": REQUIRED, "include_relations": True, "include_scores": True, **PAGES},
    "create_relation": {
        "from_memory_id": REQUIRED,
        "to_memory_id": REQUIRED,
        "relation_type": REQUIRED,
        "strength": 1.0,
        "metadata": None,
    },
    "search_unified": {**FILTERS, **PAGES, "limit": 10, "stm_weight": 1.0, "ltm_weight": 0.7},
    "analyze_message": MESSAGE,
    "analyze_for_recall": MESSAGE,
    "auto_recall_process_message": MESSAGE,
}
CHANGING = {
    "save_memory",
    "touch_memory",
    "observe_memory_usage",
    "gc",
    "promote_memory",
    "consolidate_memories",
    "create_relation",
    "auto_recall_process_message",
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def memory(home: Path, clock: ManualClock) -> AsyncIterator[AsyncAgentMemory]:
    async with AsyncAgentMemory("ann", home=home, embedder="hash", clock=clock, seed=1) as opened:
        yield opened


@pytest.fixture
async def client(memory: AsyncAgentMemory) -> AsyncIterator[Any]:
    opened, begun, done = open_client(memory), asyncio.Event(), asyncio.Event()

    async def live() -> None:  # in one task, as its task groups ask for
        async with opened:
            begun.set()
            await done.wait()

    living = asyncio.ensure_future(live())
    await begun.wait()
    yield opened
    done.set()
    await living


def open_client(memory: AsyncAgentMemory) -> Any:
    return Client(build_mcp_server(lambda *_: memory, TOOL_SETS["mnemex"]))


async def save(client: Any, content: str, **more: Any) -> str:
    """The id of a memory."""
    return str((await call(client, "save_memory", content=content, **more))["memory_id"])


async def read_all(memory: AsyncAgentMemory) -> list[Any]:
    """Every record of the user, and how it was used."""
    scope = memory.scope
    found = await memory.engine.log.find(scope, Where(kinds=tuple(KINDS)), limit=1000)
    return [found, await memory.engine.log.usage([each.key for each in found], scope)]


async def test_the_tools_have_these_parameters_and_defaults(client: Any) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == set(PARAMETERS)
    for name, wanted in PARAMETERS.items():
        schema = tools[name].input_schema
        required = schema.get("required", [])
        found = {
            key: REQUIRED if key in required else field.get("default") for key, field in schema["properties"].items()
        }
        assert found == wanted, name
        assert schema["additionalProperties"] is False
    assert {name for name, tool in tools.items() if not tool.annotations.read_only_hint} == CHANGING
    destructive = {name for name, tool in tools.items() if tool.annotations.destructive_hint}
    assert destructive == {"gc", "consolidate_memories"}


async def test_a_memory_is_saved_found_and_used(memory: AsyncAgentMemory, client: Any, clock: ManualClock) -> None:
    saved = await call(client, "save_memory", content="Ann takes her coffee black", tags=["drinks"])
    assert (saved["success"], saved["auto_entities"], saved["enrichment_applied"]) == (True, ["Ann"], True)
    coffee = saved["memory_id"]
    (fact,) = await memory.semantic.facts()
    assert (fact.id, fact.tier, fact.tags) == (coffee, "short", ("drinks",))
    (hit,) = (await call(client, "search_memory", query="coffee"))["results"]
    assert (hit["id"], hit["content"], hit["use_count"], hit["last_used"]) == (coffee, fact.claim, 0, "")
    assert hit["similarity"] > 0

    clock.advance(days=3)
    touched = await call(client, "touch_memory", memory_id=coffee, boost_strength=True)
    assert (touched["old_score"], touched["use_count"], touched["strength"]) == (0.5, 1, 1.1)
    assert touched["new_score"] == pytest.approx(2**0.6 * 1.1, abs=1e-3)
    seen = await call(client, "observe_memory_usage", memory_ids=[coffee, "nobody"], context_tags=["travel"])
    assert (seen["reinforced"], seen["count"], seen["cross_domain_count"]) == (True, 1, 1)
    assert [each["status"] for each in seen["results"]] == ["reinforced", "not_found"]
    assert (seen["results"][0]["new_use_count"], seen["results"][0]["strength"]) == (2, 1.2)


async def test_memories_are_related_and_read_as_a_graph(memory: AsyncAgentMemory, client: Any) -> None:
    coffee = await save(client, "Ann takes her coffee black")
    tea = await save(client, "Tea is what Mira drinks", entities=["Mira"])
    said = {"from_memory_id": coffee, "to_memory_id": tea, "relation_type": "contradicts"}
    relation = await call(client, "create_relation", **said, strength=0.5)
    again = await call(client, "create_relation", **said, strength=0.6, metadata={"name": "x", "since": 2026})
    assert again["relation_id"] == relation["relation_id"]
    graph = await call(client, "read_graph")
    assert [(each["id"], each["entities"]) for each in graph["memories"]] == [(tea, ["Mira"]), (coffee, ["Ann"])]
    (edge,) = graph["relations"]
    metadata = {"name": "x", "since": 2026}
    assert edge == {**said, "id": relation["relation_id"], "strength": 0.6, "metadata": metadata}
    assert graph["stats"] == {"total_memories": 2, "total_relations": 1, "average_score": 1.0}
    part = await call(client, "read_graph", limit=1, include_scores=False)
    assert ([(each["id"], each["score"]) for each in part["memories"]], part["relations"]) == ([(tea, 0)], [])
    opened = await call(client, "open_memories", memory_ids=[tea, "nobody", tea])
    assert ([each["id"] for each in opened["memories"]], opened["not_found"]) == ([tea], ["nobody"])
    assert opened["relations"] == [edge]
    assert (await call(client, "open_memories", memory_ids=[tea], include_relations=False))["relations"] == []
    assert [entity.name for entity in await memory.semantic.entities()] == ["Ann", "Mira"]  # none that stands for one


async def test_what_faded_is_put_away(memory: AsyncAgentMemory, client: Any, clock: ManualClock) -> None:
    faded = await save(client, "Tea is what Mira drinks")
    clock.advance(days=13)
    kept = await save(client, "Ann takes her coffee black")
    dry = await call(client, "gc")
    assert (dry["memory_ids"], dry["archived_count"], dry["removed_count"], dry["total_affected"]) == ([faded], 1, 0, 1)
    assert 0 < dry["freed_score_sum"] < 0.05
    assert "Leave it out" in await refusal(client, "gc", dry_run=False, limit=1)
    assert len(await memory.semantic.facts()) == 2
    done = await call(client, "gc", dry_run=False, archive_instead=True)
    assert {**done, "notices": dry["notices"]} == dry
    assert [fact.id for fact in await memory.semantic.facts()] == [kept]
    archived = await call(client, "search_memory", status="archived")
    assert [each["id"] for each in archived["results"]] == [faded]
    assert "no archived memories" in await refusal(client, "search_memory", query="tea", status="archived")
    assert [each["id"] for each in (await call(client, "read_graph", status="all"))["memories"]] == [faded, kept]


async def test_a_search_filters_pages_and_cuts(memory: AsyncAgentMemory, client: Any, clock: ManualClock) -> None:
    old = await save(client, "Ann takes her coffee black", tags=["drinks"])
    clock.advance(days=5)
    young = await save(client, "Ann buys coffee in Oslo", tags=["shops"])
    before = await read_all(memory)

    async def search(**asked: Any) -> list[str]:
        return [each["id"] for each in (await call(client, "search_memory", query="coffee", **asked))["results"]]

    assert sorted(await search()) == sorted([old, young])
    assert await search(tags=["drinks", "food"]) == [old]
    assert await search(window_days=2) == [young]
    assert await search(min_score=0.5) == [young]
    assert await search(status="promoted") == []
    assert len(await search(top_k=1)) == 1
    assert await search(use_embeddings=True, tags=["shops"]) == [young]
    page = await call(client, "search_memory", page=2, page_size=1, preview_length=5)
    assert [(each["id"], each["content"]) for each in page["results"]] == [(old, "Ann …")]
    assert page["pagination"] == {"page": 2, "page_size": 1, "total_count": 2, "total_pages": 2, "has_more": False}
    assert "page must be 1 or more" in await refusal(client, "search_memory", page=0)
    assert "top_k must be 1 or more" in await refusal(client, "search_memory", top_k=0)
    assert await read_all(memory) == before


async def test_embeddings_find_what_words_do_not(client: Any) -> None:
    saved = await save(client, "Ann takes her coffee black")
    by_words = await call(client, "search_memory", query="coffeehouse")
    by_meaning = await call(client, "search_memory", query="coffeehouse", use_embeddings=True)
    assert by_words["results"] == []
    assert [each["id"] for each in by_meaning["results"]] == [saved]


async def test_what_is_due_for_review_is_raised_unless_it_is_not_wanted(client: Any, clock: ManualClock) -> None:
    due = await save(client, "Ann takes her coffee black when she is at work with all of the others")
    clock.advance(days=6)
    for shop in ("Oslo", "Rome", "Bern", "Wien"):
        await save(client, f"Ann buys coffee, coffee beans in {shop}")

    async def place(**asked: Any) -> int:
        found = (await call(client, "search_memory", query="coffee", **asked))["results"]
        return [each["id"] for each in found].index(due)

    assert await place() < await place(include_review_candidates=False) == 4


async def test_one_search_weighs_both_tiers(memory: AsyncAgentMemory, client: Any) -> None:
    short = await save(client, "Ann drinks coffee black")
    long = (await memory.learn_fact("Ann drinks coffee hot")).id

    async def search(**asked: Any) -> list[tuple[str, str]]:
        found = await call(client, "search_unified", query="what coffee does Ann drink?", **asked)
        return [(each["memory_id"], each["source"]) for each in found["results"]]

    assert await search() == [(short, "stm"), (long, "ltm")]
    assert await search(stm_weight=0.1) == [(long, "ltm"), (short, "stm")]
    assert await search(limit=1) == [(short, "stm")]
    assert "stm_weight must be 0 or more" in await refusal(client, "search_unified", stm_weight=-1)


async def test_clusters_are_shown_related_and_merged(memory: AsyncAgentMemory, client: Any) -> None:
    ids = [await save(client, f"Ann takes her coffee black{more}") for more in ("", ", always", " at work")]
    found = await call(client, "cluster_memories")
    (cluster,) = found["clusters"]
    assert (found["clusters_found"], cluster["size"], cluster["suggested_action"]) == (1, 3, "ask")
    assert sorted(cluster["memory_ids"]) == sorted(ids)
    assert (await call(client, "cluster_memories", threshold=0.99))["clusters_found"] == 0
    assert (await call(client, "cluster_memories", find_duplicates=True))["duplicates_found"] == 0
    small = await call(client, "cluster_memories", max_cluster_size=2)
    assert (small["clusters_found"], len(small["notices"])) == (0, 1)

    (shown,) = (await call(client, "consolidate_memories", auto_detect=True))["clusters"]
    assert (shown["cluster_id"], shown["kept_id"]) == (cluster["id"], ids[0])
    assert len(await memory.semantic.facts()) == 3
    unsure = await call(client, "consolidate_memories", auto_detect=True, mode="apply")
    assert (unsure["clusters"], "Ask the user" in unsure["notices"][0]) == ([], True)
    (linked,) = (await call(client, "consolidate_memories", cluster_id=cluster["id"], mode="link"))["clusters"]
    edges = (await call(client, "read_graph"))["relations"]
    assert sorted(edge["id"] for edge in edges) == sorted(linked["relation_ids"])
    assert {edge["from_memory_id"] for edge in edges} == {ids[0]}
    tea = await save(client, "Mira drinks tea")
    said = {"from_memory_id": ids[1], "to_memory_id": tea, "relation_type": "contradicts"}
    await call(client, "create_relation", **said, strength=0.5, metadata={"since": 2026})
    merged = await call(client, "consolidate_memories", cluster_id=cluster["id"], mode="apply")
    assert merged["clusters_consolidated"] == 1
    assert {fact.id for fact in await memory.semantic.facts()} == {ids[0], tea}
    (moved,) = (await call(client, "read_graph"))["relations"]
    assert merged["clusters"][0]["relation_ids"] == [moved["id"]]
    said = {**said, "from_memory_id": ids[0], "strength": 0.5, "metadata": {"since": 2026}}
    assert moved == {**said, "id": moved["id"]}
    assert "cluster_memories" in await refusal(client, "consolidate_memories", cluster_id=cluster["id"])
    for both in ({}, {"cluster_id": "x", "auto_detect": True}):
        assert "either cluster_id" in await refusal(client, "consolidate_memories", **both)


async def test_without_a_vault_a_promotion_names_the_setting(memory: AsyncAgentMemory, client: Any) -> None:
    saved = await save(client, "Ann takes her coffee black")
    said = await refusal(client, "promote_memory", memory_id=saved, force=True)
    assert "`vault`" in said
    assert "AGENTMEM_VAULT" in said
    assert (await memory.semantic.get_fact(saved)).tier == "short"


async def test_promotions_are_written_to_the_vault(home: Path, tmp_path: Path, clock: ManualClock) -> None:
    vault = tmp_path / "vault"
    async with (
        AsyncAgentMemory("ann", home=home, embedder="hash", clock=clock, seed=1, vault=vault) as memory,
        open_client(memory) as client,
    ):
        one, other = [await save(client, f"Ann drinks {what}") for what in ("coffee", "tea")]
        assert "force=true" in await refusal(client, "promote_memory", memory_id=one)
        assert (await call(client, "promote_memory", memory_id=one, dry_run=True))["candidates_found"] == 0
        forced = await call(client, "promote_memory", memory_id=one, force=True)
        assert forced["promoted_ids"] == [one]
        clock.advance(days=3)
        await call(client, "touch_memory", memory_id=other)
        dry = await call(client, "promote_memory", auto_detect=True, dry_run=True)
        assert ([each["id"] for each in dry["candidates"]], dry["promoted_count"]) == ([other], 0)
        assert (await memory.semantic.get_fact(other)).tier == "short"
        done = await call(client, "promote_memory", auto_detect=True)
        assert (done["promoted_ids"], done["promoted_count"]) == ([other], 1)
        notes = [(vault / (await memory.semantic.get_fact(name)).vault_path).read_text() for name in (one, other)]
        assert ["coffee" in notes[0], "tea" in notes[1]] == [True, True]
        assert "either memory_id" in await refusal(client, "promote_memory")
        promoted = await call(client, "search_memory", status="promoted")
        assert sorted(each["id"] for each in promoted["results"]) == sorted([one, other])


async def test_looking_at_a_message_writes_nothing(memory: AsyncAgentMemory, client: Any) -> None:
    await save(client, "Mira drinks coffee", entities=["Mira"])
    before = await read_all(memory)
    found = await call(client, "analyze_message", message="I live in Oslo.")
    assert (found["should_save"], found["claims"]) == (True, ["The user lives in Oslo"])
    assert (found["suggested_entities"], found["suggested_tags"]) == (["Oslo"], ["home"])
    assert found["confidence"] > 0.5
    nothing = await call(client, "analyze_message", message="Thanks a lot!")
    assert (nothing["should_save"], nothing["confidence"], nothing["claims"]) == (False, 0, [])
    asked = {
        "Where do I live?": True,
        "Tell me about Mira.": True,
        "Thanks a lot!": False,
    }
    for message, wanted in asked.items():
        assert (await call(client, "analyze_for_recall", message=message))["should_search"] is wanted, message
    assert "message: must not be empty" in await refusal(client, "analyze_message", message="")
    assert await read_all(memory) == before


async def test_a_message_strengthens_what_it_is_about(client: Any) -> None:
    coffee = await save(client, "Ann takes her coffee black")
    await save(client, "Mira drinks tea")
    done = await call(client, "auto_recall_process_message", message="Shall we have coffee in Oslo?")
    assert (done["topics_found"], done["memories_found"], done["memories_reinforced"]) == (["Oslo"], 1, [coffee])
    graph = await call(client, "read_graph")
    assert {each["content"]: each["use_count"] for each in graph["memories"]} == {
        "Ann takes her coffee black": 1,
        "Mira drinks tea": 0,
    }


async def test_what_has_no_meaning_here_is_said_or_refused(memory: AsyncAgentMemory, client: Any) -> None:
    saved = await call(client, "save_memory", content="Ann sails", context="chat", meta={"a": 1}, strength=1.5)
    assert [notice.split(" ")[0] for notice in saved["notices"]] == ["context", "meta", "The"]
    assert saved["calculated_strength"] == 1.5
    assert (await call(client, "save_memory", content="Ann sails", source="agent"))["memory_id"] == saved["memory_id"]
    before = await read_all(memory)
    assert "strength must be" in await refusal(client, "save_memory", content="Ann runs", strength=3)
    assert "Nothing was stored" in await refusal(client, "save_memory", content="", entities=["Bob"])
    assert "strategy is wrong" in await refusal(client, "cluster_memories", strategy="topic")
    assert "target is wrong" in await refusal(client, "promote_memory", target="mail")
    noted = await call(client, "cluster_memories", threshold=0.5, duplicate_threshold=0.5)
    assert len(noted["notices"]) == 2
    relation = {"from_memory_id": saved["memory_id"], "to_memory_id": saved["memory_id"]}
    assert "Nothing was stored" in await refusal(client, "create_relation", **relation, relation_type="x", strength=2)
    assert await read_all(memory) == before


async def test_collecting_erases_nothing_where_the_settings_would(home: Path, clock: ManualClock) -> None:
    async with (
        AsyncAgentMemory("ann", home=home, embedder="hash", clock=clock, decay={"forget": "delete"}) as memory,
        open_client(memory) as client,
    ):
        saved = await save(client, "Ann takes her coffee black")
        clock.advance(days=20)
        assert (await call(client, "gc"))["removed_count"] == 1
        assert "decay.forget" in await refusal(client, "gc", dry_run=False)
        assert (await memory.semantic.get_fact(saved)).id == saved


async def test_what_is_somebody_elses_is_as_if_it_were_not(memory: AsyncAgentMemory, client: Any) -> None:
    mine = await save(client, "Ann takes her coffee black")
    other = memory.scoped(user_id="bob")
    async with open_client(other) as foreign:
        theirs = await save(foreign, "Bob hides the secret word")
        before = await read_all(other)
        gone = await save(client, "Ann was in Rome")
        await memory.forget(gone)
        asked: dict[str, Any] = {
            "touch_memory": lambda name: {"memory_id": name},
            "create_relation": lambda name: {"from_memory_id": mine, "to_memory_id": name, "relation_type": "x"},
        }
        for tool, arguments in asked.items():
            said = {
                name: (await refusal(client, tool, **arguments(name))).replace(name, "ID")
                for name in (theirs, gone, "nobody")
            }
            assert len(set(said.values())) == 1, said
            assert "NotFound" in said["nobody"]
        seen = await call(client, "observe_memory_usage", memory_ids=[theirs, gone])
        assert [each["status"] for each in seen["results"]] == ["not_found", "not_found"]
        opened = await call(client, "open_memories", memory_ids=[theirs, gone])
        assert (opened["memories"], opened["not_found"]) == ([], [theirs, gone])
        assert await read_all(other) == before


async def test_a_relation_to_what_cannot_be_read_is_not_shown(memory: AsyncAgentMemory) -> None:
    kitchen = memory.scoped(channel="kitchen")
    async with open_client(kitchen) as inside, open_client(memory) as outside:
        hidden = await save(inside, "The oven is broken")
        known = (await memory.learn_fact("Ann bakes bread")).id
        said = {"from_memory_id": known, "to_memory_id": hidden, "relation_type": "needs"}
        await call(inside, "create_relation", **said)
        assert len((await call(inside, "open_memories", memory_ids=[known]))["relations"]) == 1
        assert (await call(outside, "open_memories", memory_ids=[known]))["relations"] == []
        assert (await call(outside, "read_graph"))["relations"] == []


async def test_erasing_a_memory_takes_its_relations_along(memory: AsyncAgentMemory, client: Any) -> None:
    one, other = await save(client, "Ann sails"), await save(client, "Ann runs")
    await call(client, "create_relation", from_memory_id=one, to_memory_id=other, relation_type="x", metadata={"a": 1})
    await memory.forget(one, hard=True)
    assert (await call(client, "open_memories", memory_ids=[other]))["relations"] == []
    found, _ = await read_all(memory)
    assert [each for each in found if each.kind == "Edge"] == []
