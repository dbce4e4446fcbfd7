"""One worker at a time: a lease that is kept while the work lasts, with the token that fences late writers off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import quote

from agentmem.errors import LeaseLost, StoreError
from agentmem.model.scope import Scope
from agentmem.resources import Resources

LEASE_SECONDS = 30.0


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
