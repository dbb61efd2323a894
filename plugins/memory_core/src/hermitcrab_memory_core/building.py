"""Making the vectors that are missing, from the cache or by the provider; can be killed at any point."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from hermitcrab.errors import EmbeddingError, MemoryBackendError
from hermitcrab.memory import Progress
from hermitcrab_memory_core.embedder import Embedder
from hermitcrab_memory_core.embedding_cache import text_hash
from hermitcrab_memory_core.identity import (
    Cost,
    Identity,
    adopted,
    chunking_of,
    identity_of,
    is_comparable,
    may_embed,
)
from hermitcrab_memory_core.index import Index
from hermitcrab_memory_core.matrix import LostMatrixError
from hermitcrab_memory_core.settings import Settings
from hermitcrab_memory_core.survey import Survey, cost_of, survey
from hermitcrab_memory_core.vector_store import Generation, NewVector, Pending
from hermitcrab_memory_core.worker import Worker

if TYPE_CHECKING:
    from hermitcrab_memory_core.matrix import Vectors

_BATCH = 128
_LOCK_POLL_S = 0.1
# How often to start over when the vectors were replaced, or the provider by its fallback, in the meantime.
_MOST_ROUNDS = 4


@frozen(kw_only=True)
class BuildReport:
    """How many texts were embedded; ``problem`` says why there are passages without a vector, if there are."""

    embedded: int = 0
    problem: str | None = None


@frozen
class _Paused:
    """Nothing is embedded unasked: ``reason`` and what it would cost."""

    reason: str
    cost: Cost

    def __str__(self) -> str:
        return (
            f"Vectors are paused: {self.reason}. Making them embeds {self.cost}; "
            "run `hermitcrab memory index --force` to go on"
        )


class Builder:
    """Makes vectors for one index, and knows how they stand."""

    def __init__(
        self, worker: Worker, embedder: Embedder, settings: Settings, logger: logging.Logger
    ) -> None:
        self.embedder = embedder
        #: Why there are passages without a vector, if the last build left any.
        self.problem: str | None = None
        #: Whether the last build would have had to be asked for.
        self.is_paused = False
        self._worker = worker
        self._settings = settings
        self._logger = logger

    def wanted(self) -> Identity:
        """What the vectors should have been made with."""
        return identity_of(
            self.embedder.provider,
            chunking=chunking_of(
                tokens=self._settings.chunk_tokens,
                overlap=self._settings.chunk_overlap,
                rendering=self._settings.rendering,
            ),
            sources=(self._settings.source,),
            scope=self._settings.extra_paths,
        )

    async def survey(self) -> Survey:
        """How the vectors stand."""
        wanted = self.wanted()
        return await self._worker.run(lambda index: survey(index, wanted))

    async def cost(self) -> Cost:
        """What the vectors that are missing would cost."""
        wanted = self.wanted()
        return await self._worker.run(lambda index: cost_of(index, wanted))

    def explained(self, state: Survey) -> str:
        """Why vectors take no part in a search, or miss some passages."""
        if self.embedder.error is not None or self.problem is not None:
            return self.problem or f"Vectors could not be made: {self.embedder.error}"
        if state.verdict.state == "valid":
            missing = f"{state.pending:,} of {state.passages:,} passages have no vector yet"
            return f"Vectors are being made ({missing}); search again in a while"
        return f"Vectors are being made ({state.verdict.reason}); search again in a while"

    async def build(self, *, force: bool = False, progress: Progress | None = None) -> BuildReport:
        """Make the missing vectors; of two processes, one does and the other waits.

        With ``force`` also those that cost money and were not asked for. A failure is the report's ``problem``:
        what was made until then stays, and the next build goes on from there. A provider that failed a moment ago is
        left alone.
        """
        if self.embedder.is_resting and not force:
            self.problem = self.problem or f"Vectors could not be made: {self.embedder.error}"
            return BuildReport(problem=self.problem)
        embedded: list[int] = []
        self.problem, self.is_paused = None, False
        try:
            async with self._alone():
                self.problem = await self._rounds(force, progress, embedded)
        except MemoryBackendError as error:
            self._logger.warning("vectors could not be made: %s", error)
            self.problem = f"Vectors could not be made: {error}"
        return BuildReport(embedded=sum(embedded), problem=self.problem)

    async def _rounds(
        self, force: bool, progress: Progress | None, embedded: list[int]
    ) -> str | None:
        for _ in range(_MOST_ROUNDS):
            wanted = self.wanted()
            remote = self.embedder.provider.remote
            start = await self._worker.run(
                partial(_start, wanted=wanted, remote=remote, force=force)
            )
            if isinstance(start, _Paused):
                self.is_paused = True
                return str(start)
            try:
                if await self._fill(start, progress, embedded):
                    await self._worker.run(_tidy)
                    return None
            except LostMatrixError as error:
                self._logger.warning("vectors are laid out anew: %s", error)
                await self._worker.run(partial(_begin, identity=wanted))
            except EmbeddingError as error:
                if error.kind != "switched":
                    raise
        return "Vectors are made by another process at the same time"

    async def _fill(
        self, generation: Generation, progress: Progress | None, embedded: list[int]
    ) -> bool:
        """Whether every passage has a vector now; ``False`` if the vectors are another generation's by now."""
        state = await self.survey()
        if state.pending == 0:
            return True
        done, total, after = 0, state.passages - state.vectors, 0
        identity = generation.identity
        while True:
            batch = await self._worker.run(partial(_pending, after=after))
            if not batch:
                return True
            after = batch[-1].passage
            vectors = await self._vectors(batch, identity, embedded)
            dims = len(vectors[0].vector) // 4
            if not await self._worker.run(
                partial(_append, name=generation.name, dims=dims, vectors=vectors)
            ):
                return False
            identity = evolve(identity, dims=dims)
            done += len(batch)
            if progress is not None:
                progress(done, max(total, done), "vectors")

    async def _vectors(
        self, batch: Sequence[Pending], identity: Identity, embedded: list[int]
    ) -> list[NewVector]:
        keys = [text_hash(item.text) for item in batch]
        texts = {key: item.text for key, item in zip(keys, batch, strict=True)}
        known = await self._worker.run(
            lambda index: index.with_cache(
                lambda cache: cache.find(identity.fingerprint, list(texts), identity.dims)
            )
        )
        missing = [key for key in texts if key not in known]
        if missing:
            fresh = await self._embedded([texts[key] for key in missing], identity)
            found: dict[bytes, Vectors] = dict(zip(missing, fresh, strict=True))
            await self._worker.run(
                lambda index: index.with_cache(lambda cache: cache.add(identity.fingerprint, found))
            )
            embedded.append(len(missing))
            known |= {key: vector.tobytes() for key, vector in found.items()}
        return [
            NewVector(item.passage, key, known[key]) for key, item in zip(keys, batch, strict=True)
        ]

    async def _embedded(self, texts: Sequence[str], identity: Identity) -> Vectors:
        vectors = await self.embedder.documents(texts)
        if self.embedder.provider.fingerprint() != identity.fingerprint:
            raise EmbeddingError("the provider was replaced by its fallback", kind="switched")
        if identity.dims and vectors.shape[1] != identity.dims:
            raise EmbeddingError(
                f"the embedding provider gives vectors of {vectors.shape[1]} numbers, the index has "
                f"vectors of {identity.dims}",
                kind="answer",
                where=self.embedder.name,
            )
        return vectors

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Hold the lock without which nothing is embedded; the system releases it when the process dies."""
        from filelock import FileLock, Timeout

        path = self._worker.path
        lock = FileLock(
            path.with_name(f"{path.stem}.embeddings.sqlite.lock"),
            mode=0o600,
            thread_local=False,
            fallback_to_soft=False,
        )
        while True:
            try:
                lock.acquire(timeout=0)
                break
            except Timeout:
                await asyncio.sleep(_LOCK_POLL_S)
            except OSError as error:
                raise MemoryBackendError(
                    f"the lock of the embedding cache cannot be taken ({error})", where=path.parent
                ) from error
        try:
            yield
        finally:
            lock.release()


def _start(index: Index, wanted: Identity, *, remote: bool, force: bool) -> Generation | _Paused:
    """The generation to add vectors to, begun anew if it must be; or why nothing is added."""
    state = survey(index, wanted)
    needs_cost = remote and not force and state.verdict.state != "valid"
    cost = cost_of(index, wanted) if needs_cost else Cost(0, 0)
    if not may_embed(state.verdict, remote=remote, force=force, cost=cost):
        return _Paused(state.verdict.reason, cost)
    stored = index.vectors.generation()
    if stored is None or not is_comparable(stored.identity, wanted):
        return index.vectors.begin(wanted)
    identity = adopted(stored.identity, wanted)
    if identity != stored.identity:
        index.vectors.adopt(identity)
    return evolve(stored, identity=identity)


def _begin(index: Index, identity: Identity) -> Generation:
    return index.vectors.begin(identity)


def _pending(index: Index, after: int) -> list[Pending]:
    return index.vectors.pending(after=after, limit=_BATCH)


def _append(index: Index, name: str, dims: int, vectors: Sequence[NewVector]) -> bool:
    return index.vectors.append(name, dims, vectors)


def _tidy(index: Index) -> None:
    """Drop rows of the matrix and entries of the cache that nothing needs."""
    index.vectors.compact()
    if index.with_cache(lambda cache: cache.is_full(index.vectors.count())):
        needed = index.vectors.hashes()
        index.with_cache(lambda cache: cache.prune(needed))
