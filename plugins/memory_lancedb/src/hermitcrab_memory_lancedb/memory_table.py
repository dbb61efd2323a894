"""The table of single memories: opened, checked for what it must have, and counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory.longterm import StoreStats
from hermitcrab_memory_lancedb.database import Database
from hermitcrab_memory_lancedb.embedder import Embedder
from hermitcrab_memory_lancedb.memory_rows import (
    VECTOR,
    Identity,
    identity_in,
    memories_schema,
    missing_columns,
    vector_field,
)
from hermitcrab_memory_lancedb.sql import equals, every

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from lancedb import AsyncTable

TABLE = "memories"
MIGRATE = "Run `hermitcrab ltm migrate`"


class MemoryTable:
    """The table ``memories`` of one place, as one agent sees it."""

    def __init__(self, database: Database, agent_id: str) -> None:
        self.database = database
        #: The agent's predicate, which every request carries.
        self.mine = equals("agentId", agent_id)
        self._without_vector: tuple[AsyncTable, int, int] | None = None

    async def opened(self) -> AsyncTable | None:
        """The table, if there is one.

        :raises MemoryBackendError: it is of an earlier version or of another program; nothing is done to it.
        """
        table = await self.database.existing(TABLE)
        if table is not None:
            with self.database.reporting():
                _refuse_outdated(await table.schema(), self.database)
        return table

    async def writable(self, identity: Identity | None) -> AsyncTable:
        """The table for rows with vectors of ``identity``, or without any; made where there is none.

        :raises MemoryBackendError: its vectors are of something else.
        """
        await self.opened()
        table = await self.database.indexed(TABLE, lambda: memories_schema(identity))
        with self.database.reporting():
            if identity is not None and not await self.has_vectors(table, identity):
                await _add_vectors(table, identity)
                self.check_comparable(await table.schema(), identity)
        return table

    async def has_vectors(self, table: AsyncTable, identity: Identity) -> bool:
        """Whether the table has vectors to compare those of ``identity`` with.

        :raises MemoryBackendError: it has vectors of something else.
        """
        schema = await table.schema()
        self.check_comparable(schema, identity)
        return VECTOR in schema.names

    def check_comparable(self, schema: pa.Schema, identity: Identity) -> None:
        """:raises MemoryBackendError: the vectors of the table cannot be compared with those of ``identity``."""
        stored = identity_in(schema)
        if stored is not None and not stored.is_comparable(identity):
            raise MemoryBackendError(
                f"the vectors of the memories are of {stored}, the provider is {identity}",
                where=str(self.database.location),
                hint=f"{MIGRATE} to make them anew, or set the embedding model back",
            )

    async def without_vector(self, table: AsyncTable) -> int:
        """How many of the agent's memories have no vector."""
        version = await table.version()
        if self._without_vector is None or self._without_vector[:2] != (table, version):
            has_column = VECTOR in (await table.schema()).names
            missing = every(self.mine, f"{VECTOR} IS NULL" if has_column else "")
            self._without_vector = table, version, await table.count_rows(missing)
        return self._without_vector[2]

    async def stats(self, embedder: Embedder | None) -> StoreStats:
        """What the table holds of this agent."""
        location = str(self.database.location)
        table = await self.database.existing(TABLE)
        if table is None:
            return StoreStats(location=location)
        with self.database.reporting():
            schema = await table.schema()
            identity = identity_in(schema)
            notes = self._notes(schema, identity, embedder)
            categories: Counter[str] = Counter()
            if not missing_columns(schema):
                query = table.query().where(self.mine).select(["category"])
                categories.update((await query.to_arrow()).column("category").to_pylist())
                if embedder is not None and (lacking := await self.without_vector(table)):
                    notes.append(f"{lacking:,} memories have no vector. {MIGRATE} to make them")
            details: dict[str, Any] = {"version": await table.version()}
        return StoreStats(
            count=categories.total(),
            by_category=dict(sorted(categories.items())),
            location=location,
            model=None if identity is None else f"{identity.provider}/{identity.model}",
            dims=None if identity is None else identity.dims,
            size_bytes=await self._size(),
            notes=tuple(notes),
            details=details,
        )

    def _notes(
        self, schema: pa.Schema, identity: Identity | None, embedder: Embedder | None
    ) -> list[str]:
        if missing_columns(schema):
            return [f"The table lacks {', '.join(missing_columns(schema))}. {MIGRATE}"]
        if embedder is None or identity is None:
            return []
        dims = embedder.provider.dims or identity.dims
        wanted = Identity.of(embedder, dims)
        if identity.is_comparable(wanted):
            return []
        return [f"The vectors are of {identity}, the provider is {wanted}. {MIGRATE}"]

    async def _size(self) -> int | None:
        folder = self.database.location.folder
        if folder is None:
            return None
        return await asyncio.to_thread(_folder_size, folder / f"{TABLE}.lance")


def _refuse_outdated(schema: pa.Schema, database: Database) -> None:
    missing = missing_columns(schema)
    if missing:
        raise MemoryBackendError(
            f"the table of memories is of an earlier version or of another program: it lacks {', '.join(missing)}",
            where=str(database.location),
            hint=f"{MIGRATE}: rows without an agent become those of the agent that it runs for",
        )


async def _add_vectors(table: AsyncTable, identity: Identity) -> None:
    try:
        await table.add_columns(vector_field(identity))
    except Exception:
        # Another process may have added them meanwhile; whether they are of the same model is checked next.
        if VECTOR not in (await table.schema()).names:
            raise


def _folder_size(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.stat().st_size if path.is_file() else 0
        except OSError:  # tidied away meanwhile
            continue
    return size
