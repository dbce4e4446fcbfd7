"""The group of all commands: found by folder, loaded when needed, and where errors become messages and exit codes."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import Any

import click

from agentmem import __version__
from agentmem.cli import commands
from agentmem.cli.codes import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE
from agentmem.cli.render import echo_stderr
from agentmem.errors import AgentMemError, ConfigError, Conflict, InvalidRecord, NotFound, ScopeError

_CALLER_ERRORS = (ConfigError, Conflict, InvalidRecord, NotFound, ScopeError)


class CommandGroup(click.Group):
    """Commands are the modules of a folder: `import_.py` is `import`, `two_words.py` is `two-words`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in alphabetical order."""
        return sorted(_command_name(module.name) for module in pkgutil.iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, loaded now; None when there is none."""
        for module in pkgutil.iter_modules(commands.__path__):
            if _command_name(module.name) == cmd_name:
                found = importlib.import_module(f"{commands.__name__}.{module.name}").command
                assert isinstance(found, click.Command)
                return found
        return None

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run and exit. A command that returns a number exits with it."""
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
        except click.Abort:
            echo_stderr("stopped")
            sys.exit(EXIT_INTERRUPTED)
        except click.UsageError as error:
            if error.ctx is not None:
                click.echo(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help'.", err=True)
            echo_stderr(f"error: {error.format_message()}")
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


def _command_name(module: str) -> str:
    return module.rstrip("_").replace("_", "-")


@click.group(cls=CommandGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--no-colour", envvar="NO_COLOR", hidden=True, default="", help="Plain text on a terminal too.")
@click.version_option(__version__, prog_name="agentmem")
@click.pass_context
def cli_group(context: click.Context, *, no_colour: str) -> None:
    """Memory for AI agents: store what was said, ask for what matters now.

    Options stand after the command. Every command takes --user, --channel, --home, --config and
    --json.

    \b
    Examples:
      agentmem demo
      agentmem add "I'm allergic to peanuts."
      agentmem remember "what must the chef avoid?"
    """
    if no_colour:
        context.color = False
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
