"""Doing something in one process at a time; the system releases the lock when the process dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hermitcrab.errors import MemoryBackendError

_POLL_S = 0.05


@asynccontextmanager
async def alone(folder: Path, name: str) -> AsyncIterator[None]:
    """Hold the lock ``name`` of ``folder``; without a time limit, because cancelling ends the wait.

    :raises MemoryBackendError: the lock cannot be taken at all.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(
        folder / f".{name}.lock", mode=0o600, thread_local=False, fallback_to_soft=False
    )
    while True:
        try:
            await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
            lock.acquire(timeout=0)
            break
        except Timeout:
            await asyncio.sleep(_POLL_S)
        except OSError as error:
            raise MemoryBackendError(f"the lock cannot be taken ({error})", where=folder) from error
    try:
        yield
    finally:
        lock.release()
