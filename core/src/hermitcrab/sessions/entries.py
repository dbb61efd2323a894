"""Session entries: one row a key in ``sessions.sqlite`` (design 5, sessions 2.2)."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, evolve, field, fields, frozen

from hermitcrab.config.names import camel_case
from hermitcrab.errors import SessionError, SessionNotFoundError
from hermitcrab.messages.text import scrub
from hermitcrab.sessions.locks import exclusive

if TYPE_CHECKING:
    import sqlite3

logger = logging.getLogger("hermitcrab.sessions")

_OPEN_TIMEOUT_MS = 10_000
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
    known["previous_session_ids"] = tuple(known.get("previous_session_ids") or ())
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
            return self._read(connection, key)

    def add(self, entry: SessionEntry) -> SessionEntry:
        """Write an entry unless its key has one already; returns the one that stands there then."""
        with self._transaction() as connection:
            known = self._read(connection, entry.key)
            if known is None:
                _write(connection, entry)
        return known or entry

    def put(self, entry: SessionEntry) -> SessionEntry:
        """Write an entry whole."""
        with self._transaction() as connection:
            _write(connection, entry)
        return entry

    def update(self, key: str, *, add_messages: int = 0, **changes: Any) -> SessionEntry:
        """Change named fields of an entry, reading and writing in one transaction. ``updated_at`` never goes back.

        :param add_messages: how many to add to ``message_count``.
        :raises SessionNotFoundError: if there is no such entry.
        """
        with self._transaction() as connection:
            known = self._read(connection, key)
            if known is None:
                raise SessionNotFoundError(f"there is no session {key!r}", where=self._path)
            if "updated_at" in changes:
                changes["updated_at"] = max(known.updated_at, changes["updated_at"])
            entry = evolve(known, **changes)
            entry = evolve(entry, message_count=entry.message_count + add_messages)
            _write(connection, entry)
        return entry

    def move(self, key: str, old_id: str, new_id: str) -> SessionEntry:
        """Let a key go from one session id to another, unless it has gone elsewhere already.

        :raises SessionNotFoundError: if there is no such entry.
        """
        with self._transaction() as connection:
            known = self._read(connection, key)
            if known is None:
                raise SessionNotFoundError(f"there is no session {key!r}", where=self._path)
            if known.session_id == old_id:
                previous = (*known.previous_session_ids, old_id)
                known = evolve(known, session_id=new_id, previous_session_ids=previous)
                _write(connection, known)
        return known

    def list(self) -> list[SessionEntry]:
        """All entries, the newest first."""
        if self._connection is None and not self._path.exists():
            return []
        with self._transaction() as connection:
            rows = connection.execute(
                "select key, entry from session_entries order by updated_at desc, key"
            ).fetchall()
        return [entry for key, text in rows if (entry := self._decoded_or_none(key, text))]

    def _read(self, connection: sqlite3.Connection, key: str) -> SessionEntry | None:
        row = connection.execute(
            "select entry from session_entries where key = ?", (key,)
        ).fetchone()
        return None if row is None else self._decoded(key, row[0])

    def _decoded(self, key: str, text: str) -> SessionEntry:
        try:
            return from_json(key, json.loads(text))
        except (ValueError, TypeError, AttributeError) as error:
            raise SessionError(
                f"the entry of session {key!r} is damaged: {error}",
                where=self._path,
                hint="Its transcript is intact; delete this row to begin a new session under the key.",
            ) from error

    def _decoded_or_none(self, key: str, text: str) -> SessionEntry | None:
        try:
            return self._decoded(key, text)
        except SessionError as error:
            logger.warning("left out of the list: %s", error, extra={"session_key": key})
            return None

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
            except SessionError:
                raise
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
        lock = self._path.with_name(f"{self._path.name}.lock")
        try:
            # Two first openings that switch to WAL at once would not wait for each other (C25).
            with exclusive(lock, purpose="open", timeout_ms=_OPEN_TIMEOUT_MS):
                connection.execute("pragma busy_timeout = 10000")
                connection.execute("pragma journal_mode = wal")
                connection.execute("pragma synchronous = normal")
                connection.executescript(_SCHEMA)
        except (sqlite3.Error, SessionError):
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
            json.dumps(scrub(to_json(entry)), ensure_ascii=False),
        ),
    )
