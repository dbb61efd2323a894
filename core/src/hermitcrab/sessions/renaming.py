"""An agent's main conversation under another key, since ``session.mainKey`` was set or changed (sessions 1.5).

``main`` is an alias of every main key, so what was said under it would be out of reach under its own key.
"""

from __future__ import annotations

import json
import sqlite3

from attrs import evolve

from hermitcrab.sessions import database
from hermitcrab.sessions.entries import SessionEntries, row_of
from hermitcrab.sessions.entry import SessionEntry, from_json
from hermitcrab.sessions.keys import DEFAULT_MAIN_KEY

_DELETE = "delete from session_entries where key = ?"


def former_main_key(key: str, main_key: str) -> str | None:
    """Where the main conversation stood before ``main_key`` was its name; ``None`` if ``key`` is not its key."""
    prefix, _, rest = key.rpartition(":")
    if main_key == DEFAULT_MAIN_KEY or rest != main_key or prefix.count(":") != 1:
        return None
    return f"{prefix}:{DEFAULT_MAIN_KEY}"


def rename_entry(entries: SessionEntries, former: str, key: str) -> SessionEntry | None:
    """Move the row of ``former`` to ``key``, unless one stands there; returns it, or ``None`` if nothing was moved."""

    def work(connection: sqlite3.Connection) -> SessionEntry | None:
        row = connection.execute(database.GET, (former,)).fetchone()
        if row is None or connection.execute(database.GET, (key,)).fetchone() is not None:
            return None
        entry = evolve(from_json(former, json.loads(row[0])), key=key)
        connection.execute(_DELETE, (former,))
        connection.execute(database.WRITE, row_of(entry))
        return entry

    return entries.transact(work)
