"""Single memories in LanceDB: one table for all agents, and every request is about one of them (memory 7.1)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory import MemoryContext, Progress
from hermitcrab.memory.longterm import (
    Category,
    LongTermStore,
    Memory,
    MemoryFilter,
    MemoryOrder,
    MemorySource,
    MigrationReport,
    RecallResult,
    StoreStats,
    checked_scope,
    is_memory_id,
    new_memory_id,
)
from hermitcrab.messages.text import scrub_text
from hermitcrab_memory_lancedb.database import Database
from hermitcrab_memory_lancedb.embedder import Embedder, Vector
from hermitcrab_memory_lancedb.lookups import nearest_rows
from hermitcrab_memory_lancedb.memory_rows import (
    COLUMNS,
    VECTOR,
    Identity,
    filter_predicate,
    memory_of,
    orderings,
    row_of,
    table_of,
)
from hermitcrab_memory_lancedb.memory_table import TABLE, MemoryTable
from hermitcrab_memory_lancedb.migrating import Migration
from hermitcrab_memory_lancedb.questions import Questions
from hermitcrab_memory_lancedb.recalling import LEAST_COSINE, candidates, ranked
from hermitcrab_memory_lancedb.sql import equals, every
from hermitcrab_memory_lancedb.upkeep import Upkeep

if TYPE_CHECKING:
    pass


class LanceMemories(LongTermStore):
    """The memories of one agent in the table ``memories``."""

    def __init__(
        self,
        database: Database,
        upkeep: Upkeep,
        context: MemoryContext,
        embedder: Embedder | None,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._upkeep = upkeep
        self._agent_id = context.agent_id
        self._memories = MemoryTable(database, context.agent_id)
        self._questions = Questions(self._memories, embedder, context.embeddings_problem)
        self._embedder = embedder
        self._no_embeddings = context.embeddings_problem
        self._home = context.home
        self._clock = clock

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
        """Keep one memory, in place of one of this agent with the same id.

        Without an embedding provider it has no vector and is found by its words; a provider that fails is an error.
        """
        if memory_id is not None and not is_memory_id(memory_id):
            raise MemoryBackendError(f"{memory_id!r} is not an id", hint="An id is a UUID")
        memory = Memory(
            id=(memory_id or new_memory_id()).lower(),
            text=scrub_text(text),
            category=category,
            importance=importance,
            created_at_ms=self._now_ms() if created_at_ms is None else created_at_ms,
            scope=checked_scope(scope),
            session_key=None if session_key is None else scrub_text(session_key),
            source=source,
        )
        vector, identity = await self._embedded(memory.text)
        table = await self._memories.writable(identity)
        with self._database.reporting():
            data = table_of([row_of(memory, self._agent_id, vector)], await table.schema())
            if memory_id is None:
                version = (await table.add(data, on_bad_vectors="null")).version
            else:
                merge = table.merge_insert(["agentId", "id"])
                merge = merge.when_matched_update_all().when_not_matched_insert_all()
                version = (await merge.execute(data, on_bad_vectors="null")).version
        self._upkeep.written(TABLE, table, version)
        return memory

    async def nearest(
        self, text: str, *, limit: int = 5, min_score: float = -1.0, scope: str | None = None
    ) -> tuple[Memory, ...]:
        """The memories that mean most nearly the same; ``text`` is compared as one of them, not as a question."""
        table = await self._memories.opened()
        if self._embedder is None:
            raise self._no_provider()
        vector = await self._embedder.document(scrub_text(text))
        if table is None or limit < 1 or not any(vector):
            return ()
        with self._database.reporting():
            if not await self._memories.has_vectors(
                table, Identity.of(self._embedder, len(vector))
            ):
                return ()
            rows = await nearest_rows(
                table,
                vector,
                column=VECTOR,
                where=self._where(scope),
                limit=limit,
                columns=COLUMNS,
            )
        found = (memory_of(row, 1 - row["_distance"]) for row in rows)
        return tuple(memory for memory in found if (memory.score or 0.0) >= min_score)

    async def recall(
        self, query: str, *, limit: int = 5, min_score: float = 0.0, scope: str | None = None
    ) -> RecallResult:
        """The memories that answer ``query``, by meaning and by words."""
        question = scrub_text(query)
        if not question.strip() or limit < 1:
            return RecallResult()
        asked = await self._questions.asked(question)
        table = await self._memories.opened()
        if table is None:
            return RecallResult(
                mode="keyword" if asked.vector is None else "hybrid",
                degraded=asked.reason is not None,
                reason=asked.reason,
            )
        with self._database.reporting():
            asked = await self._questions.comparable(table, asked)
            by_words, by_meaning = await candidates(
                table, question, vector=asked.vector, where=self._where(scope), limit=limit
            )
            reason = asked.reason or await self._questions.unvectored(table)
        found = ranked(
            question,
            by_words,
            by_meaning,
            vector=asked.vector,
            least=max(min_score, LEAST_COSINE),
            today=self._clock().date(),
        )
        return RecallResult(
            memories=tuple(found[:limit]),
            mode="keyword" if asked.vector is None else "hybrid",
            degraded=reason is not None,
            reason=reason,
        )

    async def get(self, memory_id: str) -> Memory | None:
        """The memory with this id."""
        table = await self._memories.opened()
        if table is None or not is_memory_id(memory_id):
            return None
        with self._database.reporting():
            query = table.query().where(every(self._memories.mine, equals("id", memory_id.lower())))
            rows = await query.limit(1).select(list(COLUMNS)).to_list()
        return memory_of(rows[0]) if rows else None

    async def delete(self, memory_id: str) -> bool:
        """Delete the memory with this id."""
        table = await self._memories.opened()
        if table is None or not is_memory_id(memory_id):
            return False
        where = every(self._memories.mine, equals("id", memory_id.lower()))
        with self._database.reporting():
            if not await table.count_rows(where):
                return False
            result = await table.delete(where)
        self._upkeep.written(TABLE, table, result.version)
        return True

    async def listed(
        self,
        *,
        limit: int,
        offset: int = 0,
        order_by: MemoryOrder | None = None,
        where: MemoryFilter | None = None,
    ) -> tuple[Memory, ...]:
        """A page of the memories."""
        table = await self._memories.opened()
        if table is None or limit < 1:
            return ()
        predicate = every(self._memories.mine, "" if where is None else filter_predicate(where))
        with self._database.reporting():
            query = (
                table.query()
                .where(predicate)
                .order_by(orderings(order_by))
                .limit(limit)
                .offset(offset)
            )
            rows = await query.select(list(COLUMNS)).to_list()
        return tuple(memory_of(row) for row in rows)

    async def count(self) -> int:
        """How many memories this agent has."""
        table = await self._memories.opened()
        if table is None:
            return 0
        with self._database.reporting():
            return await table.count_rows(self._memories.mine)

    async def stats(self) -> StoreStats:
        """What the table holds of this agent, and whether a migration is due."""
        return await self._memories.stats(self._embedder)

    async def migrate(self, *, progress: Progress | None = None) -> MigrationReport:
        """Make the vectors of all agents' memories anew, where they are of another model or missing.

        It also completes a table of an earlier version: rows without an agent become this agent's.
        """
        if self._embedder is None:
            raise self._no_provider()
        migration = Migration(
            self._database,
            self._embedder,
            self._agent_id,
            now_ms=self._now_ms(),
            lock_folder=self._database.location.folder or self._home / "memory" / "lancedb",
        )
        return await migration.run(progress)

    def _now_ms(self) -> int:
        return int(self._clock().timestamp() * 1000)

    def _where(self, scope: str | None) -> str:
        """The one predicate of a search: a second one would take its place."""
        return every(self._memories.mine, "" if scope is None else equals("scope", scope))

    def _no_provider(self) -> MemoryBackendError:
        return MemoryBackendError(
            self._no_embeddings or "there is no embedding provider",
            where=str(self._database.location),
            hint="Set agents.defaults.memorySearch.provider",
        )

    async def _embedded(self, text: str) -> tuple[Vector | None, Identity | None]:
        """The vector of a memory and what made it; nothing without a provider."""
        if self._embedder is None:
            return None, None
        vector = await self._embedder.document(text)
        return vector, Identity.of(self._embedder, len(vector))
