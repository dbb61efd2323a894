"""How many rows of an index have a term: counted once for as long as nobody writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

# A long-lived memory that is never written to must not hold a count for every question that it ever heard.
_MOST_KEPT = 2000


class TermCounts:
    """The counts behind one connection. Used from one thread at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._state: tuple[int, int] | None = None
        self._counts: dict[tuple[str, str], int] = {}

    def of(self, table: str, expression: str) -> int:
        """How many rows of the FTS5 table ``table`` match ``expression``."""
        state = state_of(self._connection)
        if state != self._state or len(self._counts) >= _MOST_KEPT:
            self._state, self._counts = state, {}
        key = (table, expression)
        if key not in self._counts:
            self._counts[key] = self._connection.execute(
                f"SELECT count(*) FROM {table} WHERE {table} MATCH ?", (expression,)
            ).fetchone()[0]
        return self._counts[key]


def state_of(connection: sqlite3.Connection) -> tuple[int, int]:
    """Changes whenever this or another process has written."""
    version: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return version, connection.total_changes
