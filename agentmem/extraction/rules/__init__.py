"""Facts, entities and relations from plain English by rules, without a model: precision before recall."""

from __future__ import annotations

from agentmem.extraction.rules.extracting import EXTRACTOR, extract

__all__ = ["EXTRACTOR", "extract"]
