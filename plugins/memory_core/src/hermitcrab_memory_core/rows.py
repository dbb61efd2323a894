"""Writing the rows of one file: its chunks and passages with their terms."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hermitcrab.memory.files import Chunk, Passage, index_terms
from hermitcrab_memory_core.embedding_cache import text_hash

if TYPE_CHECKING:
    import sqlite3


def add_chunk(connection: sqlite3.Connection, path: str, source: str, chunk: Chunk) -> None:
    """Add a chunk of the file at ``path``."""
    cursor = connection.execute(
        "INSERT INTO chunks (path, source, start_line, end_line, hash, text, updated_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (path, source, chunk.start_line, chunk.end_line, chunk.hash, chunk.text, _now_ms()),
    )
    terms = index_terms(chunk.text)
    connection.execute(
        "INSERT INTO chunk_terms (rowid, words, pairs) VALUES (?, ?, ?)",
        (cursor.lastrowid, joined(terms.words), joined(terms.pairs)),
    )


def add_passage(
    connection: sqlite3.Connection,
    path: str,
    path_terms: str,
    passage: Passage,
    embedded: str,
    kept: Mapping[bytes, list[int]],
) -> None:
    """Add a passage of the file at ``path``; it takes the vector of its text out of ``kept``, if there is one."""
    cursor = connection.execute(
        "INSERT INTO passages (path, start_line, end_line, text, embedding_text) "
        "VALUES (?, ?, ?, ?, ?)",
        (
            path,
            passage.start_line,
            passage.end_line,
            passage.text,
            None if embedded == passage.text else embedded,
        ),
    )
    key = text_hash(embedded) if kept else b""
    if kept.get(key):
        connection.execute(
            "INSERT INTO vector_rows VALUES (?, ?, ?)", (kept[key].pop(), cursor.lastrowid, key)
        )
    own = index_terms(passage.text)
    above = index_terms("\n".join(passage.headings))
    connection.execute(
        "INSERT INTO passage_terms "
        "(rowid, words, headings, path, pairs, characters) VALUES (?, ?, ?, ?, ?, ?)",
        (
            cursor.lastrowid,
            joined(own.words),
            joined(above.words + above.pairs),
            path_terms,
            joined(own.pairs),
            joined(own.characters),
        ),
    )


def path_terms_of(path: str) -> str:
    """The words of a path but for ``memory/`` and ``.md``: a word that every path has would weigh nothing."""
    terms = index_terms(path.removeprefix("memory/").removesuffix(".md"))
    return joined(terms.words + terms.pairs)


def joined(terms: Sequence[str]) -> str:
    """Terms as FTS5 gets them."""
    return " ".join(terms)


def _now_ms() -> int:
    return int(time.time() * 1000)
