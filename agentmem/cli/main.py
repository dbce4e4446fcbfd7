"""The command line `agentmem`: commands are loaded when needed, errors become messages and exit codes."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import Any

import click

from agentmem import __version__
from agentmem.cli import commands
from agentmem.cli.context import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE
from agentmem.cli.render import echo_stderr, escape_unencodable
from agentmem.cli.verbs import VerbGroup, suggest
from agentmem.errors import AgentMemError, ConfigError, Conflict, InvalidRecord, NotFound, ScopeError

_CALLER_ERRORS = (ConfigError, Conflict, InvalidRecord, NotFound, ScopeError)

# So that a command loads its own module only; those of other modules are found by looking.
_COMMANDS = {
    "admin": "admin",
    "audit": "audit",
    "config": "config",
    "curate": "curate",
    "facts": "beliefs correct facts learn profile",
    "forgetting": "erase forget restore undo",
    "goals": "goals",
    "graph": "graph",
    "jobs": "consolidate jobs worker",
    "keys": "keys",
    "procedures": "procedures tools",
    "recall": "context remember",
    "records": "show stats users",
    "reviews": "reviews",
    "schedules": "schedules",
    "serve": "mcp serve",
    "transfer": "export import",
    "turns": "add announce turns",
}
_HOMES = {name: module for module, names in _COMMANDS.items() for name in names.split()}
# Older scripts and service files have these as commands of their own.
_MOVED = {name: name for name in ("compact", "doctor", "migrate", "rebuild", "verify")} | {"project": "sync"}
_MEANT = {  # words that newcomers try
    "backup": ["admin", "backup"],
    "restore-backup": ["admin", "restore-backup"],
    "search": ["remember"],
    "store": ["add"],
    "version": ["--version"],
}
_COLUMN_CHARS = 39  # half of a narrow terminal, less the indent
_NAME_CHARS = 13


class ExitingCommand(click.Command):
    """A command whose errors become a message and an exit code."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run and exit. A command that returns a number exits with it."""
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
        except click.Abort:
            echo_stderr("stopped")
            sys.exit(EXIT_INTERRUPTED)
        except click.exceptions.NoArgsIsHelpError as error:  # a group without a verb: its help lists them
            click.echo(error.format_message(), err=True)
            sys.exit(EXIT_USAGE)
        except click.UsageError as error:
            if error.ctx is not None:
                click.echo(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help'.", err=True)
            said = error.format_message()
            hint = " Quote text with blanks in it." if said.startswith("Got unexpected extra") else ""
            echo_stderr(f"error: {said}{hint}")
            sys.exit(EXIT_USAGE)
        except click.ClickException as error:
            echo_stderr(f"error: {error.format_message()}")
            sys.exit(EXIT_USAGE)
        except AgentMemError as error:
            echo_stderr(f"error: {error}")
            sys.exit(EXIT_USAGE if isinstance(error, _CALLER_ERRORS) else EXIT_FAILURE)
        except OSError as error:
            echo_stderr(f"error: {error}")
            sys.exit(EXIT_FAILURE)
        sys.exit(code if isinstance(code, int) else 0)


class CommandGroup(ExitingCommand, click.Group):
    """Commands are what the modules of a folder list as `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in alphabetical order."""
        return sorted(command.name or "" for module in _modules() for command in _commands(module))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, loaded now; None when there is none."""
        home = _HOMES.get(cmd_name)
        for module in [home] if home else _modules():
            for command in _commands(module):
                if command.name == cmd_name:
                    return command
        return None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments, with the words of this program where others are meant; `help X` is `X --help`."""
        if args:
            args = [*args[1:], "--help"] if args[0] == "help" else [*_MEANT.get(args[0], args[:1]), *args[1:]]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name, and the rest. A UsageError says which one may be meant."""
        if (verb := _MOVED.get(args[0])) is not None:
            echo_stderr(f"note: agentmem {args[0]} is now agentmem admin {verb}")
            args = ["admin", verb, *args[1:]]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(error.message + suggest(args[0], self._list_names(ctx)), ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """No table of --help and --version, which everybody knows; the commands follow."""
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """All commands in two columns, so that they fit on a screen."""
        cells = [
            f"{name:{_NAME_CHARS}}{command.get_short_help_str(_COLUMN_CHARS)}"
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None
        ]
        half = (len(cells) + 1) // 2
        with formatter.section("Commands (options of one: agentmem COMMAND --help)"):
            for left, right in zip(cells[:half], [*cells[half:], ""], strict=False):
                formatter.write(f"  {left:{_COLUMN_CHARS}}{right}".rstrip() + "\n")

    def _list_names(self, ctx: click.Context) -> dict[str, str]:
        """What may be typed after `agentmem`, by each of its words."""
        names: dict[str, str] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if isinstance(command, VerbGroup):
                names.update({verb: f"{name} {verb}" for verb in command.commands})
        return {**names, **{name: name for name in self.list_commands(ctx)}}


def _modules() -> list[str]:
    return sorted(item.name for item in pkgutil.iter_modules(commands.__path__) if not item.name.startswith("_"))


def _commands(module: str) -> tuple[click.Command, ...]:
    found: tuple[click.Command, ...] = importlib.import_module(f"{commands.__name__}.{module}").COMMANDS
    return found


@click.group(
    "agentmem", cls=CommandGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option("--no-color", envvar="NO_COLOR", hidden=True, default="", help="Plain text on a terminal too.")
@click.version_option(__version__, prog_name="agentmem")
@click.pass_context
def cli_group(context: click.Context, *, no_color: str) -> None:
    """
    \b
    Memory for AI agents: store what was said, ask for what matters now.
      agentmem add "No nuts, please."; agentmem remember "any allergies?"
    """
    if no_color:
        context.color = False
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    escape_unencodable()
    cli_group()
