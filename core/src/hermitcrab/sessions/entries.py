"""Session entries: one row a key in ``sessions.sqlite`` (design 5, sessions 2.2)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, evolve, field, fields, frozen

from hermitcrab.config.names import camel_case
from hermitcrab.errors import SessionError

if TYPE_CHECKING:
    import sqlite3

_SCHEMA = """
create table if not exists session_entries (
    key text primary key,
    session_id text not null,
    updated_at integer not null,
    entry text not null
) without rowid;
create index if not exists session_entries_by_id on session_entries (session_id);
"""


@frozen(kw_only=True)
class SessionEntry:
    """What is known of a session key besides its transcript. Times are milliseconds since the epoch.

    ``compaction_count`` counts compactions and so names the current cycle; ``flushed_cycle`` is the last cycle whose
    flush ran, ``None`` for never, and ``flushed_entry_id`` the last entry that it saw. ``rejected_summaries`` counts
    summaries that failed within the current cycle.
    """

    key: str
    session_id: str
    updated_at: int
    session_started_at: int
    last_interaction_at: int | None = None
    label: str | None = None
    provider_override: str | None = None
    model_override: str | None = None
    compaction_count: int = 0
    flushed_cycle: int | None = None
    flushed_at: int | None = None
    flushed_entry_id: str | None = None
    flush_failures: int = 0
    flush_error: str | None = None
    rejected_summaries: int = 0
    last_compaction: Mapping[str, Any] | None = None
    context_tokens: int | None = None
    total_tokens: int | None = None
    message_count: int = 0
    previous_session_ids: tuple[str, ...] = ()
    unknown: Mapping[str, Any] = field(factory=dict)

    @property
    def flushed(self) -> bool:
        """Whether the flush of the current cycle has run."""
        return self.flushed_cycle == self.compaction_count


_NAMES = {attribute.name for attribute in fields(SessionEntry)} - {"key", "unknown"}


def to_json(entry: SessionEntry) -> dict[str, Any]:
    """The row as JSON data with camelCase names; fields that are unset are left out."""
    values = asdict(entry, filter=lambda attribute, value: attribute.name in _NAMES)
    known = {
        camel_case(name): value
        for name, value in values.items()
        if value is not None and value != ()
    }
    return {**entry.unknown, **known}


def from_json(key: str, data: Mapping[str, Any]) -> SessionEntry:
    """The entry of a row; fields of a newer version are kept in ``unknown``."""
    names = {camel_case(name): name for name in _NAMES}
    known: dict[str, Any] = {names[name]: value for name, value in data.items() if name in names}
    known["previous_session_ids"] = tuple(known.get("previous_session_ids", ()))
    unknown = {name: value for name, value in data.items() if name not in names}
    known.setdefault("updated_at", 0)
    known.setdefault("session_started_at", 0)
    return SessionEntry(key=key, unknown=unknown, **known)


class SessionEntries:
    """The session entries of one agent. Every method blocks: call it in a worker thread.

    :raises SessionError: from any method, if the database cannot be opened, read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def get(self, key: str) -> SessionEntry | None:
        """The entry of a key, or ``None``."""
        if self._connection is None and not self._path.exists():
            return None
        with self._transaction() as connection:
            row = connection.execute(
                "select entry from session_entries where key = ?", (key,)
            ).fetchone()
        return None if row is None else from_json(key, json.loads(row[0]))

    def put(self, entry: SessionEntry) -> SessionEntry:
        """Write an entry whole."""
        with self._transaction() as connection:
            _write(connection, entry)
        return entry

    def update(self, key: str, *, add_messages: int = 0, **changes: Any) -> SessionEntry:
        """Change named fields of an entry, reading and writing in one transaction.

        :param add_messages: how many to add to ``message_count``.
        :raises SessionError: if there is no such entry.
        """
        with self._transaction() as connection:
            row = connection.execute(
                "select entry from session_entries where key = ?", (key,)
            ).fetchone()
            if row is None:
                raise SessionError(f"there is no session {key!r}", where=self._path)
            entry = evolve(from_json(key, json.loads(row[0])), **changes)
            entry = evolve(entry, message_count=entry.message_count + add_messages)
            _write(connection, entry)
        return entry

    def list(self) -> list[SessionEntry]:
        """All entries, the newest first."""
        if self._connection is None and not self._path.exists():
            return []
        with self._transaction() as connection:
            rows = connection.execute(
                "select key, entry from session_entries order by updated_at desc, key"
            ).fetchall()
        return [from_json(key, json.loads(text)) for key, text in rows]

    def close(self) -> None:
        """Close the database; safe to call twice."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        import sqlite3

        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._open()
                with self._connection:
                    self._connection.execute("begin immediate")
                    yield self._connection
            except (sqlite3.Error, OSError) as error:
                raise SessionError(
                    f"the session entries cannot be read or written: {error}",
                    where=self._path,
                    hint="The transcripts beside it are intact; check the disk and the folder's permissions.",
                ) from error

    def _open(self) -> sqlite3.Connection:
        import os
        import sqlite3

        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(
            self._path, timeout=10, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("pragma busy_timeout = 10000")
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = normal")
            connection.executescript(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        return connection


def _write(connection: sqlite3.Connection, entry: SessionEntry) -> None:
    connection.execute(
        "insert into session_entries (key, session_id, updated_at, entry) values (?, ?, ?, ?)"
        " on conflict (key) do update set session_id = excluded.session_id,"
        " updated_at = excluded.updated_at, entry = excluded.entry",
        (
            entry.key,
            entry.session_id,
            entry.updated_at,
            json.dumps(to_json(entry), ensure_ascii=False),
        ),
    )
