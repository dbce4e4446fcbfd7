"""Standard input and output as the transport of a server: lines that the SDK cannot read are answered, too."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from agentmem.core.plain_values import replace_surrogate_escapes


@asynccontextmanager
async def open_stdio() -> AsyncIterator[tuple[Any, Any]]:
    """What was received and what is sent, for `Server.run`. Ends quietly when the client no longer reads."""
    try:
        async with stdio_server() as (received, sent), anyio.create_task_group() as tasks:
            passing, passed = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            tasks.start_soon(_pass_messages, received, passing, sent)
            yield passed, sent
            tasks.cancel_scope.cancel()
    except* BrokenPipeError:
        pass


async def _pass_messages(received: Any, passing: Any, sent: Any) -> None:
    async with passing:
        async for item in received:
            if not isinstance(item, ValidationError):
                await passing.send(item)
            elif (message := read_mended_line(item)) is not None:
                await passing.send(SessionMessage(message))
            elif (answer := answer_unread_line(item)) is not None:
                await sent.send(SessionMessage(answer))


def read_mended_line(error: ValidationError) -> types.JSONRPCMessage | None:
    """The message of a line whose one fault is half of a surrogate pair, with U+FFFD in its place; None for others."""
    fault = error.errors(include_url=False)[-1]
    if fault["type"] != "json_invalid":
        return None
    mended = replace_surrogate_escapes(fault["input"])
    if mended == fault["input"]:
        return None
    try:
        return types.jsonrpc_message_adapter.validate_json(mended, by_name=False)
    except ValidationError:
        return None


def answer_unread_line(error: ValidationError) -> types.JSONRPCError | None:
    """The error that a line gets which is no message; None for an empty line and for a notification."""
    fault = error.errors(include_url=False)[-1]
    given, said = fault["input"], "The line is no message of JSON-RPC 2.0."
    code = types.INVALID_PARAMS
    if fault["type"] == "json_invalid":
        if not given.strip():
            return None
        said = fault["msg"]  # tells the place, and quotes nothing
        try:
            given = json.loads(given)  # unlike the SDK it reads half a surrogate pair
        except (ValueError, RecursionError):
            code = types.PARSE_ERROR
        else:
            said = "A text holds half of a surrogate pair, such as \\ud83d alone. Send whole characters."
    is_request = isinstance(given, dict) and "method" in given
    if is_request and "id" not in given:
        return None
    request_id = given["id"] if is_request and type(given["id"]) in (int, str) else None
    if isinstance(request_id, str):
        request_id = request_id.encode(errors="replace").decode()
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=said))
