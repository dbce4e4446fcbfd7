"""The benchmarks that play cases of their own: each gives a table, and what was wrong by case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentmem.bench import extraction, multihop, revision, rules
from agentmem.bench.target import Target
from agentmem.errors import ConfigError
from agentmem.providers import LLM, LLMOptions, open_llm

Progress = Callable[[int, int], None]
STORED = ("revision", "multihop")
"""Those that store something, and so depend on the embedder and can run on servers."""

READ = ("extraction", "rules")
"""Those that only read windows of turns."""


@dataclass(frozen=True, slots=True)
class Played:
    """Rows of a table, one per rule and one for all, and what was wrong, by the name of the case."""

    title: str
    rows: Sequence[Mapping[str, Any]]
    wrong: Mapping[str, Sequence[str]]


async def play(what: str, target: Target, llm: str = "", progress: Progress | None = None) -> Played:
    """Play the cases of one benchmark. `llm` answers those of extraction; "" takes the recorded replies."""
    if what == "revision":
        told = await revision.run(target, revision.read_cases(), progress=progress)
        return Played("Belief revision", revision.table(told), {one.case.name: one.wrong for one in told if one.wrong})
    if what == "multihop":
        found = await multihop.run(target, multihop.read_cases(), progress=progress)
        return Played("Questions over several links", multihop.table(found), multihop.wrong(found))
    if what == "rules":
        report = rules.run_rules_cases()
        return Played("Extraction by rules", report.rows(), report.wrong)
    return await _extraction(llm, progress)


async def _extraction(spec: str, progress: Progress | None) -> Played:
    llm: LLM | None = None
    if spec and (llm := open_llm(spec, LLMOptions())) is None:
        raise ConfigError(f"--llm {spec!r} names no language model; leave it out for the recorded replies")
    try:
        told = await extraction.run_extraction(llm=llm, progress=progress)
    finally:
        if llm is not None:
            await llm.close()
    return Played("Extraction", extraction.table(told), {one.case.id: one.wrong for one in told if one.wrong})
