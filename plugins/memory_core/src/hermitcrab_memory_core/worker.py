"""One thread that owns the index: opens it when first needed, and replaces it when it is broken."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory import importing
from hermitcrab_memory_core.index import Index
from hermitcrab_memory_core.schema import OutdatedIndexError, is_damaged
from hermitcrab_memory_core.settings import Settings

T = TypeVar("T")


class Worker:
    """Runs functions of the open index, one at a time, away from the event loop."""

    def __init__(self, path: Path, settings: Settings, logger: logging.Logger) -> None:
        self.path = path
        #: Sentences for the user: which index was set aside, and why.
        self.notes: list[str] = []
        #: Counts how often the index was replaced by an empty one.
        self.generation = 0
        self._settings = settings
        self._logger = logger
        self._index: Index | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._closed = False

    async def run(self, function: Callable[[Index], T]) -> T:
        """Call ``function`` with the open index.

        :raises MemoryBackendError: the index cannot be opened, read or written, or the backend is closed.
        """
        if self._closed:
            raise MemoryBackendError("the memory backend is closed", where=self.path)
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="memory-core")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._call, function)

    async def close(self) -> None:
        """Close the index after what is running; may be called more than once."""
        self._closed = True
        executor, self._executor = self._executor, None
        if executor is not None:
            await asyncio.get_running_loop().run_in_executor(executor, self._close_index)
            executor.shutdown()

    def _call(self, function: Callable[[Index], T]) -> T:
        import sqlite3

        try:
            try:
                return function(self._opened())
            except (sqlite3.DatabaseError, OutdatedIndexError) as error:
                if not _is_beyond_repair(error):
                    raise
                self._set_aside(error)
                return function(self._opened())
        except (sqlite3.Error, OSError) as error:
            raise MemoryBackendError(
                f"the memory index cannot be used ({error})",
                where=self.path,
                hint=_hint(error),
            ) from error

    def _opened(self) -> Index:
        if self._index is None:
            with importing():
                import numpy  # noqa: F401 - the index uses it in this thread
            self._index = Index(
                self.path,
                chunk_tokens=self._settings.chunk_tokens,
                chunk_overlap=self._settings.chunk_overlap,
                source=self._settings.source,
                rendering=self._settings.rendering,
            )
        return self._index

    def _close_index(self) -> None:
        index, self._index = self._index, None
        if index is not None:
            index.close()

    def _set_aside(self, error: Exception) -> None:
        """Rename the file and what belongs to it; everything in it can be built again from the files."""
        self._close_index()
        kind = "outdated" if isinstance(error, OutdatedIndexError) else "corrupt"
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        for previous in self.path.parent.glob(f"{self.path.name}*.{kind}-*"):
            previous.unlink(missing_ok=True)
        for suffix in ("-wal", "-shm", ""):
            source = self.path.with_name(self.path.name + suffix)
            if source.exists():
                source.rename(source.with_name(f"{source.name}.{kind}-{stamp}"))
        aside = f"{self.path.name}.{kind}-{stamp}"
        note = f"the index was {kind} ({error}); it was set aside as {aside} and is rebuilt"
        self._logger.warning("%s: %s", self.path, note)
        self.notes.append(note)
        self.generation += 1


def _is_beyond_repair(error: Exception) -> bool:
    return isinstance(error, OutdatedIndexError) or is_damaged(error)


def _hint(error: Exception) -> str:
    if isinstance(error, TimeoutError) or "locked" in str(error):
        return "Another process is writing to it; try again"
    return "Make its directory writable, or set HERMITCRAB_HOME to one that is"
