"""Threads for blocking calls that are short and many, such as appends."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

logger = logging.getLogger("hermitcrab.sessions")

Result = TypeVar("Result")
_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class Workers:
    """Runs blocking calls in threads, as :func:`asyncio.to_thread` does, at half of its cost.

    Every call that runs has a thread for itself; a thread that has had nothing to do for a while ends.

    :param idle_seconds: how long that is.
    """

    def __init__(self, idle_seconds: float = 10.0) -> None:
        self._idle_seconds = idle_seconds
        # Append, pop and remove of a deque are atomic, so it needs no lock.
        self._idle: deque[_Worker] = deque()
        if hasattr(os, "register_at_fork"):
            # A child process has none of these threads, and would wait for them for ever.
            os.register_at_fork(after_in_child=self._idle.clear)

    def call(self, function: Callable[[], Result]) -> asyncio.Future[Result]:
        """Run ``function`` in a thread; the future belongs to the running loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _Worker(self._idle, self._idle_seconds)
        worker.jobs.put((loop, future, function))
        return future


class _Worker:
    """One thread and what it is to do next; it stands in ``idle`` while it has nothing to do."""

    def __init__(self, idle: deque[_Worker], idle_seconds: float) -> None:
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        self._idle = idle
        self._idle_seconds = idle_seconds
        threading.Thread(target=self._run, name="hermitcrab-sessions", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                job = self.jobs.get(timeout=self._idle_seconds)
            except Empty:
                if self._retired():
                    return
                continue
            self._do(job)
            del job  # A thread that waits must not keep what it has done alive.

    def _retired(self) -> bool:
        """Leave the idle ones, unless somebody has just taken us from there and is about to bring work."""
        try:
            self._idle.remove(self)
        except ValueError:
            return False
        return True

    def _do(self, job: _Job) -> None:
        loop, future, function = job
        result: Any = None
        failure: BaseException | None = None
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - it is raised where the call is awaited
            failure = error
        self._idle.append(self)
        try:
            loop.call_soon_threadsafe(_settle, future, result, failure)
        except RuntimeError:
            logger.warning("a call ended after its event loop: %s", failure or "it succeeded")


def _settle(future: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    if future.cancelled():
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
