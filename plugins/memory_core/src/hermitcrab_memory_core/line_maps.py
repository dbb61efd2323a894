"""Where the lines of a text stand in its file, for files that are not indexed as they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from hermitcrab.memory import Hit

if TYPE_CHECKING:
    import sqlite3


def keep(connection: sqlite3.Connection, path: str, lines: Sequence[int]) -> None:
    """Keep the line of the file for each line of its text; none where they are the same."""
    connection.execute("DELETE FROM line_maps WHERE path = ?", (path,))
    if lines:
        connection.execute("INSERT INTO line_maps VALUES (?, ?)", (path, json.dumps(lines)))


def placed(connection: sqlite3.Connection, hits: Iterable[Hit], source: str) -> list[Hit]:
    """Hits of ``source`` with lines of their files instead of lines of the texts that were indexed."""
    known: dict[str, list[int]] = {}
    found = []
    for hit in hits:
        if hit.path not in known:
            row = connection.execute(
                "SELECT lines FROM line_maps WHERE path = ?", (hit.path,)
            ).fetchone()
            known[hit.path] = [] if row is None else json.loads(row[0])
        lines = known[hit.path]
        if lines:
            hit = evolve(
                hit, start_line=lines[hit.start_line - 1], end_line=lines[hit.end_line - 1]
            )
        found.append(evolve(hit, source=source))
    return found
