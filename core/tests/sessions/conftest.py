from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

KEY = "agent:main:main"
HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-03-01T12:00:00.000Z"}


def line_of(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def message_entry(entry_id: str, parent: str | None, text: str = "hi", **more: Any) -> Any:
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    return {"type": "message", "id": entry_id, "parentId": parent, "message": message, **more}


class Files:
    """Transcripts in a folder, written as foreign programs write them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = JsonlTranscriptStore(folder)

    def write(self, lines: Sequence[Any], *, header: Any = HEADER, session_id: str = "s1") -> Path:
        """Write a transcript; a line given as bytes goes in as it is, ``None`` leaves the header out."""
        all_lines = lines if header is None else [header, *lines]
        data = b"".join(line if isinstance(line, bytes) else line_of(line) for line in all_lines)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{session_id}.jsonl"
        path.write_bytes(data)
        return path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "sessions")


@pytest.fixture
def clock() -> Callable[[], datetime]:
    """A clock that goes on by a second at every look."""
    moments: Iterator[datetime] = (
        datetime(2026, 3, 1, 12, tzinfo=UTC) + timedelta(seconds=n) for n in range(1_000_000)
    )
    return lambda: next(moments)


@pytest.fixture
def open_sessions(files: Files, clock: Callable[[], datetime]) -> Iterator[Callable[[], Sessions]]:
    """Makes a view of the same folder, as another process would have it."""
    tables: list[SessionEntries] = []

    def make(**options: Any) -> Sessions:
        table = SessionEntries(files.folder / "sessions.sqlite")
        tables.append(table)
        return Sessions(store=files.store, entries=table, clock=clock, cwd="/work", **options)

    yield make
    for table in tables:
        table.close()
