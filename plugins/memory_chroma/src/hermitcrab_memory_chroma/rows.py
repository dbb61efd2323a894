"""Rows of a collection, read and written within Chroma's limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from hermitcrab_memory_chroma.connection import CollectionSpec, Connection

#: Rows in one request: what a server takes without being asked twice, whatever the dimensions.
WRITE_ROWS = 500
READ_ROWS = 2_000

#: The vector of a row that is only read by its words: Chroma has no rows without one.
NO_VECTOR = (1.0,)


@frozen(kw_only=True)
class Row:
    """One row; ``distance`` is there where a vector was searched for."""

    id: str
    metadata: Mapping[str, Any] = field(factory=dict)
    document: str | None = None
    vector: Sequence[float] | None = None
    distance: float | None = None


def all_of(where: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A filter that holds where all conditions hold: Chroma takes one condition, or an ``$and`` of several."""
    conditions = [{name: condition} for name, condition in (where or {}).items()]
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return {"$and": conditions}


async def write(connection: Connection, spec: CollectionSpec, rows: Sequence[Row]) -> None:
    """Insert or replace rows by their ids; once it returns, they are stored."""
    size = min(WRITE_ROWS, connection.max_batch)
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        documents = [row.document for row in part]
        await connection.call(
            spec,
            "upsert",
            ids=[row.id for row in part],
            embeddings=[list(row.vector or NO_VECTOR) for row in part],
            metadatas=[dict(row.metadata) for row in part],
            documents=None if None in documents else documents,
        )


async def delete(connection: Connection, spec: CollectionSpec, ids: Sequence[str]) -> None:
    """Delete rows by their ids; those that are not there are no error."""
    size = min(WRITE_ROWS, connection.max_batch)
    for start in range(0, len(ids), size):
        await connection.call(spec, "delete", create=False, ids=list(ids[start : start + size]))


async def by_id(
    connection: Connection,
    spec: CollectionSpec,
    ids: Sequence[str],
    *,
    where: Mapping[str, Any] | None = None,
    include: Sequence[str] = ("metadatas", "documents"),
) -> list[Row]:
    """The rows with these ids that have the metadata ``where``, in no particular order.

    The condition is checked here: Chroma takes ten milliseconds for each id to check it. It needs ``metadatas``.
    """
    found: list[Row] = []
    for start in range(0, len(ids), READ_ROWS):
        answer = await connection.call(
            spec,
            "get",
            create=False,
            ids=list(ids[start : start + READ_ROWS]),
            include=list(include),
        )
        found += _rows(answer)
    return [row for row in found if _has(row, where or {})]


def _has(row: Row, where: Mapping[str, Any]) -> bool:
    return all(row.metadata.get(name) == value for name, value in where.items())


async def pages(
    connection: Connection,
    spec: CollectionSpec,
    where: Mapping[str, Any] | None,
    *,
    include: Sequence[str] = ("metadatas",),
) -> AsyncIterator[list[Row]]:
    """All rows that ``where`` lets through, page by page."""
    offset = 0
    while True:
        answer = await connection.call(
            spec,
            "get",
            create=False,
            where=all_of(where),
            include=list(include),
            limit=READ_ROWS,
            offset=offset,
        )
        rows = _rows(answer)
        if rows:
            yield rows
        if len(rows) < READ_ROWS:
            return
        offset += len(rows)


async def every(
    connection: Connection,
    spec: CollectionSpec,
    where: Mapping[str, Any] | None,
    *,
    include: Sequence[str] = ("metadatas",),
) -> list[Row]:
    """All rows that ``where`` lets through."""
    return [row async for page in pages(connection, spec, where, include=include) for row in page]


async def ids_with(
    connection: Connection,
    spec: CollectionSpec,
    where: Mapping[str, Any] | None,
    text: str,
    *,
    limit: int,
) -> list[str]:
    """The ids of at most ``limit`` rows whose document contains ``text``."""
    answer = await connection.call(
        spec,
        "get",
        create=False,
        where=all_of(where),
        where_document={"$contains": text},
        include=[],
        limit=limit,
    )
    return [] if answer is None else list(answer["ids"])


async def nearest(
    connection: Connection,
    spec: CollectionSpec,
    vector: Sequence[float],
    *,
    limit: int,
    where: Mapping[str, Any] | None = None,
    ids: Sequence[str] | None = None,
    include: Sequence[str] = ("metadatas", "distances"),
) -> list[Row]:
    """The rows nearest to ``vector`` among those that ``where`` lets through, or that have ``ids``, best first."""
    arguments: dict[str, Any] = {} if ids is None else {"ids": list(ids)}
    answer = await connection.call(
        spec,
        "query",
        create=False,
        query_embeddings=[list(vector)],
        n_results=limit,
        where=all_of(where),
        include=list(include),
        **arguments,
    )
    if answer is None:
        return []
    return _rows({name: value[0] for name, value in answer.items() if _is_per_query(name, value)})


def _is_per_query(name: str, value: Any) -> bool:
    return name in ("ids", "metadatas", "documents", "distances") and bool(value)


def _rows(answer: Mapping[str, Any] | None) -> list[Row]:
    if answer is None:
        return []
    ids = answer["ids"]
    columns = {
        "metadata": answer.get("metadatas"),
        "document": answer.get("documents"),
        "vector": answer.get("embeddings"),
        "distance": answer.get("distances"),
    }
    return [
        Row(
            id=row_id,
            **{name: values[number] for name, values in columns.items() if values is not None},
        )
        for number, row_id in enumerate(ids)
    ]
