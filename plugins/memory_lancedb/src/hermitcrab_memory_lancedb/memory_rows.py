"""The rows of the table of single memories, and what made their vectors (memory 7.1)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen

from hermitcrab.memory.longterm import Memory, MemoryFilter, MemoryOrder, category_of, source_of
from hermitcrab.messages.text import scrub_text
from hermitcrab_memory_lancedb.lookups import TERMS
from hermitcrab_memory_lancedb.sql import quoted
from hermitcrab_memory_lancedb.terms import stored_terms

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from lancedb.query import ColumnOrdering

    from hermitcrab_memory_lancedb.embedder import Embedder, Vector

VECTOR = "vector"

#: The columns of a memory, without those that only searches need.
COLUMNS = ("id", "text", "category", "importance", "createdAt", "scope", "session", "source")

_IDENTITY = b"hermitcrab.embeddings"


@frozen(kw_only=True)
class Identity:
    """What made the vectors of a table. Only those of one identity can be compared."""

    provider: str
    model: str
    fingerprint: str
    dims: int

    @classmethod
    def of(cls, embedder: Embedder, dims: int) -> Identity:
        """Of the vectors that a provider makes now.

        :raises EmbeddingError: it has no fingerprint.
        """
        provider = embedder.provider
        return cls(
            provider=provider.id,
            model=provider.model,
            fingerprint=embedder.fingerprint(),
            dims=dims,
        )

    def __str__(self) -> str:
        return f"{self.provider}/{self.model} with {self.dims} numbers"

    def is_comparable(self, other: Identity) -> bool:
        return (self.fingerprint, self.dims) == (other.fingerprint, other.dims)


def memories_schema(identity: Identity | None) -> pa.Schema:
    """The columns of the table; without an identity there is none of vectors yet."""
    import pyarrow as pa

    texts = ("id", "agentId", "scope", "text", TERMS, "category", "source")
    fields = [
        *(pa.field(name, pa.string(), nullable=False) for name in texts),
        pa.field("session", pa.string()),
        pa.field("importance", pa.float64(), nullable=False),
        pa.field("createdAt", pa.int64(), nullable=False),
    ]
    return pa.schema(fields if identity is None else [*fields, vector_field(identity)])


def vector_field(identity: Identity) -> pa.Field:
    """The column of vectors, which says what made them."""
    import pyarrow as pa

    return pa.field(
        VECTOR,
        pa.list_(pa.float32(), identity.dims),
        metadata={_IDENTITY: json.dumps(asdict(identity)).encode()},
    )


def identity_in(schema: pa.Schema) -> Identity | None:
    """What made the vectors of a table; ``None`` where it has no column for them.

    A table of another program does not say it: its vectors can be compared with none.
    """
    if VECTOR not in schema.names:
        return None
    field = schema.field(VECTOR)
    try:
        return Identity(**json.loads((field.metadata or {})[_IDENTITY]))
    except (KeyError, TypeError, ValueError):
        dims = getattr(field.type, "list_size", 0)
        return Identity(provider="an unknown provider", model="unknown", fingerprint="", dims=dims)


def missing_columns(schema: pa.Schema) -> list[str]:
    """What a table of an earlier version or of another program lacks."""
    return [name for name in memories_schema(None).names if name not in schema.names]


def row_of(memory: Memory, agent_id: str, vector: Vector | None) -> dict[str, Any]:
    """The row of a memory; without a vector that column stays empty."""
    row: dict[str, Any] = {
        "id": memory.id,
        "agentId": agent_id,
        "scope": memory.scope,
        "text": memory.text,
        TERMS: stored_terms(memory.text),
        "category": memory.category,
        "source": memory.source,
        "session": memory.session_key,
        "importance": memory.importance,
        "createdAt": memory.created_at_ms,
    }
    return row if vector is None else {**row, VECTOR: vector}


def memory_of(row: Mapping[str, Any], score: float | None = None) -> Memory:
    """The memory in a row."""
    return Memory(
        id=row["id"],
        text=row["text"],
        category=category_of(row["category"]),
        importance=row["importance"],
        created_at_ms=row["createdAt"],
        scope=row["scope"],
        session_key=row["session"],
        source=source_of(row["source"]),
        score=score,
    )


def filter_predicate(where: MemoryFilter) -> str:
    """The comparison as LanceDB reads it; a backslash stands for itself."""
    value = where.value
    if isinstance(value, str):
        text = scrub_text(value)
        literal = quoted(text.replace("\\", "\\\\") if where.operator == "LIKE" else text)
    else:
        literal = repr(value)
    return f"{where.column} {where.operator} {literal}"


def orderings(order: MemoryOrder | None) -> list[ColumnOrdering]:
    """The order as LanceDB takes it; ties go by id, and so does everything without an order."""
    from lancedb.query import ColumnOrdering

    by_id = ColumnOrdering(column_name="id", ascending=True)
    if order is None:
        return [by_id]
    first = ColumnOrdering(column_name=order.column, ascending=not order.descending)
    return [first] if order.column == "id" else [first, by_id]


def table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows with the columns of ``schema``."""
    import pyarrow as pa

    return pa.Table.from_pylist(list(rows), schema=schema)
