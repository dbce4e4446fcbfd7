"""Groups of commands such as `agentmem goals add`: a noun and its verbs."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import click

from agentmem.cli.context import CliContext, memory_options

T = TypeVar("T")
EXAMPLE_ID = "0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a"


class VerbGroup(click.Group):
    """A noun with its verbs. `default` is the verb that is meant when none is named, as in `agentmem goals`."""

    def __init__(
        self, name: str, verbs: tuple[click.Command, ...], *, summary: str, text: str, default: str = ""
    ) -> None:
        commands = {verb.name or "": verb for verb in verbs}
        super().__init__(name, commands, help=text, short_help=summary, no_args_is_help=not default)
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put in the verb that is meant where the arguments begin with none."""
        asks_for_help = bool(args) and args[0] in ctx.help_option_names
        if self.default and not asks_for_help and (not args or args[0].startswith("-")):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that the arguments name, and the rest. A UsageError says which one may be meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            names = {verb: f"{self.name} {verb}" for verb in self.commands}
            raise click.UsageError(error.message + suggest(args[0], names), ctx) from None


def build_command(
    name: str,
    summary: str,
    text: str,
    example: str,
    call: Callable[..., Awaitable[T]],
    show: Callable[[CliContext, T], None],
    *parameters: Callable[[Any], Any],
) -> click.Command:
    """A command that calls a verb of the memory with what was given for its `parameters`, and shows the answer."""

    def run(cli: CliContext, **given: Any) -> None:
        show(cli, cli.run_for_user(lambda memory: call(memory, **given)))

    function: Any = memory_options()(run)
    for parameter in reversed(parameters):
        function = parameter(function)
    text = f"{text}\n\n\b\nExamples:\n  agentmem {example}"
    return click.command(name, help=text, short_help=summary)(function)


def suggest(typed: str, names: Mapping[str, str]) -> str:
    """A sentence with the command that somebody may have meant; how to list them all when none is like it.

    `names` are the commands as they are typed after `agentmem`, by the word that may be misspelled.
    """
    close = difflib.get_close_matches(typed, names, n=1, cutoff=0.6)
    return f" Did you mean: agentmem {names[close[0]]}?" if close else " See: agentmem --help"
