"""CrewAI: where its memory keeps its records.

CrewAI needs mcp 1 and the server mcp 2, so these tests run in an environment of their own and not with the others:

    python -m venv /tmp/crew
    /tmp/crew/bin/pip install "crewai>=1.15,<2" pytest pytest-asyncio pytest-timeout -e .
    /tmp/crew/bin/python -m pytest --noconftest -W default tests/adapters/crewai_checks.py
"""

from __future__ import annotations

import asyncio
import runpy
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.types import MemoryRecord
from crewai.memory.unified_memory import Memory

from agentmem import AgentMemory, AsyncAgentMemory, ConfigError, InvalidRecord
from agentmem.adapters.crewai import AgentMemStorage

START = datetime(2026, 3, 1, 12)
PROGRAM = Path(__file__).resolve().parents[2] / "docs/examples/adapters/crewai/crewai_memory.py"
WORDS = ("peanuts", "Oslo", "train", "cat")


def build_record(number: int, scope: str = "/", **more: Any) -> MemoryRecord:
    fields = {"embedding": [1.0, float(number), 0.1], "created_at": START + timedelta(hours=number), **more}
    return MemoryRecord(id=f"r{number}", content=f"record {number}", scope=scope, **fields)


RECORDS = [
    build_record(0, "/a", categories=["x"], metadata={"n": None, "é": [1, {"b": 0.1}]}, source="s", private=True),
    build_record(1, "/a/b", categories=["x", "y"], importance=0.9),
    build_record(2, "/a/b/c", metadata={"k": 1}),
    build_record(3, "/ab", categories=["z"], created_at=START.replace(tzinfo=UTC) + timedelta(days=9)),
    build_record(4, "/", embedding=None),
]


def embed(texts: list[str]) -> list[list[float]]:
    """Counts words: texts that share a word are near."""
    return [[0.1, *(float(text.lower().count(word.lower())) for word in WORDS)] for text in texts]


def ids(found: Any) -> list[str]:
    return [(each[0] if isinstance(each, tuple) else each).id for each in found]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[AgentMemory]:
    with AgentMemory("ann", home=tmp_path, embedder="hash") as made:
        yield made


@pytest.fixture
def storage(memory: AgentMemory) -> AgentMemStorage:
    made = AgentMemStorage(memory)
    made.save(RECORDS)
    return made


def test_records_come_back_equal(storage: AgentMemStorage, memory: AgentMemory) -> None:
    assert isinstance(storage, StorageBackend)
    for record in RECORDS:
        found = storage.get_record(record.id)
        assert found == record
        assert found is not None
        assert found.embedding == record.embedding
    assert (storage.get_record("none"), storage.get_record("")) == (None, None)
    assert "record 1" in str(memory.remember("record 1"))
    assert "record 0" not in str(memory.remember("record 0"))  # it is private
    hidden = AgentMemStorage(memory.scoped(user_id="bob"), in_recall=False)
    hidden.save(RECORDS)
    assert "record 1" not in str(memory.scoped(user_id="bob").remember("record 1"))


def test_search_ranks_by_cosine_within_scopes_and_filters(storage: AgentMemStorage) -> None:
    found = storage.search([1.0, 0.0, 0.1])
    assert ids(found) == ["r0", "r1", "r2", "r3"]
    assert found[0][1] == pytest.approx(1.0)
    assert found[1][1] == pytest.approx(1.01 / (1.01 * 2.01) ** 0.5)
    assert ids(storage.search([1.0, 9.0, 0.1], limit=2)) == ["r3", "r2"]
    assert ids(storage.search([1.0, 0.0, 0.1], min_score=0.7)) == ["r0", "r1"]
    assert ids(storage.search([1.0, 0.0, 0.1], "/a")) == ["r0", "r1", "r2"]
    assert ids(storage.search([1.0, 0.0, 0.1], "a/b/")) == ["r1", "r2"]
    assert ids(storage.search([1.0, 0.0, 0.1], categories=["y", "z"])) == ["r1", "r3"]
    assert ids(storage.search([1.0, 0.0, 0.1], metadata_filter={"k": 1})) == ["r2"]
    assert ids(storage.search([1.0, 0.0, 0.1], metadata_filter={"n": None})) == ["r0"]
    assert storage.search([0.0, 0.0, 0.0], min_score=0.1) == []
    assert (storage.search([1.0, 0.0, 0.1], limit=0), storage.search([1.0, 0.0, 0.1], "/none")) == ([], [])


def test_scopes_categories_and_counts(storage: AgentMemStorage) -> None:
    assert [storage.count(scope) for scope in (None, "/", "/a", "/a/b", "/ab", "/none")] == [5, 5, 3, 2, 1, 0]
    assert storage.list_scopes() == ["/a", "/ab"]
    assert (storage.list_scopes("/a"), storage.list_scopes("/a/b/c")) == (["/a/b"], [])
    assert storage.list_categories() == {"x": 2, "y": 1, "z": 1}
    assert storage.list_categories("/a/b") == {"x": 1, "y": 1}
    assert ids(storage.list_records()) == ["r3", "r4", "r2", "r1", "r0"]
    assert ids(storage.list_records("/a", limit=1, offset=1)) == ["r1"]
    info = storage.get_scope_info("/a/")
    assert (info.path, info.record_count, info.categories, info.child_scopes) == ("/a", 3, ["x", "y"], ["/a/b"])
    assert (info.oldest_record, info.newest_record) == (START, START + timedelta(hours=2))
    assert storage.get_scope_info("/none").oldest_record is None


def test_records_are_deleted_by_all_that_is_given(storage: AgentMemStorage) -> None:
    assert storage.delete(record_ids=[]) == 0
    assert storage.delete("/a", categories=["z"]) == 0
    assert storage.delete("/a", older_than=START + timedelta(hours=1)) == 1
    assert storage.delete(record_ids=["r1", "r3"], metadata_filter={"k": 2}) == 0
    assert storage.delete(record_ids=["r1", "none"]) == 1
    assert sorted(ids(storage.list_records())) == ["r2", "r3", "r4"]
    storage.reset("/a")
    assert storage.count() == 2
    storage.reset()
    assert storage.count() == 0
    storage.save([build_record(1, embedding=[1.0])])  # other vectors, after all are gone
    assert ids(storage.search([1.0])) == ["r1"]


def test_an_update_replaces_and_vectors_of_another_length_are_refused(storage: AgentMemStorage) -> None:
    storage.update(RECORDS[1].model_copy(update={"content": "changed", "embedding": None}))
    changed = storage.get_record("r1")
    assert changed is not None
    assert (changed.content, changed.embedding, storage.count()) == ("changed", RECORDS[1].embedding, 5)
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.save([build_record(7), build_record(8, embedding=[1.0])])
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.search([1.0])
    with pytest.raises(InvalidRecord):
        storage.save([build_record(7), build_record(8).model_copy(update={"id": ""})])
    assert storage.count() == 5


def test_users_and_hostile_names_stay_apart(memory: AgentMemory) -> None:
    names = ("/a", "/a%", "/a_", "/a' OR 1=1 --", "/a\x1fb", "/ключ")
    storages = [AgentMemStorage(memory), AgentMemStorage(memory.scoped(user_id="ann 2"))]
    for number, each in enumerate(storages):
        each.save([MemoryRecord(id=name, content=f"{name} {number}", scope=name, embedding=[1.0]) for name in names])
    storages[0].reset("/a")
    assert [each.count() for each in storages] == [len(names) - 1, len(names)]
    for number, each in enumerate(storages):
        for name in names[1 - number :]:
            assert [record.content for record, _ in each.search([1.0], name)] == [f"{name} {number}"]


def test_threads_and_loops_share_a_storage(memory: AgentMemory) -> None:
    storage = AgentMemStorage(memory)

    def work(number: int) -> None:
        async def add() -> None:
            await asyncio.gather(*(storage.asave([build_record(10 * number + n)]) for n in range(5)))

        asyncio.run(add())
        storage.save([build_record(10 * number + 5)])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(ids(storage.list_records())) == sorted(f"r{10 * w + n}" for w in range(6) for n in range(6))


def test_a_cancelled_write_is_done_when_the_caller_leaves(memory: AgentMemory) -> None:
    storage = AgentMemStorage(memory)

    async def cancel() -> None:
        task = asyncio.ensure_future(storage.asave([build_record(n) for n in range(20)]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert storage.count() == 20

    asyncio.run(cancel())


def test_records_are_there_after_a_restart(tmp_path: Path) -> None:
    async def run(number: int) -> None:
        async with AsyncAgentMemory("ann", home=tmp_path, embedder="hash") as memory:
            storage = AgentMemStorage(memory)
            assert len(await storage.asearch([1.0, 1.0, 0.1])) == number
            await storage.asave([build_record(number)])
            assert await storage.adelete(record_ids=["none"]) == 0
            with pytest.raises(ConfigError):
                storage.count()

    for number in range(3):
        asyncio.run(run(number))


def test_the_memory_of_crewai_works_with_it(memory: AgentMemory) -> None:
    crew = Memory(storage=AgentMemStorage(memory), embedder=embed)
    for text in ("Ann is allergic to peanuts.", "Ann lives in Oslo."):
        crew.remember(text, scope="/ann", categories=["home"], importance=0.8)
    crew.drain_writes()
    found = crew.recall("peanuts", scope="/ann", depth="shallow")
    assert found[0].record.content == "Ann is allergic to peanuts."
    assert (crew.list_scopes("/"), crew.info("/ann").record_count) == (["/ann"], 2)
    assert crew.forget(record_ids=[found[0].record.id]) == 1
    assert "Oslo" in str(memory.remember("Where does Ann live?"))
    crew.close()


def test_the_program_finds_what_it_stored(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("AGENTMEM_HOME", str(tmp_path))
    monkeypatch.setenv("AGENTMEM_EMBEDDER", "hash")
    runpy.run_path(str(PROGRAM), run_name="__main__")
    assert "peanuts" in capsys.readouterr().out
