"""The tables of the index, and opening a connection that fits them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

SCHEMA_VERSION = 2

#: The tables that an index must have been built with; one with others is set aside and rebuilt.
VERSIONS = json.dumps([SCHEMA_VERSION])

_BUSY_TIMEOUT_S = 5.0
_LOCK_TIMEOUT_S = 30.0
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, source TEXT NOT NULL, hash TEXT NOT NULL,
    mtime_ns INTEGER NOT NULL, size INTEGER NOT NULL, read_at_ns INTEGER NOT NULL,
    chunking TEXT NOT NULL, chunks INTEGER NOT NULL, passages INTEGER NOT NULL
);
-- For texts that do not stand in their file as they were indexed: the line of the file for each of their lines.
CREATE TABLE IF NOT EXISTS line_maps (path TEXT PRIMARY KEY, lines TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS chunks (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL, source TEXT NOT NULL,
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
    hash TEXT NOT NULL, text TEXT NOT NULL, updated_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS chunks_by_path ON chunks (path);
CREATE TABLE IF NOT EXISTS passages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL,
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, text TEXT NOT NULL,
    embedding_text TEXT  -- null where it is the text
);
CREATE INDEX IF NOT EXISTS passages_by_path ON passages (path);
-- Which rows of the matrix file are valid, and whose they are.
CREATE TABLE IF NOT EXISTS vector_rows (
    row INTEGER PRIMARY KEY, passage INTEGER NOT NULL UNIQUE, hash BLOB NOT NULL
);
CREATE VIRTUAL TABLE IF NOT EXISTS chunk_terms USING fts5 (
    words, pairs, tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE IF NOT EXISTS passage_terms USING fts5 (
    words, headings, path, pairs, characters,
    tokenize = 'porter unicode61 remove_diacritics 2'
);
"""


class OutdatedIndexError(Exception):
    """The file was built by another version of this index."""


def connect(path: Path) -> sqlite3.Connection:
    """Open or create the index at ``path``; two processes may do so at once.

    :raises OutdatedIndexError: the file was built by another version.
    :raises OSError: the directory cannot be written.
    :raises sqlite3.Error: the file cannot be opened or is no database.
    """
    from filelock import FileLock

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Only one process at a time may switch to WAL and create tables.
    lock = FileLock(
        f"{path}.lock",
        timeout=_LOCK_TIMEOUT_S,
        mode=0o600,
        thread_local=False,
        fallback_to_soft=False,
    )
    with lock:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        return _open(path)


@contextmanager
def immediate(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction that holds the write lock from its start; rolled back if anything is raised."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def is_damaged(error: Exception) -> bool:
    """Whether the file of the connection is corrupt or no database at all."""
    import sqlite3

    primary_code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    return primary_code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _open(path: Path) -> sqlite3.Connection:
    import sqlite3

    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        _check_versions(connection)
        connection.executescript(_TABLES)
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('versions', ?)", (VERSIONS,))
    except BaseException:
        connection.close()
        raise
    return connection


def _check_versions(connection: sqlite3.Connection) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'")
    if tables.fetchone()[0] == 0:
        return
    has_meta = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone()
    row = (
        connection.execute("SELECT value FROM meta WHERE key = 'versions'").fetchone()
        if has_meta
        else None
    )
    if row is None or row[0] != VERSIONS:
        raise OutdatedIndexError(f"it has version {row and row[0]}, not {VERSIONS}")
