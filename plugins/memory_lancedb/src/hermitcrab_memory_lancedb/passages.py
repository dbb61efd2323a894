"""The table of passages: what the Markdown files of an agent hold, one row for each passage.

One table serves all agents of a folder; every request is about one agent and one workspace. The first row of a file
also says what the file was like. Vectors stand in a column of their own for each model, so that agents with several
models share the table, and vectors that cannot be compared never stand in one column.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from hermitcrab.messages.text import scrub_text
from hermitcrab_memory_lancedb.database import Database
from hermitcrab_memory_lancedb.lookups import matching_rows, nearest_rows
from hermitcrab_memory_lancedb.rows import (
    FileContent,
    Pending,
    StoredFile,
    arrow_table,
    passages_schema,
    row_id,
    rows_of,
    stored_file,
    vector_columns,
    vector_rows,
)
from hermitcrab_memory_lancedb.sql import among, equals, every
from hermitcrab_memory_lancedb.upkeep import Upkeep

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from lancedb import AsyncTable

    from hermitcrab_memory_lancedb.embedder import Vector

TABLE = "passages"

_PLACE = ["path", "number", "startLine", "endLine"]
_HAS_TEXT = "text != ''"
_FILE = ["path", "mtimeNs", "size", "hash", "chunking", "readAtNs"]


@frozen(kw_only=True)
class Counts:
    """How many files and passages there are, and how many passages have a vector of the column asked for."""

    files: int = 0
    passages: int = 0
    vectors: int = 0


class PassageTable:
    """The passages of one agent in one workspace."""

    def __init__(self, database: Database, upkeep: Upkeep, agent_id: str, workspace: Path) -> None:
        self.database = database
        self._upkeep = upkeep
        self._agent_id = agent_id
        self._workspace = scrub_text(str(workspace.absolute()))
        self._mine = every(equals("agentId", agent_id), equals("workspace", self._workspace))
        self._files: tuple[AsyncTable, int, Mapping[str, StoredFile]] | None = None
        self._counts: dict[str | None, tuple[AsyncTable, int, Counts]] = {}

    async def files(self) -> Mapping[str, StoredFile]:
        """The files in the index, by path."""
        table = await self.database.existing(TABLE)
        if table is None:
            return {}
        with self.database.reporting():
            version = await table.version()
            if self._files is None or self._files[:2] != (table, version):
                where = every(self._mine, "number = 0")
                rows = await table.query().where(where).select(_FILE).to_list()
                self._files = table, version, {row["path"]: stored_file(row) for row in rows}
        return self._files[2]

    async def counts(self, column: str | None = None) -> Counts:
        """What the index holds; ``column`` is the one whose vectors are counted."""
        table = await self.database.existing(TABLE)
        if table is None:
            return Counts()
        with self.database.reporting():
            version = await table.version()
            known = self._counts.get(column)
            if known is not None and known[:2] == (table, version):
                return known[2]
            files = await table.count_rows(every(self._mine, "number = 0"))
            passages = await table.count_rows(every(self._mine, _HAS_TEXT))
            vectors = 0
            if column is not None and column in (await table.schema()).names:
                vectors = await table.count_rows(every(self._mine, f"{column} IS NOT NULL"))
        counts = Counts(files=files, passages=passages, vectors=vectors)
        self._counts[column] = table, version, counts
        return counts

    async def replace(self, contents: Sequence[FileContent]) -> None:
        """Put files in place of what the index has of them, in one step; unchanged texts keep their vectors."""
        if not contents:
            return
        table = await self.database.indexed(TABLE, passages_schema)
        rows = await asyncio.to_thread(self._rows, contents)
        paths = among("path", (scrub_text(content.file.path) for content in contents))
        with self.database.reporting():
            schema = await table.schema()
            vectors = await self._known_vectors(table, schema, {row["key"] for row in rows})
            data = arrow_table([{**row, **vectors.get(row["key"], {})} for row in rows], schema)
            merge = (
                table.merge_insert("id")
                .when_matched_update_all()
                .when_not_matched_insert_all()
                .when_not_matched_by_source_delete(every(self._mine, paths))
            )
            # Vectors were checked when they were made; a passage may lack one.
            result = await merge.execute(data, on_bad_vectors="null")
        self._upkeep.counted(TABLE, result.version, len(rows))

    async def touch(self, path: str, stored: StoredFile) -> None:
        """The file is as it was, with another time."""
        table = await self.database.table(TABLE, passages_schema)
        with self.database.reporting():
            result = await table.update(
                {"mtimeNs": stored.mtime_ns, "readAtNs": stored.read_at_ns},
                where=every(self._mine, equals("path", scrub_text(path)), "number = 0"),
            )
        self._upkeep.counted(TABLE, result.version, 1)

    async def remove(self, paths: Sequence[str]) -> None:
        """Forget files."""
        table = await self.database.existing(TABLE)
        if table is None or not paths:
            return
        with self.database.reporting():
            result = await table.delete(every(self._mine, among("path", map(scrub_text, paths))))
        self._upkeep.counted(TABLE, result.version, 1)

    async def matching(self, terms: Sequence[str], *, limit: int) -> list[list[dict[str, Any]]]:
        """For each term the rows that have it, best first, with ``_score``."""
        table = await self.database.existing(TABLE)
        if table is None or not terms:
            return []
        with self.database.reporting():
            return await asyncio.gather(
                *(
                    matching_rows(table, term, where=self._mine, limit=limit, columns=_PLACE)
                    for term in terms
                )
            )

    async def nearest(self, vector: Vector, *, column: str, limit: int) -> list[dict[str, Any]]:
        """The rows whose vectors are nearest, with ``_distance``, which is one minus the cosine."""
        table = await self.database.existing(TABLE)
        if table is None:
            return []
        with self.database.reporting():
            return await nearest_rows(
                table, vector, column=column, where=self._mine, limit=limit, columns=_PLACE
            )

    async def vectors(
        self, column: str, wanted: Mapping[str, Iterable[int]]
    ) -> list[dict[str, Any]]:
        """The rows with some numbers of some files, with their vectors in ``column``."""
        return await self._rows_at(wanted, column)

    async def texts(self, wanted: Mapping[str, Iterable[int]]) -> list[dict[str, Any]]:
        """The rows with some numbers of some files, with their texts."""
        return await self._rows_at(wanted, "text")

    async def _rows_at(
        self, wanted: Mapping[str, Iterable[int]], column: str
    ) -> list[dict[str, Any]]:
        table = await self.database.existing(TABLE)
        if table is None or not wanted:
            return []
        ids = among(
            "id",
            (
                row_id(self._agent_id, self._workspace, path, number)
                for path, numbers in wanted.items()
                for number in set(numbers)
            ),
        )
        with self.database.reporting():
            query = table.query().where(every(self._mine, ids))
            rows: list[dict[str, Any]] = await query.select([*_PLACE, column]).to_list()
        return rows

    async def vector_columns(self) -> tuple[str, ...]:
        """All columns of vectors, whosever they are."""
        table = await self.database.existing(TABLE)
        if table is None:
            return ()
        with self.database.reporting():
            return vector_columns(await table.schema())

    async def pending(self, column: str | None, *, limit: int | None = None) -> list[Pending]:
        """Passages without a vector in ``column``; where there is no such column, all of them."""
        table = await self.database.existing(TABLE)
        if table is None:
            return []
        with self.database.reporting():
            has_column = column in (await table.schema()).names
            missing = f"{column} IS NULL" if has_column else ""
            query = table.query().where(every(self._mine, _HAS_TEXT, missing))
            if limit is not None:
                query = query.limit(limit)
            rows = await query.select(["id", "key", "embeddingText"]).to_list()
        return [Pending(row["id"], row["key"], row["embeddingText"]) for row in rows]

    async def put_vectors(
        self, column: str, dims: int, vectors: Sequence[tuple[Pending, Vector]]
    ) -> None:
        """Give passages their vectors, unless their text changed meanwhile."""
        table = await self.database.table(TABLE, passages_schema)
        with self.database.reporting():
            await _ensure_column(table, column, dims)
            data = vector_rows(column, dims, vectors)
            merge = table.merge_insert("id").when_matched_update_all(
                where="target.key = source.key"
            )
            result = await merge.execute(data)
        self._upkeep.counted(TABLE, result.version, len(vectors))
        await self._upkeep.between(TABLE, table)

    async def finished(self) -> None:
        """Many writes are over."""
        table = await self.database.existing(TABLE)
        if table is not None:
            self._upkeep.finished(TABLE, table)

    async def drop_vectors(self, column: str) -> None:
        """Forget this agent's vectors in ``column``, and the column if nobody else has any in it."""
        table = await self.database.existing(TABLE)
        if table is None:
            return
        with self.database.reporting():
            where = every(self._mine, f"{column} IS NOT NULL")
            mine = await table.count_rows(where)
            if mine == 0:
                return
            if mine < await table.count_rows(f"{column} IS NOT NULL"):
                await table.update(updates_sql={column: "NULL"}, where=where)
            else:
                await table.drop_columns([column])

    def _rows(self, contents: Sequence[FileContent]) -> list[dict[str, Any]]:
        return [
            row for content in contents for row in rows_of(self._agent_id, self._workspace, content)
        ]

    async def _known_vectors(
        self, table: AsyncTable, schema: pa.Schema, keys: set[str]
    ) -> Mapping[str, Mapping[str, Vector]]:
        columns = vector_columns(schema)
        if not columns:
            return {}
        where = every(equals("agentId", self._agent_id), among("key", sorted(keys)))
        rows = await table.query().where(where).select(["key", *columns]).to_list()
        return {row["key"]: {name: row[name] for name in columns} for row in rows}


async def _ensure_column(table: AsyncTable, column: str, dims: int) -> None:
    import pyarrow as pa

    if column in (await table.schema()).names:
        return
    try:
        await table.add_columns(pa.field(column, pa.list_(pa.float32(), dims)))
    except Exception:
        # Another process may have added it meanwhile.
        if column not in (await table.schema()).names:
            raise
