"""What the graph shows people beside the edges that the log walks: titles of nodes, and what a record is about."""

from __future__ import annotations

from agentmem.core.edges import USER_KEY
from agentmem.core.procedural_records import Outcome, Procedure, Schedule, Strategy, ToolInvocation
from agentmem.core.record import Key, Record
from agentmem.core.records import Conversation, Gloss, Review, Synopsis, Turn, User

Link = tuple[str, Key, Key]  # relationship type, source, target
MAX_TITLE_CHARS = 80
DESCRIPTIVE_TYPES = frozenset(
    {"CONCERNS", "HAS_CONVERSATION", "HAS_SCHEDULE", "LEARNED_FROM", "OUTCOME_OF", "RAISED_BY", "SUMMARIZES"}
)
"""The types of relationships that only the graph on a server has."""


def list_descriptive_links(record: Record) -> list[Link]:
    """The links of these types that a record states by its own fields, each once."""
    links: list[Link] = []
    if isinstance(record, Conversation):
        links = [("HAS_CONVERSATION", USER_KEY, record.key)]
    elif isinstance(record, Schedule):
        links = [("HAS_SCHEDULE", USER_KEY, record.key)]
    elif isinstance(record, Gloss):
        links = [("SUMMARIZES", record.key, ("Turn", record.id))]
    elif isinstance(record, Synopsis):
        links = [("SUMMARIZES", record.key, USER_KEY)]
    elif isinstance(record, Strategy | Procedure):
        links = [("LEARNED_FROM", record.key, ("Turn", turn)) for turn in record.source_turn_ids]
    elif isinstance(record, Outcome):
        named = [("Conversation", record.conversation_id), ("Goal", record.goal_id)]
        named += [("Strategy", strategy) for strategy in record.strategy_ids]
        links = [("OUTCOME_OF", record.key, (kind, name)) for kind, name in named if name]
    elif isinstance(record, Review):
        kind = "Entity" if record.about == "same_entity" and not record.proposed else "Fact"
        links = [("CONCERNS", record.key, (kind, name)) for name in record.record_ids]
        links += [("RAISED_BY", record.key, ("Turn", turn)) for turn in record.source_turn_ids]
    return list(dict.fromkeys(links))


def build_title(record: Record) -> str:
    """A few words by which people know a record."""
    text = getattr(record, "title", "") or getattr(record, "name", "") or record.search_text()
    if isinstance(record, Turn):
        text = f"{record.speaker or record.role}: {record.content}"
    elif isinstance(record, User):
        text = record.user_id
    elif isinstance(record, ToolInvocation):
        text = record.tool_name if record.success is not False else f"{record.tool_name} failed"
    elif isinstance(record, Outcome):
        text = " ".join(filter(None, ("success" if record.success else "failure", record.task_type)))
    elif isinstance(record, Review):
        text = record.question
    elif isinstance(record, Conversation) and not text:
        text = f"{record.started_at:%Y-%m-%d}" if record.started_at else record.id
    line = " ".join(text.split()) or record.kind
    return line if len(line) <= MAX_TITLE_CHARS else f"{line[: MAX_TITLE_CHARS - 1]}…"
