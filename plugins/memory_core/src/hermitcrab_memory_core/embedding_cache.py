"""Every vector that was ever paid for, by provider and text: nothing is embedded twice (memory 3.5).

The cache is a file of its own, so that it outlives an index that is set aside or rebuilt.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermitcrab_memory_core.schema import immediate, is_damaged

if TYPE_CHECKING:
    import sqlite3

    from hermitcrab_memory_core.matrix import Vectors

#: How many vectors stay that no passage needs any more.
MOST_ENTRIES = 50_000

_VERSION = 1
_BUSY_TIMEOUT_S = 5.0
_LOOKED_UP_AT_ONCE = 400
_TABLES = """
CREATE TABLE IF NOT EXISTS providers (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS vectors (
    id INTEGER PRIMARY KEY, provider INTEGER NOT NULL, hash BLOB NOT NULL,
    vector BLOB NOT NULL, used_at INTEGER NOT NULL, UNIQUE (provider, hash)
);
CREATE INDEX IF NOT EXISTS vectors_by_use ON vectors (used_at);
"""


def text_hash(text: str) -> bytes:
    """The key of a text: its SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class EmbeddingCache:
    """An open cache. Used from one thread at a time; several processes may have it open."""

    def __init__(self, path: Path) -> None:
        """Open or create the cache at ``path``; a file that is no cache of ours is replaced.

        :raises sqlite3.Error: the file cannot be opened or written.
        """
        import sqlite3

        try:
            self._connection = _open(path)
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                raise
            remove_cache(path)
            self._connection = _open(path)

    def close(self) -> None:
        self._connection.close()

    def count(self) -> int:
        """How many vectors there are, of all providers."""
        return int(self._connection.execute("SELECT count(*) FROM vectors").fetchone()[0])

    def find(self, fingerprint: str, hashes: Sequence[bytes], dims: int) -> dict[bytes, bytes]:
        """The vectors that are there, as float32; one of another length than ``dims`` (unless 0) is not."""
        found: dict[bytes, bytes] = {}
        for start in range(0, len(hashes), _LOOKED_UP_AT_ONCE):
            part = hashes[start : start + _LOOKED_UP_AT_ONCE]
            rows = self._connection.execute(
                "SELECT hash, vector FROM vectors WHERE provider = "
                "(SELECT id FROM providers WHERE fingerprint = ?) "
                f"AND hash IN ({','.join('?' * len(part))})",
                (fingerprint, *part),
            )
            found.update(row for row in rows if not dims or len(row[1]) == 4 * dims)
        return found

    def add(self, fingerprint: str, vectors: Mapping[bytes, Vectors]) -> None:
        """Keep vectors by the hashes of their texts."""
        now = int(time.time())
        with immediate(self._connection):
            self._connection.execute(
                "INSERT OR IGNORE INTO providers (fingerprint) VALUES (?)", (fingerprint,)
            )
            self._connection.executemany(
                "INSERT OR REPLACE INTO vectors (provider, hash, vector, used_at) VALUES "
                "((SELECT id FROM providers WHERE fingerprint = ?), ?, ?, ?)",
                ((fingerprint, key, each.tobytes(), now) for key, each in vectors.items()),
            )

    def is_full(self, needed: int, *, most: int = MOST_ENTRIES) -> bool:
        """Whether there are more than ``most`` beside the ``needed`` ones."""
        return self.count() > needed + most

    def prune(self, needed: Sequence[bytes], *, most: int = MOST_ENTRIES) -> int:
        """Drop the oldest of those that are not ``needed`` until at most ``most`` of them are left; how many went."""
        surplus = self.count() - len(needed) - most
        if surplus <= 0:
            return 0
        with immediate(self._connection):
            self._connection.execute("CREATE TEMP TABLE needed (hash BLOB PRIMARY KEY)")
            try:
                self._connection.executemany(
                    "INSERT OR IGNORE INTO temp.needed VALUES (?)", ((key,) for key in needed)
                )
                gone = self._connection.execute(
                    "DELETE FROM vectors WHERE id IN (SELECT id FROM vectors WHERE hash NOT IN "
                    "(SELECT hash FROM temp.needed) ORDER BY used_at LIMIT ?)",
                    (surplus,),
                ).rowcount
            finally:
                self._connection.execute("DROP TABLE temp.needed")
        return gone


def remove_cache(path: Path) -> None:
    """Remove the cache at ``path``, with the files that SQLite keeps beside it."""
    for suffix in ("-wal", "-shm", ""):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _open(path: Path) -> sqlite3.Connection:
    import sqlite3

    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            raise sqlite3.OperationalError(
                f"{path.name} was written by a newer version; upgrade, or move it away"
            )
        connection.executescript(_TABLES)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection
