"""The reference of all commands as Markdown, made from the commands themselves: `python -m docs.examples.reference`.

It writes docs/cli.md of a checkout; a test holds the page to what this module makes.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

import click

from agentmem.cli.main import cli_group
from agentmem.cli.verbs import VerbGroup

_INTRO = """\
# The command line

*Made from the commands by `python -m docs.examples.reference > docs/cli.md`; edit the commands, not this page.*

`agentmem COMMAND [OPTIONS]` is thin over the same verbs that programs use. Options stand after the command.
Most commands need no extra. This line installs what all of them need on an embedded memory, `consolidate`, `mcp`,
`serve` and `worker` included:

```sh
pip install "agentmem-graph[anthropic,graph-analysis,local,server,worker]"
```

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a store or a model failed; what was acknowledged is safe |
| 2 | input or settings that cannot work; the message names the field and the fix |
| 3 | done, and something needs attention: an error found by `doctor`, an answer that differs, a remnant of an erasure |

Answers go to standard output, notes, progress and errors to standard error. `--json` prints one JSON document with its
keys in order; listings such as `facts` and `turns` print one per line. Colors and progress show on a terminal only,
and `NO_COLOR` turns colors off. Moments are dates or times in ISO 8601, in UTC unless they carry an offset.

## Options of every command

{shared}

A script run twice on empty homes prints the same bytes when `--seed` and `--now` are given and the embedder is `hash`:
`--seed` makes ids repeatable, `--now` lets the clock stand still.
"""
_COMMON_OPTIONS = ("user", "channel", "home", "config", "as_json", "seed", "now")


def render_reference() -> str:
    """The whole page."""
    context = click.Context(cli_group, info_name="agentmem")
    found = [(name, cli_group.get_command(context, name)) for name in cli_group.list_commands(context)]
    commands = [(name, command) for name, command in found if command is not None]
    shared = [param for param in commands[0][1].params if param.name in _COMMON_OPTIONS]
    parts = [_INTRO.format(shared=_render_table(shared))]
    for name, command in commands:
        parts += _render_group(name, command) if isinstance(command, VerbGroup) else [_render_section(name, command)]
    return "\n".join(parts)


def _render_group(name: str, group: VerbGroup) -> list[str]:
    verbs = [_render_section(f"{name} {verb}", command) for verb, command in group.commands.items()]
    return [f"## `agentmem {name}`\n\n{group.help}\n", *(f"#{verb}" for verb in verbs)]


def _render_section(name: str, command: click.Command) -> str:
    text, _, examples = inspect.cleandoc(command.help or "").partition("\b\nExamples:\n")
    paragraphs = re.sub(r"(?<!\n)\n(?!\n)", " ", text).strip()
    usage = [param.human_readable_name for param in command.params if isinstance(param, click.Argument)]
    lines = [f"## `{' '.join(['agentmem', name, *usage])}`", "", paragraphs, ""]
    own = [param for param in command.params if isinstance(param, click.Option) and param.name not in _COMMON_OPTIONS]
    if own:
        lines += [_render_table(own), ""]
    return "\n".join([*lines, "```sh", *(line.strip() for line in examples.strip().splitlines()), "```", ""])


def _render_table(params: list[Any]) -> str:
    rows = [f"| `{_render_option(param)}` | {_render_description(param)} |" for param in params]
    return "\n".join(["| option | what it does |", "|---|---|", *rows])


def _render_option(option: Any) -> str:
    value = (
        "" if option.is_flag else f" {option.metavar or _render_choices(option) or option.type.name.upper().split()[0]}"
    )
    return "/".join(option.opts) + value


def _render_choices(option: Any) -> str:
    return "\\|".join(option.type.choices) if isinstance(option.type, click.Choice) else ""


def _render_description(option: Any) -> str:
    notes = list(_render_notes(option))
    text = re.sub(r" ?\[default: (.*)\]", r" Default: \1.", option.help)
    return " ".join([text, *notes]).replace("|", "\\|")


def _render_notes(option: Any) -> Iterator[str]:
    if option.show_default:
        default = option.default
        yield f"Default: {', '.join(default) if isinstance(default, tuple) else default}."
    if option.show_envvar:
        yield f"Environment: {option.envvar}."


if __name__ == "__main__":
    sys.stdout.write(render_reference())
