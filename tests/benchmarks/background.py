"""Recall with and without jobs in the background: users talk in turn, and each asks something after what they said.

    python -m tests.benchmarks.background

Rounds with and without take turns, each on a memory of its own. Prints percentiles of `remember` in milliseconds, their
ratio, and how many users had beliefs at the end of a round.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path
from time import perf_counter

import click

from agentmem import AsyncAgentMemory
from tests.benchmarks.metrics import percentiles

USERS = 30
TURNS_BEFORE = 40
CITIES = ("Oslo", "Rome", "Lima", "Kyoto", "Accra", "Quito", "Turin", "Leeds")
SAYINGS = (
    "I live in {}.",
    "My sister Ida moved to {} last year.",
    "I work as a nurse at the hospital of {}.",
    "I booked a train to {} for 12 June 2027.",
    "I don't like the weather in {} at all, to be honest.",
)
_NAMES = {False: "without", True: "with   "}


async def _talk(memory: AsyncAgentMemory, chance: random.Random) -> float:
    """Store a turn of some user, and recall something; how many seconds the recall took."""
    user = memory.scoped(user_id=f"user-{chance.randrange(USERS)}")
    await user.store_turn(chance.choice(SAYINGS).format(chance.choice(CITIES)))
    began = perf_counter()
    await user.remember("Where do I live now, and where does Ida live?")
    return perf_counter() - began


async def _ask(folder: Path, *, background: bool, seconds: float, pause: float) -> tuple[list[float], int]:
    """How long recalls took, and how many users have beliefs in the end."""
    memory = AsyncAgentMemory("user-0", home=folder, embedder="hash", background=background)
    chance, times = random.Random(7), list[float]()
    async with memory:
        for number in range(USERS):
            said = [SAYINGS[n % len(SAYINGS)].format(CITIES[n % len(CITIES)]) for n in range(TURNS_BEFORE)]
            await memory.scoped(user_id=f"user-{number}").store_turns(said)
        ends = perf_counter() + seconds
        while perf_counter() < ends:
            times.append(await _talk(memory, chance))
            await asyncio.sleep(pause)
        believed = [await memory.scoped(user_id=f"user-{n}").semantic.beliefs() for n in range(USERS)]
    return times, sum(map(bool, believed))


async def _measure(folder: Path, rounds: int, seconds: float, pause: float) -> None:
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(rounds):
        for background in (False, True):
            home = folder / f"{number}-{background}"
            found, believed = await _ask(home, background=background, seconds=seconds, pause=pause)
            times[background] += found
            click.echo(f"round {number + 1}, {_NAMES[background]}: {believed} of {USERS} users have beliefs")
    shares = {background: percentiles(found) for background, found in times.items()}
    for background, row in shares.items():
        click.echo("  ".join((_NAMES[background], *(f"{name} {value:.2f}" for name, value in row.items()))))
    click.echo(
        "  ".join(
            ("with / without", *(f"{name} {shares[True][name] / row:.3f}" for name, row in shares[False].items()))
        )
    )


@click.command()
@click.option("--rounds", default=3, show_default=True, help="How often each of the two is measured, in turn.")
@click.option("--seconds", default=40.0, show_default=True, help="How long a round of one takes.")
@click.option("--pause", default=0.05, show_default=True, help="Seconds between two questions.")
def command(rounds: int, seconds: float, pause: float) -> None:
    """Measure recall with and without jobs in the background."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(Path(folder), rounds, seconds, pause))


if __name__ == "__main__":
    command()
