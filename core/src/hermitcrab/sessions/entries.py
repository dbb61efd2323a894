"""Session entries: one row a key in ``sessions.sqlite`` (design 5, sessions 2.2)."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import evolve, frozen

from hermitcrab.errors import SessionError, SessionLabelTakenError, SessionNotFoundError
from hermitcrab.messages.text import scrub
from hermitcrab.sessions import database
from hermitcrab.sessions.entry import MergePolicy, SessionEntry, from_json, merge, to_json
from hermitcrab.sessions.patching import parse_patch
from hermitcrab.sessions.repair.rebuilding import rebuild_entries, transcripts_in

if TYPE_CHECKING:
    import sqlite3

__all__ = ["SessionEntries", "SessionEntry", "from_json", "to_json"]

logger = logging.getLogger("hermitcrab.sessions")

_T = TypeVar("_T")
_CACHED_ENTRIES = 1_000
_NOTE_SECONDS = 30 * 86_400


@frozen
class _RebuiltRows:
    rows: tuple[database.Row, ...]
    notes: tuple[str, ...]


class SessionEntries:
    """The session entries of one agent. Every method blocks: call it in a worker thread.

    Where the table is missing beside transcripts, or its file is damaged, it is made again from the transcripts; what
    happened stands in :meth:`notes` and in the log.

    :raises SessionError: from any method, if the database cannot be opened, read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._database: database.OpenDatabase | None = None
        self._cache: OrderedDict[str, SessionEntry] = OrderedDict()
        self._data_version = -1

    def prepare(self) -> None:
        """Create the table if it is missing. Before a first transcript is created, so that it is not taken for lost."""
        self._run(lambda connection: None)

    def get(self, key: str) -> SessionEntry | None:
        """The entry of a key, or ``None``; from memory, where no other process has written since."""
        if self._is_unused():
            return None
        return self._run(lambda connection: self._get(connection, key))

    def add(self, entry: SessionEntry) -> SessionEntry:
        """Write an entry unless its key has one already; returns the one that stands there then."""

        def work(connection: sqlite3.Connection) -> SessionEntry:
            known = self._read(connection, entry.key)
            return known or self._write(connection, entry)

        return self._change(work)

    def put(self, entry: SessionEntry) -> SessionEntry:
        """Write an entry whole."""
        return self._change(lambda connection: self._write(connection, entry))

    def succeed(self, entry: SessionEntry) -> SessionEntry:
        """Write the entry of a session id that replaces the one before it under its key.

        Where another process was faster, its session id is kept among the previous ones.
        """

        def work(connection: sqlite3.Connection) -> SessionEntry:
            known = self._read(connection, entry.key)
            previous = entry.previous_session_ids
            if known is None or known.session_id in {*previous, entry.session_id}:
                return self._write(connection, entry)
            previous = (*previous, known.session_id)
            return self._write(connection, evolve(entry, previous_session_ids=previous))

        return self._change(work)

    def update(
        self,
        key: str,
        *,
        add_messages: int = 0,
        add_compactions: int = 0,
        policy: MergePolicy = "touch",
        now: int | None = None,
        **changes: Any,
    ) -> SessionEntry:
        """Change named fields of an entry, reading and writing in one transaction (:func:`merge`).

        :param add_messages: how many to add to ``message_count``; :param add_compactions: to ``compaction_count``.
        :param now: milliseconds; ``updated_at`` does not go beyond it.
        :raises SessionNotFoundError: if there is no such entry.
        :raises SessionLabelTakenError: if another session has the label.
        """

        def decide(known: SessionEntry, rebuilt: bool) -> SessionEntry:
            entry = merge(known, changes, policy=policy, now=now)
            if rebuilt:  # the transcripts have told of them already
                return entry
            return evolve(
                entry,
                message_count=entry.message_count + add_messages,
                compaction_count=entry.compaction_count + add_compactions,
            )

        return self._replace(key, decide)

    def patch(
        self,
        key: str,
        patch: Mapping[str, Any],
        *,
        policy: MergePolicy = "touch",
        now: int | None = None,
    ) -> SessionEntry:
        """Set fields by their JSON names, null deleting them; all or nothing (sessions 5.1).

        No transcript records it: ``Sessions.patch`` is what outlives the loss of the table.

        :raises SessionNotFoundError: if there is no such entry.
        :raises SessionLabelTakenError: if another session has the label.
        :raises SessionError: for an unknown field or an invalid value.
        """
        return self._replace(
            key,
            lambda known, rebuilt: merge(known, parse_patch(known, patch), policy=policy, now=now),
        )

    def move(self, key: str, old_id: str, new_id: str) -> SessionEntry:
        """Let a key go from one session id to another, unless it has gone elsewhere already.

        :raises SessionNotFoundError: if there is no such entry.
        """

        def decide(known: SessionEntry, rebuilt: bool) -> SessionEntry:
            if known.session_id != old_id:
                return known
            previous = (*known.previous_session_ids, old_id)
            return evolve(known, session_id=new_id, previous_session_ids=previous)

        return self._replace(key, decide)

    def check_label(self, key: str, label: str | None) -> None:
        """See to it that no session but ``key`` has the label.

        :raises SessionLabelTakenError: if one has.
        """
        self._run(lambda connection: self._check_label(connection, key, label))

    def notes(self) -> list[str]:
        """What was done to the table in the last 30 days that its owner should know of, the oldest first."""
        if self._is_unused():
            return []
        rows = self._run(
            lambda connection: connection.execute(
                "select note from session_notes where created_at > ? order by rowid",
                ((time.time() - _NOTE_SECONDS) * 1000,),
            ).fetchall()
        )
        return [note for (note,) in rows]

    def list(self, *, strict: bool = False) -> list[SessionEntry]:
        """All entries, the newest first.

        :param strict: raise for a damaged row, which is left out otherwise.
        """
        if self._is_unused():
            return []
        decoded = self._decoded if strict else self._decoded_or_none
        rows = self._run(
            lambda connection: connection.execute(
                "select key, entry from session_entries order by updated_at desc, key"
            ).fetchall()
        )
        return [entry for key, text in rows if (entry := decoded(key, text))]

    @property
    def folder(self) -> Path:
        """The folder of the table, in which the transcripts stand too."""
        return self._path.parent

    def transact(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Do work on the rows in one transaction, which an exception takes back."""

        def transaction(connection: sqlite3.Connection) -> _T:
            self._cache.clear()
            with connection:
                connection.execute("begin immediate")
                return work(connection)

        return self._run(transaction)

    def close(self) -> None:
        """Close the database; safe to call twice."""
        with self._lock:
            self._disconnect()

    def _is_unused(self) -> bool:
        """Whether there is nothing to read, so that looking need not create a database."""
        return (
            self._database is None
            and not self._path.exists()
            and next(transcripts_in(self._path.parent), None) is None
        )

    def _get(self, connection: sqlite3.Connection, key: str) -> SessionEntry | None:
        self._drop_stale(connection)
        entry = self._cache.get(key)
        if entry is None:
            return self._read(connection, key)
        self._cache.move_to_end(key)
        return entry

    def _replace(
        self, key: str, decide: Callable[[SessionEntry, bool], SessionEntry]
    ) -> SessionEntry:
        """Read an entry and write what becomes of it, in one transaction."""
        before = self._database

        def work(connection: sqlite3.Connection) -> SessionEntry:
            known = self._read(connection, key)
            if known is None:
                raise SessionNotFoundError(f"there is no session {key!r}", where=self._path)
            now = self._database
            entry = decide(known, now is not None and now is not before and now.rebuilt)
            if entry.label != known.label:
                self._check_label(connection, key, entry.label)
            return known if entry == known else self._write(connection, entry)

        return self._change(work)

    def _check_label(self, connection: sqlite3.Connection, key: str, label: str | None) -> None:
        if label is None:
            return
        row = connection.execute(database.KEY_OF_LABEL, (scrub(label), key)).fetchone()
        if row is not None:
            raise SessionLabelTakenError(
                f"the label {label!r} belongs to session {row[0]}",
                key=row[0],
                where=self._path,
                hint="Choose another label, or take it from that session first.",
            )

    def _read(self, connection: sqlite3.Connection, key: str) -> SessionEntry | None:
        row = connection.execute(database.GET, (key,)).fetchone()
        return None if row is None else self._remember(self._decoded(key, row[0]))

    def _write(self, connection: sqlite3.Connection, entry: SessionEntry) -> SessionEntry:
        connection.execute(database.WRITE, row_of(entry))
        return entry

    def _remember(self, entry: SessionEntry) -> SessionEntry:
        self._cache[entry.key] = entry
        self._cache.move_to_end(entry.key)
        if len(self._cache) > _CACHED_ENTRIES:
            self._cache.popitem(last=False)
        return entry

    def _drop_stale(self, connection: sqlite3.Connection) -> None:
        """Forget what was read if another connection has committed since."""
        version = connection.execute("pragma data_version").fetchone()[0]
        if version != self._data_version:
            self._cache.clear()
            self._data_version = version

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

    def _change(self, work: Callable[[sqlite3.Connection], SessionEntry]) -> SessionEntry:
        """Do work that writes one entry, in one transaction; what it wrote is known afterwards without a look."""

        def transaction(connection: sqlite3.Connection) -> SessionEntry:
            with connection:
                connection.execute("begin immediate")
                self._drop_stale(connection)
                entry = work(connection)
                self._cache.pop(entry.key, None)
            return entry

        return self._run(transaction)

    def _run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Do work on the database; where it turns out to be damaged, on the one that is made in its place."""
        import sqlite3

        with self._lock:
            try:
                try:
                    return work(self._connected())
                except sqlite3.DatabaseError as error:
                    if self._database is None or not database.is_damage(error):
                        raise
                    self._open(damaged=self._database.identity, cause=str(error))
                    return work(self._connected())
            except (sqlite3.Error, OSError) as error:
                if isinstance(error, SessionError):
                    raise
                raise SessionError(
                    f"the session entries cannot be read or written: {error}",
                    where=self._path,
                    hint="The transcripts beside it are intact; check the disk and the folder's permissions.",
                ) from error

    def _connected(self) -> sqlite3.Connection:
        """The connection to the file that the path names now: another process may have set the old one aside."""
        if self._database and self._database.read_only and database.is_writable(self._path.parent):
            # Closed first: what SQLite shares among connections to one file would stay read-only.
            self._disconnect()
        known = self._database
        if known is not None and known.identity == database.identity_of(self._path):
            return known.connection
        if known is not None and not self._path.parent.is_dir():
            raise SessionError(
                "the folder of the sessions is gone",
                where=self._path.parent,
                hint="Bring it back; nothing was written elsewhere meanwhile.",
            )
        return self._open().connection

    def _open(
        self, *, damaged: database.FileIdentity | None = None, cause: str = ""
    ) -> database.OpenDatabase:
        # The old connection is closed last: closing it first could write into a file that is to be kept as it is.
        opened = database.open_database(self._path, self._rebuild, damaged=damaged, cause=cause)
        self._disconnect()
        self._database = opened
        return opened

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.connection.close()
            self._database = None
        self._cache.clear()
        self._data_version = -1

    def _rebuild(self, cause: str) -> _RebuiltRows | None:
        rebuilt = rebuild_entries(self._path.parent, _agent_of(self._path), cause)
        if rebuilt is None:
            return None
        return _RebuiltRows(tuple(map(row_of, rebuilt.entries)), rebuilt.notes)


def _agent_of(path: Path) -> str:
    """The agent whose table this is: ``agents/<agentId>/sessions/sessions.sqlite`` (design 5)."""
    from hermitcrab.sessions.keys import DEFAULT_AGENT, normalise_agent_id

    folder = path.absolute().parent.parent
    return normalise_agent_id(folder.name) if folder.parent.name == "agents" else DEFAULT_AGENT


def row_of(entry: SessionEntry) -> database.Row:
    """What stands in the table for an entry."""
    text = json.dumps(scrub(to_json(entry)), ensure_ascii=False)
    return scrub(entry.key), entry.session_id, entry.updated_at, text
