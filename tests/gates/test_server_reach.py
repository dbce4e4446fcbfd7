"""The server reaches the memory by its verbs alone."""

from __future__ import annotations

import ast

from tests.gates.test_shape import ROOT

STORES = {"log", "graph", "admin", "write"}


def test_the_server_calls_verbs_and_no_store_of_the_engine() -> None:
    found = []
    for path in sorted((ROOT / "agentmem" / "server").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Attribute):
                continue
            owner = getattr(node.value, "attr", getattr(node.value, "id", ""))
            is_store = owner == "engine" and node.attr in STORES
            is_scope_set = node.attr == "scope" and isinstance(node.ctx, ast.Store)
            if is_store or is_scope_set:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}")
    assert found == []
