"""One worker at a time: a lease that is kept while the work lasts, with the token that fences late writers off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import wraps
from urllib.parse import quote

from agentmem.consolidation import JobOptions, JobReport
from agentmem.errors import LeaseLost, StoreError
from agentmem.model.clock import Stopwatch
from agentmem.model.scope import Scope
from agentmem.resources import Engine

LEASE_SECONDS = 30.0

LeasedWork = Callable[[Engine, Scope, JobOptions, JobReport, int], Awaitable[None]]
JobFunction = Callable[[Engine, Scope, JobOptions], Awaitable[JobReport]]


@asynccontextmanager
async def hold_lease(engine: Engine, name: str, description: str) -> AsyncIterator[int]:
    """Work as the only one under this name; gives the token for `Engine.write(fence=…)`.

    Renewed every third of its time. Raises LeaseLost, saying `description` is taken, while another works under the
    name.
    """
    owner = engine.ids.new_id()

    async def renew() -> int | None:
        return await engine.log.acquire_lease(name, LEASE_SECONDS, owner)

    async def keep() -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            await renew()  # were it lost, the token keeps our writes away

    if (token := await renew()) is None:
        raise LeaseLost(f"{description}: another worker is at it")
    keeper = asyncio.ensure_future(keep())
    try:
        yield token
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        await asyncio.shield(engine.log.release_lease(name, owner))


@asynccontextmanager
async def publish_lock(engine: Engine, scope: Scope) -> AsyncIterator[None]:
    """Show in the session store that the scope's conversation is worked on, for who watches there. Nothing reads it."""
    key = f"consolidation:lock:{quote(scope.conversation_id or '', safe='')}"
    with suppress(StoreError):
        await engine.session.set(scope, key, engine.clock.now().isoformat(), ttl=LEASE_SECONDS)
    try:
        yield
    finally:
        with suppress(StoreError):
            await engine.session.delete(scope, key)


def leased_job(name: str) -> Callable[[LeasedWork], JobFunction]:
    """Make the `run` of a job of its work: under the lease of this job and user, timed, with a report.

    The work is given the report to fill in and the lease's token. While another worker has the lease, or takes it over,
    the report says so in `stopped`.
    """

    def decorate(work: LeasedWork) -> JobFunction:
        @wraps(work)
        async def run(engine: Engine, scope: Scope, options: JobOptions) -> JobReport:
            engine.check_open()
            watch = Stopwatch(engine.clock)
            report = JobReport(job=name, user_id=scope.user_id, dry_run=options.dry_run)
            try:
                async with hold_lease(engine, f"{name}:{scope.user_id}", f"job {name} of {scope.user_id!r}") as fence:
                    await work(engine, scope, options, report, fence)
            except LeaseLost as error:
                report.stop_reason = str(error)
            report.seconds = watch.milliseconds() / 1000
            return report

        return run

    return decorate
