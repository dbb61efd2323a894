"""The memory backend memory-chroma: Markdown files and single memories in Chroma."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any

from attrs import evolve

from hermitcrab.errors import EmbeddingError, HermitcrabError, MemoryBackendError
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
from hermitcrab.memory.files import keywords, read_memory
from hermitcrab.memory.longterm import capture_report
from hermitcrab.memory.ranking import Fused, FusionSettings
from hermitcrab.messages.text import scrub_text
from hermitcrab_memory_chroma.connection import CollectionSpec, Connection
from hermitcrab_memory_chroma.embedded import EmbeddedConnection
from hermitcrab_memory_chroma.embedder import Embedder, Vector
from hermitcrab_memory_chroma.failures import DimensionsError
from hermitcrab_memory_chroma.file_index import FileIndex
from hermitcrab_memory_chroma.file_rows import Scope
from hermitcrab_memory_chroma.file_vectors import FileVectors
from hermitcrab_memory_chroma.finding import Library, Question, explained, find
from hermitcrab_memory_chroma.memories import ChromaMemories
from hermitcrab_memory_chroma.names import workspace_id
from hermitcrab_memory_chroma.reporting import connection_details, file_details
from hermitcrab_memory_chroma.server import ServerConnection
from hermitcrab_memory_chroma.settings import ChromaConfig, config_of
from hermitcrab_memory_chroma.upkeep import Upkeep

BACKEND_ID = "memory-chroma"
_SOURCE = "memory"


def _today() -> date:
    return datetime.now(UTC).date()


class MemoryChroma(MemoryBackend):
    """One agent's memory in a Chroma that other agents, and in server mode other hosts, may share."""

    long_term: ChromaMemories

    def __init__(
        self,
        context: MemoryContext,
        *,
        connection: Connection | None = None,
        today: Callable[[], date] = _today,
    ) -> None:
        config = config_of(context)
        self._context = context
        self._config = config
        self._today = today
        self._connection = connection or connection_of(config, context)
        self._embedder = None if context.embeddings is None else Embedder(context.embeddings)
        self._no_embeddings = context.embeddings_problem
        self._extra_paths = (
            () if context.config is None else tuple(map(str, context.config.extra_paths))
        )
        self._fusion = fusion_of(context)
        self._parts: tuple[FileIndex, FileVectors | None, Upkeep] | None = None
        self.long_term = ChromaMemories(
            self._connection,
            agent_id=context.agent_id,
            prefix=config.collection_prefix,
            embedder=self._embedder,
            no_embeddings=self._no_embeddings,
        )

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
        query = scrub_text(query)
        if not query.strip() or max_results < 1 or (sources is not None and _SOURCE not in sources):
            return SearchResult()
        if not keywords(query) and self._embedder is None:
            return SearchResult()
        found, question, reason = await self._found(query, max_results)
        hits = tuple(hit for _, hit in found if min_score is None or hit.score >= min_score)
        mode = "keyword" if not question.uses_vectors else "hybrid"
        if not question.uses_words:
            mode = "vector"
        return SearchResult(
            hits=hits,
            mode=mode,  # type: ignore[arg-type]
            degraded=reason is not None,
            reason=reason,
        )

    async def explain(self, query: str, *, max_results: int = 6) -> tuple[Explanation, ...]:
        """The hits of a search with what words, vectors, age and named dates made of them."""
        query = scrub_text(query)
        if max_results < 1 or not query.strip():
            return ()
        found, _, _ = await self._found(query, max_results)
        return explained(found)

    async def read(self, path: str, *, start: int = 1, lines: int | None = None) -> ReadResult:
        """Lines of a memory file; they come from the file itself, whether or not Chroma can be reached.

        :raises PathRefusedError: the path is not one of memory.
        :raises ToolError: the file cannot be read.
        """
        return await asyncio.to_thread(
            read_memory,
            self._context.workspace,
            path,
            start=start,
            lines=lines,
            extra_paths=self._extra_paths,
        )

    async def sync(
        self, reason: str, *, force: bool = False, progress: Progress | None = None
    ) -> SyncReport:
        """Index what changed and make the vectors that are missing; ``force`` also those that cost money."""
        _, _, upkeep = await self._opened()
        return await upkeep.sync(reason, force=force, progress=progress)

    async def status(self) -> MemoryStatus:
        """Counts, how vectors stand, and how Chroma is reached; it says so where Chroma cannot be reached."""
        status = MemoryStatus(backend=BACKEND_ID, index_path=self._folder)
        error: str | None = None
        details: dict[str, Any] = {}
        notes: tuple[str, ...] = ()
        try:
            index, vectors, upkeep = await self._opened()
            plan = await upkeep.plan()
            survey = None if vectors is None else await vectors.survey()
            details = file_details(index, vectors, survey, self._no_embeddings)
            details["memories"] = await self.long_term.count()
            details |= await self._captured()
            error = upkeep.last_error
            notes = (*index.notes, *self._left_out())
            has_vectors = survey is not None and survey.vectors > 0 and self._fusion.shares[1] > 0
            status = evolve(
                status,
                files=len(index.known),
                chunks=sum(file.passages for file in index.known.values()),
                dirty=plan.is_needed,
                mode="hybrid" if has_vectors else "keyword",
                skipped=plan.skipped,
            )
        except HermitcrabError as failure:
            error = str(failure)
            status = evolve(status, keyword_search=False)
        details |= connection_details(self._connection.status(), self._config)
        return evolve(status, last_error=error, notes=notes, details=details)

    async def probe(self) -> ProbeResult:
        """Whether Chroma answers, and is one that can be used."""
        try:
            await self._connection.names()
        except MemoryBackendError as error:
            return ProbeResult(ok=False, error=str(error))
        return ProbeResult(ok=True)

    async def close(self) -> None:
        """Wait for a sync under way, stop making vectors, and let go of the folder or the server."""
        if self._parts is not None:
            await self._parts[2].close()
        await self._connection.close()

    def prompt_section(self, tools: Sequence[str]) -> str | None:
        """The section Memory Recall."""
        return prompt_section(tools)

    def _left_out(self) -> tuple[str, ...]:
        if self._context.transcripts is None:
            return ()
        return ("memory-chroma does not search transcripts; memory-core does",)

    async def _captured(self) -> dict[str, Any]:
        """What became of texts that could have been captured, if there were any."""
        report = await asyncio.to_thread(capture_report, self._context.home, self._context.agent_id)
        return {"capture": report} if report else {}

    @property
    def _folder(self) -> Any:
        if self._config.mode == "server":
            return None
        return self._config.folder(self._context.home)

    async def _opened(self) -> tuple[FileIndex, FileVectors | None, Upkeep]:
        if self._parts is None:
            home, workspace = self._context.home, self._context.workspace
            own = await asyncio.to_thread(workspace_id, home, workspace)
            if self._parts is None:
                self._parts = self._made(own)
        return self._parts

    def _made(self, own: str) -> tuple[FileIndex, FileVectors | None, Upkeep]:
        prefix = self._config.collection_prefix
        scope = Scope(agent_id=self._context.agent_id, workspace=own)
        index = FileIndex(self._connection, scope, prefix)
        vectors = (
            None
            if self._embedder is None
            else FileVectors(self._connection, index, self._embedder, prefix)
        )
        upkeep = Upkeep(
            index,
            vectors,
            workspace=self._context.workspace,
            extra_paths=self._extra_paths,
            logger=self._context.logger,
        )
        return index, vectors, upkeep

    async def _found(
        self, query: str, limit: int
    ) -> tuple[list[tuple[Fused, Hit]], Question, str | None]:
        """What a search finds, by what, and why it may be incomplete, if it may."""
        index, _, upkeep = await self._opened()
        await index.indexed()
        generation = self._connection.generation
        reason = await upkeep.refresh()
        found, question, missing = await self._found_once(query, limit)
        if self._connection.generation != generation:
            # The server was restarted meanwhile, perhaps without its data.
            reason = await upkeep.refresh()
            found, question, missing = await self._found_once(query, limit)
        return found, question, reason or missing

    async def _found_once(
        self, query: str, limit: int
    ) -> tuple[list[tuple[Fused, Hit]], Question, str | None]:
        index, vectors, upkeep = await self._opened()
        vector, spec, missing = await self._vector(query, vectors)
        if missing is not None and vectors is not None:
            missing = upkeep.problem or missing
        question = Question(text=query, settings=self._fusion, today=self._today(), vector=vector)
        own = index.scope.workspace
        libraries = await self._libraries(index, vectors, spec)
        try:
            return await find(libraries, own, question, limit), question, missing
        except DimensionsError as error:
            question = evolve(question, vector=None)
            libraries = [evolve(library, vectors=None) for library in libraries]
            found = await find(libraries, own, question, limit)
            return found, question, f"Only keywords were searched: {error}"

    async def _libraries(
        self, index: FileIndex, vectors: FileVectors | None, spec: CollectionSpec | None
    ) -> list[Library]:
        """The own passages and, where files are shared, those that other hosts have indexed for this agent."""
        own = Library(connection=self._connection, passages=index.passages, vectors=spec)
        if not self._config.share_files:
            return [own]
        others = await index.others()
        return [
            own,
            *(
                Library(
                    connection=self._connection,
                    passages=CollectionSpec(name=f"{index.family}{key}"),
                    vectors=None if spec is None or vectors is None else vectors.spec_of(key),
                )
                for key in others
            ),
        ]

    async def _vector(
        self, query: str, vectors: FileVectors | None
    ) -> tuple[Vector | None, CollectionSpec | None, str | None]:
        """The vector to search with, where to search, and why vectors miss something, if they should not."""
        if vectors is None:
            return None, None, self._no_embeddings
        if self._fusion.shares[1] == 0:
            return None, None, None
        survey = await vectors.survey()
        if survey.wanted == 0:
            return None, None, None
        if survey.vectors == 0:
            return None, None, survey.explained()
        spec = vectors.spec
        try:
            vector = await vectors.embedder.query(query)
        except EmbeddingError as error:
            return None, None, f"Only keywords were searched: {error}"
        return vector, spec, survey.explained()


def connection_of(config: ChromaConfig, context: MemoryContext) -> Connection:
    """The connection that the settings ask for; nothing is opened yet."""
    if config.mode == "server":
        return ServerConnection(config)
    return EmbeddedConnection(config.folder(context.home), timeout_s=config.timeout_seconds)


def fusion_of(context: MemoryContext) -> FusionSettings:
    """How the agent's settings join words and vectors."""
    if context.config is None:
        return FusionSettings()
    query = context.config.query
    hybrid = query.hybrid
    return FusionSettings(
        vector_weight=hybrid.vector_weight if hybrid.enabled else 1.0,
        text_weight=hybrid.text_weight if hybrid.enabled else 0.0,
        candidate_multiplier=hybrid.candidate_multiplier,
        mmr_enabled=hybrid.mmr.enabled,
        mmr_lambda=hybrid.mmr.lambda_,
        decay_enabled=hybrid.temporal_decay.enabled,
        half_life_days=hybrid.temporal_decay.half_life_days,
        min_score=query.min_score,
    )
