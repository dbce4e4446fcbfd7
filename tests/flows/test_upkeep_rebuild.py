"""Rebuilding: in place, for another embedder, interrupted, beside others, and with a model that fails."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentmem import (
    AsyncAgentMemory,
    Conflict,
    InvalidModelOutput,
    InvalidRecord,
    MemoryBundle,
    ModelError,
    ModelUnavailable,
)
from agentmem.admin.rebuild import rebuild
from agentmem.core.scope import Operator
from agentmem.models.protocols import Vectors
from agentmem.models.providers.hash import HashEmbedder
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.stores.sqlite.database import SqliteDatabase

SMALL, LARGE = "hash:v1:64", "hash:v1:512"


def opened(home: Path, user: str = "alice", **more: Any) -> AsyncAgentMemory:
    return AsyncAgentMemory(user, home=home, embedder="hash", **more)


async def filled(memory: AsyncAgentMemory, *users: str) -> None:
    for user in users or (memory.scope.user_id,):
        view = memory.scoped(user_id=user)
        await view.store_turns([f"{user} saw {thing} at the lake" for thing in ("a heron", "two boats", "the moon")])
        fact = await view.learn_fact(f"{user} likes herons")
        await view.semantic.supersede_fact(fact.id, f"{user} likes owls")
        entity = await view.upsert_entity({"name": "Heron", "type": "bird"})
        await view.upsert_entity({"name": "Heron", "type": "bird", "description": f"stands near {user}"})
        await view.learn_fact("The heron is grey", entity_ids=[entity.id])
        await view.flush()


def emptied(db: SqliteConnection, table: str) -> None:
    db.execute(f"DELETE FROM {table}")


def ranking(bundle: MemoryBundle) -> list[Any]:
    return [(item.record.key, item.record.seq, round(item.score, 6), item.why) for item in bundle.items]


async def asked(memory: AsyncAgentMemory) -> list[Any]:
    bundles = [await memory.remember(query, reinforce=False) for query in ("grey heron", "who saw boats?", "owls")]
    return [entry for bundle in bundles for entry in ranking(bundle)]


async def test_what_was_lost_of_vectors_words_and_graph_is_made_again(home: Path) -> None:
    async with opened(home) as memory:
        await filled(memory, "alice", "bob")
        before = await asked(memory)
        edges = await memory.engine.graph.edges([("Entity", before[0][0][1])], memory.scope)
    database = SqliteDatabase(home / "memory.db")
    for table in ("passages_512", "word_tail", "word_blocks", "graph_edges"):
        await database.write(partial(emptied, table=table))
    await database.close()
    async with opened(home) as memory:
        assert await asked(memory) != before
        told: list[tuple[str, int, int]] = []
        report = await rebuild(memory.engine, None, progress=lambda *step: told.append(step))
        assert (report.users, report.changes, report.embedder, report.notes) == (2, 16, LARGE, ())
        assert {name for name, _, _ in told} == {"vectors", "words", "graph"}
        assert all(done <= total for _, done, total in told)
        assert [(done, total) for name, done, total in told if name == "vectors"][-1] == (16, 16)
        assert await asked(memory) == before
        assert await memory.engine.graph.edges([("Entity", before[0][0][1])], memory.scope) == edges
        assert set((await memory.lag()).values()) == {0}


async def test_only_what_is_named_is_rebuilt(home: Path) -> None:
    async with opened(home) as memory:
        await filled(memory, "alice", "bob")
        report = await rebuild(memory.engine, ["bob"], targets=["words"])
        assert (report.users, report.changes) == (1, 0)
        with pytest.raises(InvalidRecord, match="targets may name"):
            await rebuild(memory.engine, None, targets=["dreams"])
        with pytest.raises(InvalidRecord, match="list of user ids"):
            await rebuild(memory.engine, "bob")
        with pytest.raises(InvalidRecord, match="add vectors"):
            await rebuild(memory.engine, None, targets=["words"], embedder=SMALL)


async def test_another_embedder_takes_over_and_the_old_vectors_stay_until_they_are_pruned(home: Path) -> None:
    async with opened(home) as memory:
        await filled(memory, "alice", "bob")
        before = await asked(memory)
        report = await rebuild(memory.engine, None, targets=["vectors"], embedder=SMALL)
        assert (report.embedder, report.changes) == (SMALL, 16)
        assert (await memory.engine.log.meta())["embedder"] == SMALL
        assert set(await memory.lag()) == {"graph", f"vectors/{SMALL}"}
        assert await asked(memory) != before
        counts = await memory.engine.admin.counts(memory.scope)
        assert counts["passages"] == {LARGE: 7, SMALL: 7}
        back = await rebuild(memory.engine, None, targets=["vectors"], embedder=LARGE, prune=True)
        assert (back.changes, back.notes) == (0, (f"the vectors of {SMALL} were taken out",))
        assert await asked(memory) == before
        assert (await memory.engine.admin.counts(memory.scope))["passages"] == {LARGE: 7}
        again = await rebuild(memory.engine, None, targets=["vectors"], embedder=LARGE)
        assert again.notes == (f"{LARGE} serves already",)


async def test_who_has_the_store_open_notices_the_switch_and_loses_nothing(home: Path) -> None:
    async with opened(home) as agent, opened(home) as operator:
        await filled(agent, "alice", "bob")
        await rebuild(operator.engine, None, targets=["vectors"], embedder=SMALL, prune=True)
        turn = await agent.store_turn("alice saw an otter")
        found = await agent.remember("otter", reinforce=False)
        assert turn.id in [record.id for record in found.turns]
        assert found.notices == ()
        assert agent.engine.vector_projections[0].embedder.identity == SMALL
        assert await agent.lag() == {"graph": 0, f"vectors/{SMALL}": 0}
        assert await operator.engine.admin.lagging_projections([f"vectors/{SMALL}"], Operator()) == []


async def test_what_is_written_while_another_embedder_is_built_goes_to_both(home: Path) -> None:
    async with opened(home) as memory:
        await filled(memory)
        await memory.engine.admin.start_embedder(SMALL)
    async with opened(home) as memory:
        assert [projection.embedder.identity for projection in memory.engine.vector_projections] == [LARGE, SMALL]
        await memory.store_turn("one more")
        assert await memory.lag() == {"graph": 0, f"vectors/{LARGE}": 0, f"vectors/{SMALL}": 9}  # its history waits
        await memory.scoped(user_id="new").store_turn("hello")
        assert set((await memory.scoped(user_id="new").lag()).values()) == {0}
        with pytest.raises(Conflict, match="is being built"):
            await rebuild(memory.engine, None, targets=["words"], prune=True)
        report = await rebuild(memory.engine, None, embedder=SMALL)
        assert report.embedder == SMALL
        assert await memory.lag() == {"graph": 0, f"vectors/{SMALL}": 0}


KILLED = """
import asyncio, os, signal, sys
from agentmem import AsyncAgentMemory
from agentmem.admin.rebuild import rebuild

def progress(what, done, total):
    if done >= 8:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with AsyncAgentMemory("alice", home=sys.argv[1]) as memory:
        await rebuild(memory.engine, None, targets=["vectors"], embedder="hash:v1:64", progress=progress)

asyncio.run(main())
"""


async def test_a_killed_build_goes_on_where_it_stopped(home: Path) -> None:
    async with opened(home) as memory:
        await filled(memory, "alice", "bob", "carol")
        before = await asked(memory)
    done = subprocess.run([sys.executable, "-c", KILLED, str(home)], cwd=Path(__file__).parents[2])
    assert done.returncode == -signal.SIGKILL
    async with opened(home) as memory:
        meta = await memory.engine.log.meta()
        assert (meta["embedder"], meta["embedder_next"]) == (LARGE, SMALL)
        assert await asked(memory) == before  # the old one serves
        report = await rebuild(memory.engine, None, targets=["vectors"], embedder=SMALL)
        assert (report.embedder, report.changes) == (SMALL, 16)  # two users of three were left
        assert "embedder_next" not in await memory.engine.log.meta()


class Ill:
    """Makes the small embedder fail for texts that hold a word."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.word = ""
        self.error: ModelError = InvalidModelOutput("this text is too strange")
        healthy = HashEmbedder.embed

        async def embed(model: HashEmbedder, texts: Sequence[str]) -> Vectors:
            if self.word and model.dimensions == 64 and any(self.word in text for text in texts):
                raise self.error
            return await healthy(model, texts)

        patch.setattr(HashEmbedder, "embed", embed)


async def test_an_embedder_that_goes_away_leaves_the_old_one_serving(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ill = Ill(monkeypatch)
    async with opened(home) as memory:
        await filled(memory, "alice", "bob")
        before = await asked(memory)
        ill.word, ill.error = "bob", ModelUnavailable("no route to the model")
        with pytest.raises(ModelUnavailable, match="no route"):
            await rebuild(memory.engine, None, targets=["vectors"], embedder=SMALL)
        assert await asked(memory) == before
        ill.word = ""
        assert (await rebuild(memory.engine, None, targets=["vectors"], embedder=SMALL)).embedder == SMALL


async def test_a_change_that_cannot_be_embedded_is_passed_over_and_tried_again_later(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ill = Ill(monkeypatch)
    async with opened(home) as memory:
        await filled(memory)
        ill.word = "boats"
        report = await rebuild(memory.engine, None, targets=["vectors"], embedder=SMALL)
        assert report.notes == ("1 changes of alice could not be embedded and were passed over",)
        assert (await memory.lag())[f"vectors/{SMALL}"] == 1
        ill.word = ""
        await rebuild(memory.engine, ["alice"], targets=["vectors"])
        assert (await memory.lag())[f"vectors/{SMALL}"] == 0
