"""Whether a worker is well: exit code 0, or 1 and the reason.

Arguments: a file that it touches, and how many seconds old that may be. The log that AGENTMEM_LOG_URL names must be
reachable too, with the schema of this version.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from agentmem.core.clock import SystemClock
from agentmem.errors import AgentMemError


def beating(path: Path, seconds: float) -> None:
    """End with the reason when the file was not touched within so many seconds."""
    if not path.exists():
        sys.exit(f"{path} was never touched: no pass was made yet")
    if (age := time.time() - path.stat().st_mtime) > seconds:  # noqa: TID251 - as the file system tells time
        sys.exit(f"{path} was touched {age:,.0f} s ago: the worker hangs, or has very much to do")


async def reachable(url: str) -> None:
    """Reach the server, log in, and compare its schema with this version's. Raises AgentMemError."""
    from agentmem.stores.postgres import open_log

    log = await open_log(url, SystemClock())
    await log.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        beating(Path(sys.argv[1]), float(sys.argv[2]))
    url = os.environ.get("AGENTMEM_LOG_URL", "")  # noqa: TID251 - this is a door of its own
    if url.startswith(("postgresql://", "postgres://")):  # an embedded log is in this program
        try:
            asyncio.run(reachable(url))
        except AgentMemError as error:
            sys.exit(str(error))
