"""The seeded simulation; `make simulate` runs thousands, `python -m tests.faults.simulate --seed K` shows one."""

from __future__ import annotations

import asyncio

import pytest

from agentmem.errors import StoreUnavailable
from agentmem.stores.sql import write
from tests.faults import simulate, simulate_servers
from tests.faults.faulty import FAULT_KINDS, HANG_SECONDS, FaultInjector, FaultProxy
from tests.faults.virtual import VirtualClock, run
from tests.scale import scaled
from tests.servers.stack import Stack

AT_ONCE = 20
SEEDS = scaled(200, least=8)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_the_promises_hold_for_every_seed(first: int) -> None:
    for seed in range(first, min(first + AT_ONCE, SEEDS)):
        simulate.simulate(seed)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(1, 1 + scaled(2, least=1)))
def test_the_promises_hold_on_servers_too(stack: Stack, seed: int) -> None:
    acknowledged, faults = simulate_servers.simulate(seed, stack.urls)
    assert acknowledged > 0
    assert faults > 0


def test_a_seed_replays_exactly() -> None:
    first, again = simulate.simulate(9), simulate.simulate(9)
    assert first.faults.total() > 10
    assert first == again


def _until_one_fails() -> None:
    for seed in range(40):
        simulate.simulate(seed)


def test_a_broken_promise_is_found_and_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "check_idempotency", lambda *_: {})  # retries are no longer recognized
    with pytest.raises(AssertionError, match="refused, and done all the same") as failure:
        _until_one_fails()
    assert any("python -m tests.faults.simulate --seed" in note for note in failure.value.__notes__)


class _Counter:
    """A store that counts."""

    done = 0

    async def add(self) -> int:
        self.done += 1
        return self.done


def test_a_call_fails_before_its_effect_after_it_never_ends_or_happens_twice() -> None:
    async def story(clock: VirtualClock) -> None:
        faults, seen = FaultInjector(0, rate=1.0), set()
        while len(seen) < len(FAULT_KINDS):
            store, began = _Counter(), asyncio.get_running_loop().time()
            failed = False
            try:
                await FaultProxy(store, "log", faults).add()
            except StoreUnavailable:
                failed = True
            hung = asyncio.get_running_loop().time() - began > HANG_SECONDS
            kind = faults.trace[-1].split(": ")[1]
            effects = {"before": 0, "after": 1, "hang before": 0, "hang after": 1, "repeat": 2}
            assert (store.done, failed, hung) == (effects[kind], kind != "repeat", kind.startswith("hang"))
            seen.add(kind)

    run(story)
