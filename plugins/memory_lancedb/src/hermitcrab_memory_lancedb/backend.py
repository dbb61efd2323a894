"""The memory backend memory-lancedb: Markdown files and single memories in LanceDB."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from attrs import evolve

from hermitcrab.errors import EmbeddingError, MemoryBackendError
from hermitcrab.memory import (
    Explanation,
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
from hermitcrab.memory.contract import SearchMode
from hermitcrab.memory.files import keywords, read_memory
from hermitcrab.memory.longterm import capture_report
from hermitcrab.memory.ranking import Fused
from hermitcrab_memory_lancedb.config import LanceDbConfig, locations
from hermitcrab_memory_lancedb.database import Database
from hermitcrab_memory_lancedb.embedder import Embedder, Vector
from hermitcrab_memory_lancedb.filling import Filler
from hermitcrab_memory_lancedb.finding import Question, explained, find
from hermitcrab_memory_lancedb.indexing import Indexer
from hermitcrab_memory_lancedb.memories import LanceMemories
from hermitcrab_memory_lancedb.passages import PassageTable
from hermitcrab_memory_lancedb.reporting import status_of
from hermitcrab_memory_lancedb.settings import Settings
from hermitcrab_memory_lancedb.syncing import Syncing
from hermitcrab_memory_lancedb.upkeep import Upkeep

BACKEND_ID = "memory-lancedb"
SOURCE = "memory"


def _now() -> datetime:
    return datetime.now(UTC)


class MemoryLanceDb(MemoryBackend):
    """Searches the Markdown files of one agent and keeps its single memories."""

    def __init__(
        self,
        context: MemoryContext,
        *,
        clock: Callable[[], datetime] = _now,
        embedder: Embedder | None = None,
        upkeep: Upkeep | None = None,
    ) -> None:
        config = context.plugin_config
        if not isinstance(config, LanceDbConfig):
            config = LanceDbConfig()
        memories_at, files_at = locations(config, context.home)
        if embedder is None and context.embeddings is not None:
            embedder = Embedder(context.embeddings)
        self._home = context.home
        self._agent_id = context.agent_id
        self._workspace = context.workspace
        self._settings = Settings.of(context)
        self._clock = clock
        self._no_embeddings = context.embeddings_problem
        self._upkeep = upkeep or Upkeep(context.logger)
        database = Database(memories_at)
        self._databases = [database]
        if files_at != memories_at:
            self._databases.append(Database(files_at))
        folder = files_at.folder or context.home
        self._table = PassageTable(
            self._databases[-1], self._upkeep, context.agent_id, context.workspace
        )
        makes_vectors = self._settings.fusion.shares[1] > 0
        self._syncing = Syncing(
            self._table,
            Indexer(self._table, context.workspace, self._settings.extra_paths, folder),
            Filler(self._table, embedder, folder, context.logger)
            if embedder is not None and makes_vectors
            else None,
            context.logger,
        )
        self._memories = LanceMemories(database, self._upkeep, context, embedder, clock=clock)
        self.long_term = self._memories

    async def search(
        self,
        query: str,
        *,
        max_results: int = 6,
        min_score: float | None = None,
        sources: Sequence[str] | None = None,
        session_key: str | None = None,
    ) -> SearchResult:
        """The best passages that have any term of ``query`` or mean something like it; changed files are indexed first.

        Where vectors cannot take part, words answer alone, and the result says why. ``min_score`` never cuts a
        passage with a term of the query, unless the caller names it here.
        """
        if not query.strip() or max_results < 1 or (sources is not None and SOURCE not in sources):
            return SearchResult()
        if not keywords(query) and self._syncing.filler is None:
            return SearchResult()
        found, mode, reason = await self._answer(query, max_results)
        hits = tuple(hit for _, hit in found if min_score is None or hit.score >= min_score)
        return SearchResult(hits=hits, mode=mode, degraded=reason is not None, reason=reason)

    async def explain(self, query: str, *, max_results: int = 6) -> tuple[Explanation, ...]:
        """The hits of a search with what words, vectors, age and named dates made of them."""
        if max_results < 1 or not query.strip():
            return ()
        found, _, _ = await self._answer(query, max_results)
        return explained(found)

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
        """Index what changed and make the vectors that are missing.

        Callers share the sync under way; a forced one waits for it and then starts. ``force`` also makes vectors
        that cost money and were not asked for.
        """
        return await self._syncing.run(reason, force=force, progress=progress)

    async def status(self) -> MemoryStatus:
        """Counts, how vectors stand, and whether files changed since the last sync; creates nothing."""
        status = await status_of(
            MemoryStatus(backend=BACKEND_ID, index_path=self._table.database.location.folder),
            table=self._table,
            syncing=self._syncing,
            settings=self._settings,
            problem=self._no_embeddings,
            memories=self._memories,
        )
        captured = await asyncio.to_thread(capture_report, self._home, self._agent_id)
        details = {
            **status.details,
            "upkeep": dict(self._upkeep.report()),
            **({"capture": captured} if captured else {}),
        }
        return evolve(status, details=details)

    async def probe(self) -> ProbeResult:
        """Whether the tables can be opened and read."""
        try:
            for database in self._databases:
                await database.connection()
            await self._table.counts()
            await self._memories.count()
        except MemoryBackendError as error:
            return ProbeResult(ok=False, error=str(error))
        return ProbeResult(ok=True)

    async def close(self) -> None:
        """Wait for a sync and upkeep under way, stop making vectors, and close; the next one goes on from there."""
        await self._syncing.close()
        await self._upkeep.close()
        for database in self._databases:
            await database.close()

    def prompt_section(self, tools: Sequence[str]) -> str | None:
        """The section Memory Recall."""
        return prompt_section(tools)

    async def _answer(
        self, query: str, limit: int
    ) -> tuple[list[tuple[Fused, Hit]], SearchMode, str | None]:
        """What is found once changed files are indexed; how; and why it may be incomplete, if it may."""
        asked = self._asked(query)
        try:
            reason = await self._syncing.refresh()
            vector, column, missing = await self._vector(asked)
            question = Question(
                text=query,
                vector=vector,
                column=column,
                settings=self._settings.fusion,
                today=self._clock().date(),
            )
            found = await find(self._table, question, limit)
        finally:
            if asked is not None and not asked.done():
                asked.cancel()
        return found, question.mode, reason or missing

    def _asked(self, query: str) -> asyncio.Task[Vector] | None:
        """Ask for the vector of a query while files are looked through; not if it would be of no use."""
        filler = self._syncing.filler
        if filler is None:
            return None
        task = asyncio.get_running_loop().create_task(filler.embedder.query(query))
        # Nobody may come to hear of a failure: the embedder remembers it.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _vector(
        self, asked: asyncio.Task[Vector] | None
    ) -> tuple[Vector | None, str | None, str | None]:
        """The vector to search with, its column; and why vectors miss something, if they should not."""
        filler = self._syncing.filler
        if filler is None or asked is None:
            return None, None, self._no_embeddings
        try:
            vector = await asked
            state = await filler.state(len(vector))
        except EmbeddingError as error:
            return None, None, f"Only keywords were searched: {error}"
        if state.passages == 0:
            return None, None, None
        if not state.is_ready:
            return None, None, filler.explained(state)
        return vector, state.column, filler.explained(state) if state.pending else None
