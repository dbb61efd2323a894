"""The rows of the table of passages: what of a file goes into which column."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from hermitcrab.memory.files import MemoryFile, Passage
from hermitcrab.memory.ranking import embedding_texts
from hermitcrab.messages.text import scrub_text
from hermitcrab_memory_lancedb.lookups import TERMS
from hermitcrab_memory_lancedb.terms import stored_terms

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from hermitcrab_memory_lancedb.embedder import Vector

_VECTOR = "vector_"


@frozen(kw_only=True)
class StoredFile:
    """A file as it was read: times in nanoseconds, size in bytes, ``chunking`` what cut it."""

    mtime_ns: int
    size: int
    hash: str
    chunking: str
    read_at_ns: int


@frozen(kw_only=True)
class FileContent:
    """A file that has been read and cut."""

    file: MemoryFile
    passages: tuple[Passage, ...]
    stored: StoredFile


@frozen
class Pending:
    """A passage without a vector: ``key`` is the hash of ``text``, which is what to embed."""

    id: str
    key: str
    text: str


def vector_column(fingerprint: str, dims: int) -> str:
    """The column of vectors of one model and size."""
    return f"{_VECTOR}{_digest(fingerprint)[:12]}_{dims}"


def passages_schema() -> pa.Schema:
    """The columns of the table as it is made; those of vectors come later."""
    import pyarrow as pa

    texts = ("id", "agentId", "workspace", "path", "text", TERMS, "key", "embeddingText")
    return pa.schema(
        [
            *(pa.field(name, pa.string(), nullable=False) for name in texts),
            *(pa.field(name, pa.int32()) for name in ("number", "startLine", "endLine")),
            *(pa.field(name, pa.int64()) for name in ("mtimeNs", "size", "readAtNs")),
            *(pa.field(name, pa.string()) for name in ("hash", "chunking")),
        ]
    )


def arrow_table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows with the columns of ``schema``; what a row lacks is null."""
    import pyarrow as pa

    return pa.Table.from_pylist(list(rows), schema=schema)


def vector_rows(column: str, dims: int, vectors: Sequence[tuple[Pending, Vector]]) -> pa.Table:
    """What it takes to give passages their vectors."""
    import pyarrow as pa

    return pa.table(
        {
            "id": pa.array([item.id for item, _ in vectors], pa.string()),
            "key": pa.array([item.key for item, _ in vectors], pa.string()),
            column: pa.array([vector for _, vector in vectors], pa.list_(pa.float32(), dims)),
        }
    )


def vector_columns(schema: pa.Schema) -> tuple[str, ...]:
    """The names of the columns of vectors."""
    return tuple(name for name in schema.names if name.startswith(_VECTOR))


def row_id(agent_id: str, workspace: str, path: str, number: int) -> str:
    """The id of the row of a passage: it says where the passage stands."""
    return _digest("\0".join((agent_id, workspace, path, str(number))))


def rows_of(agent_id: str, workspace: str, content: FileContent) -> Iterator[dict[str, Any]]:
    """The rows of one file; one without passages has a row too, so that it is known to be empty."""
    passages = content.passages or (Passage(0, 0, ""),)
    path = scrub_text(content.file.path)
    for number, (passage, embedded) in enumerate(
        zip(passages, embedding_texts(passages), strict=True)
    ):
        row: dict[str, Any] = {
            "id": row_id(agent_id, workspace, path, number),
            "agentId": agent_id,
            "workspace": workspace,
            "path": path,
            "number": number,
            "startLine": passage.start_line,
            "endLine": passage.end_line,
            "text": scrub_text(passage.text),
            TERMS: stored_terms(passage.text, *passage.headings, path) if passage.text else "",
            "key": _digest(embedded),
            "embeddingText": scrub_text(embedded),
        }
        if number == 0:
            row |= _file_row(content.stored)
        yield row


def stored_file(row: Mapping[str, Any]) -> StoredFile:
    """What the first row of a file says of it."""
    return StoredFile(
        mtime_ns=row["mtimeNs"],
        size=row["size"],
        hash=row["hash"],
        chunking=row["chunking"],
        read_at_ns=row["readAtNs"],
    )


def _file_row(stored: StoredFile) -> dict[str, Any]:
    return {
        "mtimeNs": stored.mtime_ns,
        "size": stored.size,
        "hash": stored.hash,
        "chunking": stored.chunking,
        "readAtNs": stored.read_at_ns,
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
