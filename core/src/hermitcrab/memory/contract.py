"""What a memory backend and an embedding provider are, and the values that pass between them and the host."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from logging import Logger
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attrs import field, frozen

from hermitcrab.errors import EmbeddingError, MemoryBackendError

if TYPE_CHECKING:
    from hermitcrab.config.schema import MemorySearchConfig
    from hermitcrab.memory.longterm.contract import LongTermStore
    from hermitcrab.memory.transcripts.source import TranscriptSource

#: How a search was answered: by vectors and keywords, by vectors alone, or by keywords alone.
SearchMode = Literal["hybrid", "vector", "keyword"]

#: Called with how many units of work are done, how many there are, and what is worked on.
Progress = Callable[[int, int, str], None]


@frozen(kw_only=True)
class MemoryContext:
    """What the factory of a memory backend gets.

    ``home`` is the host's home, ``index_path`` the file in which the agent's derived index may stand, ``config`` the
    agent's memory search settings (``None`` means the defaults), ``plugin_config`` the validated
    ``plugins.entries.<id>.config``. ``embeddings`` is the chosen embedding provider, which the host closes;
    where there is none, ``embeddings_problem`` says why, unless none was wanted. ``transcripts`` are those of the
    agent's sessions, where its settings make them part of its memory; a backend may leave them aside.
    """

    agent_id: str
    workspace: Path
    home: Path
    index_path: Path
    logger: Logger
    config: MemorySearchConfig | None = None
    plugin_config: Any = None
    embeddings: EmbeddingProvider | None = None
    embeddings_problem: str | None = None
    transcripts: TranscriptSource | None = None


@frozen(kw_only=True)
class Hit:
    """One result of a search.

    ``path`` is relative to the workspace with forward slashes; lines count from 1, both ends included; ``score`` is
    between 0 and 1; ``snippet`` has at most 700 characters; ``source`` is ``memory`` or ``sessions``.
    """

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    source: str = "memory"
    citation: str | None = None


@frozen(kw_only=True)
class SearchResult:
    """Hits, best first, and how they came about.

    ``degraded`` says that a better answer was not available; ``reason`` says why and what to do. ``filtered`` counts
    hits that were left out because the one who asks may not see their session, ``hidden_sessions`` the transcripts
    that were not searched for that reason (memory 4.10).
    """

    hits: tuple[Hit, ...] = ()
    mode: SearchMode = "keyword"
    degraded: bool = False
    reason: str | None = None
    filtered: int = 0
    hidden_sessions: int = 0


@frozen(kw_only=True)
class Explanation:
    """Why a hit ranks where it does.

    ``keyword`` and ``vector`` are what the two sides say, between 0 and 1 relative to the best one, ``None`` where a
    side says nothing; ``decay`` is what age left of the score; ``named_date`` says that the query names its date.
    """

    hit: Hit
    keyword: float | None = None
    vector: float | None = None
    decay: float = 1.0
    named_date: bool = False


@frozen(kw_only=True)
class ReadResult:
    """Lines of a memory file; ``next_start`` is the line to go on with, ``None`` at the end of the file."""

    path: str
    text: str = ""
    start: int = 1
    lines: int = 0
    truncated: bool = False
    next_start: int | None = None
    status: Literal["ok", "not_found"] = "ok"


@frozen(kw_only=True)
class SyncReport:
    """What a sync did, in files; ``skipped`` names what was left out and why.

    ``embedded`` is how many texts an embedding provider was asked for; ``problem`` says why a search by meaning will
    miss some or all of them, if it will.
    """

    reason: str
    indexed: int = 0
    removed: int = 0
    unchanged: int = 0
    chunks: int = 0
    skipped: tuple[str, ...] = ()
    duration_s: float = 0.0
    embedded: int = 0
    problem: str | None = None


@frozen(kw_only=True)
class MemoryStatus:
    """The state of a backend, found without network access.

    ``dirty`` says that files changed since the last sync; ``notes`` are sentences for the user, such as that an index
    was set aside; ``details`` is what else the backend wants to show.
    """

    backend: str
    files: int = 0
    chunks: int = 0
    index_path: Path | None = None
    dirty: bool = False
    mode: SearchMode = "keyword"
    keyword_search: bool = True
    skipped: tuple[str, ...] = ()
    last_error: str | None = None
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class ProbeResult:
    """Whether the backend can work right now; ``error`` says why not."""

    ok: bool
    error: str | None = None


class MemoryBackend(ABC):
    """Searches and stores what outlives a session; one per agent.

    ``long_term`` is the agent's store of single memories, where the backend keeps such; it may be set when the backend
    is made, and its first verb may connect.

    A backend raises :class:`~hermitcrab.errors.MemoryBackendError` when it fails. ``CancelledError`` propagates.
    """

    long_term: LongTermStore | None = None

    @abstractmethod
    async def search(
        self,
        query: str,
        *,
        max_results: int = 6,
        min_score: float | None = None,
        sources: Sequence[str] | None = None,
        session_key: str | None = None,
    ) -> SearchResult:
        """The best hits for ``query``; a blank query has none.

        ``sources`` narrows the search to some sources; ``session_key`` says who asks.
        """

    @abstractmethod
    async def read(self, path: str, *, start: int = 1, lines: int | None = None) -> ReadResult:
        """Lines of a memory file; a missing file has no text and the status ``not_found``.

        :raises PathRefusedError: the path is not one of memory.
        """

    async def read_for(
        self,
        session_key: str | None,
        path: str,
        *,
        start: int = 1,
        lines: int | None = None,
    ) -> ReadResult:
        """As :meth:`read`, for a session. The host adds what it knows of who may see what; a backend need not."""
        return await self.read(path, start=start, lines=lines)

    @abstractmethod
    async def sync(
        self, reason: str, *, force: bool = False, progress: Progress | None = None
    ) -> SyncReport:
        """Bring the index up to date with the files; ``force`` indexes unchanged ones again."""

    @abstractmethod
    async def status(self) -> MemoryStatus:
        """The state of the backend; cheap, and never an exception because the index is broken."""

    async def probe(self) -> ProbeResult:
        """Whether the backend can work right now."""
        return ProbeResult(ok=True)

    async def close(self) -> None:
        """Release files and connections; may be called more than once."""
        return

    async def store(self, text: str, *, category: str = "other", importance: float = 0.7) -> str:
        """Remember one text and return its id. Optional; ``importance`` is between 0 and 1."""
        if self.long_term is not None:
            from hermitcrab.memory.longterm.contract import category_of

            memory = await self.long_term.add(
                text, category=category_of(category), importance=importance, source="tool"
            )
            return memory.id
        raise MemoryBackendError(
            "this memory backend does not store single memories",
            where=type(self).__name__,
            hint="Write to MEMORY.md or the daily file instead",
        )

    async def forget(self, memory_id: str) -> bool:
        """Forget the memory with this id; whether there was one. Optional."""
        if self.long_term is not None:
            return await self.long_term.delete(memory_id)
        raise MemoryBackendError(
            "this memory backend does not forget single memories",
            where=type(self).__name__,
            hint="Edit the Markdown file in which it stands instead",
        )

    async def explain(self, query: str, *, max_results: int = 6) -> tuple[Explanation, ...]:
        """The hits of a search with what they came from. Optional."""
        raise MemoryBackendError(
            "this memory backend does not explain its order",
            where=type(self).__name__,
            hint="Use `hermitcrab memory search`, which shows the scores",
        )

    def prompt_section(self, tools: Sequence[str]) -> str | None:
        """The backend's part of the system prompt, given the names of the tools on offer. Optional."""
        return None


class EmbeddingProvider(ABC):
    """Turns texts into vectors of ``dims`` numbers and length 1.

    ``dims`` is 0 while nobody knows it: before the first answer of a model that is not known. ``remote`` says that
    texts leave this machine and that asking may cost money. ``weighs_words`` says that it makes use of
    :meth:`embed_weighed_query`. Making one neither loads weights nor connects.

    It raises :class:`~hermitcrab.errors.EmbeddingError` when it fails. ``CancelledError`` propagates.
    """

    id: str
    model: str
    dims: int
    remote: bool = False
    weighs_words: bool = False

    @abstractmethod
    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text, in order; as many texts as there are, batches are the provider's business."""

    @abstractmethod
    async def embed_query(self, text: str) -> list[float]:
        """The vector of a query."""

    async def embed_weighed_query(self, text: str, weights: Mapping[str, float]) -> list[float]:
        """The vector of a query whose words do not all say as much. Optional; by default that of :meth:`embed_query`.

        ``weights`` are those of the words of ``text`` in lower case, 0 or more: how rare each is where it is looked
        for. A word that is not there says nothing. A provider that heeds them sets :attr:`weighs_words`.
        """
        return await self.embed_query(text)

    @abstractmethod
    def fingerprint(self) -> str:
        """Changes whenever vectors stop being comparable; never contains a secret (memory 3.6)."""

    async def probe(self) -> ProbeResult:
        """Whether it can work right now: it embeds one word. Never an :class:`EmbeddingError`."""
        try:
            await self.embed_query("ping")
        except EmbeddingError as error:
            return ProbeResult(ok=False, error=str(error))
        return ProbeResult(ok=True)

    async def close(self) -> None:
        """Release connections; may be called more than once."""
        return
