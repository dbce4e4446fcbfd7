"""A server beside the log that cannot be used: said once when it begins and once when it ends."""

from __future__ import annotations

from agentmem.core.telemetry import INFO, WARNING, log_event
from agentmem.errors import AuthenticationFailed, SchemaMismatch, StoreError


class Outage:
    """Logs `<name>_away` and `<name>_back`. While somebody has to act, `notices` has a line of it, after `effect`."""

    def __init__(self, name: str, effect: str, notices: list[str]) -> None:
        self._name, self._effect, self._notices = name, effect, notices
        self._kind: type[StoreError] | None = None
        self._line = ""

    def __bool__(self) -> bool:
        return self._kind is not None

    def begin(self, error: StoreError) -> None:
        """A try met this error."""
        if type(error) is not self._kind:
            log_event(WARNING, f"{self._name}_away", error=str(error))
            self._kind = type(error)
        if isinstance(error, AuthenticationFailed | SchemaMismatch):
            self._say(f"{self._effect}: {error}")

    def end(self) -> None:
        """A try met none."""
        if self._kind is not None:
            log_event(INFO, f"{self._name}_back")
            self._kind = None
            self._say("")

    def _say(self, line: str) -> None:
        if line != self._line:
            self._notices[:] = [each for each in self._notices if each != self._line] + [line] * bool(line)
            self._line = line
