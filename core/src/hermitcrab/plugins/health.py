"""health.sqlite: what went wrong with engines and hooks, for ``status`` and ``doctor`` in other processes.

Keeping it is best effort: a failure to write is logged once and changes nothing else.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

if TYPE_CHECKING:
    import sqlite3

logger = logging.getLogger("hermitcrab.health")

MAX_QUARANTINES = 64
BUSY_TIMEOUT_MS = 5_000
#: How often the failures of one and the same hook are written at most, in seconds; the counts are exact all the same.
WRITE_INTERVAL_S = 1.0
#: Longer reasons and errors are cut, in characters.
MAX_TEXT = 500

#: A row with this process id from before then was left by another process that had the same id.
_PROCESS_STARTED_MS = int(time.time() * 1000)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS quarantines (
    engine_id TEXT NOT NULL, owner TEXT, operation TEXT NOT NULL, reason TEXT NOT NULL,
    failed_at INTEGER NOT NULL, pid INTEGER NOT NULL, PRIMARY KEY (engine_id, pid)
);
CREATE TABLE IF NOT EXISTS hooks (
    plugin_id TEXT NOT NULL, hook TEXT NOT NULL, failures INTEGER NOT NULL, last_error TEXT,
    last_at INTEGER, slowest_seconds REAL NOT NULL, calls INTEGER NOT NULL DEFAULT 0,
    seconds REAL NOT NULL DEFAULT 0, called_at INTEGER, PRIMARY KEY (plugin_id, hook)
);
CREATE TABLE IF NOT EXISTS engines (
    session_key TEXT NOT NULL PRIMARY KEY, engine_id TEXT NOT NULL, degraded_reason TEXT,
    used_at INTEGER NOT NULL
);
"""
_ADD_QUARANTINE = """
INSERT INTO quarantines VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (engine_id, pid) DO UPDATE SET owner = excluded.owner, operation = excluded.operation,
    reason = excluded.reason, failed_at = excluded.failed_at
WHERE quarantines.failed_at < ?
"""
_TRIM_QUARANTINES = """
DELETE FROM quarantines WHERE rowid NOT IN (
    SELECT rowid FROM quarantines ORDER BY failed_at DESC, rowid DESC LIMIT ?
)
"""
_ADD_HOOK = """
INSERT INTO hooks (
    plugin_id, hook, failures, last_error, last_at, slowest_seconds, calls, seconds, called_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (plugin_id, hook) DO UPDATE SET failures = failures + excluded.failures,
    last_error = COALESCE(excluded.last_error, last_error),
    last_at = COALESCE(excluded.last_at, last_at),
    slowest_seconds = MAX(slowest_seconds, excluded.slowest_seconds),
    calls = calls + excluded.calls, seconds = seconds + excluded.seconds,
    called_at = COALESCE(excluded.called_at, called_at)
"""
#: Columns that a file of an earlier version does not have.
_LATER_COLUMNS = {
    "calls": "INTEGER NOT NULL DEFAULT 0",
    "seconds": "REAL NOT NULL DEFAULT 0",
    "called_at": "INTEGER",
}
_SET_ENGINE = """
INSERT INTO engines VALUES (?, ?, ?, ?)
ON CONFLICT (session_key) DO UPDATE SET engine_id = excluded.engine_id,
    degraded_reason = excluded.degraded_reason, used_at = excluded.used_at
"""


@frozen
class Quarantine:
    """An engine that a process set aside; ``failed_at`` is in milliseconds since the epoch."""

    engine_id: str
    owner: str | None
    operation: str
    reason: str
    failed_at: int
    pid: int


@frozen
class HookHealth:
    """How the handlers of one plugin for one hook did, in all processes.

    ``last_at``, of the last failure, and ``called_at``, of the last call, are in milliseconds since the epoch;
    ``seconds`` is what all ``calls`` took together.
    """

    plugin_id: str
    hook: str
    failures: int
    last_error: str | None
    last_at: int | None
    slowest_seconds: float
    calls: int = 0
    seconds: float = 0.0
    called_at: int | None = None


@frozen
class EngineUse:
    """The engine that a session used last; ``used_at`` is in milliseconds since the epoch."""

    session_key: str
    engine_id: str
    degraded_reason: str | None
    used_at: int


@frozen(kw_only=True)
class HealthReport:
    """Everything that is kept, newest first; ``error`` says why it could not be read."""

    quarantines: tuple[Quarantine, ...] = ()
    hooks: tuple[HookHealth, ...] = ()
    engines: tuple[EngineUse, ...] = ()
    error: str | None = None


@define
class _Pending:
    """What is not written yet about one hook of one plugin."""

    failures: int = 0
    last_error: str | None = None
    last_at: int | None = None
    slowest_seconds: float = 0.0
    calls: int = 0
    seconds: float = 0.0
    called_at: int | None = None
    written_at: float = field(default=float("-inf"))

    def row(self) -> tuple[Any, ...]:
        return (
            self.failures,
            self.last_error,
            self.last_at,
            self.slowest_seconds,
            self.calls,
            self.seconds,
            self.called_at,
        )


class HealthStore:
    """Writes health.sqlite; usable from any thread, and a :class:`~hermitcrab.hooks.reporter.HookReporter`.

    The file is made when there is something to write. ``clock`` is in milliseconds since the epoch.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._pending: dict[tuple[str, str], _Pending] = {}
        self._complained = False

    def record_quarantine(
        self,
        engine_id: str,
        owner: str | None,
        operation: str,
        reason: str,
        failed_at: int | None = None,
    ) -> None:
        """Keep why an engine is set aside; the first failure of an engine in this process stands."""
        when = self._clock() if failed_at is None else failed_at
        row = (engine_id, owner, operation, reason[:MAX_TEXT], when, os.getpid())

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(_ADD_QUARANTINE, (*row, _PROCESS_STARTED_MS))
            connection.execute(_TRIM_QUARANTINES, (MAX_QUARANTINES,))

        self._write(write)

    def clear_quarantine(self, engine_id: str) -> None:
        """Forget this process's quarantine of an engine."""
        if not self._path.exists():
            return
        statement = "DELETE FROM quarantines WHERE engine_id = ? AND pid = ?"
        self._write(lambda connection: connection.execute(statement, (engine_id, os.getpid())))

    def record_engine_used(
        self, session_key: str, engine_id: str, degraded_reason: str | None = None
    ) -> None:
        """Keep which engine a session used last, and why it was not the selected one."""
        row = (session_key, engine_id, degraded_reason, self._clock())
        self._write(lambda connection: connection.execute(_SET_ENGINE, row))

    def hook_failed(self, plugin_id: str, hook: str, error: BaseException, seconds: float) -> None:
        """Count a failure of a plugin's handler."""
        with self._lock:
            pending = self._pending_of(plugin_id, hook)
            pending.failures += 1
            pending.last_error = f"{type(error).__name__}: {error}"[:MAX_TEXT]
            pending.last_at = self._clock()
            pending.slowest_seconds = max(pending.slowest_seconds, seconds)
            is_due = time.monotonic() - pending.written_at >= WRITE_INTERVAL_S
        if is_due:
            self._write_hooks([(plugin_id, hook)])

    def hook_timed(
        self, plugin_id: str, hook: str, calls: int, seconds: float, slowest: float
    ) -> None:
        """Add calls of a plugin's handler; written at the next failure or at :meth:`flush`."""
        with self._lock:
            pending = self._pending_of(plugin_id, hook)
            pending.calls += calls
            pending.seconds += seconds
            pending.called_at = self._clock()
            pending.slowest_seconds = max(pending.slowest_seconds, slowest)

    def flush(self) -> None:
        """Write what is pending."""
        with self._lock:
            keys = [key for key, each in self._pending.items() if each.failures or each.calls]
        if keys:
            self._write_hooks(keys)

    def close(self) -> None:
        """Write what is pending and close the file."""
        self.flush()
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _pending_of(self, plugin_id: str, hook: str) -> _Pending:
        return self._pending.setdefault((plugin_id, hook), _Pending())

    def _write_hooks(self, keys: list[tuple[str, str]]) -> None:
        with self._lock:
            rows = [(*key, *self._pending[key].row()) for key in keys]
            written = self._write(lambda connection: connection.executemany(_ADD_HOOK, rows))
            for key in keys:
                if written:
                    self._pending[key] = _Pending()
                self._pending[key].written_at = time.monotonic()

    def _write(self, action: Callable[[sqlite3.Connection], object]) -> bool:
        """Run ``action`` in a transaction; whether it took. The first failure is logged."""
        import sqlite3

        with self._lock:
            try:
                if self._connection is None:
                    self._connection = _open(self._path)
                with self._connection:
                    action(self._connection)
            except (sqlite3.Error, OSError) as error:
                if not self._complained:
                    self._complained = True
                    logger.warning("%s cannot be written: %s", self._path, error)
                return False
        return True


def read_health(path: Path) -> HealthReport:
    """What health.sqlite holds; empty if there is none yet, with ``error`` if it cannot be read."""
    import sqlite3

    if not path.exists():
        return HealthReport()
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_MS / 1000)) as connection:
            return HealthReport(
                quarantines=_rows(connection, Quarantine, "quarantines", "failed_at"),
                hooks=_rows(connection, HookHealth, "hooks", "last_at"),
                engines=_rows(connection, EngineUse, "engines", "used_at"),
            )
    except (sqlite3.Error, OSError) as error:
        return HealthReport(error=f"{path} cannot be read ({error}); it can be deleted")


def _add_columns(connection: sqlite3.Connection) -> None:
    import sqlite3

    known = {row[1] for row in connection.execute("PRAGMA table_info(hooks)")}
    for name, kind in _LATER_COLUMNS.items():
        if name not in known:
            try:
                connection.execute(f"ALTER TABLE hooks ADD COLUMN {name} {kind}")
            except sqlite3.OperationalError as error:
                if "duplicate column" not in str(error):  # another process was first
                    raise


def _rows(connection: sqlite3.Connection, row_class: Any, table: str, newest: str) -> Any:
    rows = connection.execute(f"SELECT * FROM {table} ORDER BY {newest} DESC, rowid DESC")
    return tuple(row_class(*row) for row in rows)


def _open(path: Path) -> sqlite3.Connection:
    import sqlite3

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(_SCHEMA)
        _add_columns(connection)
    except BaseException:
        connection.close()
        raise
    return connection
