"""The turns that run: one after another within a session, and none beyond the end of the host."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: How long the host waits at its end until cancelled turns have kept what they said, in seconds.
END_S = 30.0


class RunningTurns:
    """Knows which tasks run turns, and which session each of them holds."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._done: dict[asyncio.Task[Any], asyncio.Future[None]] = {}

    def lock(self, key: str) -> asyncio.Lock:
        """What holds a session for one turn."""
        return self._locks[key]

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count the current task among those that :meth:`end` ends."""
        task = asyncio.current_task()
        if task is None or task in self._done:
            yield
            return
        done = self._done[task] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._done[task]
            if not done.done():
                done.set_result(None)

    async def end(self) -> None:
        """Cancel the turns that run or wait, and wait until what they said so far is kept."""
        own = asyncio.current_task()
        running = {task: done for task, done in self._done.items() if task is not own}
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running.values(), timeout=END_S)
