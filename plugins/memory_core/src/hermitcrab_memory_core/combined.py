"""Memory files and session transcripts searched together, neither crowding out the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

from attrs import evolve

from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory import (
    Explanation,
    MemoryBackend,
    MemoryStatus,
    ProbeResult,
    Progress,
    ReadResult,
    SearchResult,
    SyncReport,
)
from hermitcrab_memory_core.fairness import joined, shared_out


class CombinedMemory(MemoryBackend):
    """Two indexes: one of memory files, one of transcripts.

    Each brings candidates of its own, ranked among themselves, so that however many sessions there are, the files are
    searched as if there were none (#46570). Results are shared out by :func:`~.fairness.shared_out`. ``searches_files``
    is false where only sessions are searched.
    """

    def __init__(
        self, files: MemoryBackend, sessions: MemoryBackend, *, searches_files: bool = True
    ) -> None:
        self._files = files
        self._sessions = sessions
        self._searches_files = searches_files

    async def search(
        self,
        query: str,
        *,
        max_results: int = 6,
        min_score: float | None = None,
        sources: Sequence[str] | None = None,
        session_key: str | None = None,
    ) -> SearchResult:
        """The best hits of both sources; ``sources`` narrows it to one."""
        search = partial(
            _search,
            query=query,
            max_results=max_results,
            min_score=min_score,
            sources=sources,
            session_key=session_key,
        )
        if not self._searches_files:
            return await search(self._sessions)
        files, sessions = await asyncio.gather(
            search(self._files), _or_reason(search(self._sessions))
        )
        return evolve(
            joined(files, sessions), hits=shared_out(files.hits, sessions.hits, max_results)
        )

    async def explain(self, query: str, *, max_results: int = 6) -> tuple[Explanation, ...]:
        """As for memory files: sessions are shown only to whoever may see them, and nobody in particular asks."""
        if not self._searches_files:
            return ()
        return await self._files.explain(query, max_results=max_results)

    async def read(self, path: str, *, start: int = 1, lines: int | None = None) -> ReadResult:
        """Lines of a memory file."""
        return await self._files.read(path, start=start, lines=lines)

    async def sync(
        self, reason: str, *, force: bool = False, progress: Progress | None = None
    ) -> SyncReport:
        """Index the files, then the transcripts."""
        reports = [
            await backend.sync(reason, force=force, progress=progress)
            for backend in self._searched()
        ]
        first, *others = reports
        for other in others:
            first = evolve(
                first,
                indexed=first.indexed + other.indexed,
                removed=first.removed + other.removed,
                unchanged=first.unchanged + other.unchanged,
                chunks=first.chunks + other.chunks,
                skipped=(*first.skipped, *other.skipped),
                duration_s=first.duration_s + other.duration_s,
                embedded=first.embedded + other.embedded,
                problem=first.problem or other.problem,
            )
        return first

    async def status(self) -> MemoryStatus:
        """Both together; ``details`` are those of the files, with the counts of each source and the sessions' own."""
        statuses = [await backend.status() for backend in self._searched()]
        if len(statuses) == 1:
            return statuses[0]
        files, sessions = statuses
        counts = [
            *files.details.get("sourceCounts", ()),
            *sessions.details.get("sourceCounts", ()),
        ]
        details = {
            **files.details,
            "sources": [each["source"] for each in counts],
            "sourceCounts": counts,
            "sessions": {
                "dbPath": str(sessions.index_path),
                "dirty": sessions.dirty,
                **{
                    name: sessions.details[name]
                    for name in ("vector", "indexIdentity")
                    if name in sessions.details
                },
            },
        }
        return evolve(
            files,
            files=files.files + sessions.files,
            chunks=files.chunks + sessions.chunks,
            dirty=files.dirty or sessions.dirty,
            keyword_search=files.keyword_search and sessions.keyword_search,
            skipped=(*files.skipped, *sessions.skipped),
            last_error=files.last_error or sessions.last_error,
            notes=(*files.notes, *sessions.notes),
            details=details,
        )

    async def probe(self) -> ProbeResult:
        """Whether both indexes can be opened and read."""
        for backend in self._searched():
            result = await backend.probe()
            if not result.ok:
                return result
        return ProbeResult(ok=True)

    async def close(self) -> None:
        """Close both."""
        try:
            await self._files.close()
        finally:
            await self._sessions.close()

    def prompt_section(self, tools: Sequence[str]) -> str | None:
        """The section Memory Recall."""
        return self._files.prompt_section(tools)

    def _searched(self) -> tuple[MemoryBackend, ...]:
        return (self._files, self._sessions) if self._searches_files else (self._sessions,)


async def _search(backend: MemoryBackend, **request: Any) -> SearchResult:
    return await backend.search(**request)


async def _or_reason(search: Awaitable[SearchResult]) -> SearchResult:
    """A failure of the sessions' index leaves the answer to the files."""
    try:
        return await search
    except MemoryBackendError as error:
        return SearchResult(degraded=True, reason=f"Sessions were not searched: {error}")
