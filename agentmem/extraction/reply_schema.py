"""What a language model may reply about a window: strict for the vendor, item by item when it is read.

One malformed item never drops its siblings. Lengths and counts are bounded here; whether anything is true is asked by
`grounding`.
"""

from __future__ import annotations

import re
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

from agentmem.beliefs.slots import MAX_SLOT_CHARS, find_slot
from agentmem.core.plain_values import has_visible
from agentmem.errors import InvalidRecord

MAX_CLAIM_CHARS = 500
MAX_VALUE_CHARS = 300
MAX_SENTENCE_CHARS = 400
MAX_QUOTE_CHARS = 4_000
MAX_NAME_CHARS = 120
MAX_KEY_CHARS = 60
MAX_KEYS = 6
MAX_NAMES = 12
MAX_ITEMS: Mapping[str, int] = {"turns": 24, "facts": 30, "entities": 30, "relations": 20}
"""Items of each list that are taken; what comes after them is left out."""

_LABEL = re.compile(r"[\W_]*(?:(?:(turn|fact|person|note)|label)\W*)?([tcpfn])?[\W_]*0*(\d{1,4})[\W_]*", re.IGNORECASE)
_OWNER = re.compile(r"\s*([^.:]{1,60}?)\s*\.\s*(?=[^\W\d])")
_INSPECTION_FACTOR = 4  # times as many items are looked at, to fill the places of malformed ones


def _to_one_line(text: str) -> str:
    """On one line and without control characters, so that no text can look like a part of a prompt."""
    line = " ".join("".join(c if c.isprintable() or c.isspace() else _drop_invisible(c) for c in text).split())
    if not has_visible(line):
        raise ValueError("must say something")
    return line


def _drop_invisible(character: str) -> str:
    # Joiners belong to words of some scripts; everything else that cannot be seen goes.
    return character if character in "\u200c\u200d" else ""


def _to_optional_line(text: str) -> str:
    return _to_one_line(text) if has_visible(text) else ""


def fold_label(value: object) -> object:
    """A label as prompts write it: models send it in other cases and with spaces around it. No text stays as it is."""
    return value.strip().casefold() if isinstance(value, str) else value


def read_label(value: object, letter: str) -> object:
    """A label as the prompt writes it, such as "T1" for 1, "1", "t1", "Turn 1" and "T1:"; `letter` for a bare number.

    What is no label stays as it is.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    found = _LABEL.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else f"{(found[2] or found[1] or letter)[0].upper()}{found[3]}"


def fold_slot(name: str) -> str:
    """A slot as the list writes it: "Call Me" is call_me. Other names stay, and what follows a colon."""
    kind, colon, rest = (part.strip() for part in name.partition(":"))
    folded = f"{re.sub(r'[ -]+', '_', kind).casefold()}{colon}{rest}"
    return folded if _is_known_slot(folded) else name.strip()


def _is_known_slot(name: str) -> bool:
    try:
        return bool(find_slot(name))
    except InvalidRecord:
        return False


def _label(letter: str) -> BeforeValidator:
    return BeforeValidator(lambda value: read_label(value, letter))


def _label_list(letter: str) -> BeforeValidator:
    few = _string_list(MAX_NAMES, 8).func

    def read(value: object) -> object:
        given = value if isinstance(value, list) else []
        return few([read_label(each, letter) for each in given])  # type: ignore[call-arg]

    return BeforeValidator(read)


def _choice(*words: str) -> BeforeValidator:
    """One of the words in any case, "" for anything else: an unknown label is no reason to lose what is labeled."""

    def choose(value: object) -> str:
        label = fold_label(value)
        return label if isinstance(label, str) and label in words else ""

    return BeforeValidator(choose)


def _string_list(limit: int, max_chars: int) -> BeforeValidator:
    """The usable strings of a list, each once; nothing for what is no list."""

    def few(value: object) -> list[str]:
        given = value if isinstance(value, list) else []
        lines = [" ".join(each.split()) for each in given if isinstance(each, str)]
        return list(dict.fromkeys(line for line in lines if line.isprintable() and 0 < len(line) <= max_chars))[:limit]

    return BeforeValidator(few)


def _or_default(default: object, kind: type) -> BeforeValidator:
    return BeforeValidator(lambda value: value if isinstance(value, kind) else default)


_SingleLine = Annotated[str, AfterValidator(_to_one_line)]
_TurnLabel = Annotated[str, _label("T")]
_TurnLabels = Annotated[list[str], _label_list("T")]
_FactLabels = Annotated[list[str], _label_list("F")]
_Names = Annotated[list[str], _string_list(MAX_NAMES, MAX_NAME_CHARS)]
_Words = Annotated[str, _or_default("", str)]
_CERTAINTIES = ("explicit", "implied", "inferred", "uncertain")
_TENSES = ("current", "past", "planned")
_OPERATIONS = ("is", "over", "deny")
_MARKS = ("change", "correct")
_SCOPES = ("here", "everywhere")


class TurnItem(BaseModel):
    """What one turn says, said so that it stands alone; both parts may be empty."""

    turn: _TurnLabel = Field(max_length=8)
    standalone: Annotated[str, _or_default("", str)] = ""
    keys: Annotated[list[str], _string_list(MAX_KEYS, MAX_KEY_CHARS)] = Field(default_factory=list)
    leans_on: _TurnLabels = Field(default_factory=list)


class FactItem(BaseModel):
    """A claim and the words it rests on.

    `about` is a label of `people` or a new name, `slot` a slot or "" where none fits, `value` words of the quote.
    `since` and `until` are words of time as they were said. `rests_on` are labels of known facts and of items of the
    same reply, `ends` labels of known facts that are over by this claim. The claim may be empty where a slot says all.
    """

    turn: _TurnLabel = Field(max_length=8)
    quote: str = Field(max_length=MAX_QUOTE_CHARS)
    about: Annotated[str, _or_default("", str), _label("P")] = Field("", max_length=MAX_NAME_CHARS)
    slot: Annotated[str, _or_default("", str)] = Field("", max_length=MAX_SLOT_CHARS)
    value: Annotated[str, _or_default("", str)] = Field("", max_length=MAX_VALUE_CHARS)
    tense: Annotated[Literal["current", "past", "planned", ""], _choice(*_TENSES)] = ""
    op: Annotated[Literal["is", "over", "deny", ""], _choice(*_OPERATIONS)] = ""
    mark: Annotated[Literal["change", "correct", ""], _choice(*_MARKS)] = ""
    scope: Annotated[Literal["here", "everywhere", ""], _choice(*_SCOPES)] = ""
    since: _Words = ""
    until: _Words = ""
    certainty: Annotated[Literal["explicit", "implied", "inferred", "uncertain", ""], _choice(*_CERTAINTIES)] = ""
    claim: Annotated[str, _or_default("", str), AfterValidator(_to_optional_line)] = Field(
        "", max_length=MAX_CLAIM_CHARS
    )
    rests_on: _FactLabels = Field(default_factory=list)
    ends: _FactLabels = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _split_slot(cls, data: Any) -> Any:
        """The slot as the list writes it. A person before it, as in "P1.employer", is whom it is about."""
        slot = data.get("slot") if isinstance(data, Mapping) else None
        if not isinstance(slot, str):
            return data
        owner = _OWNER.match(slot)
        owner = owner if owner and _is_known_slot(fold_slot(slot[owner.end() :])) else None
        about = {"about": owner[1]} if owner and not data.get("about") else {}
        return {**data, **about, "slot": fold_slot(slot[owner.end() :] if owner else slot)}

    @model_validator(mode="after")
    def _say_something(self) -> Self:
        if not (self.claim or self.slot):
            raise ValueError("an item needs a claim or a slot")
        return self


class EntityItem(BaseModel):
    """Somebody or something with a name."""

    turn: _TurnLabel = Field(max_length=8)
    name: _SingleLine = Field(max_length=MAX_NAME_CHARS)
    type: Annotated[str, _or_default("thing", str)] = "thing"
    aliases: _Names = Field(default_factory=list)


class RelationItem(BaseModel):
    """How two of the named stand to each other."""

    turn: _TurnLabel = Field(max_length=8)
    source: _SingleLine = Field(max_length=MAX_NAME_CHARS)
    kind: _SingleLine = Field(max_length=40)
    target: _SingleLine = Field(max_length=MAX_NAME_CHARS)
    quote: str = Field(max_length=MAX_QUOTE_CHARS)


class _LenientReply(BaseModel):
    _dropped: tuple[str, ...] = PrivateAttr(())

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of what was left out: which list, and why."""
        return self._dropped

    @model_validator(mode="wrap")
    @classmethod
    def _validate_items(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(data, Mapping):
            return handler(data)
        kept, dropped = dict(data), list[str]()
        for name, field in cls.model_fields.items():
            if isinstance(data.get(name), list):
                item: type[BaseModel] = get_args(field.annotation)[0]
                kept[name], notes = _filter_items(name, data[name], item.model_validate)
                dropped += notes
            elif not field.is_required():
                kept.pop(name, None)
        if dropped and not any(kept.get(name) for name in cls.model_fields):
            raise ValueError("not one item follows the schema")
        reply = handler(kept)
        reply._dropped = tuple(dropped)
        return reply


class ExtractionReply(_LenientReply):
    """The reply about what people said. What matters most comes first, for a reply may be cut off."""

    facts: list[FactItem] = Field(default_factory=list)
    entities: list[EntityItem] = Field(default_factory=list)
    relations: list[RelationItem] = Field(default_factory=list)
    turns: list[TurnItem] = Field(default_factory=list)


class SmallFactItem(BaseModel):
    """A fact as a small model gives it; see `FactItem`."""

    turn: _TurnLabel = Field(max_length=8)
    quote: str = Field(max_length=MAX_QUOTE_CHARS)
    about: Annotated[str, _or_default("", str), _label("P")] = Field("", max_length=MAX_NAME_CHARS)
    slot: str = Field(max_length=MAX_SLOT_CHARS)
    value: Annotated[str, _or_default("", str)] = Field("", max_length=MAX_VALUE_CHARS)
    op: Annotated[Literal["is", "over", "deny", ""], _choice(*_OPERATIONS)] = ""


class SmallExtractionReply(_LenientReply):
    """The reply of a small model about what people said."""

    facts: list[SmallFactItem] = Field(default_factory=list)

    def to_full(self) -> ExtractionReply:
        """The same as the reply of any model."""
        return ExtractionReply.model_validate(self.model_dump())


class AgentExtractionReply(_LenientReply):
    """The reply about what the assistant said of itself."""

    facts: list[FactItem] = Field(default_factory=list)


def _filter_items(
    name: str, items: list[Any], validate: Callable[[Any], BaseModel]
) -> tuple[list[BaseModel], list[str]]:
    """The items that follow the schema, up to the limit, and a note for each that was left out of those looked at."""
    kept: list[BaseModel] = []
    notes: list[str] = []
    most = MAX_ITEMS[name]
    for value in items[: most * _INSPECTION_FACTOR]:
        if len(kept) == most:
            break
        try:
            kept.append(validate(value))
        except ValidationError:
            notes.append(f"{name}: a malformed item was left out")
    if len(items) > len(kept) + len(notes):
        notes.append(f"{name}: more than {most} items, the rest was left out")
    return kept, notes
