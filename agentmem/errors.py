"""Every error the package raises on purpose, as one tree. Driver and SDK errors are translated into it at the edge.

AgentMemError
  ConfigError            settings that cannot work; the message says what to change
  InvalidRecord          input refused before anything was written (also a ValueError); `field` names the culprit
  NotFound               no such record in this scope (also a LookupError)
  Conflict               the stored state is not the one the write was built on
  LeaseLost              a background writer's lease went to somebody else
  ScopeError             an operation without a scope, or outside of it
    PermissionDenied     a write into a channel that this key may only read
  Closed                 the memory was closed
  RateLimited            too many recalls; `retry_after` seconds
  BudgetExceeded            a run has used up the calls, tokens or dollars it was given
  StoreError             the stores
    StoreUnavailable     cannot be reached, or full, or refuses the user or the password (AuthenticationFailed)
    SchemaMismatch       written by another version of the schema
    CorruptStore         damaged; nothing was overwritten
  ModelError             the models
    ModelUnavailable     cannot be reached, or not installed
    InvalidModelOutput             answered with something unusable
"""

from __future__ import annotations


class AgentMemError(Exception):
    """Root of all errors of this package."""


class ConfigError(AgentMemError):
    """Settings that cannot work. The message names the setting and the fix."""


class InvalidRecord(AgentMemError, ValueError):
    """Input refused before anything was written. `field` names what is wrong, when one field is."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NotFound(AgentMemError, LookupError):
    """No such record in this scope."""


class Conflict(AgentMemError):
    """The stored state is not the one this write was built on (`stale`: read again), or a key was used twice."""

    def __init__(self, message: str, *, stale: bool = False) -> None:
        super().__init__(message)
        self.stale = stale


class LeaseLost(AgentMemError):
    """The lease of a background writer has passed to another owner; its write was refused."""


class ScopeError(AgentMemError):
    """An operation outside of its scope."""


class PermissionDenied(ScopeError):
    """A write into a channel that the caller's key may only read."""


class Closed(AgentMemError):
    """The memory has been closed; open a new one."""


class RateLimited(AgentMemError):
    """Too many recalls of one user. `retry_after` is in seconds."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class BudgetExceeded(AgentMemError):
    """A run has used up the calls, tokens or dollars it was given; the model was not asked."""


class StoreError(AgentMemError):
    """A store failed."""


class StoreUnavailable(StoreError):
    """A store cannot be reached or cannot take more data; what was acknowledged is safe."""


class AuthenticationFailed(StoreUnavailable):
    """The server answers, but refuses this user or this password."""


class SchemaMismatch(StoreError):
    """The store was written by another version of the schema."""


class CorruptStore(StoreError):
    """The store is damaged. Nothing was overwritten."""


class ModelError(AgentMemError):
    """A model failed."""


class ModelUnavailable(ModelError):
    """A model cannot be reached or is not installed."""


class InvalidModelOutput(ModelError):
    """A model answered with something unusable."""
