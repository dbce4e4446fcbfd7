"""The documents are tried on the same servers as the stores."""

from tests.conformance.conftest import postgres_migrated

__all__ = ["postgres_migrated"]
