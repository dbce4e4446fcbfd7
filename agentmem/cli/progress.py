"""Progress of long work: a bar on standard error, and only on a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self

import click


class Progress:
    """Call it with what is being done, how much is done, and how much there is; one bar for each thing in turn."""

    def __init__(self) -> None:
        self._enabled = sys.stderr.isatty()
        self._stage = ""
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_bar()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show how far it is; does nothing where nobody looks."""
        if not self._enabled:
            return
        if stage != self._stage:
            self._close_bar()
            self._stage = stage
            self._bar = click.progressbar(length=max(total, 1), label=stage, show_pos=True, file=sys.stderr)
            self._bar.__enter__()
        self._bar.length = max(total, 1)
        self._bar.update(done - self._bar.pos)

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None
