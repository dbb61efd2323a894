"""Making the vectors of all memories anew: into a table beside the old one, which is then replaced in one step.

What was made stays in the table beside it until the end, so that a migration that was cut off goes on from there.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory import Progress
from hermitcrab.memory.longterm import (
    Memory,
    MigrationReport,
    category_of,
    is_memory_id,
    source_of,
)
from hermitcrab_memory_lancedb.database import Database
from hermitcrab_memory_lancedb.embedder import Embedder
from hermitcrab_memory_lancedb.locking import alone
from hermitcrab_memory_lancedb.lookups import ensure_index
from hermitcrab_memory_lancedb.memory_rows import (
    VECTOR,
    Identity,
    identity_in,
    memories_schema,
    memory_of,
    missing_columns,
    row_of,
    table_of,
)
from hermitcrab_memory_lancedb.memory_table import TABLE
from hermitcrab_memory_lancedb.sql import equals, every

if TYPE_CHECKING:
    from lancedb import AsyncTable

#: The table that new vectors go into.
BESIDE = "memories_migrating"

_BATCH = 128
# How often what was added meanwhile is looked for before the swap.
_MOST_ROUNDS = 5

_Key = tuple[str, str]
_Rows = dict[_Key, Memory]


class Migration:
    """One migration; ``agent_id`` is whose the rows without an agent become."""

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        agent_id: str,
        *,
        now_ms: int,
        lock_folder: Path,
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._agent_id = agent_id
        self._now_ms = now_ms
        self._lock_folder = lock_folder

    async def run(self, progress: Progress | None) -> MigrationReport:
        """Migrate if there is a reason to.

        :raises MemoryBackendError: it failed; the memories are as they were.
        """
        table = await self._database.existing(TABLE)
        if table is None:
            return MigrationReport(changed=False)
        async with alone(self._lock_folder, "migration"):
            with self._database.reporting():
                return await self._migrate(table, progress)

    async def _migrate(self, table: AsyncTable, progress: Progress | None) -> MigrationReport:
        schema = await table.schema()
        stored = identity_in(schema)
        wanted = Identity.of(self._embedder, len(await self._embedder.document("dimensions")))
        before = "without vectors" if stored is None else str(stored)
        if stored is not None and not missing_columns(schema) and stored.is_comparable(wanted):
            lacking = await table.count_rows(f"{VECTOR} IS NULL")
            if lacking == 0:
                await self._drop_beside()
                return MigrationReport(changed=False, before=before, after=str(wanted))
        beside = await self._beside(wanted)
        for _ in range(_MOST_ROUNDS):
            seen = await table.version()
            rows = await self._rows(table)
            await self._fill(beside, rows, wanted, progress)
            if await table.version() == seen:
                break
        else:
            raise MemoryBackendError(
                "memories are being written all the time",
                where=str(self._database.location),
                hint="Stop other hosts that use them, then run `hermitcrab ltm migrate` again",
            )
        await self._swap(beside, rows, wanted, seen=seen)
        await self._drop_beside()
        return MigrationReport(changed=True, memories=len(rows), before=before, after=str(wanted))

    async def _rows(self, table: AsyncTable) -> _Rows:
        """All memories of all agents, without their vectors."""
        columns = [name for name in (await table.schema()).names if name != VECTOR]
        found: _Rows = {}
        for row in await table.query().select(columns).to_list():
            memory = _memory(row, self._now_ms)
            found[row.get("agentId") or self._agent_id, memory.id] = memory
        return found

    async def _fill(
        self, target: AsyncTable, rows: _Rows, wanted: Identity, progress: Progress | None
    ) -> None:
        """Put the rows that ``target`` does not have yet into it, with new vectors."""
        there = await _texts(target)
        todo = [(key, memory) for key, memory in rows.items() if there.get(key) != memory.text]
        done = len(rows) - len(todo)
        for start in range(0, len(todo), _BATCH):
            batch = todo[start : start + _BATCH]
            vectors = await self._embedder.documents([memory.text for _, memory in batch])
            if not wanted.is_comparable(Identity.of(self._embedder, len(vectors[0]))):
                raise MemoryBackendError(
                    "the embedding provider changed during the migration",
                    where=self._embedder.name,
                    hint="Run `hermitcrab ltm migrate` again",
                )
            made = [
                row_of(memory, agent_id, vector)
                for ((agent_id, _), memory), vector in zip(batch, vectors, strict=True)
            ]
            merge = target.merge_insert(["agentId", "id"])
            merge = merge.when_matched_update_all().when_not_matched_insert_all()
            await merge.execute(table_of(made, memories_schema(wanted)))
            done += len(batch)
            if progress is not None:
                progress(done, len(rows), "memories")

    async def _swap(self, beside: AsyncTable, rows: _Rows, wanted: Identity, *, seen: int) -> None:
        """Replace all rows by one new version of the table: other processes see the old ones or the new ones."""
        vectors = {
            (row["agentId"], row["id"]): row[VECTOR]
            for row in await beside.query().select(["agentId", "id", VECTOR]).to_list()
        }
        made = [row_of(memory, key[0], vectors[key]) for key, memory in rows.items()]
        data = table_of(made, memories_schema(wanted))
        connection = await self._database.connection()
        table = await connection.create_table(TABLE, data=data, mode="overwrite")
        before = await table.version() - 1
        await ensure_index(table)
        self._database.forget(TABLE)
        if before != seen:
            await self._catch_up(table, rows, wanted, before=before)

    async def _catch_up(
        self, table: AsyncTable, rows: _Rows, wanted: Identity, *, before: int
    ) -> None:
        """Do again what another process did between the last look and the swap."""
        connection = await self._database.connection()
        old = await self._rows(await connection.open_table(TABLE, version=before))
        changed = {key: memory for key, memory in old.items() if rows.get(key) != memory}
        for agent_id, memory_id in (rows.keys() - old.keys()) | changed.keys():
            await table.delete(every(equals("agentId", agent_id), equals("id", memory_id)))
        await self._fill(table, changed, wanted, None)

    async def _beside(self, wanted: Identity) -> AsyncTable:
        """The table that was begun for this identity, or an empty one."""
        begun = await self._database.existing(BESIDE)
        if begun is not None:
            identity = identity_in(await begun.schema())
            if identity is not None and identity.is_comparable(wanted):
                return begun
            await self._drop_beside()
        connection = await self._database.connection()
        return await connection.create_table(BESIDE, schema=memories_schema(wanted))

    async def _drop_beside(self) -> None:
        self._database.forget(BESIDE)
        connection = await self._database.connection()
        await connection.drop_table(BESIDE, ignore_missing=True)


async def _texts(beside: AsyncTable) -> dict[_Key, str]:
    rows: Sequence[Mapping[str, Any]] = (
        await beside.query().select(["agentId", "id", "text"]).to_list()
    )
    return {(row["agentId"], row["id"]): row["text"] for row in rows}


def _memory(row: Mapping[str, Any], now_ms: int) -> Memory:
    """A row of whatever version, with defaults for what it lacks."""
    if all(name in row for name in ("scope", "session", "source")):
        return memory_of(row)
    memory_id, importance, created = row.get("id"), row.get("importance"), row.get("createdAt")
    return Memory(
        id=str(memory_id).lower() if is_memory_id(memory_id) else _id_for(row),
        text=str(row.get("text") or ""),
        category=category_of(row.get("category")),
        importance=0.7 if importance is None else min(1.0, max(0.0, float(importance))),
        created_at_ms=now_ms if created is None else int(created),
        scope=row.get("scope") or "",
        session_key=row.get("session"),
        source=source_of(row.get("source")),
    )


def _id_for(row: Mapping[str, Any]) -> str:
    """An id for a row whose own is none: the same each time that the row is read."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{row.get('id')}\0{row.get('text')}"))
