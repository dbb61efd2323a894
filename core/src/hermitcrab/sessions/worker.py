"""A thread for blocking calls that come one after another, such as the appends of a session."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

logger = logging.getLogger("hermitcrab.sessions")

Result = TypeVar("Result")


class Call(Generic[Result]):
    """A call of a blocking function in another thread."""

    _result: Result
    _error: BaseException | None = None

    def __init__(self, function: Callable[[], Result]) -> None:
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()

    async def ended(self) -> asyncio.CancelledError | None:
        """Wait for the end, however often the waiting task is cancelled; returns the cancelling, to be raised again."""
        cancelled: asyncio.CancelledError | None = None
        while not self._ended.is_set():
            try:
                await self._ended.wait()
            except asyncio.CancelledError as error:
                cancelled = error
        return cancelled

    def result(self) -> Result:
        """What the function returned, once the call has ended; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._result

    def run(self) -> None:
        """Call the function; this happens in the thread."""
        try:
            self._result = self._function()
        except BaseException as error:  # noqa: BLE001 - whoever waits raises it
            self._error = error
        try:
            self._loop.call_soon_threadsafe(self._ended.set)
        except RuntimeError:
            outcome = self._error or "it succeeded"
            logger.warning("a call ended after its event loop: %s", outcome)


class Worker:
    """Runs calls one after another in a thread of its own, at half of what :func:`asyncio.to_thread` costs.

    The thread begins with the first call. It ends when it has had nothing to do for a while, or with the program, so
    nobody needs to close it. A forked child process, which has none of its parent's threads, begins one of its own.

    :param idle_seconds: how long a thread waits for the next call.
    """

    def __init__(self, name: str, idle_seconds: float = 5.0) -> None:
        self._name = name
        self._idle_seconds = idle_seconds
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._calls: SimpleQueue[Call[Any]] | None = None  # of the thread, while there is one

    def start(self, function: Callable[[], Result]) -> Call[Result]:
        """Have the thread call ``function``; needs a running event loop."""
        call = Call(function)
        if self._process != os.getpid():
            self._process, self._lock, self._calls = os.getpid(), threading.Lock(), None
        with self._lock:
            if self._calls is None:
                self._calls = self._begin_thread()
            self._calls.put(call)
        return call

    def _begin_thread(self) -> SimpleQueue[Call[Any]]:
        calls: SimpleQueue[Call[Any]] = SimpleQueue()
        threading.Thread(target=self._serve, args=[calls], name=self._name, daemon=True).start()
        return calls

    def _serve(self, calls: SimpleQueue[Call[Any]]) -> None:
        while True:
            try:
                call = calls.get(timeout=self._idle_seconds)
            except Empty:
                with self._lock:
                    if calls.empty():
                        self._calls = None
                        return
                continue
            call.run()
            del call  # A thread that waits must not keep alive what it has done.
