"""`agentmem demo`: see it work."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from agentmem.cli.door import CliContext, FrozenClock, UserPath, memory_options, print_notices
from agentmem.cli.progress import Progress
from agentmem.errors import ConfigError


@click.command(short_help="Store a conversation, ask questions, show the reasons.")
@click.option(
    "--data", type=UserPath(exists=True, dir_okay=False, path_type=Path), metavar="PATH",
    help="A LoCoMo-shaped file; its first dialogue is stored. [default: a conversation that comes with agentmem]",
)  # fmt: skip
@click.option("--servers", is_flag=True, help="On the servers of log_url and graph_url; what is stored stays there.")
@memory_options(with_embedder=True)
def command(cli: CliContext, *, data: Path | None, servers: bool) -> None:
    """Store a conversation, ask questions whose answers are known, and show what came back and why. In the end two
    weeks pass, and the background jobs say what they learn, merge, keep and let go.

    Works in a temporary folder, which is removed afterwards; with --home in that folder, which is kept. What a local
    embedder builds of its weights is kept where other runs find it. With --servers, --user must be one who has no
    memory there yet.

    \b
    Examples:
      agentmem demo
      agentmem demo --embedder hash --json
      agentmem demo --data locomo.json --home ./locomo
      agentmem demo --servers --user demo
    """
    from agentmem.cli import walkthrough

    script = walkthrough.load_script(data) if data is not None else walkthrough.load_built_in()
    usual = cli.load_settings()
    if servers and usual.log_server_url is None:
        raise ConfigError("--servers needs log_url and graph_url: set AGENTMEM_LOG_URL and AGENTMEM_GRAPH_URL")
    # Addresses from the environment must not lead the demo to a memory in use; weights that are there may serve.
    places: dict[str, Any] = {} if servers else dict.fromkeys(("log_url", "graph_url", "session_url"))
    places |= {"models": usual.model_folder, "recall_rate": 0, "config": usual.config}
    places |= dict.fromkeys(("extraction_llm", "verdict_llm", "synopsis_llm"), "none")  # its night asks no model
    frozen = cli.overrides.get("clock") or (None if usual.seed is None else FrozenClock(script.end_time()))
    clock = script.build_clock(frozen)
    with tempfile.TemporaryDirectory(prefix="agentmem-demo-") as folder, Progress() as progress:
        own = cli.with_settings(**{"home": Path(folder), **places, **cli.overrides, "clock": clock})
        seen = own.run(lambda memory: walkthrough.run_demo(memory, script, clock, progress))
    print_notices(seen.notices)
    cli.show(seen.to_document(), walkthrough.render(seen))
