"""A line of curl for each route, made from its OpenAPI description and from sample values by name."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

ADDRESS = "localhost:17890"
VALUES: Mapping[str, Any] = {
    "content": "I am allergic to peanuts.",
    "query": "what must the chef avoid?",
    "claim": "Alice lives in Oslo",
    "turns": [{"content": "We picked Porto."}, {"role": "assistant", "content": "Noted."}],
    "source": "ENTITY_ID",
    "target": "OTHER_ENTITY_ID",
    "kind": "KNOWS",
    "decision": "accept",
    "description": "Plan the trip",
    "progress": 0.5,
    "instruction": "Answer in metric units.",
    "success": True,
    "tool_name": "search",
    "outcome": "success: the trip is booked",
    "value": "Porto",
    "thought": "Ask about the dates.",
    "goal_id": "GOAL_ID",
    "ids": ["RECORD_ID"],
    "messages": [{"role": "user", "content": "I am allergic to peanuts."}],
    "task": "book a trip",
    "earlier": "2026-01-01",
    "later": "2027-01-01",
    "entity_type": "user",
}
FIELDS: Mapping[str, Mapping[str, Any]] = {
    "store_turn": {"content": "I am allergic to peanuts."},
    "build_context": {"max_tokens": 500},
    "update_fact": {"confidence": 0.9},
    "upsert_entity": {"name": "Alice", "type": "person"},
    "update_profile": {"preferences": {"tone": "short"}},
    "update_goal": {"priority": 5},
    "block_goal": {"by": ["OTHER_GOAL_ID"]},
    "add_schedule": {"name": "walk", "prompt": "Ask for a walk", "every": 86400},
    "run_jobs": {"job": "consolidate"},
    "ask_in_cypher": {"query": "MATCH (f:Fact) RETURN f.title LIMIT 5"},
    "create_key": {"scopes": ["read", "write"]},
    "mem0_add_memories": {"user_id": "alice"},
    "mem0_add_memories_v3": {"user_id": "alice"},
    "mem0_page_memories_v3": {"filters": {"user_id": "alice"}},
    "mem0_search_memories": {"filters": {"user_id": "alice"}},
    "mem0_search_memories_v3": {"filters": {"user_id": "alice"}},
    "mem0_update_memory": {"text": "Alice lives in Oslo"},
    "mem0_update_memory_v1": {"text": "Alice lives in Oslo"},
    "mem0_update_batch_v1": {"memories": [{"memory_id": "MEMORY_ID", "text": "Alice lives in Oslo"}]},
    "mem0_delete_batch_v1": {"memories": [{"memory_id": "MEMORY_ID"}]},
}
QUERIES: Mapping[str, Mapping[str, str]] = {
    "mem0_list_memories": {"user_id": "alice"},
    "mem0_delete_memories": {"user_id": "alice"},
    "mem0_delete_memories_v1": {"user_id": "alice"},
}


def build_example(method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """A command that asks a route. Words in capitals stand for ids of your own."""
    name = operation["operationId"]
    query: dict[str, str] = {}
    for each in operation.get("parameters", ()):
        value = str(VALUES.get(each["name"], each["name"].upper()))
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", value)
        elif each.get("required"):
            query[each["name"]] = value
    query.update(QUERIES.get(name, {}))
    words = ["curl", "-s", f"{ADDRESS}{path}{f'?{urlencode(query)}' if query else ''}"]
    content = operation.get("requestBody", {}).get("content", {})
    if method != ("POST" if content else "GET"):
        words[2:2] = ["-X", method]
    for kind, body in content.items():
        words += ["-H", f"Content-Type: {kind}"]
        shape = schemas.get(body["schema"].get("$ref", "").rpartition("/")[2])
        if shape is None:
            words += ["--data-binary", "@memory.jsonl"]
            continue
        required = {field: VALUES.get(field, field.upper()) for field in shape.get("required", ())}
        words += ["-d", json.dumps({**required, **FIELDS.get(name, {})})]
    return shlex.join(words)
