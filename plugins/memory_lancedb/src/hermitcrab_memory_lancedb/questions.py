"""Questions to the memories: their vectors, and why they are asked by words alone where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from hermitcrab.errors import EmbeddingError, MemoryBackendError
from hermitcrab_memory_lancedb.embedder import Embedder, Vector
from hermitcrab_memory_lancedb.memory_rows import Identity
from hermitcrab_memory_lancedb.memory_table import MIGRATE, MemoryTable

if TYPE_CHECKING:
    from lancedb import AsyncTable


@frozen
class Asked:
    """The vector of a question, or why it has none."""

    vector: Vector | None = None
    reason: str | None = None


class Questions:
    """Asks the embedding provider; ``problem`` is why there is none, if one was wanted."""

    def __init__(
        self, memories: MemoryTable, embedder: Embedder | None, problem: str | None
    ) -> None:
        self._memories = memories
        self._embedder = embedder
        self._problem = problem

    async def asked(self, question: str) -> Asked:
        """The vector of a question, if there is one to be had."""
        if self._embedder is None:
            return Asked(reason=self._problem)
        try:
            vector = await self._embedder.query(question)
        except EmbeddingError as error:
            return Asked(reason=f"Only words were compared: {error}")
        return Asked(vector)

    async def comparable(self, table: AsyncTable, asked: Asked) -> Asked:
        """The question as it can be asked of this table: by words alone where vectors cannot be compared."""
        if asked.vector is None or self._embedder is None:
            return asked
        try:
            identity = Identity.of(self._embedder, len(asked.vector))
            has_vectors = await self._memories.has_vectors(table, identity)
        except MemoryBackendError as error:
            return Asked(reason=f"Only words were compared: {error}")
        return asked if has_vectors and any(asked.vector) else Asked()

    async def unvectored(self, table: AsyncTable) -> str | None:
        """Why meaning misses some memories, if it does."""
        if self._embedder is None:
            return None
        lacking = await self._memories.without_vector(table)
        return f"{lacking:,} memories have no vector. {MIGRATE} to make them" if lacking else None
