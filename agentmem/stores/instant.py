"""Vectors that no model makes: a log that shares a database with them writes them within its own transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from agentmem.model.changes import JournalEntry
from agentmem.stores import VectorBatch, VectorIndex


class InlineVectors(Protocol):
    """A projection that makes vectors on the calling thread, with no model that could be slow or away.

    A log calls it while it holds the user's lock: in a file on the writer's thread, on a server on the loop.
    """

    @property
    def index(self) -> VectorIndex: ...

    def embed_now(self, entries: Sequence[JournalEntry]) -> VectorBatch | None:
        """The batch of entries about to be committed, without gaps; None when they are too many to wait for.

        It may raise anything; then the vectors follow as those of a model do.
        """
        ...

    def on_committed(self, entries: Sequence[JournalEntry]) -> None:
        """Told that these entries are committed, together with their batch."""
        ...


VectorSource = Callable[[], InlineVectors | None]
"""The projection that recalls are served with now; None when its vectors can only follow."""


def no_vectors() -> None:
    """Of a log that nobody told of vectors."""
