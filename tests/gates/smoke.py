"""What an installed wheel must do alone: no extras, no checkout, an empty home. Started by `test_wheel.py`."""

from __future__ import annotations

import importlib.util
import pkgutil
from pathlib import Path

import agentmem
from agentmem import AgentMemory

EXTRAS = (
    "anthropic",
    "apscheduler",
    "fastapi",
    "mcp",
    "neo4j",
    "onnxruntime",
    "openai",
    "psycopg",
    "redis",
    "tokenizers",
)


def import_everything() -> None:
    """Every module loads without any extra, because drivers and SDKs are imported where they are used.

    All but those of the server, which nothing but `agentmem serve` and `agentmem mcp` imports, and the adapters, which
    only programs of their frameworks import.
    """
    for extra in EXTRAS:
        assert importlib.util.find_spec(extra) is None, f"{extra} is installed: the environment is not empty"
    for module in pkgutil.walk_packages(agentmem.__path__, "agentmem."):
        apart = module.name.startswith(("agentmem.server.", "agentmem.adapters."))
        if not module.name.endswith("__main__") and not apart:
            importlib.import_module(module.name)


def remember() -> None:
    """The three lines of the README, then the same file opened again."""
    with AgentMemory("alice") as memory:
        turn = memory.store_turn("I'm allergic to peanuts.")
        assert "peanuts" in str(memory.remember("allergic to what?"))
    with AgentMemory("alice") as memory:
        assert [found.id for found in memory.remember("peanuts").turns] == [turn.id]
    assert any(path.is_file() for path in Path.home().joinpath(".agentmem").rglob("*"))


if __name__ == "__main__":
    schema = list(Path(agentmem.__file__).parent.joinpath("_schema").rglob("*.sql"))
    assert schema, "the schema files are not installed"
    import_everything()
    remember()
