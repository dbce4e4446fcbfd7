"""Small files in the shapes of other memory programs: mem0, Graphiti, Letta, server-memory, LangGraph, notes."""

from __future__ import annotations

import json
from typing import Any

MEM0 = {
    "results": [
        {
            "id": "m1",
            "memory": "Bakes rye bread on Sundays",
            "hash": "ab",
            "metadata": {"category": "food"},
            "categories": ["hobbies", "food"],
            "created_at": "2025-03-01T08:00:00-07:00",
            "updated_at": None,
            "expiration_date": "2025-12-31",
            "user_id": "alice",
        },
        {"id": "m2", "memory": "Answers in rhymes", "agent_id": "poet", "created_at": 1740819600},
    ],
    "relations": [{"source": "alice", "relationship": "knows", "target": "Bo", "user_id": "alice"}],
}
MEM0_LIST = [{"id": "m1", "data": "Keeps two hens", "user_id": "alice", "created_at": 1740819600000}]

GRAPHITI = {
    "episodes": [
        {
            "uuid": "e1",
            "name": "Call",
            "group_id": "alice",
            "source": "message",
            "source_description": "chat",
            "content": "Ana: I moved to Oslo.\nIn May.\nassistant: Noted.\nBo (assistant): Me, too.",
            "valid_at": "2024-05-02T10:00:00Z",
            "created_at": "2025-01-01T00:00:00Z",
        },
        {"uuid": "e2", "group_id": "alice", "source": "json", "content": '{"a": 1}', "source_description": "crm"},
        {"uuid": "e3", "group_id": "alice", "source": "fact_triple", "content": "x", "source_description": "y"},
        {
            "uuid": "e4",
            "role": "user",
            "role_name": "Ana",
            "source": "message",
            "content": "Hi: you",
            "thread_uuid": "t",
        },
    ],
    "entities": [
        {"uuid": "n1", "name": "Ana", "group_id": "alice", "labels": ["Entity", "Person"], "summary": "A nurse."},
        {"uuid": "n2", "name": "Oslo", "group_id": "alice", "labels": ["Entity"], "summary": ""},
    ],
    "edges": [
        {
            "uuid": "f1",
            "group_id": "alice",
            "source_node_uuid": "n1",
            "target_node_uuid": "n2",
            "name": "LIVES_IN",
            "fact": "Ana lives in Oslo",
            "valid_at": "2024-05-01T00:00:00Z",
            "invalid_at": None,
            "expired_at": None,
            "created_at": "2025-01-01T00:00:00Z",
        },
        {
            "uuid": "f2",
            "group_id": "alice",
            "source_node_uuid": "n1",
            "target_node_uuid": "n9",
            "name": "LIVES_IN",
            "fact": "Ana lives in Bergen",
            "valid_at": "2020-01-01T00:00:00Z",
            "invalid_at": "2024-04-30T00:00:00Z",
            "expired_at": "2025-01-01T00:00:00Z",
        },
        {
            "uuid": "f3",
            "source_node_uuid": "n1",
            "target_node_uuid": "n2",
            "name": "VISITS",
            "fact": "Ana visits Oslo",
            "expired_at": "2023-01-01T00:00:00Z",
        },
    ],
}

_SENT = {"function": {"name": "send_message", "arguments": '{"message": "Hello, Sam."}'}, "id": "c1"}
_LOOKED = {"function": {"name": "look_up", "arguments": '{"q": "rain"}'}, "id": "c2"}
_LETTA_MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": [{"type": "text", "text": "You are Iris."}], "created_at": "2025-02-01T09:00:00"},
    {
        "role": "user",
        "content": [{"type": "text", "text": '{"type": "user_message", "message": "Hi!", "time": "now"}'}],
        "created_at": "2025-02-01T09:00:01+00:00",
    },
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "He greets me."}],
        "tool_calls": [_SENT],
        "created_at": "2025-02-01T09:00:02+00:00",
    },
    {"role": "tool", "name": "send_message", "tool_call_id": "c1", "content": [{"type": "text", "text": "OK"}]},
    {"role": "user", "content": [{"type": "text", "text": '{"type": "heartbeat", "reason": "x"}'}]},
    {
        "role": "assistant",
        "content": [{"type": "omitted_reasoning"}],
        "tool_calls": [_LOOKED],
        "created_at": "2025-02-01T09:00:03+00:00",
    },
    {
        "role": "tool",
        "name": "look_up",
        "tool_call_id": "c2",
        "content": [{"type": "text", "text": "wet"}],
        "created_at": "2025-02-01T09:00:04+00:00",
    },
    {"role": "assistant", "content": "Take a coat.", "tool_calls": None, "created_at": "2025-02-01T09:00:05+00:00"},
]
LETTA_OLD = {
    "agent_type": "memgpt_agent",
    "core_memory": [
        {"label": "human", "value": "# About\n- Name is Sam\n\n- Likes tea", "updated_at": "2025-01-05T00:00:00"},
        {"label": "persona", "value": "I am cheerful.", "updated_at": "2025-01-05T00:00:00"},
        {"label": "plans", "value": "Lives in a draft", "updated_at": "2025-01-05T00:00:00"},
    ],
    "in_context_message_indices": [0, 1],
    "messages": _LETTA_MESSAGES,
    "llm_config": {"model": "m"},
    "name": "Iris",
    "tools": [{"name": "look_up"}],
    "version": "0.6.50",
}
LETTA_NEW = {
    "agents": [
        {
            "name": "Iris",
            "agent_type": "letta_v1_agent",
            "block_ids": ["block-0", "block-1", "block-2"],
            "in_context_message_ids": ["message-0"],
            "messages": [{"id": f"message-{i}", **each} for i, each in enumerate(_LETTA_MESSAGES)],
            "id": "agent-0",
        }
    ],
    "groups": [],
    "blocks": [
        {"id": f"block-{i}", "label": each["label"], "value": each["value"], "limit": 5000}
        for i, each in enumerate(LETTA_OLD["core_memory"])  # type: ignore[arg-type]
    ],
    "files": [{"id": "file-0", "file_name": "a.txt"}],
    "sources": [],
    "tools": [{"id": "tool-0", "name": "look_up"}],
    "mcp_servers": [],
    "metadata": {},
    "created_at": "2025-06-01T00:00:00Z",
}

_GRAPH = [
    {"type": "entity", "name": "Ana", "entityType": "person", "observations": ["Lives in Turku", "Sings alto"]},
    {"type": "entity", "name": "Choir", "entityType": "group", "observations": []},
    {"type": "relation", "from": "Ana", "to": "Choir", "relationType": "sings in"},
]
SERVER_MEMORY = "\n".join(map(json.dumps, _GRAPH))
SERVER_MEMORY_GRAPH = {"entities": _GRAPH[:2], "relations": _GRAPH[2:]}

LANGGRAPH = [
    {
        "namespace": ["memories", "alice"],
        "key": "k1",
        "value": {"kind": "Memory", "content": {"content": "Prefers aisle seats"}},
        "created_at": "2025-04-01T00:00:00+02:00",
        "updated_at": "2025-04-02T00:00:00+02:00",
    },
    {"namespace": ["alice", "memories"], "key": "k2", "value": {"data": "Has a cat"}, "created_at": 1743465600},
    {"namespace": ["docs", "shop", "eu"], "key": "k3", "value": {"city": "Århus", "open": True}},
]

NOTE = """---
title: "Pour over"
type: guide
tags: [coffee, '#brewing']
created: 2025-01-02T10:00:00+01:00
permalink: drinks/pour-over
---
# Pour over

Slow but worth it, as [[Ana|my sister]] says. ![[kettle.png]]

## Observations
- [method] Water at 93 °C is [[best]] #heat #water (for light roasts)
- [x] buy filters
- [00:12] the kettle clicks
- see [the shop](http://example.org)

## Relations
- requires [[Kettle#Care|kettle]] (a good one)
- "learned from" [[Ana]]
- so [[Ana]] said it

## Steps
```
- [code] not an observation
## no heading
```
"""

FILES: dict[str, tuple[str, Any]] = {
    "mem0.json": ("mem0", MEM0),
    "mem0-list.json": ("mem0", MEM0_LIST),
    "graphiti.json": ("graphiti", GRAPHITI),
    "facts.json": ("graphiti", GRAPHITI["edges"]),
    "old.af": ("letta", LETTA_OLD),
    "new.af": ("letta", LETTA_NEW),
    "memory.jsonl": ("server_memory", SERVER_MEMORY),
    "graph.json": ("server_memory", SERVER_MEMORY_GRAPH),
    "store.json": ("langgraph_store", LANGGRAPH),
    "items.json": ("langgraph_store", {"items": LANGGRAPH}),
    "Pour over.md": ("markdown_notes", NOTE),
    "note.txt": ("markdown_notes", NOTE),
}
"""The format of each file, and what it holds."""
