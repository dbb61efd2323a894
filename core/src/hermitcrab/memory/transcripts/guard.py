"""The one place at which session hits are let through to whoever asks, whatever the backend (memory 4.10)."""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from attrs import evolve

from hermitcrab.errors import HermitcrabError, PathRefusedError
from hermitcrab.memory.contract import (
    Explanation,
    Hit,
    MemoryBackend,
    MemoryStatus,
    ProbeResult,
    Progress,
    ReadResult,
    SearchResult,
    SyncReport,
)
from hermitcrab.memory.longterm.contract import LongTermStore
from hermitcrab.memory.transcripts.source import Seen, TranscriptSource, is_transcript_path
from hermitcrab.sessions.keys import is_private

logger = logging.getLogger("hermitcrab.memory")

T = TypeVar("T")

#: What groups, channels, subagents and cron jobs are never shown.
PRIVATE_FILES = frozenset({"MEMORY.md", "memory.md"})
ONLY_PRIVATE = "the file is for private sessions alone"
ASK_ELSEWHERE = "Ask in a private conversation"


class GuardedMemory(MemoryBackend):
    """A backend, less what the one who asks may not see.

    ``MEMORY.md`` is for private sessions alone, in the prompt as through the tools (memory 1.3); who asks without a
    session, such as the command line, is the owner. Other memory hits always pass. A session hit passes only if the
    caller has a session key, the hit's transcript belongs to known sessions of the agent, and the caller may see one
    of them; where that cannot be found out, none passes. How many were left out is in the result and in the log
    (#53550).
    """

    def __init__(self, backend: MemoryBackend, transcripts: TranscriptSource | None = None) -> None:
        self.backend = backend
        self.transcripts = transcripts

    def __getattr__(self, name: str) -> Any:
        """What a backend offers beside the contract is the backend's own business, and reached as if it stood alone."""
        if name == "backend":  # not set yet, such as in a copy that is being made
            raise AttributeError(name)
        return getattr(self.backend, name)

    @property
    def long_term(self) -> LongTermStore | None:  # type: ignore[override]
        """The store of single memories that the backend keeps, if it does."""
        return self.backend.long_term

    async def search(
        self,
        query: str,
        *,
        max_results: int = 6,
        min_score: float | None = None,
        sources: Sequence[str] | None = None,
        session_key: str | None = None,
    ) -> SearchResult:
        """The backend's hits that the session ``session_key`` may see."""
        result = await self.backend.search(
            query,
            max_results=max_results,
            min_score=min_score,
            sources=sources,
            session_key=session_key,
        )
        seen = await self._seen(session_key)
        hits = _allowed(result.hits, seen, lambda hit: hit)
        hits = tuple(hit for hit in hits if may_read(session_key, hit.path))
        filtered = len(result.hits) - len(hits)
        if filtered or seen.hidden:
            logger.info(
                "%d hits left out, %d transcripts are hidden from the one who asks",
                filtered,
                seen.hidden,
                extra={"session_key": session_key},
            )
        return evolve(
            result, hits=hits, filtered=result.filtered + filtered, hidden_sessions=seen.hidden
        )

    async def explain(self, query: str, *, max_results: int = 6) -> tuple[Explanation, ...]:
        """Why hits rank as they do; nobody in particular asks, so sessions are no part of it."""
        found = await self.backend.explain(query, max_results=max_results)
        return _allowed(found, Seen(), lambda each: each.hit)

    async def read(self, path: str, *, start: int = 1, lines: int | None = None) -> ReadResult:
        """Lines of a memory file; of no transcript, because nobody in particular asks."""
        return await self.read_for(None, path, start=start, lines=lines)

    async def read_for(
        self,
        session_key: str | None,
        path: str,
        *,
        start: int = 1,
        lines: int | None = None,
    ) -> ReadResult:
        """Lines of a memory file, or of a transcript that the session ``session_key`` may see.

        :raises PathRefusedError: the path is not one of memory, or not one that this session may see.
        """
        if not may_read(session_key, path):
            raise PathRefusedError(ONLY_PRIVATE, where=path.strip(), hint=ASK_ELSEWHERE)
        if not is_transcript_path(path.strip()):
            return await self.backend.read(path, start=start, lines=lines)
        if self.transcripts is None:
            raise PathRefusedError(
                "sessions are no part of this memory",
                where=path,
                hint="Set memorySearch.sources to [memory, sessions] and experimental.sessionMemory to true",
            )
        return await asyncio.to_thread(
            self.transcripts.read, path.strip(), session_key, start=start, lines=lines
        )

    async def sync(
        self, reason: str, *, force: bool = False, progress: Progress | None = None
    ) -> SyncReport:
        """As the backend does."""
        return await self.backend.sync(reason, force=force, progress=progress)

    async def status(self) -> MemoryStatus:
        """As the backend does."""
        return await self.backend.status()

    async def probe(self) -> ProbeResult:
        """As the backend does."""
        return await self.backend.probe()

    async def close(self) -> None:
        """Close the backend."""
        await self.backend.close()

    async def store(self, text: str, *, category: str = "other", importance: float = 0.7) -> str:
        """As the backend does."""
        return await self.backend.store(text, category=category, importance=importance)

    async def forget(self, memory_id: str) -> bool:
        """As the backend does."""
        return await self.backend.forget(memory_id)

    def prompt_section(self, tools: Sequence[str]) -> str | None:
        """As the backend does."""
        return self.backend.prompt_section(tools)

    async def _seen(self, session_key: str | None) -> Seen:
        if self.transcripts is None:
            return Seen()
        try:
            return await asyncio.to_thread(self.transcripts.seen_by, session_key)
        except (HermitcrabError, OSError) as error:
            logger.warning("no session hit is shown: whose they are cannot be read: %s", error)
            return Seen()


def may_read(session_key: str | None, path: str) -> bool:
    """Whether a session may be shown a file of the workspace, by its path relative to it."""
    name = posixpath.normpath(path.strip())
    return session_key is None or name not in PRIVATE_FILES or is_private(session_key)


def _allowed(items: Iterable[T], seen: Seen, hit_of: Callable[[T], Hit]) -> tuple[T, ...]:
    """Those that are no session's, or of a transcript that may be seen; a path tells as well as a source."""

    def passes(item: T) -> bool:
        hit = hit_of(item)
        is_session = hit.source == "sessions" or is_transcript_path(hit.path)
        return not is_session or hit.path in seen.paths

    return tuple(item for item in items if passes(item))
