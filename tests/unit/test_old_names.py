"""Settings that are gone are refused with a word on what became of them."""

from __future__ import annotations

from importlib import import_module

import pytest

from agentmem.errors import ConfigError
from agentmem.recall.options import parse_options
from agentmem.settings.old_names import OLD_NAMES


@pytest.mark.parametrize("setting", [name for name in OLD_NAMES if name.startswith("recall.")])
def test_an_option_of_recall_that_is_a_constant_now_is_refused_with_its_name(setting: str) -> None:
    _, section, option = setting.split(".")
    with pytest.raises(ConfigError, match=f"^{setting} is a constant now: {OLD_NAMES[setting]}$"):
        parse_options({section: {option: 1}})


def test_every_constant_is_there() -> None:
    for constant in OLD_NAMES.values():
        module, _, name = constant.rpartition(".")
        assert isinstance(getattr(import_module(module), name), int | float), constant
