"""How many requests work at once, and how long one may keep the server waiting for its client."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentmem.server.auth import OPEN_PATHS
from agentmem.server.errors import build_problem_response
from agentmem.server.limits import IMPORT_PATH, describe_size_limit
from agentmem.settings.sections import ServerOptions

TRANSFER_PATHS = frozenset({IMPORT_PATH, "/v1/export", "/v1/jobs/run"})
MAX_TRANSFERS = 20
MAX_TRANSFERS_PER_KEY = 10
PLACE_SECONDS, PLACE_ROUNDS = 5.0, 50  # how long a transfer waits for a place, and how often it looks
MIN_STALL_SECONDS = 1.0  # without a step of its client until a transfer may be ended for another
OTHERS_SHARE = 5  # one key leaves one in so many places to others
MIN_PROGRESS_BYTES = 16_384  # by which an upload moves on; less counts as waiting
BUSY_HEADERS: Mapping[str, str] = {"Retry-After": "1"}


@dataclass(eq=False)
class _Exchange:
    """A request under way. While it waits for its client, `moved_at` says since when (event loop time)."""

    timer: asyncio.Timeout
    key_id: str | None
    moved_at: float | None = None
    is_working: bool = False
    has_begun: bool = False  # to answer
    body_size: int = 0
    is_body_complete: bool = False
    messages: list[Message] = field(default_factory=list)  # of the body, read before the application asks


class RequestSlots:
    """ASGI middleware behind authentication: a request either works, waits for its client, or is a transfer.

    `server.concurrency` bounds those that work; a fifth of them is spared for other keys. As many may wait for a body
    to arrive or an answer to be taken; of more, the one that moved on longest ago is ended. Exports, imports and job
    runs are transfers: `MAX_TRANSFERS` of them, counted apart. Probes are never counted.
    """

    def __init__(self, app: ASGIApp, options: ServerOptions) -> None:
        self.app = app
        self.options = options
        self._working: Counter[str | None] = Counter()
        self._waiting: set[_Exchange] = set()
        self._transfers: set[_Exchange] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with 408, 413 or 503."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self.app(scope, receive, send)
            return
        caller = scope.get("state", {}).get("caller")
        is_transfer = scope["path"] in TRANSFER_PATHS
        exchange = _Exchange(asyncio.timeout(None), None if caller is None else caller.key_id)
        try:
            async with exchange.timer:
                await (self._transfer if is_transfer else self._work)(exchange, scope, receive, send)
        except ClientDisconnect:
            return
        except TimeoutError:
            if exchange.has_begun:
                raise  # the connection is closed
            await self._build_refusal(exchange, is_transfer)(scope, receive, send)
        finally:
            self._stop_work(exchange)
            self._waiting.discard(exchange)
            self._transfers.discard(exchange)

    async def _work(self, exchange: _Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, then answer."""
        _make_room(self._waiting, self.options.concurrency)
        self._waiting.add(exchange)
        try:
            while not exchange.is_body_complete:
                message = await self._receive(exchange, receive, self.options.body_bytes)
                if message["type"] == "http.disconnect":
                    return
                exchange.messages.append(message)
        except HTTPException as error:
            await build_problem_response(error.status_code, error.detail)(scope, receive, send)
            return
        self._waiting.discard(exchange)
        if not self._begin_work(exchange):
            busy = build_problem_response(503, "Too many requests are under way.", headers=BUSY_HEADERS)
            await busy(scope, receive, send)
            return

        async def replay() -> Message:
            return exchange.messages.pop(0) if exchange.messages else await receive()

        async def send_noted(message: Message) -> None:
            if not exchange.has_begun:
                self._stop_work(exchange)
                _make_room(self._waiting, self.options.concurrency)
                self._waiting.add(exchange)
            await self._send(exchange, send, message)

        await self.app(scope, replay, send_noted)

    async def _transfer(self, exchange: _Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what comes and goes, as long as it moves."""
        if not await self._find_place(exchange.key_id):
            busy = build_problem_response(503, "Too many transfers are under way.", headers=BUSY_HEADERS)
            await busy(scope, receive, send)
            return
        self._transfers.add(exchange)
        limit = self.options.import_bytes if scope["path"] == IMPORT_PATH else self.options.body_bytes

        async def receive_noted() -> Message:
            return await (receive() if exchange.is_body_complete else self._receive(exchange, receive, limit))

        await self.app(scope, receive_noted, lambda message: self._send(exchange, send, message))

    async def _find_place(self, key_id: str | None) -> bool:
        """Whether one more transfer may begin; waits a while for one that waits for its client, and ends it."""
        for _ in range(PLACE_ROUNDS):
            own = key_id is None or _make_room(self._transfers, MAX_TRANSFERS_PER_KEY, key_id, MIN_STALL_SECONDS)
            if own and _make_room(self._transfers, MAX_TRANSFERS, min_wait=MIN_STALL_SECONDS):
                return True
            await asyncio.sleep(PLACE_SECONDS / PLACE_ROUNDS)
        return False

    async def _receive(self, exchange: _Exchange, receive: Receive, limit: int) -> Message:
        """The next part of the body. Raises HTTPException 413 where there is too much of it."""
        now = asyncio.get_running_loop().time
        if exchange.moved_at is None:
            exchange.moved_at = now()
        exchange.timer.reschedule(exchange.moved_at + self.options.body_seconds)
        message = await receive()
        before = exchange.body_size
        exchange.body_size += len(message.get("body", b""))
        if exchange.body_size > limit:
            raise HTTPException(413, describe_size_limit(limit))
        if exchange.body_size // MIN_PROGRESS_BYTES > before // MIN_PROGRESS_BYTES:
            exchange.moved_at = now()
        if not message.get("more_body", False):
            exchange.is_body_complete, exchange.moved_at = True, None
            exchange.timer.reschedule(now() + self.options.request_seconds)
        return message

    async def _send(self, exchange: _Exchange, send: Send, message: Message) -> None:
        now = asyncio.get_running_loop().time
        exchange.has_begun, exchange.moved_at = True, now()
        exchange.timer.reschedule(exchange.moved_at + self.options.request_seconds)
        await send(message)
        exchange.moved_at = None
        exchange.timer.reschedule(now() + self.options.request_seconds)

    def _begin_work(self, exchange: _Exchange) -> bool:
        """Take one of the places for work; False where none is free."""
        spare = 0 if exchange.key_id is None else self.options.concurrency // OTHERS_SHARE
        if (
            self._working.total() >= self.options.concurrency
            or self._working[exchange.key_id] >= self.options.concurrency - spare
        ):
            return False
        self._working[exchange.key_id] += 1
        exchange.is_working = True
        return True

    def _stop_work(self, exchange: _Exchange) -> None:
        if exchange.is_working:
            exchange.is_working = False
            self._working[exchange.key_id] -= 1
            self._working += Counter()  # drops keys without work

    def _build_refusal(self, exchange: _Exchange, is_transfer: bool) -> ASGIApp:
        if not exchange.is_body_complete:
            detail = f"The body did not arrive within {self.options.body_seconds:g} s, or stopped on a busy server."
            return build_problem_response(408, detail, headers={"Connection": "close"})
        advice = (
            "with Accept: text/event-stream it may take longer, and tells how far it is."
            if is_transfer
            else "a retry with an Idempotency-Key is safe."
        )
        detail = f"The request took longer than {self.options.request_seconds:g} s; {advice}"
        return build_problem_response(503, detail, headers=BUSY_HEADERS)


def _make_room(exchanges: set[_Exchange], limit: int, key_id: str | None = None, min_wait: float = 0.0) -> bool:
    """End the exchange that has waited longest for its client when there are `limit`; False where none waits.

    With a `key_id` only those of that key count; who has waited less than `min_wait` seconds is not ended.
    """
    rivals = [each for each in exchanges if key_id in (None, each.key_id)]
    if len(rivals) < limit:
        return True
    now = asyncio.get_running_loop().time()
    waiting = [each for each in rivals if each.moved_at is not None and now - each.moved_at >= min_wait]
    if not waiting:
        return False
    stalest = min(waiting, key=lambda each: each.moved_at or 0.0)
    exchanges.discard(stalest)
    stalest.timer.reschedule(now)
    return True
