"""A graph of Graphiti or Zep: episodes as turns, entities, and facts with the times of the world."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from agentmem.core.clock import derive_id
from agentmem.core.input_fields import SourceLocation, TurnInput, parse_identifier, parse_mapping, parse_nonempty_text
from agentmem.core.records import ROLE_ALIASES
from agentmem.importers.format import Format, read_each
from agentmem.importers.items import ImportedEntity, ImportedFact, ImportedRelation, ImportItem, Omission
from agentmem.importers.record_fields import find_identifier, find_text, find_time, list_texts, name_conversation
from agentmem.importers.source import ErrorHandler, SourceFile

_LISTS = ("entities", "nodes", "facts", "edges", "episodes")
_PATHS = (*(f"{name}.item" for name in _LISTS), "item")
_EPISODE_FIELDS = frozenset({"source", "source_description", "episode_body", "valid_at", "reference_time"})
_OWNERS = ("user_id", "user_uuid", "group_id")
_SPEECH = re.compile(r"([^:\n(]{1,60}?) ?(?:\(([^:\n()]{1,30})\))?: (.*)")


def detect_graphiti(source: SourceFile) -> bool:
    """Whether a record is a fact between two nodes, a node with labels, or an episode."""
    return any(_is_known(record) for record in source.find_sample(*_PATHS))


def read_graphiti(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """Entities first, because facts name them by their ids; then facts, then episodes."""
    return read_each(source, _PATHS, _GraphReader().parse, on_error)


def _is_known(record: object) -> bool:
    if not isinstance(record, Mapping) or "uuid" not in record:
        return False
    if isinstance(record.get("fact"), str):
        return True
    if isinstance(record.get("labels"), list) and "name" in record:
        return True
    has_text = isinstance(record.get("content", record.get("episode_body")), str)
    return has_text and not _EPISODE_FIELDS.isdisjoint(record)


class _GraphReader:
    """One reading of one file. It remembers the names of the entities by their ids."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def parse(self, value: Any, location: SourceLocation) -> Iterator[ImportItem]:
        record = parse_mapping(value, "record", location)
        owner = find_identifier(record, _OWNERS, location)
        if "fact" in record:
            yield from self._parse_fact(record, owner, location)
        elif "content" in record or "episode_body" in record:
            yield from _parse_episode(record, owner, location)
        else:
            name = find_text(record, ("name",), location)
            if (uuid := find_identifier(record, ("uuid",), location)) != "":
                self._names[uuid] = name
            labels = [label for label in list_texts(record.get("labels")) if label != "Entity"]
            summary = find_text(record, ("summary",), location) if record.get("summary") else ""
            yield ImportedEntity(name, labels[0].lower() if labels else "", summary, owner)

    def _parse_fact(self, record: Mapping[str, Any], owner: str, location: SourceLocation) -> Iterator[ImportItem]:
        ends = [self._find_end(record, side, location) for side in ("source", "target")]
        begun = find_time(record, ("valid_at",), location)
        ended = find_time(record, ("invalid_at", "expired_at"), location)
        yield ImportedFact(
            find_text(record, ("fact",), location),
            id=find_identifier(record, ("uuid",), location),
            about=tuple(dict.fromkeys(filter(None, ends))),
            valid_from=begun,
            valid_to=ended,
            said_at=find_time(record, ("created_at",), location),
            owner=owner,
        )
        kind = find_identifier(record, ("name",), location)
        if not all(ends):
            yield Omission("relation to an entity that is not in the file")
        elif kind and ended is None and ends[0] != ends[1]:  # one that ended would end the same relation begun anew
            yield ImportedRelation(ends[0], kind, ends[1], valid_from=begun, owner=owner)

    def _find_end(self, record: Mapping[str, Any], side: str, location: SourceLocation) -> str:
        uuid = find_identifier(record, (f"{side}_node_uuid",), location)
        given = record.get(f"{side}_node_name")
        return parse_nonempty_text(given, f"{side}_node_name", location) if given else self._names.get(uuid, "")


def _parse_episode(record: Mapping[str, Any], owner: str, location: SourceLocation) -> Iterator[ImportItem]:
    text = find_text(record, ("content", "episode_body"), location)
    kind = record.get("source")
    if kind == "fact_triple":
        yield Omission("episode that is only a fact")
        return
    conversation = find_identifier(record, ("thread_uuid", "thread_id", "session_id", *_OWNERS), location)
    uuid = find_identifier(record, ("uuid",), location)
    timestamp = find_time(record, ("valid_at", "reference_time", "created_at"), location)
    for number, (role, speaker, said) in enumerate(_split_episode(record, text, location)):
        turn = TurnInput(role=role, content=said, conversation_id=conversation or "graphiti")
        turn["turn_id"] = derive_id("turn", turn["conversation_id"], uuid, str(number), *([] if uuid else [text]))
        _add_context(turn, record, (timestamp, speaker, owner))
        if conversation == record.get("group_id"):  # a thread has no name of its own
            name_conversation(turn, conversation)
        yield turn


def _add_context(turn: TurnInput, record: Mapping[str, Any], known: tuple[datetime | None, str, str]) -> None:
    timestamp, speaker, owner = known
    if timestamp is not None:
        turn["timestamp"] = timestamp
    if speaker:
        turn["speaker"] = speaker
    if owner:
        turn["owner"] = owner
    if isinstance(record.get("name"), str):
        turn["metadata"] = {"title": record["name"]}


def _split_episode(record: Mapping[str, Any], text: str, location: SourceLocation) -> Iterator[tuple[str, str, str]]:
    """Role, speaker and text of each thing said. Of messages, a line that names nobody goes on with what was said."""
    if record.get("source") == "json":
        yield "tool", "", text
        return
    given = find_identifier(record, ("role_type", "role"), location)
    if given or record.get("source") != "message":
        yield _find_role(given), find_identifier(record, ("role_name",), location), text
        return
    role, speaker, lines = "user", "", list[str]()
    for line in text.splitlines():
        found = _SPEECH.fullmatch(line)
        if found is None:
            lines.append(line)
            continue
        if any(lines):
            yield role, speaker, "\n".join(lines).strip()
        name = found[1].strip()
        role, lines = _find_role(found[2] or name), [found[3]]
        speaker = "" if name.lower() in ROLE_ALIASES else parse_identifier(name, "content", location)
    if any(lines):
        yield role, speaker, "\n".join(lines).strip()


def _find_role(name: str) -> str:
    return ROLE_ALIASES.get(name.lower(), "user")


FORMAT = Format(
    name="graphiti",
    title="Graphiti or Zep graph (episodes, entities and facts)",
    detect=detect_graphiti,
    read=read_graphiti,
)
