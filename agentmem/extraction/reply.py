"""What a language model may reply about a window: strict for the vendor, item by item when it is read.

One malformed item never drops its siblings. Lengths and counts are bounded here; whether anything is true is asked by
`grounding`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)

LONGEST_CLAIM = 500
LONGEST_SENTENCE = 400
LONGEST_QUOTE = 4_000
LONGEST_NAME = 120
LONGEST_KEY = 60
KEYS = 6
NAMES = 12
ITEMS: Mapping[str, int] = {"turns": 24, "facts": 30, "entities": 30, "relations": 20}
"""Items of each list that are taken; what comes after them is left out."""

_LOOKED_AT = 4  # times as many items are looked at, to fill the places of malformed ones


def _one_line(text: str) -> str:
    """On one line and without control characters, so that no text can look like a part of a prompt."""
    line = " ".join("".join(c if c.isprintable() or c.isspace() else _unseen(c) for c in text).split())
    if not line:
        raise ValueError("must say something")
    return line


def _unseen(character: str) -> str:
    # Joiners belong to words of some scripts; everything else that cannot be seen goes.
    return character if character in "\u200c\u200d" else ""


def _word_of(*words: str) -> BeforeValidator:
    """One of the words, None for anything else: an unknown label is no reason to lose what is labelled."""
    return BeforeValidator(lambda value: value if isinstance(value, str) and value in words else None)


def _few(most: int, longest: int) -> BeforeValidator:
    """The usable strings of a list, each once; nothing for what is no list."""

    def few(value: object) -> list[str]:
        given = value if isinstance(value, list) else []
        lines = [" ".join(each.split()) for each in given if isinstance(each, str)]
        return list(dict.fromkeys(line for line in lines if line.isprintable() and 0 < len(line) <= longest))[:most]

    return BeforeValidator(few)


def _or(otherwise: object, kind: type) -> BeforeValidator:
    return BeforeValidator(lambda value: value if isinstance(value, kind) else otherwise)


_Line = Annotated[str, AfterValidator(_one_line)]
_Labels = Annotated[list[str], _few(NAMES, 8)]
_Names = Annotated[list[str], _few(NAMES, LONGEST_NAME)]
_Label = Annotated[str | None, _or(None, str)]
_Flag = Annotated[bool, _or(False, bool)]
_CERTAINTIES = ("explicit", "implied", "inferred", "uncertain")
_TIMES = ("current", "past", "future")
_KINDS = ("fact", "preference", "context")
_SUBJECTS = ("user", "agent", "other")
_REASONS = ("wrong", "changed")


class TurnItem(BaseModel):
    """What one turn says, said so that it stands alone; both parts may be empty."""

    turn: str = Field(max_length=8)
    standalone: Annotated[str, _or("", str)] = ""
    keys: Annotated[list[str], _few(KEYS, LONGEST_KEY)] = Field(default_factory=list)
    leans_on: _Labels = Field(default_factory=list)


class FactItem(BaseModel):
    """A claim, the words it rests on, and how it stands to what was known."""

    turn: str = Field(max_length=8)
    claim: _Line = Field(max_length=LONGEST_CLAIM)
    quote: str = Field(max_length=LONGEST_QUOTE)
    subject: Annotated[Literal["user", "agent", "other"] | None, _word_of(*_SUBJECTS)] = None
    certainty: Annotated[Literal["explicit", "implied", "inferred", "uncertain"] | None, _word_of(*_CERTAINTIES)] = None
    temporal: Annotated[Literal["current", "past", "future"] | None, _word_of(*_TIMES)] = None
    when: Annotated[str | None, _or(None, str)] = None
    until: Annotated[str | None, _or(None, str)] = None
    negated: _Flag = False
    kind: Annotated[Literal["fact", "preference", "context"] | None, _word_of(*_KINDS)] = None
    entities: _Names = Field(default_factory=list)
    depends_on: _Labels = Field(default_factory=list)
    replaces: _Label = None
    why_replaced: Annotated[Literal["wrong", "changed"] | None, _word_of(*_REASONS)] = None
    ended: _Label = None


class EntityItem(BaseModel):
    """Somebody or something with a name."""

    turn: str = Field(max_length=8)
    name: _Line = Field(max_length=LONGEST_NAME)
    type: Annotated[str, _or("thing", str)] = "thing"
    aliases: _Names = Field(default_factory=list)


class RelationItem(BaseModel):
    """How two of the named stand to each other."""

    turn: str = Field(max_length=8)
    source: _Line = Field(max_length=LONGEST_NAME)
    kind: _Line = Field(max_length=40)
    target: _Line = Field(max_length=LONGEST_NAME)
    quote: str = Field(max_length=LONGEST_QUOTE)


class _Envelope(BaseModel):
    _dropped: tuple[str, ...] = PrivateAttr(())

    @property
    def dropped(self) -> tuple[str, ...]:
        """Notes of what was left out: which list, and why."""
        return self._dropped

    @model_validator(mode="wrap")
    @classmethod
    def _item_by_item(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(data, Mapping):
            return handler(data)
        kept, dropped = dict(data), list[str]()
        for name, field in cls.model_fields.items():
            if isinstance(data.get(name), list):
                item: type[BaseModel] = get_args(field.annotation)[0]
                kept[name], notes = _sieved(name, data[name], item.model_validate)
                dropped += notes
            elif not field.is_required():
                kept.pop(name, None)
        if dropped and not any(kept.get(name) for name in cls.model_fields):
            raise ValueError("not one item follows the schema")
        reply = handler(kept)
        reply._dropped = tuple(dropped)
        return reply


class Reply(_Envelope):
    """The reply about what people said. `turns` has to be there, the other lists may be missing."""

    turns: list[TurnItem]
    facts: list[FactItem] = Field(default_factory=list)
    entities: list[EntityItem] = Field(default_factory=list)
    relations: list[RelationItem] = Field(default_factory=list)


class AgentReply(_Envelope):
    """The reply about what the assistant said of itself."""

    facts: list[FactItem]


def _sieved(name: str, given: list[Any], read: Callable[[Any], BaseModel]) -> tuple[list[BaseModel], list[str]]:
    """The items that follow the schema, up to the limit, and a note for each that was left out of those looked at."""
    kept: list[BaseModel] = []
    notes: list[str] = []
    most = ITEMS[name]
    for value in given[: most * _LOOKED_AT]:
        if len(kept) == most:
            break
        try:
            kept.append(read(value))
        except ValidationError:
            notes.append(f"{name}: a malformed item was left out")
    if len(given) > len(kept) + len(notes):
        notes.append(f"{name}: more than {most} items, the rest was left out")
    return kept, notes
