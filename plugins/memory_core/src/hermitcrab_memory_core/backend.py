"""The memory backend memory-core: Markdown files behind an index of keywords and vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import evolve

from hermitcrab.errors import EmbeddingError, MemoryBackendError
from hermitcrab.memory import (
    Explanation,
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
from hermitcrab.memory.files import keywords, read_memory
from hermitcrab_memory_core.building import Builder, BuildReport
from hermitcrab_memory_core.corpora import Corpus, FileCorpus
from hermitcrab_memory_core.embedder import Embedder
from hermitcrab_memory_core.explaining import explain
from hermitcrab_memory_core.finding import Found, Question, find
from hermitcrab_memory_core.index import Index
from hermitcrab_memory_core.reporting import (
    keyword_details,
    search_mode,
    storage_of,
    vector_details,
)
from hermitcrab_memory_core.settings import Settings
from hermitcrab_memory_core.survey import Survey
from hermitcrab_memory_core.syncing import FileSync
from hermitcrab_memory_core.worker import Worker

if TYPE_CHECKING:
    from hermitcrab_memory_core.matrix import Vectors

T = TypeVar("T")

BACKEND_ID = "memory-core"

# A search waits this long for changed files to be indexed, then answers from what there is.
_SYNC_PATIENCE_S = 8.0
# And this long for the vectors of what changed, as does a sync with one of these reasons: a host that ends does not
# wait for the vectors of a large memory.
_BUILD_PATIENCE_S = 2.0
_BACKGROUND = frozenset({"turn", "compaction"})


def _now() -> datetime:
    return datetime.now(UTC)


class MemoryCore(MemoryBackend):
    """Searches one source: the memory files of an agent, or with another ``corpus`` what is in that."""

    def __init__(
        self,
        context: MemoryContext,
        *,
        clock: Callable[[], datetime] = _now,
        embedder: Embedder | None = None,
        corpus: Corpus | None = None,
    ) -> None:
        self._workspace = context.workspace
        settings = Settings.of(context)
        self._corpus: Corpus = corpus or FileCorpus(context.workspace, settings.extra_paths)
        self._settings = evolve(
            settings, source=self._corpus.source, rendering=self._corpus.rendering
        )
        self._logger = context.logger
        self._clock = clock
        path = self._corpus.index_path(context.index_path)
        self._worker = Worker(path, self._settings, context.logger)
        if embedder is None and context.embeddings is not None:
            embedder = Embedder(context.embeddings)
        self._builder = (
            None
            if embedder is None
            else Builder(self._worker, embedder, self._settings, context.logger)
        )
        self._no_embeddings = context.embeddings_problem
        self._files = FileSync(self._worker, self._corpus, context.logger)
        self._build: asyncio.Task[BuildReport] | None = None

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

        Where vectors cannot take part, keywords answer alone, and the result says why. ``min_score`` never cuts a
        passage with a term of the query, unless the caller names it here.
        """
        if not query.strip() or max_results < 1:
            return SearchResult()
        if sources is not None and self._settings.source not in sources:
            return SearchResult()
        if not keywords(query) and self._builder is None:
            return SearchResult()
        visible = await asyncio.to_thread(self._corpus.visible, session_key)
        if visible is not None and not visible:
            return SearchResult()

        def look(index: Index, question: Question) -> Found:
            with index.within(visible):
                found = find(index, question, max_results)
            return evolve(found, hits=index.placed(found.hits))

        found, reason = await self._answer(query, look)
        kept = tuple(hit for hit in found.hits if min_score is None or hit.score >= min_score)
        return SearchResult(hits=kept, mode=found.mode, degraded=reason is not None, reason=reason)

    async def explain(self, query: str, *, max_results: int = 6) -> tuple[Explanation, ...]:
        """The hits of a search with what keywords, vectors, age and named dates made of them."""
        if max_results < 1 or not query.strip():
            return ()
        found, _ = await self._answer(
            query, lambda index, question: explain(index, question, max_results)
        )
        return found

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
        report = await self._files.run(reason, force=force, progress=progress)
        if self._builder is None:
            return report
        wait_s = _BUILD_PATIENCE_S if reason in _BACKGROUND and not force else None
        built = await self._built(self._builder, force=force, progress=progress, wait_s=wait_s)
        return evolve(report, embedded=built.embedded, problem=built.problem)

    async def status(self) -> MemoryStatus:
        """Counts, how vectors stand, and whether files changed since the last sync; creates no index."""
        status = MemoryStatus(backend=BACKEND_ID, index_path=self._worker.path)
        error = self._files.last_error
        try:
            if not await asyncio.to_thread(self._worker.path.exists):
                found = await asyncio.to_thread(self._corpus.discover)
                status = evolve(
                    status, dirty=bool(found.files), skipped=tuple(map(str, found.skipped))
                )
            else:
                status = await self._full_status(status)
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
        """Wait for a sync under way, stop making vectors, and close the index; the next one goes on from there."""
        if self._build is not None and not self._build.done():
            self._build.cancel()
            await asyncio.wait([self._build])
        await self._files.wait()
        await self._worker.close()

    def prompt_section(self, tools: Sequence[str]) -> str | None:
        """The section Memory Recall."""
        return prompt_section(tools)

    async def _answer(
        self, query: str, look: Callable[[Index, Question], T]
    ) -> tuple[T, str | None]:
        """What ``look`` finds once changed files are indexed; and why it may be incomplete, if it may."""
        asked = None if self._weighs_words else self._asked(query)
        try:
            reason = await self._refresh()
            if self._weighs_words:
                terms = keywords(query)
                weights = await self._worker.run(lambda index: index.word_weights(terms))
                asked = self._asked(query, weights)
            generation = self._worker.generation
            vector, missing = await self._vector(asked)
            question = Question(
                text=query,
                vector=vector,
                settings=self._settings.fusion,
                today=self._clock().date(),
            )
            found = await self._worker.run(lambda index: look(index, question))
            if self._worker.generation != generation:
                reason = await self._refresh()
                found = await self._worker.run(lambda index: look(index, question))
        finally:
            if asked is not None and not asked.done():
                asked.cancel()
        return found, reason or missing

    @property
    def _weighs_words(self) -> bool:
        builder, vector_share = self._builder, self._settings.fusion.shares[1]
        return builder is not None and vector_share > 0 and builder.embedder.provider.weighs_words

    def _asked(
        self, query: str, weights: Mapping[str, float] | None = None
    ) -> asyncio.Task[Vectors] | None:
        """Ask for the vector of a query while other work goes on; not if it would be of no use."""
        builder = self._builder
        if builder is None or builder.is_paused or self._settings.fusion.shares[1] == 0:
            return None
        task = asyncio.get_running_loop().create_task(builder.embedder.query(query, weights))
        # Nobody may come to hear of a failure: the embedder remembers it.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _vector(
        self, asked: asyncio.Task[Vectors] | None
    ) -> tuple[Vectors | None, str | None]:
        """The vector to search with; and why vectors miss something, if they should not."""
        builder = self._builder
        if builder is None:
            return None, self._no_embeddings
        if self._settings.fusion.shares[1] == 0:
            return None, None
        try:
            state = await builder.survey()
            if state.passages == 0:
                return None, None
            if not state.is_ready or asked is None:
                return None, builder.explained(state)
            vector = await asked
        except EmbeddingError as error:
            return None, f"Only keywords were searched: {error}"
        return vector, builder.explained(state) if state.pending else None

    async def _refresh(self) -> str | None:
        """Index what changed; the reason why the answer may be incomplete, if it may."""
        try:
            plan = await self._files.plan("search")
            if plan.is_needed:
                async with asyncio.timeout(_SYNC_PATIENCE_S):
                    await self._files.run("search")
        except TimeoutError:
            return "Files are still being indexed; search again in a while"
        except MemoryBackendError as error:
            return f"Changed files could not be indexed: {error}"
        await self._refresh_vectors()
        return None

    async def _refresh_vectors(self) -> None:
        """Make vectors that are missing in the background, and wait a moment for them."""
        builder = self._builder
        if builder is None or builder.embedder.is_resting or self._settings.fusion.shares[1] == 0:
            return
        try:
            if (await builder.survey()).pending == 0:
                return
        except EmbeddingError:  # the search itself says so
            return
        building = self._start_build(builder, force=False, progress=None)
        await asyncio.wait([building], timeout=_BUILD_PATIENCE_S)

    async def _built(
        self, builder: Builder, *, force: bool, progress: Progress | None, wait_s: float | None
    ) -> BuildReport:
        """Make what vectors are missing; after ``wait_s`` seconds that goes on in the background."""
        if force and self._build is not None and not self._build.done():
            await asyncio.wait([self._build])
        building = self._start_build(builder, force=force, progress=progress)
        done, _ = await asyncio.wait([building], timeout=wait_s)
        if building.cancelled():
            return BuildReport(problem="Vectors were not made: the memory was closed")
        return building.result() if done else BuildReport()

    def _start_build(
        self, builder: Builder, *, force: bool, progress: Progress | None
    ) -> asyncio.Task[BuildReport]:
        if self._build is None or self._build.done():
            self._build = asyncio.get_running_loop().create_task(
                builder.build(force=force, progress=progress)
            )
            self._build.add_done_callback(self._note_build_failure)
        return self._build

    def _note_build_failure(self, task: asyncio.Task[BuildReport]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._logger.error("making vectors failed", exc_info=task.exception())

    async def _full_status(self, status: MemoryStatus) -> MemoryStatus:
        counts = await self._worker.run(Index.counts)
        plan = await self._files.plan("status")
        details = keyword_details(self._settings, counts, self._no_embeddings)
        state: Survey | None = None
        if self._builder is not None:
            try:
                state, more = await self._vector_status(self._builder)
                details |= more
            except EmbeddingError as error:
                details["vector"]["lastError"] = str(error)
        return evolve(
            status,
            files=counts.files,
            chunks=counts.chunks,
            dirty=plan.is_needed,
            mode=search_mode(self._settings, state),
            skipped=plan.skipped,
            details=details,
        )

    async def _vector_status(self, builder: Builder) -> tuple[Survey, dict[str, Any]]:
        state = await builder.survey()
        charges = builder.embedder.provider.remote and state.pending > 0
        cost = await builder.cost() if charges else None
        storage = await self._worker.run(storage_of)
        return state, vector_details(builder, state, cost, storage)
