"""Bringing the index up to date: one sync at a time, shared by all who ask, and vectors in the background."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from logging import Logger
from typing import Any

from attrs import evolve

from hermitcrab.errors import EmbeddingError, MemoryBackendError
from hermitcrab.memory import Progress, SyncReport
from hermitcrab_memory_lancedb.filling import Filler, FillReport
from hermitcrab_memory_lancedb.indexing import Indexer
from hermitcrab_memory_lancedb.passages import PassageTable

# A search waits this long for changed files to be indexed, then answers from what there is.
_SYNC_PATIENCE_S = 8.0
# And this long for the vectors of what changed, as does a sync with one of these reasons.
_FILL_PATIENCE_S = 2.0
_BACKGROUND = frozenset({"turn", "compaction"})


class Syncing:
    """The syncs of one agent's index; without a ``filler`` there are no vectors to make."""

    def __init__(
        self, table: PassageTable, indexer: Indexer, filler: Filler | None, logger: Logger
    ) -> None:
        self.indexer = indexer
        self.filler = filler
        #: The last failure of a sync since the last one that succeeded.
        self.last_error: str | None = None
        self._table = table
        self._logger = logger
        self._sync: asyncio.Task[SyncReport] | None = None
        self._forced: asyncio.Task[SyncReport] | None = None
        self._filling: asyncio.Task[FillReport] | None = None

    async def run(self, reason: str, *, force: bool, progress: Progress | None) -> SyncReport:
        """Index what changed and make the vectors that are missing.

        Callers share the sync under way; a forced one waits for it and then starts.
        """
        report = await self._sync_files(reason, force, progress)
        if self.filler is None:
            return report
        wait_s = _FILL_PATIENCE_S if reason in _BACKGROUND and not force else None
        filled = await self._filled(self.filler, force, progress, wait_s)
        return evolve(report, embedded=filled.embedded, problem=filled.problem)

    async def refresh(self) -> str | None:
        """Index what changed; the reason why the answer may be incomplete, if it may."""
        try:
            plan = await self.indexer.plan()
            if plan.is_needed:
                async with asyncio.timeout(_SYNC_PATIENCE_S):
                    await self._sync_files("search", False, None)
        except TimeoutError:
            return "Files are still being indexed; search again in a while"
        except MemoryBackendError as error:
            return f"Changed files could not be indexed: {error}"
        await self._refresh_vectors()
        return None

    async def _refresh_vectors(self) -> None:
        """Make vectors that are missing in the background, and wait a moment for them."""
        filler = self.filler
        if filler is None or filler.embedder.is_resting:
            return
        try:
            if (await filler.state()).pending == 0:
                return
        except EmbeddingError:  # the search itself says so
            return
        await asyncio.wait([self._start_filling(filler, False, None)], timeout=_FILL_PATIENCE_S)

    async def close(self) -> None:
        """Wait for a sync under way and stop making vectors; the next one goes on from there."""
        if self._filling is not None and not self._filling.done():
            self._filling.cancel()
            await asyncio.wait([self._filling])
        running = [task for task in (self._sync, self._forced) if task is not None]
        if running:
            await asyncio.wait(running)

    async def _filled(
        self, filler: Filler, force: bool, progress: Progress | None, wait_s: float | None
    ) -> FillReport:
        """Make what vectors are missing; after ``wait_s`` seconds that goes on in the background."""
        if force and self._filling is not None and not self._filling.done():
            await asyncio.wait([self._filling])
        filling = self._start_filling(filler, force, progress)
        done, _ = await asyncio.wait([filling], timeout=wait_s)
        if filling.cancelled():
            return FillReport(problem="Vectors were not made: the memory was closed")
        return filling.result() if done else FillReport()

    def _start_filling(
        self, filler: Filler, force: bool, progress: Progress | None
    ) -> asyncio.Task[FillReport]:
        if self._filling is None or self._filling.done():
            self._filling = self._start(filler.fill(force=force, progress=progress))
        return self._filling

    async def _sync_files(self, reason: str, force: bool, progress: Progress | None) -> SyncReport:
        if self._forced is not None and not self._forced.done():
            return await asyncio.shield(self._forced)
        if force:
            self._forced = self._start(self._run_forced(reason, self._sync, progress))
            return await asyncio.shield(self._forced)
        if self._sync is None or self._sync.done():
            self._sync = self._start(self._run_sync(reason, False, progress))
        return await asyncio.shield(self._sync)

    async def _run_forced(
        self, reason: str, running: asyncio.Task[SyncReport] | None, progress: Progress | None
    ) -> SyncReport:
        if running is not None:
            await asyncio.wait([running])
        return await self._run_sync(reason, True, progress)

    async def _run_sync(self, reason: str, force: bool, progress: Progress | None) -> SyncReport:
        started = time.monotonic()
        report = await self.indexer.run(SyncReport(reason=reason), force=force, progress=progress)
        counts = await self._table.counts()
        return evolve(report, chunks=counts.passages, duration_s=time.monotonic() - started)

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._note_failure)
        return task

    def _note_failure(self, task: asyncio.Task[Any]) -> None:
        """A failure is logged here because all who waited for the task may be gone."""
        if task.cancelled():
            return
        error = task.exception()
        self.last_error = None if error is None else str(error)
        if error is not None:
            self._logger.warning("memory sync failed: %s", error, exc_info=error)
