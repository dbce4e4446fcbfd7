"""The benchmarks that play cases of their own: each gives a table, and what was wrong by case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentmem.errors import ConfigError
from agentmem.models.protocols import LLM, LLMOptions
from agentmem.models.registry import open_llm
from tests.benchmarks import extraction, multihop, revision, rule_cases
from tests.benchmarks.target import MemoryFactory

ProgressCallback = Callable[[int, int], None]
STORING_BENCHMARKS = ("revision", "multihop")
"""Those that store something, and so depend on the embedder and can run on servers."""

READING_BENCHMARKS = ("extraction", "rules")
"""Those that only read windows of turns."""


@dataclass(frozen=True, slots=True)
class CaseSuiteResult:
    """Rows of a table, one per rule and one for all, and what was wrong, by the name of the case."""

    title: str
    rows: Sequence[Mapping[str, Any]]
    failures: Mapping[str, Sequence[str]]


async def run_cases(
    benchmark: str, factory: MemoryFactory, llm: str = "", progress: ProgressCallback | None = None
) -> CaseSuiteResult:
    """Play the cases of one benchmark. `llm` answers those of extraction; "" takes the recorded replies."""
    if benchmark == "revision":
        told = await revision.run(factory, revision.load_cases(), progress=progress)
        return CaseSuiteResult(
            "Belief revision", revision.build_table(told), {one.case.name: one.failures for one in told if one.failures}
        )
    if benchmark == "multihop":
        found = await multihop.run(factory, multihop.load_cases(), progress=progress)
        return CaseSuiteResult(
            "Questions over several links", multihop.build_table(found), multihop.failures_by_case(found)
        )
    if benchmark == "rules":
        report = rule_cases.run_rules_cases()
        return CaseSuiteResult("Extraction by rules", report.rows(), report.failures)
    return await _run_extraction(llm, progress)


async def _run_extraction(spec: str, progress: ProgressCallback | None) -> CaseSuiteResult:
    llm: LLM | None = None
    if spec and (llm := open_llm(spec, LLMOptions())) is None:
        raise ConfigError(f"--llm {spec!r} names no language model; leave it out for the recorded replies")
    try:
        told = await extraction.run_extraction(llm=llm, progress=progress)
    finally:
        if llm is not None:
            await llm.close()
    return CaseSuiteResult(
        "Extraction", extraction.build_table(told), {one.case.id: one.failures for one in told if one.failures}
    )
