"""The file ``sessions.sqlite``: opening it, and setting it aside where it is damaged (design 5)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from attrs import frozen

from hermitcrab.sessions.locks import exclusive

if TYPE_CHECKING:
    import sqlite3

logger = logging.getLogger("hermitcrab.sessions")

OPEN_TIMEOUT_MS = 10_000
_TABLE = "session_entries"
_LABEL = "case when json_valid(entry) then json_extract(entry, '$.label') end"
_SCHEMA = {
    _TABLE: """
    create table if not exists session_entries (
        key text primary key,
        session_id text not null,
        updated_at integer not null,
        entry text not null
    ) without rowid
    """,
    "session_entries_by_id": (
        "create index if not exists session_entries_by_id on session_entries (session_id)"
    ),
    "session_entries_by_label": (
        f"create index if not exists session_entries_by_label on session_entries ({_LABEL})"
    ),
    "session_notes": (
        "create table if not exists session_notes (created_at integer not null, note text not null)"
    ),
    "session_state": (
        "create table if not exists session_state (name text primary key, value text not null)"
    ),
}
GET = "select entry from session_entries where key = ?"
WRITE = (
    "insert into session_entries (key, session_id, updated_at, entry) values (?, ?, ?, ?)"
    " on conflict (key) do update set session_id = excluded.session_id,"
    " updated_at = excluded.updated_at, entry = excluded.entry"
)
KEY_OF_LABEL = f"select key from session_entries where {_LABEL} = ? and key <> ? limit 1"

#: A row: key, session id, updated_at, and the entry as JSON.
Row = tuple[str, str, int, str]
#: Which file a path names: device and inode.
FileIdentity = tuple[int, int]


class Rebuilt(Protocol):
    """What a table is made of again: its rows, and what is to be told of that."""

    @property
    def rows(self) -> Iterable[Row]: ...
    @property
    def notes(self) -> Iterable[str]: ...


#: Makes rows from the transcripts, told what has become of the table; ``None`` if there is nothing to make or to tell.
Rebuild = Callable[[str], Rebuilt | None]


@frozen
class OpenDatabase:
    """A connection, the file that it is on, and whether the table had to be made from transcripts.

    ``read_only`` says that the folder could not be written to when it was opened.
    """

    connection: sqlite3.Connection
    identity: FileIdentity
    rebuilt: bool
    read_only: bool = False


def open_database(
    path: Path, rebuild: Rebuild, *, damaged: FileIdentity | None = None, cause: str = ""
) -> OpenDatabase:
    """Open the database, with its table rebuilt if it is missing or the file is damaged.

    All of it happens under a lock: of several processes that find one damage, one sets the file aside.

    :param damaged: the file in which damage was found, for the reason ``cause``.
    :raises SessionLockedError: if another process opens or rebuilds it for too long.
    :raises sqlite3.Error: if it cannot be opened for another reason than damage.
    """
    import sqlite3

    if path.exists() and not is_writable(path.parent):
        return OpenDatabase(_connect_read_only(path), identity_of(path) or (0, 0), False, True)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = path.with_name(f"{path.name}.lock")
    # Two first openings that switch to WAL at once would not wait for each other (C25).
    with exclusive(lock, purpose="open", timeout_ms=OPEN_TIMEOUT_MS):
        state = "had no table" if path.exists() else "was missing"
        was_damaged = damaged is not None and identity_of(path) == damaged
        if was_damaged:
            state = _set_aside(path, cause)
        connection = _connect(path)
        try:
            try:
                names = _configure(connection)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                # Closed afterwards: closing it could write into files that are to be kept as they are.
                state, was_damaged = _set_aside(path, str(error)), True
                connection.close()
                connection = _connect(path)
                names = _configure(connection)
            cause = f"{path.name} {state}"
            rebuilt = None if _TABLE in names else rebuild(cause)
            if not names.issuperset(_SCHEMA):
                notes = rebuilt.notes if rebuilt else [cause] if was_damaged else []
                _prepare(connection, rebuilt.rows if rebuilt else [], notes)
        except BaseException:
            connection.close()
            raise
        identity = identity_of(path) or (0, 0)
    return OpenDatabase(connection, identity, rebuilt is not None)


def is_writable(folder: Path) -> bool:
    """Whether files can be created in a folder now: its permissions and its disk allow it."""
    return os.access(folder, os.W_OK)


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """A connection that creates no file beside the database, as SQLite does even to read one in WAL mode."""
    import sqlite3

    log = path.with_name(f"{path.name}-wal")
    # Where there is no log, nothing can change the file: a folder that nobody may write to gets no new one.
    mode = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file is no sound database, rather than busy, full or out of reach."""
    import sqlite3

    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def identity_of(path: Path) -> FileIdentity | None:
    """Which file a path names now, or ``None`` if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _connect(path: Path) -> sqlite3.Connection:
    import sqlite3

    # Only a new file is opened here: closing a descriptor would drop the locks that SQLite holds on it.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    return sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)


def _configure(connection: sqlite3.Connection) -> set[str]:
    """Set a connection up; returns the names of the tables and indexes that it finds."""
    connection.execute("pragma busy_timeout = 10000")
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = normal")
    return {name for (name,) in connection.execute("select name from sqlite_master")}


def _prepare(connection: sqlite3.Connection, rows: Iterable[Row], notes: Iterable[str]) -> None:
    """The schema, and what was rebuilt, in one transaction: a crash leaves a missing table, not half of one."""
    with connection:
        connection.execute("begin immediate")
        for statement in _SCHEMA.values():
            connection.execute(statement)
        connection.executemany(WRITE, rows)
        now = int(datetime.now(UTC).timestamp() * 1000)
        connection.executemany(
            "insert into session_notes values (?, ?)", [(now, note) for note in notes]
        )


def _set_aside(path: Path, cause: str) -> str:
    """Rename a damaged database and what belongs to it; tells what has become of it.

    The log goes first: a crash in between must not leave it to be taken for that of a new database.
    """
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%fZ")
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    for suffix in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    logger.error("%s is damaged (%s) and was set aside as %s", path, cause, aside.name)
    return f"was damaged ({cause}) and is kept as {aside.name}"
