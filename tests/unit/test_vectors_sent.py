"""Vectors on their way to and from Postgres, and the thread that they are worked on in."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from agentmem.stores.postgres.columns import decode_halfvecs, encode_query_vector, run_in_thread


async def test_work_is_waited_for_when_its_caller_is_cancelled() -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        go_on.wait()
        ended.append(True)

    task = asyncio.create_task(run_in_thread(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=0.05)
    assert not done
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_the_error_of_work_is_its_callers() -> None:
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(lambda: 1 // 0)


def test_a_query_of_any_length_fits() -> None:
    drawn = np.random.default_rng(5).standard_normal(40).astype(np.float32)
    for length in (1e-30, 1, 1e30):
        (sent,) = decode_halfvecs([encode_query_vector(drawn * np.float32(length))], 40)
        assert np.abs(sent).max() == 1
        np.testing.assert_allclose(sent, drawn / np.abs(drawn).max(), atol=1e-3)
    assert decode_halfvecs([], 40).shape == (0, 40)
