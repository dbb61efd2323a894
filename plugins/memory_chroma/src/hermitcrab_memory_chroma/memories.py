"""The single memories of one agent in Chroma."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from hermitcrab.errors import EmbeddingError, MemoryBackendError
from hermitcrab.memory.longterm import (
    Category,
    LongTermStore,
    Memory,
    MemorySource,
    MigrationReport,
    RecallResult,
    StoreStats,
    checked_scope,
    is_memory_id,
    new_memory_id,
)
from hermitcrab.memory.ranking import FusionSettings, Place, Unit, fuse
from hermitcrab.messages.text import scrub_text
from hermitcrab_memory_chroma.connection import Connection
from hermitcrab_memory_chroma.embedder import Embedder, Vector
from hermitcrab_memory_chroma.keyword_side import WordMatches, match_words
from hermitcrab_memory_chroma.memory_rows import cosine, memory_of, of_agent, row_id, row_of
from hermitcrab_memory_chroma.memory_table import Identity, MemoryTables, Table, lost_vectors
from hermitcrab_memory_chroma.migrating import migrate
from hermitcrab_memory_chroma.rows import Row, by_id, delete, every, nearest, write
from hermitcrab_memory_chroma.words import MOST_CANDIDATES

if TYPE_CHECKING:
    from hermitcrab.memory import Progress
    from hermitcrab.memory.longterm import MemoryFilter, MemoryOrder

T = TypeVar("T")

# What shares no word with a query has to be this near to it at least: less is what any two texts have.
_LEAST = 0.2
# How many neighbours take part in a recall, beside those that have a word of the query.
_POOL = 50
_FUSION = FusionSettings(decay_enabled=False)


class ChromaMemories(LongTermStore):
    """Keeps memories in one collection for all agents; every request carries the filter of this one."""

    def __init__(
        self,
        connection: Connection,
        *,
        agent_id: str,
        prefix: str,
        embedder: Embedder | None,
        no_embeddings: str | None,
    ) -> None:
        self._connection = connection
        self._agent_id = agent_id
        self._embedder = embedder
        self._no_embeddings = no_embeddings
        self._tables = MemoryTables(connection, prefix)

    async def add(
        self,
        text: str,
        *,
        category: Category = "other",
        importance: float = 0.7,
        scope: str = "",
        session_key: str | None = None,
        source: MemorySource = "user",
        memory_id: str | None = None,
        created_at_ms: int | None = None,
    ) -> Memory:
        memory = Memory(
            id=_checked_id(memory_id),
            text=scrub_text(text),
            category=category,
            importance=importance,
            created_at_ms=_now_ms() if created_at_ms is None else created_at_ms,
            scope=checked_scope(scope),
            session_key=None if session_key is None else scrub_text(session_key),
            source=source,
        )
        embedder = self._needed()
        vector, identity = await _identified(embedder, embedder.document(memory.text))
        table = await self._tables.for_writing(identity)
        await write(self._connection, table.spec, [row_of(self._agent_id, memory, vector)])
        return memory

    async def nearest(
        self, text: str, *, limit: int = 5, min_score: float = -1.0, scope: str | None = None
    ) -> tuple[Memory, ...]:
        text = scrub_text(text)
        if limit < 1 or not text.strip():
            return ()
        embedder = self._needed()
        vector, identity = await _identified(embedder, embedder.document(text))

        async def look(table: Table) -> list[Row]:
            refusal = table.refusal(identity.fingerprint, identity.model, identity.dims)
            if refusal is not None:
                raise refusal
            return await nearest(
                self._connection, table.spec, vector, where=self._where(scope), limit=limit
            )

        found = [memory_of(row) for row in await self._reading(look)]
        return tuple(memory for memory in found if (memory.score or 0.0) >= min_score)

    async def recall(
        self, query: str, *, limit: int = 5, min_score: float = 0.0, scope: str | None = None
    ) -> RecallResult:
        query = scrub_text(query)
        if limit < 1 or not query.strip():
            return RecallResult()
        vector, identity, problem = await self._query(query)

        async def look(table: Table) -> tuple[WordMatches, list[Row], str | None]:
            words = await match_words(self._connection, table.spec, self._where(scope), query)
            if vector is None or identity is None:
                return words, [], problem
            refusal = table.refusal(identity.fingerprint, identity.model, identity.dims)
            if refusal is not None:
                return words, [], f"Only words were searched: {refusal}"
            return words, await self._near(table, vector, words, scope, limit), None

        words, near, reason = await self._reading(look)
        memories = _ordered(query, words, near, min_score)[:limit]
        is_hybrid = reason is None and vector is not None
        return RecallResult(
            memories=tuple(memories),
            mode="hybrid" if is_hybrid else "keyword",
            degraded=reason is not None,
            reason=reason,
        )

    async def get(self, memory_id: str) -> Memory | None:
        if not is_memory_id(memory_id):
            return None

        async def look(table: Table) -> list[Row]:
            ids = [row_id(self._agent_id, memory_id)]
            return await by_id(self._connection, table.spec, ids, where=self._where())

        rows = await self._reading(look)
        return memory_of(rows[0]) if rows else None

    async def delete(self, memory_id: str) -> bool:
        if await self.get(memory_id) is None:
            return False
        table = await self._tables.current()
        if table.identity is not None:
            table = await self._tables.for_writing(table.identity)
        await delete(self._connection, table.spec, [row_id(self._agent_id, memory_id)])
        return True

    async def listed(
        self,
        *,
        limit: int,
        offset: int = 0,
        order_by: MemoryOrder | None = None,
        where: MemoryFilter | None = None,
    ) -> tuple[Memory, ...]:
        memories = [
            memory for memory in await self._all() if where is None or where.matches(memory)
        ]
        if order_by is None:
            memories.sort(key=lambda memory: memory.id)
        else:
            memories = order_by.apply(memories)
        return tuple(memories[offset : offset + max(0, limit)])

    async def count(self) -> int:
        async def look(table: Table) -> list[Row]:
            return await every(self._connection, table.spec, self._where(), include=())

        return len(await self._reading(look))

    async def stats(self) -> StoreStats:
        memories = await self._all()
        table = await self._tables.current()
        status = self._connection.status()
        identity = table.identity
        return StoreStats(
            count=len(memories),
            by_category=Counter(memory.category for memory in memories),
            location=status.address,
            model=None if identity is None else identity.model,
            dims=None if identity is None else identity.dims,
            notes=await self._notes(table),
            details={"collection": table.spec.name, "serverVersion": status.version},
        )

    async def migrate(self, *, progress: Progress | None = None) -> MigrationReport:
        embedder = self._needed()
        _, identity = await _identified(embedder, embedder.document("ping"))
        return await migrate(self._connection, self._tables, embedder, identity, progress=progress)

    async def _notes(self, table: Table) -> tuple[str, ...]:
        notes: list[str] = []
        if self._embedder is not None:
            provider = self._embedder.provider
            refusal = table.refusal(
                self._embedder.fingerprint(), self._embedder.name, provider.dims
            )
            if refusal is not None:
                notes.append(str(refusal))
        lost = await lost_vectors(self._connection, table)
        if lost:
            notes.append(
                f"Chroma does not find {lost:,} memories by their vectors; words still find them."
                " Export them with `hermitcrab ltm export`, and import them into a new collectionPrefix"
            )
        return tuple(notes)

    def _needed(self) -> Embedder:
        if self._embedder is None:
            raise MemoryBackendError(
                "single memories need an embedding provider"
                + (f" ({self._no_embeddings})" if self._no_embeddings else ""),
                where="memory-chroma",
                hint="Set agents.defaults.memorySearch.provider, for example to local",
            )
        return self._embedder

    def _where(self, scope: str | None = None) -> Mapping[str, Any]:
        return of_agent(self._agent_id, scope)

    async def _query(self, query: str) -> tuple[Vector | None, Identity | None, str | None]:
        """The vector to search with, or why there is none."""
        if self._embedder is None:
            return None, None, self._no_embeddings
        try:
            vector, identity = await _identified(self._embedder, self._embedder.query(query))
        except EmbeddingError as error:
            return None, None, f"Only words were searched: {error}"
        return (vector if any(vector) else None), identity, None

    async def _near(
        self, table: Table, vector: Vector, words: WordMatches, scope: str | None, limit: int
    ) -> list[Row]:
        """The nearest, and how near those are that have a word of the query."""
        where = self._where(scope)
        near = await nearest(
            self._connection, table.spec, vector, where=where, limit=max(limit, _POOL)
        )
        rest = sorted(words.scores.keys() - {row.id for row in near})[:MOST_CANDIDATES]
        if not rest:
            return near
        return near + await nearest(self._connection, table.spec, vector, limit=len(rest), ids=rest)

    async def _all(self) -> list[Memory]:
        async def look(table: Table) -> list[Row]:
            return await every(self._connection, table.spec, self._where())

        return [memory_of(row) for row in await self._reading(look)]

    async def _reading(self, look: Callable[[Table], Awaitable[T]]) -> T:
        """What ``look`` finds; once more if a migration took the table away meanwhile."""
        table = await self._tables.current()
        found = await look(table)
        after = await self._tables.current()
        return found if after.spec.name == table.spec.name else await look(after)


def _ordered(query: str, words: WordMatches, near: list[Row], min_score: float) -> list[Memory]:
    rows = {**words.rows, **{row.id: row for row in near}}
    cosines = {row.id: cosine(row.distance) for row in near if row.distance is not None}
    ids = [
        each
        for each in rows
        if words.scores.get(each, 0.0) > 0 or cosines.get(each, -1.0) >= max(min_score, _LEAST)
    ]
    units = [
        Unit(
            place=Place(number, "", number, number),
            keyword=words.scores.get(each, 0.0),
            vector=cosines.get(each),
        )
        for number, each in enumerate(ids)
    ]
    today = datetime.now(UTC).date()
    return [
        memory_of(rows[ids[item.place.id]]).scored(cosines.get(ids[item.place.id]))
        for item in fuse(units, _FUSION.suited(query), today=today)
    ]


async def _identified(embedder: Embedder, asked: Awaitable[Vector]) -> tuple[Vector, Identity]:
    """A vector, and whose it is: the provider may switch to another one while it is asked."""
    before = embedder.fingerprint()
    vector = await asked
    if embedder.fingerprint() != before:
        raise EmbeddingError(
            "the embedding provider changed meanwhile", kind="switched", where=embedder.name
        )
    return vector, Identity(fingerprint=before, model=embedder.name, dims=len(vector))


def _checked_id(memory_id: str | None) -> str:
    if memory_id is None:
        return new_memory_id()
    if not is_memory_id(memory_id):
        raise MemoryBackendError(
            f"{memory_id!r} is not the id of a memory",
            hint="Ids are UUIDs, such as `ltm list` shows",
        )
    return memory_id.lower()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
