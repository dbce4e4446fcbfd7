"""Errors as problem details (RFC 9457): one JSON shape for all that can go wrong, with our error names and fields."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from agentmem.core.telemetry import WARNING, log_event
from agentmem.errors import (
    AgentMemError,
    BudgetExceeded,
    Conflict,
    InvalidModelOutput,
    InvalidRecord,
    LeaseLost,
    NotFound,
    PermissionDenied,
    RateLimited,
    ScopeError,
)

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
MEDIA_TYPE = "application/problem+json"
NOT_FOUND_DETAIL = "There is no such record, or this caller may not see it."
NO_ROUTE_DETAIL = "There is no such route; see /docs."
BUDGET_RETRY_SECONDS = 60
MAX_FIELD_CHARS = 200  # of the name of a field that a client made up
# The first that fits counts. What is left are stores and models that are away, and settings that cannot work.
STATUS_BY_ERROR: tuple[tuple[type[AgentMemError], int], ...] = (
    (InvalidRecord, 422),
    (NotFound, 404),
    (PermissionDenied, 403),
    (ScopeError, 404),
    (Conflict, 409),
    (LeaseLost, 409),
    (RateLimited, 429),
    (BudgetExceeded, 429),
    (InvalidModelOutput, 502),
    (AgentMemError, 503),
)
DOCUMENTED_STATUSES = (400, 401, 403, 404, 405, 408, 409, 413, 415, 421, 422, 429, 500, 502, 503)


class Problem(BaseModel):
    """What went wrong: the status again, the name of the error, what to do, and the field where one is at fault."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    error: str = Field(description="The name of the error, as in agentmem.errors, or that of the status.")
    field: str | None = None


class RequestError(Exception):
    """A request refused by the server itself, before the memory was asked."""

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = dict(headers or {})


def build_problem_response(
    status: int, detail: str, *, error: str = "", field: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The response for one problem. `error` defaults to the phrase of the status without blanks."""
    title = HTTPStatus(status).phrase
    problem = Problem(title=title, status=status, detail=detail, error=error or title.replace(" ", ""), field=field)
    return JSONResponse(problem.model_dump(exclude_none=True), status, dict(headers or {}), MEDIA_TYPE)


def build_error_response(error: AgentMemError) -> JSONResponse:
    """The response for an error of the memory. What is not found is told alike, so that nobody learns whose it is."""
    status = next(status for kind, status in STATUS_BY_ERROR if isinstance(error, kind))
    if status == 404:
        return build_problem_response(404, NOT_FOUND_DETAIL, error="NotFound")
    headers = {}
    if isinstance(error, RateLimited):
        headers["Retry-After"] = str(max(1, ceil(error.retry_after)))
    elif isinstance(error, BudgetExceeded):
        headers["Retry-After"] = str(BUDGET_RETRY_SECONDS)
    field = error.field if isinstance(error, InvalidRecord) else None
    return build_problem_response(status, str(error), error=type(error).__name__, field=field, headers=headers)


def build_bug_response() -> JSONResponse:
    """The response for an error that is no AgentMemError."""
    return build_problem_response(500, "The server failed. Its log has the name of the error.")


def document_errors() -> dict[int | str, dict[str, Any]]:
    """The error responses of every route, for OpenAPI."""
    return {
        status: {"model": Problem, "description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {}}}
        for status in DOCUMENTED_STATUSES
    }


def add_error_handlers(app: FastAPI) -> None:
    """Let every error of the app become a problem."""
    app.add_exception_handler(AgentMemError, _on_memory_error)
    app.add_exception_handler(RequestError, _on_request_error)
    app.add_exception_handler(RequestValidationError, _on_wrong_shape)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_bug)


async def _on_memory_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, AgentMemError)
    return build_error_response(error)


async def _on_request_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestError)
    return build_problem_response(error.status, str(error), headers=error.headers)


async def _on_wrong_shape(request: Request, error: Exception) -> JSONResponse:
    """A body that is no JSON is 400, JSON of another shape 422; what was sent is not repeated."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return build_problem_response(400, "The body is no JSON.")
    path = [str(part) for part in first["loc"][1:]]
    if path and (path[-1] == "str" or "[" in path[-1]):  # one of the types that the field may have
        path.pop()
    field = ".".join(path)[:MAX_FIELD_CHARS] or None
    wrong = "there is no such field here" if first["type"] == "extra_forbidden" else first["msg"]
    return build_problem_response(422, f"{field or 'body'}: {wrong}", error="InvalidRecord", field=field)


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return build_problem_response(404, NO_ROUTE_DETAIL, error="NotFound")
    headers = {"Allow": _list_methods(request)} if error.status_code == 405 else error.headers
    return build_problem_response(error.status_code, str(error.detail), headers=headers)


def _list_methods(request: Request) -> str:
    """The methods of all routes of a path; the framework names those of the first one alone."""
    asked = [{**request.scope, "method": method} for method in METHODS]
    found = {each["method"] for each in asked for route in request.app.routes if route.matches(each)[0] is Match.FULL}
    return ", ".join(sorted(found | {"HEAD"} if "GET" in found else found))


async def _on_bug(request: Request, error: Exception) -> JSONResponse:
    """The message stays in the log's event by its type alone: it may quote what was stored."""
    log_event(WARNING, "request_failed", error=type(error).__name__)
    return build_bug_response()
