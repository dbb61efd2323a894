"""Moving all memories to a collection with vectors of another model."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermitcrab.memory.longterm import MigrationReport
from hermitcrab_memory_chroma.connection import CollectionSpec, Connection
from hermitcrab_memory_chroma.embedder import Embedder
from hermitcrab_memory_chroma.memory_table import Identity, MemoryTables, Table
from hermitcrab_memory_chroma.rows import Row, by_id, delete, every, pages, write

if TYPE_CHECKING:
    from hermitcrab.memory import Progress

_BATCH = 64
_WHAT = "memories"


async def migrate(
    connection: Connection,
    tables: MemoryTables,
    embedder: Embedder,
    identity: Identity,
    *,
    progress: Progress | None = None,
) -> MigrationReport:
    """Embed the memories of all agents again into a new collection, and make that the current one.

    What an earlier attempt has done already is used. Writers are refused meanwhile.
    """
    old = await tables.current()
    if old.identity is None or old.identity == identity:
        return MigrationReport(changed=False)
    holder = uuid.uuid4().hex
    new = Table(spec=tables.next(identity), identity=identity)
    await tables.take_lease(old, holder)
    try:
        done = await _copy(connection, tables, embedder, old, new.spec, holder, progress)
        await _drop_strangers(connection, old.spec, new.spec)
    except BaseException:
        await tables.end_lease(old)
        raise
    await tables.end_lease(new)
    await connection.drop(old.spec.name)
    return MigrationReport(
        changed=True, memories=done, before=_shown(old.identity), after=_shown(identity)
    )


async def _copy(
    connection: Connection,
    tables: MemoryTables,
    embedder: Embedder,
    old: Table,
    new: CollectionSpec,
    holder: str,
    progress: Progress | None,
) -> int:
    total = int(await connection.call(old.spec, "count", create=False) or 0)
    done = 0
    async for page in pages(connection, old.spec, None, include=("metadatas", "documents")):
        for start in range(0, len(page), _BATCH):
            part = page[start : start + _BATCH]
            await _embed(connection, embedder, new, await _missing(connection, new, part))
            await tables.take_lease(old, holder)
            done += len(part)
            if progress is not None:
                progress(done, max(total, done), _WHAT)
    return done


async def _missing(connection: Connection, new: CollectionSpec, rows: Sequence[Row]) -> list[Row]:
    """Those that the new collection does not have, or has otherwise."""
    there = {row.id: row for row in await by_id(connection, new, [row.id for row in rows])}
    return [row for row in rows if row.id not in there or there[row.id].metadata != row.metadata]


async def _embed(
    connection: Connection, embedder: Embedder, new: CollectionSpec, rows: Sequence[Row]
) -> None:
    # The collection is made even for no rows: what is current must be there.
    await connection.call(new, "count")
    if not rows:
        return
    vectors = await embedder.documents([str(row.metadata.get("text", "")) for row in rows])
    fresh = [
        Row(id=row.id, metadata=row.metadata, document=row.document, vector=vector)
        for row, vector in zip(rows, vectors, strict=True)
    ]
    await write(connection, new, fresh)


async def _drop_strangers(connection: Connection, old: CollectionSpec, new: CollectionSpec) -> None:
    """Delete what an earlier attempt copied and was deleted since."""
    known = {row.id for row in await every(connection, old, None, include=())}
    found = {row.id for row in await every(connection, new, None, include=())}
    await delete(connection, new, sorted(found - known))


def _shown(identity: Identity) -> str:
    return f"{identity.model} ({identity.dims} numbers)"
