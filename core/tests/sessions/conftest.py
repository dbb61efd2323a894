from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore


class Files:
    """Transcripts in a folder, written as foreign programs write them."""

    header: Any = {  # noqa: RUF012 - never changed
        "type": "session",
        "version": 3,
        "id": "s1",
        "timestamp": "2026-03-01T12:00:00.000Z",
    }

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = JsonlTranscriptStore(folder)

    @staticmethod
    def line(value: Any) -> bytes:
        """One line, as other programs write it."""
        return json.dumps(value).encode() + b"\n"

    @staticmethod
    def message(entry_id: Any, parent: Any, text: str = "hi", **more: Any) -> Any:
        """A message entry."""
        message = {"role": "user", "content": [{"type": "text", "text": text}]}
        return {"type": "message", "id": entry_id, "parentId": parent, "message": message, **more}

    def chain(self, *ids: str) -> list[Any]:
        """Messages in one line, each behind the one before."""
        return [
            self.message(entry_id, parent, f"text of {entry_id}")
            for parent, entry_id in zip((None, *ids), ids, strict=False)
        ]

    def write(self, *entries: Any, header: Any = header, session_id: str = "s1") -> Path:
        """Write a transcript; bytes go in as they are, and no header where it is ``None``."""
        everything = entries if header is None else (header, *entries)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{session_id}.jsonl"
        path.write_bytes(
            b"".join(one if isinstance(one, bytes) else self.line(one) for one in everything)
        )
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
