"""What the documents name, by kind: the list that docs/source-items.md is held against. Names only."""

from __future__ import annotations

from collections.abc import Mapping

TABLES = {
    "conversation_logs": "id conversation_id turn_index timestamp role content content_hash token_count model channel "
    "metadata embedding",
    "memory_timeline": "id memory_type neo4j_node_id event_time summary embedding importance_score access_count "
    "last_accessed channel archived metadata",
    "tool_invocations": "id conversation_id turn_index timestamp tool_name tool_input tool_output success latency_ms "
    "error_message channel",
    "user_profiles": "user_id created_at updated_at preferences expertise_areas communication_style metadata",
    "memory_audit_log": "id timestamp operation memory_type user_id session_id conversation_id source_channel "
    "target_channels query_text result_count latency_ms success error_message promoted_from_channel "
    "promotion_confidence promotion_access_count promotion_conversation_count config_snapshot metadata",
    "schema_version": "version description applied_at",
    "memories_1536": "id user_id session_id content embedding memory_type importance created_at accessed_at "
    "access_count",
    "memories_3072": "",
    "memories_384": "",
    "memories_768": "",
    "long_term_memory": "id content embedding created_at",
    "scheduled_jobs": "name cron prompt source created_at",
}
"""With their columns; `memories_<dim>` has the same ones for every number of dimensions."""

LINES = (
    "id content meta.tags created_at last_used use_count strength status review_priority last_review_at review_count "
    "cross_domain_count"
)
"""The fields of a line in memories.jsonl."""

INDEXES = """
conversation_logs PRIMARY KEY (id)
conversation_logs UNIQUE (conversation_id, turn_index)
memory_timeline PRIMARY KEY (id)
tool_invocations PRIMARY KEY (id)
user_profiles PRIMARY KEY (user_id)
memory_audit_log PRIMARY KEY (id, timestamp)
schema_version PRIMARY KEY (version)
memories_1536 PRIMARY KEY (id)
scheduled_jobs PRIMARY KEY (name)
idx_logs_timestamp
idx_logs_conversation
idx_logs_channel
idx_logs_embedding
idx_timeline_time
idx_timeline_type
idx_timeline_importance
idx_timeline_channel
idx_timeline_embedding
idx_tools_conversation
idx_tools_name
idx_tools_timestamp
idx_tools_channel
idx_audit_user
idx_audit_session
idx_audit_operation
idx_audit_memory_type
idx_audit_source_channel
idx_user
idx_embedding
idx_importance
"""

LABELS = {
    "Conversation": "id user_id channel started_at title consolidated patterns_extracted archived",
    "Turn": "id user_id channel index timestamp role content embedding token_count archived",
    "Entity": "id user_id channel name type aliases description embedding salience first_seen last_accessed "
    "access_count properties",
    "Fact": "id user_id channel claim confidence source source_turn_id embedding created_at",
    "Goal": "id user_id channel description status priority created_at completed_at result deadline embedding",
    "Strategy": "id user_id channel description context_pattern tool_sequence embedding success_count failure_count "
    "created_at last_used",
    "Tool": "name usage_count success_count avg_latency_ms",
    "User": "",
    "ToolInvocation": "",
}
"""With their properties."""

RELATIONSHIPS = """
(:Conversation)-[:HAS_TURN]->(:Turn)
(:Turn)-[:FOLLOWED_BY]->(:Turn)
(:Conversation)-[:MENTIONS]->(:Entity)
(:Fact)-[:DERIVED_FROM]->(:Turn)
(:Fact)-[:ABOUT]->(:Entity)
(:Fact)-[:PROMOTED_FROM]->(:Fact)
(:Fact)-[:SUPERSEDES]->(:Fact)
(:User)-[:HAS_GOAL]->(:Goal)
(:Goal)-[:SUBGOAL_OF]->(:Goal)
(:Goal)-[:BLOCKED_BY]->(:Goal)
(:Strategy)-[:USES_TOOL]->(:Tool)
(:Strategy)-[:SUCCEEDED_IN]->(:Conversation)
(:Conversation)-[:USED_TOOL]->(:ToolInvocation)
(:ToolInvocation)-[:INVOKED]->(:Tool)
RELATED_TO
PART_OF
LOCATED_IN
WORKS_FOR
KNOWS
CREATED_BY
REFERENCES
"""

CONSTRAINTS = """
Conversation.id unique
Turn.id unique
Entity.id unique
Fact.id unique
Goal.id unique
Strategy.id unique
Tool.name unique
"""

GRAPH_INDEXES = """
turn_channel
entity_channel
fact_channel
strategy_channel
conversation_channel
goal_channel
conversation_user_channel
entity_user_channel
fact_user_channel
turn_embeddings
entity_embeddings
fact_embeddings
strategy_embeddings
"""

KEYS = """
working:{user_id}:{channel}:{conversation_id}:turns
working:{user_id}:{channel}:{conversation_id}:context
working:{user_id}:{channel}:{conversation_id}:*
consolidation:job:{job_id}
consolidation:lock:{conversation_id}
session:{session_id}:*
identity:{user_id}
context:{user_id}
synopsis:{user_id}
"""


def _parts(groups: Mapping[str, str]) -> set[str]:
    return {f"{group}.{name}" for group, names in groups.items() for name in names.split()}


def _lines(text: str) -> set[str]:
    return set(text.strip().splitlines())


ITEMS: Mapping[str, set[str]] = {
    "table": set(TABLES),
    "column": _parts(TABLES | {"memories.jsonl": LINES}),
    "index": _lines(INDEXES),
    "function": {"drop_old_audit_partitions(retention_days)", "create_audit_partitions(days)"},
    "file": {"memories.jsonl", "relations.jsonl"},
    "label": set(LABELS),
    "property": _parts(LABELS),
    "relationship": _lines(RELATIONSHIPS),
    "constraint": _lines(CONSTRAINTS),
    "graph index": _lines(GRAPH_INDEXES),
    "redis key": _lines(KEYS),
}
