"""The lines of a transcript: entries, headers, ids, and the older format versions (context 9)."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Required, TypedDict

from hermitcrab.messages.text import scrub
from hermitcrab.messages.types import Message

FORMAT_VERSION = 3
#: The custom entry that repeats a change of the session entry, so that the entry table can be rebuilt.
ENTRY_CHANGE = "hermitcrab.entry"
#: Escapes and bytes from which a lone surrogate could come; lines without them need no second look.
_MAY_HOLD_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")


class Entry(TypedDict, total=False):
    """One line behind the header; which fields it has depends on ``type`` (context 9.2). Unknown ones are kept."""

    type: Required[str]
    id: str
    parentId: str | None
    timestamp: str
    message: Message
    summary: str
    firstKeptEntryId: str
    tokensBefore: int
    tokensAfter: int
    details: dict[str, Any]
    fromHook: bool
    fromId: str
    customType: str
    content: Any
    data: Any
    display: bool
    targetId: str | None
    label: str
    name: str
    provider: str
    modelId: str
    thinkingLevel: str


class Header(TypedDict, total=False):
    """The first line of a transcript."""

    type: Required[str]
    version: int
    id: str
    timestamp: str
    cwd: str
    parentSession: str


class IdSource:
    """Entry ids: 16 hex digits that sort by time, without looking at the file (design 5)."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> str:
        # 44 bits of milliseconds and 20 random bits; ids of one millisecond count upwards.
        with self._lock:
            fresh = (int(self._now() * 1000) << 20) | secrets.randbits(20)
            self._last = fresh if fresh > self._last else self._last + 1
            return f"{self._last:016x}"


def iso(moment: datetime) -> str:
    """A timestamp as transcripts write it: UTC, milliseconds, ``Z``."""
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def parse_time(text: object) -> datetime | None:
    """The moment that an ISO text or a number of milliseconds names, or ``None``."""
    try:
        if isinstance(text, int | float) and not isinstance(text, bool):
            return datetime.fromtimestamp(text / 1000, UTC)
        if isinstance(text, str):
            moment = datetime.fromisoformat(text)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def new_header(session_id: str, moment: datetime, *, cwd: str, parent: str | None = None) -> Header:
    """The header of a new transcript; ``parent`` is the file that it continues."""
    header: Header = {
        "type": "session",
        "version": FORMAT_VERSION,
        "id": session_id,
        "timestamp": iso(moment),
        "cwd": cwd,
    }
    if parent is not None:
        header["parentSession"] = parent
    return header


def encode_line(value: Mapping[str, Any]) -> bytes:
    """One line of a transcript, newline included."""
    text = json.dumps(scrub(dict(value)), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8") + b"\n"


def decode_line(line: bytes) -> dict[str, Any] | None:
    """The object that a line holds; ``None`` if it is not a JSON object with a ``type``."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return None
    if _MAY_HOLD_SURROGATE.search(line):
        value = scrub(value)
    decoded: dict[str, Any] = value
    return decoded


def is_header(value: Mapping[str, Any] | None) -> bool:
    """Whether a decoded line is a session header."""
    return value is not None and value["type"] == "session" and isinstance(value.get("id"), str)


def derived_id(header_id: str, offset: int) -> str:
    """The id of an entry that has none, from its file's header and its byte offset (design 7)."""
    return hashlib.sha256(f"{header_id}:{offset}".encode()).hexdigest()[:16]
