"""Bringing an index up to date with its files: one sync at a time, which all who ask for one share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any

from attrs import evolve

from hermitcrab.memory import Progress, SyncReport
from hermitcrab_memory_core.corpora import Corpus
from hermitcrab_memory_core.index import Index
from hermitcrab_memory_core.indexing import index_file
from hermitcrab_memory_core.plan import SyncPlan, plan_sync
from hermitcrab_memory_core.worker import Worker


class FileSync:
    """Syncs the index behind ``worker`` with ``corpus``. All methods belong to one event loop."""

    def __init__(self, worker: Worker, corpus: Corpus, logger: logging.Logger) -> None:
        #: Why the last sync failed, if it did.
        self.last_error: str | None = None
        self._worker = worker
        self._corpus = corpus
        self._logger = logger
        self._sync: asyncio.Task[SyncReport] | None = None
        self._forced: asyncio.Task[SyncReport] | None = None

    async def run(
        self, reason: str, *, force: bool = False, progress: Progress | None = None
    ) -> SyncReport:
        """Index what changed. Callers share the sync under way; a forced one waits for it and then starts."""
        if self._forced is not None and not self._forced.done():
            return await asyncio.shield(self._forced)
        if force:
            self._forced = self._start(self._run_forced(reason, self._sync, progress))
            return await asyncio.shield(self._forced)
        if self._sync is None or self._sync.done():
            self._sync = self._start(self._run(reason, force=False, progress=progress))
        return await asyncio.shield(self._sync)

    async def plan(self, reason: str) -> SyncPlan:
        """What a sync would have to do now."""
        return await self._worker.run(partial(self._plan, reason=reason))

    async def wait(self) -> None:
        """Wait for syncs under way."""
        running = [task for task in (self._sync, self._forced) if task is not None]
        if running:
            await asyncio.wait(running)

    def _start(self, work: Coroutine[Any, Any, SyncReport]) -> asyncio.Task[SyncReport]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._note_failure)
        return task

    def _note_failure(self, task: asyncio.Task[SyncReport]) -> None:
        """A failure is logged here because all who waited for the task may be gone."""
        if task.cancelled():
            return
        error = task.exception()
        self.last_error = None if error is None else str(error)
        if error is not None:
            self._logger.warning("memory sync failed: %s", error, exc_info=error)

    async def _run_forced(
        self,
        reason: str,
        running: asyncio.Task[SyncReport] | None,
        progress: Progress | None,
    ) -> SyncReport:
        if running is not None:
            await asyncio.wait([running])
        return await self._run(reason, force=True, progress=progress)

    async def _run(self, reason: str, *, force: bool, progress: Progress | None) -> SyncReport:
        started = time.monotonic()
        generation = self._worker.generation
        report = await self._pass(SyncReport(reason=reason), force, progress)
        if self._worker.generation != generation:  # what was indexed before is gone
            report = await self._pass(SyncReport(reason=reason), force, progress)
        counts = await self._worker.run(Index.counts)
        return evolve(report, chunks=counts.chunks, duration_s=time.monotonic() - started)

    async def _pass(self, report: SyncReport, force: bool, progress: Progress | None) -> SyncReport:
        plan = await self._worker.run(partial(self._plan, reason=report.reason, force=force))
        report = evolve(report, unchanged=plan.unchanged, skipped=plan.skipped)
        for done, file in enumerate(plan.suspects, start=1):
            report = await self._worker.run(
                partial(index_file, corpus=self._corpus, file=file, force=force, report=report)
            )
            if progress is not None:
                progress(done, len(plan.suspects), file.path)
        for path in plan.vanished:
            await self._worker.run(partial(Index.remove, path=path))
        self._corpus.done(report.reason)
        return evolve(report, removed=report.removed + len(plan.vanished))

    def _plan(self, index: Index, *, reason: str, force: bool = False) -> SyncPlan:
        stored = index.files()
        found = self._corpus.discover()
        plan = plan_sync(stored, found, chunking=index.chunking, force=force)
        return plan if force else self._corpus.due(plan, stored, reason)
