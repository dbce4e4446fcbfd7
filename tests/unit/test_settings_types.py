"""Settings as keyword arguments: their types name the fields there are, with the values that each takes."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel

from agentmem.core.lifecycle import BETAS, HALF_LIVES
from agentmem.settings import overrides as settings_overrides
from agentmem.settings.overrides import SettingsOverrides
from agentmem.settings.settings import Settings, load_settings
from agentmem.settings.sources import MODEL_SETTINGS

GROUPS = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}
NAMED_NUMBERS = {"half_life_days": HALF_LIVES, "beta": BETAS}


def as_given(kind: Any, name: str = "") -> set[Any]:
    """What may be given for a field of this type, one by one."""
    if name in MODEL_SETTINGS:  # by name, as an object or as a function
        return as_given(kind) | as_accepted(settings_overrides.ModelSpec)
    if get_origin(kind) in (Union, UnionType):
        return {each for part in get_args(kind) for each in as_given(part)}
    if get_origin(kind) is Literal:
        return set(get_args(kind))
    if hasattr(kind, "__metadata__"):  # Annotated
        return as_given(kind.__origin__)
    if kind is Path:
        return {str, PathLike[str]}
    if get_origin(kind) is dict:
        return {"mapping"}
    if name in NAMED_NUMBERS:
        return {float, *NAMED_NUMBERS[name]}
    return {kind}


def as_accepted(kind: Any) -> set[Any]:
    """What the TypedDict takes, one by one."""
    if get_origin(kind) in (Union, UnionType):
        return {each for part in get_args(kind) for each in as_accepted(part)}
    if get_origin(kind) is Literal:
        return set(get_args(kind))
    return {"mapping"} if "Mapping[" in str(kind) else {kind}


def hints(of: Any) -> dict[str, Any]:
    return get_type_hints(of)


def test_the_keyword_arguments_are_the_fields_of_the_settings() -> None:
    accepted = hints(SettingsOverrides)
    assert set(accepted) == set(Settings.model_fields)
    assert not SettingsOverrides.__total__
    for name, field in Settings.model_fields.items():
        if name in GROUPS:
            continue
        kind = field.annotation
        assert as_accepted(accepted[name]) == as_given(kind, name), name


@pytest.mark.parametrize("group", GROUPS)
def test_the_options_of_a_group_are_the_fields_of_its_model(group: str) -> None:
    model = GROUPS[group]
    assert model is not None
    overrides = getattr(settings_overrides, model.__name__.replace("Options", "Overrides"))
    assert set(get_args(hints(SettingsOverrides)[group])) == {model, overrides}
    assert set(hints(overrides)) == set(model.model_fields)
    assert not overrides.__total__
    for name, field in model.model_fields.items():
        assert as_accepted(hints(overrides)[name]) == as_given(field.annotation, name), f"{group}.{name}"


def test_every_word_that_a_type_allows_is_allowed_and_no_other() -> None:
    closed = {name: get_args(kind) for name, kind in hints(SettingsOverrides).items() if get_origin(kind) is Literal}
    assert closed == {
        "audit_level": ("off", "writes", "reads", "verbose"),
        "recall_profile": ("default", "best"),
        "date_order": ("", "day_first", "month_first"),
        "llm_profile": ("auto", "full", "small"),
    }
    for name, words in closed.items():
        assert [getattr(load_settings(**{name: word}), name) for word in words] == list(words)
    for name, words in {"half_life_days": HALF_LIVES, "beta": BETAS}.items():
        assert [getattr(load_settings(decay={name: word}).decay, name) for word in words] == list(words.values())
