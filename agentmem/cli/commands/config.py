"""`agentmem config`: the settings, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from agentmem.cli.context import CliContext, memory_options
from agentmem.cli.render import dim
from agentmem.text.terminal_text import neutralize


@click.command("config", short_help="Show settings.")
@click.option("--changed", is_flag=True, help="Only those that differ from their default.")
@memory_options()
def config_command(cli: CliContext, *, changed: bool) -> None:
    """List all settings with their values, and where each comes from: an option, a variable, a file, or the default.

    Secrets and passwords are masked. docs/reference/settings.md says what each setting does.

    \b
    Examples:
      agentmem config
      agentmem config --changed --json
    """
    from agentmem.settings.settings import Settings
    from agentmem.settings.sources import SettingsSources

    settings = cli.load_settings()
    sources = SettingsSources.load(Settings, cli.overrides)
    rows = [
        {"setting": ".".join(path), "value": value, "from": _name_origin(sources, cli.overrides, path)}
        for path, value in _flatten(settings.model_dump(mode="json"), ())
    ]
    shown = [row for row in rows if row["from"] != "default" or not changed]
    width = max((len(row["setting"]) for row in shown), default=0)
    lines = [f"{row['setting']:<{width}}  {_render(row['value'])}  {dim(row['from'])}" for row in shown]
    cli.show(shown, "\n".join(lines) or "every setting has its default")


def _flatten(values: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, (*path, name))
        else:
            yield (*path, name), value


def _name_origin(sources: Any, given: Mapping[str, Any], path: tuple[str, ...]) -> str:
    found: Any = given
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    if found is not None:
        return "option"
    return sources.describe_origin(path).strip(" ()") or "default"


def _render(value: Any) -> str:
    return "-" if value is None else neutralize(", ".join(map(str, value)) if isinstance(value, list) else str(value))


COMMANDS = (config_command,)
