"""What all commands share: whose memory is opened and where, how the answer is printed, and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import SequenceMatcher
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentmem.cli.render import echo, echo_stderr, show_json, show_json_lines, to_one_line
from agentmem.errors import AgentMemError

if TYPE_CHECKING:
    from agentmem.facade.async_memory import AsyncAgentMemory
    from agentmem.settings.settings import Settings


EXIT_FAILURE, EXIT_USAGE, EXIT_NEEDS_ATTENTION = 1, 2, 3
EXIT_INTERRUPTED = 130  # by the keyboard, as shells have it

MAX_COMPARED_USERS, MAX_SHOWN_USERS = 1_000, 5

T = TypeVar("T")


class UserPath(click.Path):
    """A path in which `~` means a home folder, also where the shell keeps it: `--home=~/memory`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, checked as `click.Path` does."""
        if isinstance(value, str) and value.startswith("~"):
            value = os.path.expanduser(value)
            if not os.path.isabs(value):
                self.fail("begins with ~, but no home folder is known for that user; write the whole path", param, ctx)
        return super().convert(value, param, ctx)


@dataclass(frozen=True)
class CliContext:
    """The common options, and the way in. `overrides` are settings given on the command line."""

    user: str
    channel: str
    json: bool
    overrides: Mapping[str, Any] = field(default_factory=dict)
    conversation_id: str | None = None

    def with_settings(self, **overrides: Any) -> CliContext:
        """The same door with some settings changed."""
        return replace(self, overrides={**self.overrides, **overrides})

    def with_conversation(self, conversation_id: str | None) -> CliContext:
        """The same door, opening on a conversation."""
        return replace(self, conversation_id=conversation_id)

    def load_settings(self) -> Settings:
        """The settings of the command line, the environment and the configuration file. Raises ConfigError."""
        from agentmem.settings.settings import load_settings
        from agentmem.settings.sources import CONFIG_NAME, find_ignored_config

        settings = load_settings(**self.overrides)
        if find_ignored_config(settings.config, settings.home) is not None:
            ignored = f"Ignored {CONFIG_NAME} in the working directory: settings are not read from there; "
            print_notices([f"{ignored}use --config or AGENTMEM_CONFIG if it is yours"])
        return settings

    def run(self, work: Callable[[AsyncAgentMemory], Awaitable[T]]) -> T:
        """Open the memory, do the work, close it; print the notices of the opening on standard error."""
        import asyncio

        from agentmem.core.scope import agent_of_channel
        from agentmem.facade.async_memory import AsyncAgentMemory

        # The person at the command line may open an agent's private channel by naming it.
        memory = AsyncAgentMemory(
            self.user,
            channel=self.channel,
            conversation_id=self.conversation_id,
            agent_id=agent_of_channel(self.channel),
            settings=self.load_settings(),
        )

        async def open_and_run() -> T:
            async with memory:
                print_notices(memory.engine.notices)
                return await work(memory)

        return asyncio.run(open_and_run())

    def run_for_user(self, work: Callable[[AsyncAgentMemory], Awaitable[T]]) -> T:
        """The same for work on what the user has; where that is nothing and others have something, say whose."""

        async def run_and_tell(memory: AsyncAgentMemory) -> T:
            try:
                return await work(memory)
            finally:
                print_notices(await _tell_other_users(memory))

        return self.run(run_and_tell)

    def show(self, document: Any, text: str) -> None:
        """Print the answer: the document with --json, else the text."""
        if self.json:
            show_json(document)
        else:
            echo(text)

    def show_list(self, found: Sequence[Any], render: Callable[[Any], str], nothing: str) -> None:
        """Print a JSON document per item with --json; else each item as text, or `nothing`."""
        if self.json:
            show_json_lines(found)
            return
        for item in found:
            echo(render(item))
        if not found:
            echo(nothing)


async def _tell_other_users(memory: AsyncAgentMemory) -> list[str]:
    """Who has records where the user of the memory has none, the most alike names first."""
    from agentmem.core.scope import Operator
    from agentmem.stores.values import Where

    log, user = memory.engine.log, memory.scope.user_id
    try:
        if await log.find(memory.scope, Where(), limit=1):
            return []
        users = await log.users(Operator("command line"), MAX_COMPARED_USERS)
    except AgentMemError:  # on servers a login may not see other users
        return []
    users.sort(key=lambda name: -SequenceMatcher(None, user.casefold(), name.casefold()).ratio())
    shown = ", ".join(to_one_line(name) for name in users[:MAX_SHOWN_USERS])
    more = " and others; see agentmem users" if len(users) > MAX_SHOWN_USERS else ""
    return [f"nothing is stored for {to_one_line(user)}; users here: {shown}{more}"] if users else []


def print_notices(notices: Iterable[str]) -> None:
    """Print notices on standard error, each once in a run: those of the opening may recur in a bundle."""
    told: set[str] = click.get_current_context().meta.setdefault(f"{__name__}.told", set())
    for notice in notices:
        if notice not in told:
            echo_stderr(f"note: {notice}")
        told.add(notice)


def configure_logging() -> None:
    """Write the package's events to standard error as JSON, for daemons; of libraries only warnings."""
    import logging

    from agentmem.cli.json_log import write_json_lines

    write_json_lines()
    logging.getLogger("agentmem").setLevel(logging.INFO)  # libraries log addresses at this level


def parse_datetime(value: str | datetime) -> datetime:
    """The aware datetime of a date or a date with a time in ISO 8601; UTC when no offset is given."""
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a time such as 2025-03-08 or 2025-03-08T18:05:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def parse_names(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """Names with commas between them, without the blanks around them."""
    found = tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else value
    if not all(found):
        raise click.BadParameter(f"{value!r} must be names with commas between them")
    return found


_MEMORY_OPTIONS = (
    click.option(
        "--user",
        default="default",
        show_default=True,
        envvar="AGENTMEM_USER",
        show_envvar=True,
        metavar="NAME",
        help="Whose memory.",
    ),
    click.option(
        "--channel",
        default="_global",
        show_default=True,
        metavar="NAME",
        help="Where to write; reads also cover _swarm and _global.",
    ),
    click.option(
        "--home",
        type=UserPath(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Folder of the memory. [default: AGENTMEM_HOME or ~/.agentmem]",
    ),
    click.option(
        "--config",
        type=UserPath(path_type=Path),
        metavar="FILE",
        help="Configuration file. [default: AGENTMEM_CONFIG, or agentmem.toml in the home]",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option("--seed", hidden=True, help="Make ids from this seed."),
    click.option("--now", type=parse_datetime, hidden=True, metavar="MOMENT", help="Fix the clock at this moment."),
)
_EMBEDDER_OPTION = click.option(
    "--embedder",
    metavar="NAME",
    help="auto, hash, local:MODEL or openai:MODEL, for a new store; an older one keeps its own. [default: auto]",
)


def memory_options(*, with_embedder: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the common options; its function gets them as a `CliContext`, before its own arguments."""
    options = (*_MEMORY_OPTIONS, _EMBEDDER_OPTION) if with_embedder else _MEMORY_OPTIONS

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call_with_context(**given: Any) -> Any:
            return function(_build_context(given, with_embedder=with_embedder), **given)

        command: Callable[..., Any] = call_with_context
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _build_context(given: dict[str, Any], *, with_embedder: bool) -> CliContext:
    """Take the common options out of what was given."""
    from agentmem.core.clock import FrozenClock

    user, channel, as_json = given.pop("user"), given.pop("channel"), given.pop("as_json")
    now, settings = given.pop("now"), ("home", "config", "seed", *(("embedder",) if with_embedder else ()))
    asked = {name: given.pop(name) for name in settings}
    asked["clock"] = FrozenClock(now) if now is not None else None
    return CliContext(user, channel, as_json, {name: value for name, value in asked.items() if value is not None})


def read_text_or_stdin(text: str) -> str:
    """The text itself, or all of standard input for `-`: UTF-8, else text of the encoding of the system."""
    if text != "-":
        return text
    data = sys.stdin.buffer.read()
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return data.decode(sys.stdin.encoding, "replace").replace("\r\n", "\n")
