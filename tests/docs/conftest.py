"""The documents are tried on the same servers as the stores, and in the environments that their install lines make."""

from tests.conformance.conftest import postgres_migrated
from tests.gates.conftest import installed, shared, wheel

__all__ = ["installed", "postgres_migrated", "shared", "wheel"]
