"""Names of settings that are gone, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentmem.errors import ConfigError

CONSTANTS: Mapping[str, Mapping[str, str]] = {
    "agentmem.core.ranking": {"recall.ranking.rrf_k": "RRF_K"},
    "agentmem.recall.context": {
        "recall.context.goals": "MAX_GOALS",
        "recall.context.goals_room": "GOALS_SHARE",
        "recall.context.instructions": "INSTRUCTIONS_SHARE",
        "recall.context.knowledge": "KNOWLEDGE_SHARE",
        "recall.context.outputs_room": "OUTPUTS_SHARE",
        "recall.context.recent_room": "RECENT_SHARE",
        "recall.context.standing": "MAX_STANDING_INSTRUCTIONS",
        "recall.context.synopsis_room": "SYNOPSIS_SHARE",
    },
    "agentmem.recall.late_interaction": {
        "recall.rerank.answer": "ANSWER_SHARE",
        "recall.rerank.depth": "DEPTH",
        "recall.rerank.length": "LENGTH_PENALTY",
        "recall.rerank.near": "NEAR_SHARE",
        "recall.rerank.weight": "WEIGHT",
    },
    "agentmem.recall.pipeline": {
        "recall.context.length_price": "LENGTH_PRICE",
        "recall.ranking.conversation_prior": "CONVERSATION_PRIOR",
    },
    "agentmem.recall.reranking": {"recall.reranker.most": "MAX_FALL"},
    "agentmem.recall.scoring": {
        "recall.ranking.active_channel": "ACTIVE_CHANNEL_FACTOR",
        "recall.ranking.goal": "GOAL_BOOST",
        "recall.ranking.other": "OTHER_KIND_WEIGHT",
        "recall.ranking.review_fit": "REVIEW_FIT",
        "recall.ranking.stale": "STALE_FACTOR",
    },
    "agentmem.recall.technique": {"recall.vector.patience": "EMBED_TIMEOUT_SECONDS"},
    "agentmem.recall.techniques.decompose": {
        "recall.decompose.depth": "LIST_DEPTH",
        "recall.decompose.max_tokens": "MAX_TOKENS",
        "recall.decompose.temperature": "TEMPERATURE",
    },
    "agentmem.recall.techniques.dialogue": {
        "recall.dialogue.asking": "ASKING_PENALTY",
        "recall.dialogue.first": "FIRST_SPEAKER_BONUS",
        "recall.dialogue.speaker": "SPEAKER_BONUS",
    },
    "agentmem.recall.techniques.entity": {
        "recall.entity.asked": "ASKED_FACTOR",
        "recall.entity.candidates": "MAX_CANDIDATES",
        "recall.entity.few": "MAX_UNDIVIDED_RECORDS",
        "recall.entity.linked": "LINKED_BONUS",
        "recall.entity.named": "NAMED_BONUS",
        "recall.entity.related": "MAX_RELATED_ENTITIES",
        "recall.entity.step": "STEP_SHARE",
    },
    "agentmem.recall.techniques.expansion": {
        "recall.expansion.max_tokens": "MAX_TOKENS",
        "recall.expansion.statements": "MAX_STATEMENTS",
        "recall.expansion.temperature": "TEMPERATURE",
    },
    "agentmem.recall.techniques.hyde": {
        "recall.hyde.max_tokens": "MAX_TOKENS",
        "recall.hyde.temperature": "TEMPERATURE",
    },
    "agentmem.recall.techniques.keyword": {
        "recall.keyword.after": "AFTER_SHARE",
        "recall.keyword.answer": "ANSWER_SHARE",
        "recall.keyword.b": "B",
        "recall.keyword.before": "BEFORE_SHARE",
        "recall.keyword.k1": "K1",
    },
    "agentmem.recall.techniques.self_query": {
        "recall.self_query.date": "DATE_BONUS",
        "recall.self_query.kind": "KIND_BONUS",
        "recall.self_query.linked": "LINKED_BONUS",
        "recall.self_query.max_tokens": "MAX_TOKENS",
        "recall.self_query.named": "NAMED_BONUS",
        "recall.self_query.temperature": "TEMPERATURE",
    },
    "agentmem.recall.techniques.temporal": {
        "recall.temporal.date": "DATE_BONUS",
        "recall.temporal.when": "WHEN_BONUS",
    },
    "agentmem.recall.techniques.vector": {
        "recall.vector.after": "AFTER_SHARE",
        "recall.vector.answer": "ANSWER_SHARE",
        "recall.vector.asking": "ASKING_PENALTY",
        "recall.vector.before": "BEFORE_SHARE",
        "recall.vector.near": "NEAR_WEIGHT",
        "recall.vector.told": "TOLD_PENALTY",
    },
    "agentmem.recall.visibility": {"recall.ranking.few_turns": "FEW_TURNS"},
}
"""By module: the settings that are constants there now."""

OLD_NAMES = {setting: f"{module}.{name}" for module, found in CONSTANTS.items() for setting, name in found.items()}


def refuse_old_names(section: tuple[str, ...], given: Any, describe_origin: Callable[..., str]) -> None:
    """Raise ConfigError for the first option of a section that is a constant now."""
    for option in given if isinstance(given, Mapping) else ():
        path = (*section, str(option))
        if constant := OLD_NAMES.get(".".join(path)):
            raise ConfigError(f"{'.'.join(path)}{describe_origin(*path)} is a constant now: {constant}")
