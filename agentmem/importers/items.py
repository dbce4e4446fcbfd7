"""What a file of another program gives: turns (`TurnInput`), facts, entities, relations, and what is left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from agentmem.core.input_fields import TurnInput

MAX_REASONS = 100  # kinds of reasons in a report


@dataclass(frozen=True, slots=True)
class ImportedFact:
    """Something known. `id` is the other program's own, `about` are names of entities, `owner` is whose memory it is.

    `valid_from` and `valid_to` are times of the world, `said_at` is when it was written down. `subject` is the name of
    whom it is about, the user for none. A verbatim one is about its entities, so that nothing is read from it about
    the user.
    """

    claim: str
    id: str = ""
    subject: str = ""
    about: tuple[str, ...] = ()
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    said_at: datetime | None = None
    tags: tuple[str, ...] = ()
    is_verbatim: bool = False
    owner: str = ""


@dataclass(frozen=True, slots=True)
class ImportedEntity:
    """A person or thing that facts and relations name."""

    name: str
    type: str = ""
    description: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class ImportedRelation:
    """A relation between two entities, by their names."""

    source: str
    kind: str
    target: str
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that does not come in, and why, such as `hidden message`: the report counts it by its reason."""

    reason: str


ImportItem = TurnInput | ImportedFact | ImportedEntity | ImportedRelation | Omission


@dataclass
class ImportReport:
    """What came of an import: what was read, what of it was new, and what was left out and why.

    `formats` counts the files of each format, `left_out` what did not come in by its reason, `skipped` all of it that
    was wrong, `replaced` the characters U+FFFD in the texts that come in: half surrogates, bytes that are no text, and
    those that the file has itself. `operation_ids` can be undone one by one. With `dry_run` nothing was stored, and the
    `new_` fields are 0.
    """

    files: int = 0
    formats: dict[str, int] = field(default_factory=dict)
    conversations: int = 0
    turns: int = 0
    new_turns: int = 0
    facts: int = 0
    new_facts: int = 0
    entities: int = 0
    relations: int = 0
    exports: int = 0
    changes: int = 0
    new_changes: int = 0
    skipped: int = 0
    replaced: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    operation_ids: list[str] = field(default_factory=list)
    seconds: float = 0.0
    dry_run: bool = False

    def count_omission(self, reason: str) -> None:
        """Count one thing that did not come in."""
        known = reason if reason in self.left_out or len(self.left_out) < MAX_REASONS else "other reasons"
        self.left_out[known] = self.left_out.get(known, 0) + 1
