"""The session cache in Redis. Loaded only when `session_url` asks for it; the driver is the extra `redis`."""

from __future__ import annotations

from agentmem.stores.redis.session import RedisSession, open_session

__all__ = ["RedisSession", "open_session"]
