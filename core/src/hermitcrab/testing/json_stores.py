"""A small store of single memories for tests: one JSON file, read at each verb, and vectors compared one by one."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from attrs import asdict

from hermitcrab.errors import EmbeddingError, MemoryBackendError
from hermitcrab.memory.contract import EmbeddingProvider, Progress
from hermitcrab.memory.files import index_terms, keywords
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
    new_memory_id,
)


class JsonLongTermStore(LongTermStore):
    """The memories of one agent in ``file``; another store over the same file sees what this one adds.

    It keeps the contract, and is meant for hundreds of memories, not for thousands.
    """

    def __init__(self, file: Path, embeddings: EmbeddingProvider) -> None:
        self._file = file
        self._embeddings = embeddings

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
        """Keep one memory, in place of the one that has its id."""
        memory = Memory(
            id=memory_id or new_memory_id(),
            text=text,
            category=category,
            importance=importance,
            created_at_ms=time.time_ns() // 1_000_000 if created_at_ms is None else created_at_ms,
            scope=checked_scope(scope),
            session_key=session_key,
            source=source,
        )
        (vector,) = await self._embeddings.embed_documents([text])
        document = self._checked(self._read())
        document["memories"][memory.id] = {"memory": asdict(memory), "vector": vector}
        self._write(document | {"model": self._embeddings.fingerprint()})
        return memory

    async def nearest(
        self, text: str, *, limit: int = 5, min_score: float = -1.0, scope: str | None = None
    ) -> tuple[Memory, ...]:
        """The memories with the greatest cosine."""
        query = await self._embeddings.embed_query(text)
        return self._nearest(query, min_score, scope)[:limit]

    async def recall(
        self, query: str, *, limit: int = 5, min_score: float = 0.0, scope: str | None = None
    ) -> RecallResult:
        """Those with words of the query first, then those that mean something like it."""
        words = _terms(query)
        if not query.strip():
            return RecallResult()
        worded = [memory for memory in self._memories(scope) if words & _all_terms(memory.text)]
        worded.sort(key=lambda memory: -len(words & _all_terms(memory.text)))
        try:
            vector = await self._embeddings.embed_query(query)
        except EmbeddingError as error:
            reason = f"Only words were compared: {error}"
            return RecallResult(memories=tuple(worded[:limit]), degraded=True, reason=reason)
        near = {memory.id: memory for memory in self._nearest(vector, -1.0, scope)}
        found = {memory.id: near.get(memory.id, memory) for memory in worded}
        found |= {
            memory.id: memory
            for memory in near.values()
            if memory.id not in found and (memory.score or 0) > max(min_score, 0.1)
        }
        return RecallResult(memories=tuple(found.values())[:limit], mode="hybrid")

    async def get(self, memory_id: str) -> Memory | None:
        """The memory with this id."""
        row = self._read()["memories"].get(memory_id)
        return None if row is None else Memory(**row["memory"])

    async def delete(self, memory_id: str) -> bool:
        """Delete the memory with this id."""
        document = self._read()
        if document["memories"].pop(memory_id, None) is None:
            return False
        self._write(document)
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
        found = [memory for memory in self._memories() if where is None or where.matches(memory)]
        order = order_by or MemoryOrder("id", descending=False)
        return tuple(order.apply(found)[offset : offset + limit])

    async def count(self) -> int:
        """How many there are."""
        return len(self._memories())

    async def stats(self) -> StoreStats:
        """Counts, and whether a migration is due."""
        memories = self._memories()
        categories = [memory.category for memory in memories]
        is_due = self._read()["model"] not in (None, self._embeddings.fingerprint())
        return StoreStats(
            count=len(memories),
            by_category={name: categories.count(name) for name in sorted(set(categories))},
            location=str(self._file),
            notes=("The vectors are of another model: hermitcrab ltm migrate",) if is_due else (),
        )

    async def migrate(self, *, progress: Progress | None = None) -> MigrationReport:
        """Make all vectors anew."""
        document = self._read()
        before, after = document["model"], self._embeddings.fingerprint()
        if before in (None, after):
            return MigrationReport(changed=False, before=before, after=after)
        rows = document["memories"].values()
        texts = [row["memory"]["text"] for row in rows]
        for row, vector in zip(rows, await self._embeddings.embed_documents(texts), strict=True):
            row["vector"] = vector
        self._write(document | {"model": after})
        return MigrationReport(changed=True, memories=len(texts), before=before, after=after)

    def _nearest(
        self, query: list[float], min_score: float, scope: str | None
    ) -> tuple[Memory, ...]:
        rows = self._checked(self._read())["memories"].values()
        scored = [
            Memory(**row["memory"]).scored(
                sum(a * b for a, b in zip(query, row["vector"], strict=True))
            )
            for row in rows
        ]
        kept = [
            memory
            for memory in scored
            if _score(memory) >= min_score and scope in (None, memory.scope)
        ]
        return tuple(sorted(kept, key=_score, reverse=True))

    def _memories(self, scope: str | None = None) -> list[Memory]:
        every = [Memory(**row["memory"]) for row in self._read()["memories"].values()]
        return [memory for memory in every if scope in (None, memory.scope)]

    def _checked(self, document: dict[str, Any]) -> dict[str, Any]:
        if document["model"] not in (None, self._embeddings.fingerprint()):
            raise MemoryBackendError(
                "the vectors of the memories are of another model",
                where=self._file,
                hint="Run hermitcrab ltm migrate",
            )
        return document

    def _read(self) -> dict[str, Any]:
        try:
            document: dict[str, Any] = json.loads(self._file.read_text("utf-8"))
        except FileNotFoundError:
            return {"model": None, "memories": {}}
        return document

    def _write(self, document: dict[str, Any]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._file.with_suffix(".new")
        unfinished.write_text(json.dumps(document), encoding="utf-8")
        os.replace(unfinished, self._file)


def _score(memory: Memory) -> float:
    return memory.score or 0.0


def _terms(query: str) -> frozenset[str]:
    found = keywords(query)
    return frozenset((*found.words, *(found.pairs or found.characters)))


def _all_terms(text: str) -> frozenset[str]:
    found = index_terms(text)
    return frozenset((*found.words, *found.pairs, *found.characters))
