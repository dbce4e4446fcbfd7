"""The settings of recall: a section per technique, and `ranking`, `reranker` and `context`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentmem.core.plain_values import describe_value
from agentmem.core.ranking import FusionMethod
from agentmem.core.records import KINDS
from agentmem.errors import ConfigError, InvalidRecord
from agentmem.recall import techniques
from agentmem.recall.technique import TechniqueOptions
from agentmem.settings.old_names import refuse_old_names

OptionsT = TypeVar("OptionsT", bound=BaseModel)


class RankingOptions(BaseModel):
    """How the lists of the techniques become one ranking."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fusion: FusionMethod = Field(
        default="minmax", description="How lists are joined: by scaled scores, or by reciprocal ranks."
    )
    pool: int = Field(
        default=50,
        ge=1,
        le=1000,
        description="Records of each kind that are looked at closely; at least twice `top_k`.",
    )
    per_conversation: int = Field(
        default=0, ge=0, description="Turns of one conversation beyond which more go behind the rest; 0 for off."
    )
    kinds: dict[str, float] = Field(
        default={"Turn": 0.3, "Fact": 0.25, "Entity": 0.2, "Strategy": 0.15, "Procedure": 0.15},
        description="What each kind counts where all are ranked together; a kind left out keeps its number.",
    )
    recency: float = Field(
        default=0.1,
        ge=0,
        description="How much more a record counts at most that was just delivered, where kinds are ranked together.",
    )
    current: float = Field(default=1.2, gt=0, description="Factor of facts about the present.")
    past: float = Field(default=0.7, gt=0, description="Factor of facts about the past.")
    review: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="Share of the places among facts that go to those about to be forgotten; 0 for off.",
    )
    deadline: float = Field(
        default=10.0,
        gt=0,
        description="Seconds for all techniques and models that one recall asks; there is no bound with `seed`.",
    )
    by_time: bool = Field(
        default=True, description="Whether what holds at the moment that a question is about comes first."
    )


class ContextOptions(BaseModel):
    """What `context()` considers whatever was asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    recent: int = Field(default=10, ge=0, le=1000, description="Last turns of the conversation that are considered.")
    outputs: int = Field(default=5, ge=0, le=100, description="Outputs of tools that are considered.")


class BoundedRerankOptions(BaseModel):
    """For the model that the setting `reranker` names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    depth: int = Field(default=20, ge=2, le=100, description="Turns, best first, that it looks at.")
    deadline: float = Field(
        default=5.0, gt=0, description="Seconds after which the order stays as it was; there is no bound with `seed`."
    )


@dataclass(frozen=True, slots=True)
class Technique:
    """A technique as it was found: its name, its module and its settings."""

    name: str
    module: ModuleType
    options: TechniqueOptions


@dataclass(frozen=True, slots=True)
class RecallOptions:
    """Everything recall needs to know."""

    profile: str
    techniques: tuple[Technique, ...]
    ranking: RankingOptions
    reranker: BoundedRerankOptions
    context: ContextOptions

    @property
    def reranks(self) -> bool:
        """Whether the best turns are looked at again by their word pieces."""
        return self.profile == "best"

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
    sections = {"ranking", "reranker", "context"}
    for name, given in raw.items():
        refuse_old_names(("recall", name), given, describe_origin)
        if name not in sections and name not in modules:
            known = ", ".join(sorted({*modules, *sections}))
            raise ConfigError(f"unknown section recall.{name}{describe_origin('recall', name)}; known ones: {known}")
    ranking = dict(raw.get("ranking", {}))
    weights = ranking.get("kinds")
    if isinstance(weights, Mapping):
        ranking["kinds"] = {**RankingOptions().kinds, **weights}
    options = RecallOptions(
        profile=profile,
        techniques=tuple(
            Technique(name, module, _parse_section(module.Options, name, raw, describe_origin))
            for name, module in modules.items()
        ),
        ranking=_parse_section(RankingOptions, "ranking", {"ranking": ranking}, describe_origin),
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
