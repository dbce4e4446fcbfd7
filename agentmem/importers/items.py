"""What a file of another program gives: turns (`TurnInput`), facts, entities, relations, and what is left out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from agentmem.core.input_fields import TurnInput


@dataclass(frozen=True, slots=True)
class ImportedFact:
    """Something known. `id` is the other program's own, `about` are names of entities, `owner` is whose memory it is.

    `valid_from` and `valid_to` are times of the world. `subject` is the name of whom it is about, the user for none.
    """

    claim: str
    id: str = ""
    subject: str = ""
    about: tuple[str, ...] = ()
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    tags: tuple[str, ...] = ()
    owner: str = ""


@dataclass(frozen=True, slots=True)
class ImportedEntity:
    """A person or thing that facts and relations name."""

    name: str
    type: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class ImportedRelation:
    """A relation between two entities, by their names."""

    source: str
    kind: str
    target: str
    valid_from: datetime | None = None
    valid_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that does not come in, and why, such as `hidden message`: the report counts it by its reason."""

    reason: str


ImportItem = TurnInput | ImportedFact | ImportedEntity | ImportedRelation | Omission
