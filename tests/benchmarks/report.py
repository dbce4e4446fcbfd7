"""Results as Markdown tables and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.metrics import (
    CONTEXT_METRIC,
    METRICS,
    ConfigurationScores,
    Interval,
    bootstrap_interval,
    paired_difference,
)
from tests.benchmarks.recall import RecallEvaluation

_SHOWN_METRICS = ("R@1", "R@3", "R@5", "R@10", "R@20", "R@50", "MRR", "nDCG@10", "all@10", CONTEXT_METRIC)
_COMPARED_METRICS = ("R@1", "R@5", "R@10", "R@20", "MRR", "nDCG@10", CONTEXT_METRIC)


def count_by_rule(verdicts: Sequence[tuple[str, bool]]) -> list[dict[str, object]]:
    """A row for each rule, and one for all, from the rule of each case and whether it came out right."""
    rows: list[dict[str, object]] = []
    for rule in (*dict.fromkeys(rule for rule, _ in verdicts), "all"):
        some = [good for found, good in verdicts if rule in (found, "all")]
        rows.append({"rule": rule, "cases": len(some), "right": sum(some), "share": sum(some) / max(1, len(some))})
    return rows


def render_table(rows: Sequence[Mapping[str, object]]) -> str:
    """A Markdown table of rows; its columns are all keys in the order they first come. Nothing for no rows."""
    if not rows:
        return ""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_render_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in [columns, *cells]) for i in range(len(columns))]
    rule = ["-" * width for width in widths]
    return "\n".join(_render_row(line, widths) for line in [columns, rule, *cells])


def _render_row(cells: Iterable[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def _render_cell(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 1 else f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value).replace("|", "\\|")


def render_recall(result: RecallEvaluation) -> str:
    """Per data set: a table for every configuration, then the differences of the others to the first one."""
    parts = []
    for dataset in result.runs[0].scores.datasets():
        scores = [reading.scores.for_dataset(dataset) for reading in result.runs]
        parts.append(f"## {dataset}")
        parts += [f"### {found.name}\n\n{render_table(group_rows(found))}" for found in scores]
        if len(scores) > 1:
            note = f"Difference to {scores[0].name}, 95 % interval, paired over questions:"
            parts.append(f"{note}\n\n{render_table(difference_rows(scores))}")
    parts.append(f"## Cost\n\n{render_table(cost_rows(result))}")
    return "\n\n".join(parts) + "\n"


def group_rows(scores: ConfigurationScores) -> list[dict[str, object]]:
    """One row for each group of questions; the first, of all, with intervals."""
    rows = []
    for label, mask in scores.groups().items():
        row: dict[str, object] = {"questions": label, "n": int(mask.sum())}
        for metric in _SHOWN_METRICS:
            found = bootstrap_interval(scores.column(metric)[mask], resamples=2000 if label == "all" else 1)
            row[metric] = _render_interval(found) if label == "all" else _render_share(found.mean)
        rows.append(row)
    return rows


def difference_rows(scores: Sequence[ConfigurationScores]) -> list[dict[str, object]]:
    """One row for each configuration after the first: its difference to the first."""
    return [
        {
            "configuration": other.name,
            **{m: _render_interval(paired_difference(other, scores[0], m), "+") for m in _COMPARED_METRICS},
        }
        for other in scores[1:]
    ]


def cost_rows(result: RecallEvaluation) -> list[dict[str, object]]:
    """One row for each configuration: milliseconds of both verbs and the size of the contexts."""
    rows = []
    for reading in result.runs:
        cost = reading.cost()
        row: dict[str, object] = {"configuration": reading.scores.name}
        row |= {f"{verb} {p}": cost[verb].get(p) for verb in ("remember", "context") for p in ("p50_ms", "p95_ms")}
        row |= {f"context tokens, {size}": value for size, value in cost["context_tokens"].items()}
        rows.append({**row, "turns": result.turns, "storing, s": result.store_seconds})
    return rows


def _render_interval(found: Interval, sign: str = "") -> str:
    if math.isnan(found.mean):
        return ""
    return f"{found.mean:{sign}.3f} [{found.low:{sign}.3f}, {found.high:{sign}.3f}]"


def _render_share(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3f}"


def recall_to_data(result: RecallEvaluation) -> dict[str, Any]:
    """The same as data: means and intervals by data set, configuration and group, and every question's values."""
    names = result.runs[0].scores.datasets()
    return {
        "turns": result.turns,
        "store_seconds": result.store_seconds,
        "datasets": {name: _dataset_to_data([r.scores.for_dataset(name) for r in result.runs]) for name in names},
        "cost": {reading.scores.name: reading.cost() for reading in result.runs},
        "metrics": list(METRICS),
        "questions": {
            reading.scores.name: {f"{q.dataset}/{q.id}": list(q.values) for q in reading.scores.questions}
            for reading in result.runs
        },
    }


def _dataset_to_data(scores: Sequence[ConfigurationScores]) -> dict[str, Any]:
    first = scores[0]
    groups = {
        found.name: {
            label: {
                "n": int(mask.sum()),
                **{m: _interval_to_list(bootstrap_interval(found.column(m)[mask])) for m in _SHOWN_METRICS},
            }
            for label, mask in found.groups().items()
        }
        for found in scores
    }
    differences = {
        other.name: {m: _interval_to_list(paired_difference(other, first, m)) for m in _COMPARED_METRICS}
        for other in scores[1:]
    }
    return {"groups": groups, f"minus {first.name}": differences}


def _interval_to_list(found: Interval) -> list[float]:
    return [found.mean, found.low, found.high]


def write_report(folder: Path, stem: str, text: str, data: object) -> tuple[Path, Path]:
    """Write `<stem>.md` and `<stem>.json` into a folder, which is made when missing. NaN becomes null."""
    folder.mkdir(parents=True, exist_ok=True)
    markdown, figures = folder / f"{stem}.md", folder / f"{stem}.json"
    markdown.write_text(text, encoding="utf-8")
    figures.write_text(json.dumps(_replace_non_finite(data), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return markdown, figures


def _replace_non_finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _replace_non_finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace_non_finite(item) for item in value]
    return value
