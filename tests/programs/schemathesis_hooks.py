"""What Schemathesis has to be told of: a body that is text, and a page."""

from __future__ import annotations

from typing import Any

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def send_text(ctx: schemathesis.SerializationContext, value: Any) -> bytes:
    """The body of an import."""
    return str(value).encode("utf-8", "surrogatepass")


@schemathesis.deserializer("text/html")
def read_page(ctx: schemathesis.DeserializationContext, response: schemathesis.Response) -> Any:
    """The page of documentation."""
    return response.content.decode()
