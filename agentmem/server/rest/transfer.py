"""A user's whole memory as a file, out and in, streamed: `agentmem export` and `import` over HTTP."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from agentmem.admin.export_format import render_line
from agentmem.admin.export_import import iter_export
from agentmem.core.telemetry import ProgressCallback
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.importers.importer import Importer
from agentmem.importers.items import ImportReport
from agentmem.server.auth import Reader, ViewQuery, Writer, open_view, require_whole_user
from agentmem.server.rest.shapes import describe_result
from agentmem.server.rest.streaming import answer_long_work

router = APIRouter(prefix="/v1", tags=["transfer"])

LINES_TYPE = "application/x-ndjson"
CHUNK_BYTES = 1 << 16
_FILE_BODY = {"requestBody": {"required": True, "content": {LINES_TYPE: {"schema": {"type": "string"}}}}}
_FILE_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "One JSON document a line.", "content": {LINES_TYPE: {"schema": {"type": "string"}}}}
}
_REPORT_ANSWER = describe_result({"$ref": "#/components/schemas/ImportReport"})


@router.get("/export", response_class=Response, responses=_FILE_ANSWER)
async def export_memory(request: Request, caller: Reader, view: ViewQuery) -> Response:
    """Everything of the user with its history, one JSON document a line.

    A file is whole when its last line is of type `end`. When something is erased meanwhile the connection breaks off:
    throw away what came, and ask again.
    """
    require_whole_user(caller)
    memory = open_view(request, caller, view)
    lines = _join_lines(memory)
    first = await anext(lines)  # what fails at once is a problem and no broken file
    return StreamingResponse(_chain(first, lines), media_type=LINES_TYPE)


async def _join_lines(memory: AsyncAgentMemory) -> AsyncIterator[bytes]:
    """The lines of an export in pieces worth sending."""
    piece = bytearray()
    async for line in iter_export(memory.engine, memory.scope):
        piece += render_line(line).encode()
        if len(piece) >= CHUNK_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


async def _chain(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


@router.post("/import", response_model=ImportReport, responses=_REPORT_ANSWER, openapi_extra=_FILE_BODY)
async def import_memory(
    request: Request,
    caller: Writer,
    view: ViewQuery,
    *,
    format_: Annotated[
        str | None, Query(alias="format", description="What the file is, such as chatgpt; found out when left out.")
    ] = None,
) -> Response:
    """Store an export, or what a file of another program holds, see "Import": chats, messages, facts, notes.

    The body is read to its end before anything is stored. The same file again stores nothing new. It may be as large as
    `server.import_bytes`; with `Accept: text/event-stream` the answer tells how far it is.
    """
    require_whole_user(caller)
    memory = open_view(request, caller, view)
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="agentmem-", dir=memory.settings.temp_dir)
    path = Path(folder.name) / "body"
    try:
        await _save_body(request, path)
    except BaseException:
        await asyncio.to_thread(folder.cleanup)
        raise

    async def work(progress: ProgressCallback) -> ImportReport:
        try:
            return await Importer(format_).import_files(memory, [path], progress)
        finally:
            await asyncio.to_thread(folder.cleanup)

    return await answer_long_work(request, work)


async def _save_body(request: Request, path: Path) -> None:
    """In threads, as all work on the folder: a busy disk would hold up the event loop."""
    file = await asyncio.to_thread(path.open, "wb")
    try:
        async for chunk in request.stream():
            await asyncio.to_thread(file.write, chunk)
    finally:
        await asyncio.to_thread(file.close)
