"""BM25 over a handful of texts in memory (working turns, a buffer), by `rank-bm25`."""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.text.words import tokenize


def rank_by_bm25(query: str, texts: Sequence[str], limit: int) -> list[int]:
    """Positions of the texts that share a term with the query, best first, later ones first among equals.

    BM25+ (Lv & Zhai 2011), which stays positive in small corpora; [] when nothing matches.
    """
    wanted = tokenize(query)
    documents = [tokenize(text) for text in texts]
    if not wanted or not any(documents):
        return []
    from rank_bm25 import BM25Plus  # lazy: not needed by recall

    scores = BM25Plus([document or [""] for document in documents]).get_scores(wanted)
    hits = [at for at, document in enumerate(documents) if set(wanted) & set(document)]
    return sorted(hits, key=lambda at: (-scores[at], -at))[:limit]
