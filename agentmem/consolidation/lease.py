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
from agentmem.resources import Resources

LEASE_SECONDS = 30.0

Work = Callable[[Resources, Scope, JobOptions, JobReport, int], Awaitable[None]]
Run = Callable[[Resources, Scope, JobOptions], Awaitable[JobReport]]


@asynccontextmanager
async def leased(resources: Resources, name: str, what: str) -> AsyncIterator[int]:
    """Work as the only one under this name; gives the token for `Resources.write(fence=…)`.

    Renewed every third of its time. Raises LeaseLost, saying `what` is taken, while another works under the name.
    """
    owner = resources.ids.new()

    async def renew() -> int | None:
        return await resources.log.lease(name, LEASE_SECONDS, owner)

    async def keep() -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            await renew()  # were it lost, the token keeps our writes away

    if (token := await renew()) is None:
        raise LeaseLost(f"{what}: another worker is at it")
    keeper = asyncio.ensure_future(keep())
    try:
        yield token
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        await asyncio.shield(resources.log.release(name, owner))


@asynccontextmanager
async def displayed(resources: Resources, scope: Scope) -> AsyncIterator[None]:
    """Show in the session store that the scope's conversation is worked on, for who watches there. Nothing reads it."""
    key = f"consolidation:lock:{quote(scope.conversation_id or '', safe='')}"
    with suppress(StoreError):
        await resources.session.set(scope, key, resources.clock.now().isoformat(), ttl=LEASE_SECONDS)
    try:
        yield
    finally:
        with suppress(StoreError):
            await resources.session.delete(scope, key)


def leased_run(name: str) -> Callable[[Work], Run]:
    """Make the `run` of a job of its work: under the lease of this job and user, timed, with a report.

    The work is given the report to fill in and the lease's token. While another worker has the lease, or takes it over,
    the report says so in `stopped`.
    """

    def decorate(work: Work) -> Run:
        @wraps(work)
        async def run(resources: Resources, scope: Scope, options: JobOptions) -> JobReport:
            resources.check_open()
            watch = Stopwatch(resources.clock)
            report = JobReport(job=name, user_id=scope.user_id, dry_run=options.dry_run)
            try:
                async with leased(resources, f"{name}:{scope.user_id}", f"job {name} of {scope.user_id!r}") as fence:
                    await work(resources, scope, options, report, fence)
            except LeaseLost as error:
                report.stopped = str(error)
            report.seconds = watch.milliseconds() / 1000
            return report

        return run

    return decorate
