"""Folders with sessions in them, made as the program makes them, and large transcripts written line by line."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from hermitcrab.messages import user
from hermitcrab.messages.types import Message
from hermitcrab.sessions.entries import SessionEntries, SessionEntry
from hermitcrab.sessions.format import encode_line, iso, new_header
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

KEY = "agent:main:main"
_STARTED = datetime(2026, 1, 1, tzinfo=UTC)
_TEXT = "The build of the parser fails on line 214, and the port of the test server is 8031. "
#: How many entries stand behind the last compaction of a long transcript, and as many are kept by it.
_TAIL = 50


def sample_message() -> Message:
    """A message of usual length: 250 bytes of text."""
    return user(_TEXT * 3)


@asynccontextmanager
async def sessions_in(folder: Path, durability: str = "turn") -> AsyncIterator[Sessions]:
    """The sessions of one agent whose files are in ``folder``."""
    sessions = Sessions(
        store=JsonlTranscriptStore(folder),
        entries=SessionEntries(folder / "sessions.sqlite"),
        clock=lambda: datetime.now(UTC),
        cwd=str(folder),
        durability=durability,
    )
    try:
        yield sessions
    finally:
        await sessions.close()


def write_entry(folder: Path, key: str, session_id: str) -> None:
    """Name ``session_id`` as the session under ``key``."""
    entries = SessionEntries(folder / "sessions.sqlite")
    try:
        entries.put(new_session_entry(key, session_id))
    finally:
        entries.close()


def new_session_entry(key: str, session_id: str) -> SessionEntry:
    """The row of a key as it is when its session begins."""
    started = int(_STARTED.timestamp() * 1000)
    return SessionEntry(
        key=key, session_id=session_id, updated_at=started, session_started_at=started
    )


def write_transcript(folder: Path, session_id: str, *, entries: int) -> None:
    """A transcript of ``entries`` messages in one line, never compacted, under :data:`KEY`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{session_id}.jsonl").open("wb") as file:
        file.write(_header(session_id))
        file.writelines(_messages(1, entries, _TEXT))
    write_entry(folder, KEY, session_id)


def write_compacted_transcript(folder: Path, session_id: str, *, size: int) -> None:
    """A transcript of about ``size`` bytes whose last compaction stands near its end, under :data:`KEY`."""
    folder.mkdir(parents=True, exist_ok=True)
    text = _TEXT * 10
    length = len(_message(1, text))
    number = max(size // length, 3 * _TAIL) - _TAIL
    with (folder / f"{session_id}.jsonl").open("wb") as file:
        file.write(_header(session_id))
        file.writelines(_messages(1, number, text))
        compaction = number + 1
        file.write(
            encode_line(
                {
                    "type": "compaction",
                    "id": _id(compaction),
                    "parentId": _id(number),
                    "timestamp": iso(_STARTED),
                    "summary": text,
                    "firstKeptEntryId": _id(number - _TAIL),
                    "tokensBefore": 100_000,
                }
            )
        )
        file.writelines(_messages(compaction + 1, compaction + _TAIL, text))
    write_entry(folder, KEY, session_id)


def _header(session_id: str) -> bytes:
    return encode_line(new_header(session_id, _STARTED, cwd="/"))


def _messages(first: int, last: int, text: str) -> Iterator[bytes]:
    return (_message(number, text) for number in range(first, last + 1))


def _message(number: int, text: str) -> bytes:
    parent = f'"{_id(number - 1)}"' if number > 1 else "null"
    return (
        f'{{"type":"message","id":"{_id(number)}","parentId":{parent},'
        f'"timestamp":"2026-01-01T00:00:00.000Z",'
        f'"message":{{"role":"user","content":[{{"type":"text","text":{json.dumps(text)}}}]}}}}\n'
    ).encode()


def _id(number: int) -> str:
    return f"{number:016x}"
