"""Documents: values that a program keeps under a name in a namespace, exactly as given."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, ValidationInfo

from agentmem.core.plain_values import describe_value
from agentmem.core.record import Identifier, Record, UtcDatetime
from agentmem.errors import InvalidRecord

MAX_VALUE_CHARS = 32_000_000  # of a value as JSON text: a message with some large images in base64
MAX_NAME_CHARS = 1_000
MAX_PATH_CHARS = 400  # of a namespace as a key: with an id it fits an index of a server whole
MAX_TTL_MINUTES = 60 * 24 * 366 * 100
LABEL_END = "\x1f"  # behind each label of a namespace in a key
_ESCAPED = re.compile("[%\x1f]")

Namespace = tuple[str, ...]


def _check_value(value: str, info: ValidationInfo) -> str:
    if info.mode != "json" and len(value) > MAX_VALUE_CHARS:
        raise ValueError(f"must have at most {MAX_VALUE_CHARS:,} characters as JSON, got {len(value):,}")
    return value


class Document(Record):
    """A value that a program keeps under a name in a namespace. True from its first writing until it expires.

    `value` is its JSON text. `texts` are what recall searches; without any, only its name finds it. `turn_id` is the
    turn that holds the same words, if one does. `ttl_minutes` is how long it lives after it was written or refreshed.
    """

    namespace: Namespace
    name: str = Field(max_length=MAX_NAME_CHARS)
    value: Annotated[str, AfterValidator(_check_value)] = Field(repr=False)
    texts: tuple[str, ...] = ()
    turn_id: Identifier = ""
    created_at: UtcDatetime | None = None
    updated_at: UtcDatetime | None = None
    ttl_minutes: float | None = Field(default=None, gt=0, le=MAX_TTL_MINUTES, allow_inf_nan=False)
    expires_at: UtcDatetime | None = None

    IS_IN_GRAPH: ClassVar[bool] = False

    def search_text(self) -> str:
        """Its texts, a line each."""
        return "\n".join(self.texts)

    def dedup_key(self) -> str:
        """Its namespace and its id: what lies in a namespace, or below it, has its path as a prefix."""
        return build_path(self.namespace) + self.id

    def valid_interval(self) -> tuple[datetime | None, datetime | None]:
        """From when it was first written until it expires."""
        return self.created_at, self.expires_at

    def is_expired(self, now: datetime) -> bool:
        """Whether its time to live has passed."""
        return self.expires_at is not None and self.expires_at <= now

    def load(self) -> Any:
        """The value, equal to what was given."""
        return json.loads(self.value)


def build_path(namespace: Sequence[str]) -> str:
    """The labels as one text, each with an end: a namespace below another one has its path as a prefix."""
    return "".join(_ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", label) + LABEL_END for label in namespace)


def check_namespace(namespace: object, *, may_be_empty: bool = False) -> Namespace:
    """The labels as a tuple. Raises InvalidRecord, field `namespace`, unless they are texts, at least one each."""
    if isinstance(namespace, str) or not isinstance(namespace, (list, tuple)):
        message = f"namespace must be a tuple of labels, got {describe_value(namespace)}"
        raise InvalidRecord(message, field="namespace")
    if not namespace and not may_be_empty:
        raise InvalidRecord("namespace must have at least one label", field="namespace")
    for label in namespace:
        if not isinstance(label, str) or not label or "\x00" in label:
            message = f"namespace: a label must be a text that is not empty and has no NUL, got {describe_value(label)}"
            raise InvalidRecord(message, field="namespace")
    if (length := len(build_path(namespace))) > MAX_PATH_CHARS:
        message = f"namespace must have at most {MAX_PATH_CHARS} characters in all, got {length}"
        raise InvalidRecord(message, field="namespace")
    return tuple(namespace)


def dump_value(value: object) -> str:
    """The JSON text of a value. Raises InvalidRecord, field `value`, for what JSON cannot say."""
    try:
        return json.dumps(value, separators=(",", ":"))  # ASCII: every character comes back, half surrogates too
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRecord(f"value must be of JSON's types: {error}", field="value") from None
