"""Keeping passages and vectors up to date: one sync at a time, vectors in the background."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from logging import Logger
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from hermitcrab.errors import EmbeddingError, MemoryBackendError
from hermitcrab.memory import Progress, SyncReport
from hermitcrab.memory.files import Discovery, discover
from hermitcrab_memory_chroma.file_index import FileIndex
from hermitcrab_memory_chroma.file_plan import SyncPlan, plan_sync
from hermitcrab_memory_chroma.file_vectors import FileVectors

# A search waits this long for changed files to be indexed, then answers from what there is.
_SYNC_PATIENCE_S = 8.0
# And this long for the vectors of what changed, as does a sync with one of these reasons.
_BUILD_PATIENCE_S = 2.0
_BACKGROUND = frozenset({"turn", "compaction"})


@frozen(kw_only=True)
class Built:
    """How many vectors a build made, and why some are still missing."""

    embedded: int = 0
    problem: str | None = None


class Upkeep:
    """Belongs to one event loop. Callers share what is under way."""

    def __init__(
        self,
        index: FileIndex,
        vectors: FileVectors | None,
        *,
        workspace: Path,
        extra_paths: tuple[str, ...],
        logger: Logger,
    ) -> None:
        self._index = index
        self._vectors = vectors
        self._workspace = workspace
        self._extra_paths = extra_paths
        self._logger = logger
        self._sync: asyncio.Task[SyncReport] | None = None
        self._build: asyncio.Task[Built] | None = None
        self._is_forced = False
        #: The last failure since the last success.
        self.last_error: str | None = None
        #: Why vectors could not be made, if they could not.
        self.problem: str | None = None

    async def sync(self, reason: str, *, force: bool, progress: Progress | None) -> SyncReport:
        """Index what changed and make the vectors that are missing."""
        report = await self._synced(reason, force, progress)
        if self._vectors is None:
            return report
        wait_s = _BUILD_PATIENCE_S if reason in _BACKGROUND and not force else None
        built = await self._built(force, progress, wait_s)
        return evolve(report, embedded=built.embedded, problem=built.problem)

    async def refresh(self) -> str | None:
        """Index what changed before a search; the reason why the answer may be incomplete, if it may.

        :raises MemoryBackendError: Chroma cannot be asked.
        """
        reason = None
        if (await self.plan()).is_needed:
            try:
                async with asyncio.timeout(_SYNC_PATIENCE_S):
                    await self._synced("search", False, None)
            except TimeoutError:
                reason = "Files are still being indexed; search again in a while"
        await self._refresh_vectors()
        return reason

    async def _refresh_vectors(self) -> None:
        vectors = self._vectors
        if vectors is None or vectors.embedder.is_resting:
            return
        if (await vectors.survey()).pending:
            await self._built(False, None, _BUILD_PATIENCE_S)

    async def plan(self, *, force: bool = False) -> SyncPlan:
        """What a sync would do now."""
        indexed = await self._index.indexed()
        return plan_sync(indexed, await self.discovered(), force=force)

    async def discovered(self) -> Discovery:
        """The files of memory as they are now."""
        return await asyncio.to_thread(discover, self._workspace, self._extra_paths)

    async def close(self) -> None:
        """Stop making vectors, and wait for a sync under way."""
        if self._build is not None and not self._build.done():
            self._build.cancel()
            await asyncio.wait([self._build])
        if self._sync is not None and not self._sync.done():
            await asyncio.wait([self._sync])

    async def _synced(self, reason: str, force: bool, progress: Progress | None) -> SyncReport:
        while self._sync is not None and not self._sync.done():
            if not force or self._is_forced:
                return await asyncio.shield(self._sync)
            await asyncio.wait([self._sync])
        self._is_forced = force
        self._sync = self._start(self._run(reason, force, progress))
        return await asyncio.shield(self._sync)

    async def _run(self, reason: str, force: bool, progress: Progress | None) -> SyncReport:
        started = time.monotonic()
        plan = await self.plan(force=force)
        total = len(plan.suspects)

        def note(done: int, path: str) -> None:
            if progress is not None:
                progress(done, total, path)

        report = SyncReport(reason=reason, unchanged=plan.unchanged, skipped=plan.skipped)
        report = await self._index.update(plan, report, force=force, progress=note)
        chunks = sum(file.passages for file in self._index.known.values())
        return evolve(report, chunks=chunks, duration_s=time.monotonic() - started)

    async def _built(self, force: bool, progress: Progress | None, wait_s: float | None) -> Built:
        """Make what vectors are missing; after ``wait_s`` seconds that goes on in the background."""
        if force and self._build is not None and not self._build.done():
            await asyncio.wait([self._build])
        if self._build is None or self._build.done():
            self._build = self._start(self._run_build(force, progress))
        done, _ = await asyncio.wait([self._build], timeout=wait_s)
        if not done or self._build.cancelled():
            return Built(problem="Vectors are still being made")
        return self._build.result()

    async def _run_build(self, force: bool, progress: Progress | None) -> Built:
        if self._vectors is None:
            return Built()

        def note(done: int, total: int) -> None:
            if progress is not None:
                progress(done, total, "vectors")

        try:
            files = (await self.discovered()).files
            made, survey = await self._vectors.build(files, force=force, progress=note)
        except (EmbeddingError, MemoryBackendError) as error:
            self.last_error = str(error)
            self.problem = f"Vectors could not be made: {error}"
            return Built(problem=self.problem)
        self.problem = None
        return Built(embedded=made, problem=survey.explained())

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._note_failure)
        return task

    def _note_failure(self, task: asyncio.Task[Any]) -> None:
        """A failure is logged here because all who waited for the task may be gone."""
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self.last_error = str(error)
            self._logger.warning("memory sync failed: %s", error)
        elif not isinstance(task.result(), Built):
            self.last_error = None
