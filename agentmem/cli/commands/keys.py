"""`agentmem keys`: who may ask the server, and for whose memory."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from agentmem.cli.context import CliContext, memory_options, parse_datetime, parse_names
from agentmem.cli.render import echo, echo_stderr, format_time, show_json, to_one_line
from agentmem.cli.verbs import VerbGroup

if TYPE_CHECKING:
    from agentmem.core.api_keys import ApiKey
    from agentmem.facade.async_memory import AsyncAgentMemory

_DAYS = re.compile(r"(\d{1,5})d")


@click.command("create", short_help="Make a key.")
@click.option(
    "--scopes",
    type=parse_names,
    default="read,write",
    show_default=True,
    help="What the key may do: also erase, admin.",
)
@click.option("--agent", metavar="NAME", help="The only agent that the key is for.")
@click.option("--expires", metavar="MOMENT", help="When the key ends: a date, or days from now such as 90d.")
@memory_options()
@click.pass_context
def create_key_command(
    context: click.Context, cli: CliContext, *, scopes: tuple[str, ...], agent: str | None, expires: str | None
) -> None:
    """Make a key and print it once; only its hash is stored. From the first key on, every request needs one.

    It opens the memory of --user, or with `--user '*' --scopes read,write,admin` that of the user whom each request
    names in X-Agentmem-User. With --channel or --agent it opens only that one.

    \b
    Examples:
      agentmem keys create --user alice --scopes read,write
      agentmem keys create --user alice --scopes read --channel work --expires 90d
    """
    from agentmem.admin.api_keys import NewApiKey, create_api_key
    from agentmem.core.clock import add_time

    ends = None if expires is None else _parse_end(expires)
    channel = _find_given(context, "channel", cli.channel)

    async def create(memory: AsyncAgentMemory) -> NewApiKey:
        expires_at = add_time(memory.engine.clock.now(), ends) if isinstance(ends, timedelta) else ends
        return await create_api_key(
            memory.engine, cli.user, scopes=scopes, channel=channel, agent_id=agent, expires_at=expires_at
        )

    made = cli.run(create)
    if cli.json:
        show_json({"key": made.key, "secret": made.secret})
        return
    echo(_render_key(made.key))
    echo(made.secret)
    echo_stderr("note: this is shown once; send it as Authorization: Bearer KEY")


@click.command("list", short_help="List keys.")
@memory_options()
@click.pass_context
def list_keys_command(context: click.Context, cli: CliContext) -> None:
    """List all keys, or those of --user. With --json one JSON document per line.

    \b
    Examples:
      agentmem keys
      agentmem keys list --user alice --json
    """
    from agentmem.admin.api_keys import list_api_keys

    user = _find_given(context, "user", cli.user)
    found = cli.run(lambda memory: list_api_keys(memory.engine, user))
    cli.show_list(found, _render_key, "no keys")


@click.command("revoke", short_help="Revoke a key.")
@click.argument("key_id", metavar="ID")
@memory_options()
@click.pass_context
def revoke_key_command(context: click.Context, cli: CliContext, *, key_id: str) -> None:
    """Revoke the key ID. It is refused within two seconds.

    \b
    Examples:
      agentmem keys revoke 0199c2f4-5b1e-7c3a-9f00-6d2a4c1b8e55
    """
    from agentmem.admin.api_keys import revoke_api_key

    user = _find_given(context, "user", cli.user)
    ended = cli.run(lambda memory: revoke_api_key(memory.engine, key_id, user_id=user))
    cli.show(ended, _render_key(ended))


def _find_given(context: click.Context, name: str, value: str) -> str | None:
    """The value of a common option; None where it was left out."""
    return None if context.get_parameter_source(name) is ParameterSource.DEFAULT else value


def _parse_end(text: str) -> datetime | timedelta:
    days = _DAYS.fullmatch(text)
    return parse_datetime(text) if days is None else timedelta(days=int(days[1]))


def _render_key(key: ApiKey) -> str:
    limits = [f"channel {key.channel}"] if key.channel else []
    limits += [f"agent {key.agent_id}"] if key.agent_id else []
    where = f" ({', '.join(limits)})" if limits else ""
    ends = f", ends {format_time(key.expires_at)}" if key.expires_at else ""
    state = (
        f"revoked {format_time(key.revoked_at)}" if key.revoked_at else f"used {format_time(key.last_used_at)}{ends}"
    )
    line = f"{key.id}  {key.user_id}{where}  {','.join(key.scopes)}  made {format_time(key.created_at)}, {state}"
    return to_one_line(line)


keys_group = VerbGroup(
    "keys",
    (create_key_command, list_keys_command, revoke_key_command),
    summary="Manage server keys.",
    text="Who may ask `agentmem serve`, and for whose memory. Without a verb it lists all keys.",
    default="list",
)

COMMANDS = (keys_group,)
