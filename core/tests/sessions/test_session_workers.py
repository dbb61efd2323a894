"""The threads in which appends run."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import filelock
import pytest

from hermitcrab.sessions.locks import describe_holder, exclusive
from hermitcrab.sessions.workers import Workers


async def test_a_call_runs_in_a_thread_and_its_result_comes_back() -> None:
    workers = Workers()
    assert await workers.call(threading.get_ident) != threading.get_ident()


async def test_what_a_call_raises_is_raised_where_it_is_awaited() -> None:
    workers = Workers()

    def fail() -> None:
        raise ZeroDivisionError("in the thread")

    with pytest.raises(ZeroDivisionError, match="in the thread"):
        await workers.call(fail)
    assert await workers.call(lambda: 1) == 1


async def test_calls_that_wait_do_not_hold_up_others() -> None:
    workers = Workers()
    together = threading.Barrier(5, timeout=10)
    await asyncio.wait_for(asyncio.gather(*(workers.call(together.wait) for _ in range(5))), 20)


async def test_calls_one_after_another_share_a_thread() -> None:
    workers = Workers()
    threads = {await workers.call(threading.current_thread) for _ in range(20)}
    assert len(threads) == 1


async def test_a_thread_with_nothing_to_do_ends_and_a_later_call_gets_a_new_one() -> None:
    workers = Workers(idle_seconds=0.01)
    first = await workers.call(threading.current_thread)
    await asyncio.to_thread(first.join, 10)
    assert not first.is_alive()
    assert await workers.call(threading.current_thread) is not first


async def test_no_call_is_lost_to_a_thread_that_is_just_ending() -> None:
    workers = Workers(idle_seconds=0.0005)
    for number in range(300):
        assert await asyncio.wait_for(workers.call(lambda number=number: number), 10) == number
        await asyncio.sleep(number % 4 * 0.0003)


async def test_a_call_whose_caller_has_gone_runs_to_its_end() -> None:
    workers = Workers()
    begin, done = threading.Event(), threading.Event()

    def slow() -> None:
        begin.wait(10)
        done.set()

    workers.call(slow).cancel()
    begin.set()
    assert await asyncio.to_thread(done.wait, 10)
    assert await workers.call(lambda: 1) == 1


def test_a_call_that_outlives_its_event_loop_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    workers = Workers()
    begin = threading.Event()

    async def leave() -> None:
        workers.call(lambda: begin.wait(10))

    asyncio.run(leave())
    begin.set()
    deadline = time.monotonic() + 10
    while not caplog.records and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "ended after its event loop" in caplog.text


def test_a_lock_file_that_is_deleted_at_the_last_moment_is_not_taken_for_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers would hold one lock each: the deleted file and the one that took its place."""
    lock, real = tmp_path / "x.lock", filelock.lock_descriptor
    calls = 0

    def lock_what_was_deleted(descriptor: int, *, blocking: bool) -> bool:
        nonlocal calls
        calls += 1
        if calls == 1:
            lock.unlink()
        return real(descriptor, blocking=blocking)

    monkeypatch.setattr(filelock, "lock_descriptor", lock_what_was_deleted)
    with exclusive(lock, purpose="append", timeout_ms=5000):
        assert calls == 2
        assert "(append, since" in describe_holder(lock)


def test_a_holder_that_cannot_be_named_holds_the_lock_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a full disk reading goes on."""

    def full(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    with exclusive(tmp_path / "x.lock", purpose="append", timeout_ms=1000):
        pass
    assert "No space left on device" in caplog.text
