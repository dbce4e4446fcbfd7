"""The settings of recall: a section per technique, and `ranking`, `rerank`, `reranker` and `context`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentmem.core.plain_values import describe_value
from agentmem.core.ranking import RRF_K, FusionMethod
from agentmem.core.records import KINDS
from agentmem.errors import ConfigError, InvalidRecord
from agentmem.recall import techniques
from agentmem.recall.late_interaction import LateInteractionOptions
from agentmem.recall.technique import TechniqueOptions

OptionsT = TypeVar("OptionsT", bound=BaseModel)
BEST_PROFILE_PRIOR = 0.1


class RankingOptions(BaseModel):
    """Fusion and factors.

    `pool`: candidates per kind that are looked at closely, at least twice top_k. `conversation_prior`: added to the
    turns of a conversation with good matches (.1 in profile `best`). `per_conversation`: turns beyond so many of one
    conversation go behind the rest, 0 for off. `few_turns`: below so many, scales are taken over all kinds and
    `statement_ratio` is unknown. `stale`: what a fact counts whose premise fell. `goal`: by how much at most what
    serves an active goal counts more; 0 for off. `review`: share of the places among facts that go to those about to be
    forgotten, of which at least `review_fit` of the best one's score is asked; 0 for off. `deadline`: seconds in which
    techniques and models are asked, beside the deadline of each; there is none when ids are seeded.
    `kinds` and `recency` count where kinds are ranked together; a kind not named counts `other`. `by_time`: whether
    what holds at the moment that a question is about comes before what does not.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fusion: FusionMethod = "minmax"
    rrf_k: int = Field(default=RRF_K, ge=1)
    pool: int = Field(default=50, ge=1, le=1000)
    conversation_prior: float = Field(default=0.0, ge=0)
    per_conversation: int = Field(default=0, ge=0)
    few_turns: int = Field(default=20, ge=0)
    kinds: dict[str, float] = {"Turn": 0.3, "Fact": 0.25, "Entity": 0.2, "Strategy": 0.15, "Procedure": 0.15}
    other: float = Field(default=0.2, gt=0)
    recency: float = Field(default=0.1, ge=0)
    current: float = Field(default=1.2, gt=0)
    past: float = Field(default=0.7, gt=0)
    active_channel: float = Field(default=1.2, gt=0)
    stale: float = Field(default=0.5, gt=0)
    goal: float = Field(default=0.1, ge=0, le=1)
    review: float = Field(default=0.3, ge=0, le=1)
    review_fit: float = Field(default=0.5, ge=0, le=1)
    deadline: float = Field(default=10.0, gt=0)
    by_time: bool = True


class ContextOptions(BaseModel):
    """`knowledge`: share of the budget that facts, entities and goals may take while there are turns. `standing`: how
    many instructions that always hold stand in every context, and `instructions` their share of the budget. So many
    `recent` turns, `goals` and `outputs` of tools are considered, whatever was asked; each takes at most its room, a
    share of the budget, as does the profile with the synopsis. `length_price` is what each doubling of a turn's length
    over 200 characters costs it, in points of its score."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    knowledge: float = Field(default=0.3, ge=0, le=1)
    standing: int = Field(default=10, ge=0, le=100)
    instructions: float = Field(default=0.1, ge=0, le=1)
    recent: int = Field(default=10, ge=0, le=1000)
    recent_room: float = Field(default=0.25, ge=0, le=1)
    goals: int = Field(default=10, ge=0, le=100)
    goals_room: float = Field(default=0.1, ge=0, le=1)
    outputs: int = Field(default=5, ge=0, le=100)
    outputs_room: float = Field(default=0.15, ge=0, le=1)
    synopsis_room: float = Field(default=0.15, ge=0, le=1)
    length_price: float = Field(default=0.075, ge=0, le=1)


class BoundedRerankOptions(BaseModel):
    """For the model that the setting `reranker` names: it looks at the first `depth` turns, and none of them falls by
    more than `most` places. `deadline` is in seconds; there is none when ids are seeded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    depth: int = Field(default=20, ge=2, le=100)
    most: int = Field(default=2, ge=0)
    deadline: float = Field(default=5.0, gt=0)


@dataclass(frozen=True, slots=True)
class Technique:
    """A technique as it was found: its name, its module and its settings."""

    name: str
    module: ModuleType
    options: TechniqueOptions


@dataclass(frozen=True, slots=True)
class RecallOptions:
    """Everything recall needs to know. `rerank` is None in the default profile."""

    profile: str
    techniques: tuple[Technique, ...]
    ranking: RankingOptions
    rerank: LateInteractionOptions | None
    reranker: BoundedRerankOptions
    context: ContextOptions

    def select_techniques(self, chosen: Collection[str] | None) -> list[Technique]:
        """The techniques that run: those enabled, or exactly those chosen. Raises InvalidRecord for an unknown name."""
        if chosen is None:
            return [technique for technique in self.techniques if technique.options.enabled]
        known = {technique.name: technique for technique in self.techniques}
        for name in chosen:
            if name not in known:
                raise InvalidRecord(f"unknown technique {name!r}; known ones: {', '.join(known)}", field="techniques")
        return [technique for technique in self.techniques if technique.name in chosen]


def discover_techniques() -> dict[str, ModuleType]:
    """The modules in `recall/techniques/`, by name. Raises ConfigError for one without `Options` and `search`."""
    found = {}
    for item in sorted(pkgutil.iter_modules(techniques.__path__), key=lambda item: item.name):
        if item.name.startswith("_"):  # helps techniques, is none
            continue
        module = importlib.import_module(f"{techniques.__name__}.{item.name}")
        if not (isinstance(getattr(module, "Options", None), type) and callable(getattr(module, "search", None))):
            raise ConfigError(f"technique {item.name!r} must define `class Options` and `async def search`")
        found[item.name] = module
    return found


DescribeOrigin = Callable[..., str]


def _unknown_origin(*path: str) -> str:
    """For options that nobody knows the source of."""
    return ""


def parse_options(
    raw: Mapping[str, Mapping[str, Any]], profile: str = "default", describe_origin: DescribeOrigin = _unknown_origin
) -> RecallOptions:
    """Check the `recall` settings. Raises ConfigError naming the section or option, where it is from, the known ones.

    `describe_origin` gives the source of an option by its path, to be put behind its name; see `Settings.where`.
    """
    modules = discover_techniques()
    sections = {"ranking", "rerank", "reranker", "context"}
    for name in raw:
        if name not in sections and name not in modules:
            known = ", ".join(sorted({*modules, *sections}))
            raise ConfigError(f"unknown section recall.{name}{describe_origin('recall', name)}; known ones: {known}")
    ranking = dict(raw.get("ranking", {}))
    if profile == "best":
        ranking.setdefault("conversation_prior", BEST_PROFILE_PRIOR)
    weights = ranking.get("kinds")
    if isinstance(weights, Mapping):
        ranking["kinds"] = {**RankingOptions().kinds, **weights}
    rerank = _parse_section(LateInteractionOptions, "rerank", raw, describe_origin)  # checked in either profile
    options = RecallOptions(
        profile=profile,
        techniques=tuple(
            Technique(name, module, _parse_section(module.Options, name, raw, describe_origin))
            for name, module in modules.items()
        ),
        ranking=_parse_section(RankingOptions, "ranking", {"ranking": ranking}, describe_origin),
        rerank=rerank if profile == "best" else None,
        reranker=_parse_section(BoundedRerankOptions, "reranker", raw, describe_origin),
        context=_parse_section(ContextOptions, "context", raw, describe_origin),
    )
    for kind, weight in options.ranking.kinds.items():
        if weight > 0 and kind in {*KINDS, "Strategy", "Procedure"}:
            continue
        origin = describe_origin("recall", "ranking", "kinds", kind)
        if weight <= 0:
            raise ConfigError(f"recall.ranking.kinds.{kind}{origin} must be above 0, got {weight}")
        raise ConfigError(f"recall.ranking.kinds{origin}: unknown kind {kind!r}; known ones: {', '.join(KINDS)}")
    return options


def _parse_section(
    options_type: type[OptionsT], section: str, raw: Mapping[str, Mapping[str, Any]], describe_origin: DescribeOrigin
) -> OptionsT:
    given = raw.get(section, {})
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"recall.{section}{describe_origin('recall', section)} must be a table of options, "
            f"got {describe_value(given)}"
        )
    try:
        return options_type.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    path = [section, *(str(part) for part in first["loc"])]
    name, origin = ".".join(path), describe_origin("recall", *path)
    if first["type"] == "extra_forbidden":
        raise ConfigError(f"unknown option recall.{name}{origin}; known ones: {', '.join(options_type.model_fields)}")
    raise ConfigError(f"recall.{name}{origin}: {first['msg']}, got {first['input']!r}")
