"""Where passages stand, and what day a note is of."""

from __future__ import annotations

import re
from datetime import date

from attrs import frozen

_DAILY = re.compile(r"memory/([0-9]{4}-[0-9]{2}-[0-9]{2})(?:-[^/]*)?\.md")


@frozen
class Place:
    """Where a passage or chunk stands; passages of one file have consecutive ids."""

    id: int
    path: str
    start_line: int
    end_line: int


@frozen
class StoredPassage:
    """A passage by its place in the index; passages of one file follow each other."""

    id: int
    path: str
    start_line: int
    end_line: int
    text: str


def note_day(path: str) -> date | None:
    """The date of a daily note, slugged ones included; ``None`` for a note that never ages (memory 4.6)."""
    match = _DAILY.fullmatch(path)
    if match is None:
        return None
    try:
        return date.fromisoformat(match[1])
    except ValueError:
        return None
