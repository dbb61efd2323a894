"""The thread in which a session's blocking calls run."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial

import pytest

from hermitcrab.sessions.worker import Worker


async def outcome(worker: Worker, function: Callable[[], object]) -> object:
    call = worker.start(function)
    assert await call.ended() is None
    return call.result()


async def test_a_call_runs_in_a_thread_and_its_result_comes_back() -> None:
    assert await outcome(Worker("test"), threading.get_ident) != threading.get_ident()


async def test_what_a_call_raises_is_raised_where_its_result_is_asked_for() -> None:
    worker = Worker("test")

    def fail() -> None:
        raise ZeroDivisionError("in the thread")

    with pytest.raises(ZeroDivisionError, match="in the thread"):
        await outcome(worker, fail)
    assert await outcome(worker, lambda: 1) == 1


async def test_calls_run_in_their_order_in_one_thread() -> None:
    worker, order = Worker("test"), []

    def act(number: int) -> threading.Thread:
        order.append(number)
        return threading.current_thread()

    calls = [worker.start(partial(act, number)) for number in range(20)]
    for call in calls:
        await call.ended()
    assert order == list(range(20))
    assert len({call.result() for call in calls}) == 1


async def test_a_thread_with_nothing_to_do_ends_and_a_later_call_gets_a_new_one() -> None:
    worker = Worker("test", idle_seconds=0.01)
    first = await outcome(worker, threading.current_thread)
    assert isinstance(first, threading.Thread)
    await asyncio.to_thread(first.join, 10)
    assert not first.is_alive()
    assert await outcome(worker, threading.current_thread) is not first


async def test_no_call_is_lost_to_a_thread_that_is_just_ending() -> None:
    worker = Worker("test", idle_seconds=0.0005)
    for number in range(300):
        assert await asyncio.wait_for(outcome(worker, partial(int, number)), 10) == number
        await asyncio.sleep(number % 4 * 0.0003)


async def test_a_caller_who_is_cancelled_again_and_again_waits_for_the_end() -> None:
    worker, go_on = Worker("test"), threading.Event()

    async def wait() -> tuple[asyncio.CancelledError | None, bool]:
        call = worker.start(lambda: go_on.wait(10))
        return await call.ended(), call.result()

    task = asyncio.create_task(wait())
    for _ in range(3):
        await asyncio.sleep(0.01)
        task.cancel()
    assert not task.done()
    go_on.set()
    cancelled, result = await task
    assert isinstance(cancelled, asyncio.CancelledError)
    assert result


async def test_a_thread_that_waits_keeps_nothing_alive() -> None:
    class Large:
        pass

    worker, large = Worker("test", idle_seconds=600), Large()
    kept = weakref.ref(large)
    await outcome(worker, partial(id, large))
    del large
    deadline = time.monotonic() + 10
    while kept() is not None and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
        gc.collect()
    assert kept() is None


def test_a_call_that_outlives_its_event_loop_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    worker, begin = Worker("test"), threading.Event()

    async def leave() -> None:
        worker.start(lambda: begin.wait(10))

    asyncio.run(leave())
    begin.set()
    deadline = time.monotonic() + 10
    while not caplog.records and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "ended after its event loop: it succeeded" in caplog.text


def test_a_thread_does_not_keep_its_program_alive() -> None:
    program = (
        "import asyncio\n"
        "from hermitcrab.sessions.worker import Worker\n"
        "worker = Worker('test', idle_seconds=600)\n"
        "async def main():\n"
        "    await worker.start(int).ended()\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=60, check=False)
    assert done.returncode == 0
