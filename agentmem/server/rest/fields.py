"""Types that several routes share."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Header
from pydantic import BeforeValidator


def require_iso_text(value: Any) -> Any:
    """The value, unless it is a number or the text of one: those would be read as seconds since 1970."""
    if isinstance(value, int | float) or (isinstance(value, str) and value.lstrip("+-").replace(".", "", 1).isdigit()):
        raise ValueError("write a date or a date with a time as in ISO 8601, such as 2025-03-08T18:05:00Z")
    return value


Moment = Annotated[datetime, BeforeValidator(require_iso_text)]
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", description="Makes a retry safe.")]
