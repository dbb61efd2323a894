"""The memory backend memory-core: Markdown files behind a keyword index in SQLite."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from attrs import evolve

from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory import (
    Hit,
    MemoryBackend,
    MemoryContext,
    MemoryStatus,
    ProbeResult,
    Progress,
    ReadResult,
    SearchResult,
    SyncReport,
    prompt_section,
)
from hermitcrab.memory.files import Keywords, discover, keywords, read_memory
from hermitcrab_memory_core.index import SOURCE, Index
from hermitcrab_memory_core.indexing import index_file
from hermitcrab_memory_core.plan import SyncPlan, plan_sync
from hermitcrab_memory_core.ranking import rank
from hermitcrab_memory_core.settings import Settings
from hermitcrab_memory_core.snippets import choose
from hermitcrab_memory_core.worker import Worker

BACKEND_ID = "memory-core"

# A search waits this long for changed files to be indexed, then answers from what there is.
_SYNC_PATIENCE_S = 10.0


def _now() -> datetime:
    return datetime.now(UTC)


class MemoryCore(MemoryBackend):
    """Searches ``MEMORY.md``, ``USER.md``, ``memory/**/*.md`` and the configured extra paths of one agent."""

    def __init__(self, context: MemoryContext, *, clock: Callable[[], datetime] = _now) -> None:
        self._workspace = context.workspace
        self._settings = Settings.of(context)
        self._logger = context.logger
        self._clock = clock
        self._worker = Worker(context.index_path, self._settings, context.logger)
        self._sync: asyncio.Task[SyncReport] | None = None
        self._forced: asyncio.Task[SyncReport] | None = None
        self._last_error: str | None = None

    async def search(
        self,
        query: str,
        *,
        max_results: int = 6,
        min_score: float | None = None,
        sources: Sequence[str] | None = None,
        session_key: str | None = None,
    ) -> SearchResult:
        """The best passages that have any term of ``query``; changed files are indexed first.

        Hits are cut by ``min_score`` only if the caller names one.
        """
        terms = keywords(query)
        if not terms or max_results < 1 or (sources is not None and SOURCE not in sources):
            return SearchResult()
        reason = await self._refresh()
        generation = self._worker.generation
        hits = await self._worker.run(lambda index: self._find(index, terms, max_results))
        if self._worker.generation != generation:
            reason = await self._refresh()
            hits = await self._worker.run(lambda index: self._find(index, terms, max_results))
        kept = tuple(hit for hit in hits if min_score is None or hit.score >= min_score)
        return SearchResult(hits=kept, mode="keyword", degraded=reason is not None, reason=reason)

    async def read(self, path: str, *, start: int = 1, lines: int | None = None) -> ReadResult:
        """Lines of a memory file.

        :raises PathRefusedError: the path is not one of memory.
        :raises ToolError: the file cannot be read.
        """
        return await asyncio.to_thread(
            read_memory,
            self._workspace,
            path,
            start=start,
            lines=lines,
            extra_paths=self._settings.extra_paths,
        )

    async def sync(
        self, reason: str, *, force: bool = False, progress: Progress | None = None
    ) -> SyncReport:
        """Index what changed. Callers share the sync under way; a forced one waits for it and then starts."""
        if self._forced is not None and not self._forced.done():
            return await asyncio.shield(self._forced)
        if force:
            self._forced = self._start(self._run_forced(reason, self._sync, progress))
            return await asyncio.shield(self._forced)
        if self._sync is None or self._sync.done():
            self._sync = self._start(self._run_sync(reason, force=False, progress=progress))
        return await asyncio.shield(self._sync)

    async def status(self) -> MemoryStatus:
        """Counts, and whether files changed since the last sync; creates no index where there is none."""
        status = MemoryStatus(backend=BACKEND_ID, index_path=self._worker.path)
        error = self._last_error
        try:
            if not await asyncio.to_thread(self._worker.path.exists):
                found = await asyncio.to_thread(
                    discover, self._workspace, self._settings.extra_paths
                )
                status = evolve(
                    status, dirty=bool(found.files), skipped=tuple(map(str, found.skipped))
                )
            else:
                files, chunks = await self._worker.run(Index.counts)
                plan = await self._worker.run(self._plan)
                status = evolve(
                    status, files=files, chunks=chunks, dirty=plan.is_needed, skipped=plan.skipped
                )
        except MemoryBackendError as failure:
            error = str(failure)
            status = evolve(status, keyword_search=False)
        return evolve(status, last_error=error, notes=tuple(self._worker.notes))

    async def probe(self) -> ProbeResult:
        """Whether the index can be opened and read."""
        try:
            await self._worker.run(Index.counts)
        except MemoryBackendError as error:
            return ProbeResult(ok=False, error=str(error))
        return ProbeResult(ok=True)

    async def close(self) -> None:
        """Wait for a sync under way, then close the index."""
        running = [task for task in (self._sync, self._forced) if task is not None]
        if running:
            await asyncio.wait(running)
        await self._worker.close()

    def prompt_section(self, tools: Sequence[str]) -> str | None:
        """The section Memory Recall."""
        return prompt_section(tools)

    async def _refresh(self) -> str | None:
        """Index what changed; the reason why the answer may be incomplete, if it may."""
        try:
            plan = await self._worker.run(self._plan)
            if not plan.is_needed:
                return None
            async with asyncio.timeout(_SYNC_PATIENCE_S):
                await self.sync("search")
        except TimeoutError:
            return "Files are still being indexed; search again in a while"
        except MemoryBackendError as error:
            return f"Changed files could not be indexed: {error}"
        return None

    def _start(self, work: Coroutine[Any, Any, SyncReport]) -> asyncio.Task[SyncReport]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._note_failure)
        return task

    def _note_failure(self, task: asyncio.Task[SyncReport]) -> None:
        """A failure is logged here because all who waited for the task may be gone."""
        if task.cancelled():
            return
        error = task.exception()
        self._last_error = None if error is None else str(error)
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
        return await self._run_sync(reason, force=True, progress=progress)

    async def _run_sync(self, reason: str, *, force: bool, progress: Progress | None) -> SyncReport:
        started = time.monotonic()
        generation = self._worker.generation
        report = await self._pass(SyncReport(reason=reason), force, progress)
        if self._worker.generation != generation:  # what was indexed before is gone
            report = await self._pass(SyncReport(reason=reason), force, progress)
        _, chunks = await self._worker.run(Index.counts)
        return evolve(report, chunks=chunks, duration_s=time.monotonic() - started)

    async def _pass(self, report: SyncReport, force: bool, progress: Progress | None) -> SyncReport:
        plan = await self._worker.run(lambda index: self._plan(index, force=force))
        report = evolve(report, unchanged=plan.unchanged, skipped=plan.skipped)
        for done, file in enumerate(plan.suspects, start=1):
            report = await self._worker.run(
                partial(index_file, file=file, force=force, report=report)
            )
            if progress is not None:
                progress(done, len(plan.suspects), file.path)
        for path in plan.vanished:
            await self._worker.run(partial(Index.remove, path=path))
        return evolve(report, removed=report.removed + len(plan.vanished))

    def _plan(self, index: Index, *, force: bool = False) -> SyncPlan:
        discovery = discover(self._workspace, self._settings.extra_paths)
        return plan_sync(index.files(), discovery, force=force)

    def _find(self, index: Index, terms: Keywords, limit: int) -> list[Hit]:
        with index.snapshot():
            passage_matches = index.passage_matches(terms)
            chunk_matches = index.chunk_matches(terms)
            ranked = rank(
                index.passages(passage_matches),
                passage_matches,
                index.chunks(chunk_matches),
                chunk_matches,
                today=self._clock().date(),
            )
            return choose(ranked, index.around, limit)
