"""`agentmem demo`: see it work."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from agentmem.cli.door import Door, Frozen, UserPath, memory_options, tell
from agentmem.cli.progress import Progress
from agentmem.errors import ConfigError


@click.command(short_help="Store a conversation, ask questions, show the reasons.")
@click.option(
    "--data", type=UserPath(exists=True, dir_okay=False, path_type=Path), metavar="PATH",
    help="A LoCoMo-shaped file; its first dialogue is stored. [default: a conversation that comes with agentmem]",
)  # fmt: skip
@click.option("--servers", is_flag=True, help="On the servers of log_url and graph_url; what is stored stays there.")
@memory_options(embedder=True)
def command(door: Door, *, data: Path | None, servers: bool) -> None:
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

    script = walkthrough.from_file(data) if data is not None else walkthrough.built_in()
    usual = door.settings()
    if servers and usual.log_server is None:
        raise ConfigError("--servers needs log_url and graph_url: set AGENTMEM_LOG_URL and AGENTMEM_GRAPH_URL")
    # Addresses from the environment must not lead the demo to a memory in use; weights that are there may serve.
    places: dict[str, Any] = {} if servers else dict.fromkeys(("log_url", "graph_url", "session_url"))
    places |= {"models": usual.model_folder, "recall_rate": 0, "config": usual.config}
    places |= dict.fromkeys(("extraction_llm", "verdict_llm", "synopsis_llm"), "none")  # its night asks no model
    frozen = door.overrides.get("clock") or (None if usual.seed is None else Frozen(script.ends()))
    clock = script.clock(frozen)
    with tempfile.TemporaryDirectory(prefix="agentmem-demo-") as folder, Progress() as progress:
        own = door.within(**{"home": Path(folder), **places, **door.overrides, "clock": clock})
        seen = own.run(lambda memory: walkthrough.walk(memory, script, clock, progress))
    tell(seen.notices)
    door.show(seen.document(), walkthrough.told(seen))
