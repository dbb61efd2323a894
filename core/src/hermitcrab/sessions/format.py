"""The lines of a transcript: entries, headers, ids, and the older format versions (context 9)."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Required, TypedDict

from hermitcrab.errors import EntryError
from hermitcrab.messages.text import scrub
from hermitcrab.messages.types import Message

FORMAT_VERSION = 3
#: The custom entry that repeats a change of the session entry, so that the entry table can be rebuilt.
ENTRY_CHANGE = "hermitcrab.entry"
#: In such an entry: what the transcript recorded before it holds no more, because it has another home or key now.
REPLACES_RECORDS = "replacesRecords"
#: Escapes and bytes from which a lone surrogate could come; lines without them need no second look.
_MAY_HOLD_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")


_ID_EPOCH_MS = 1_577_836_800_000
_ID_RANDOM_BITS = 24


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
    rewriteOf: str


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
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_anew)

    def next(self) -> str:
        """One id."""
        return self.take(1)[0]

    def take(self, count: int) -> list[str]:
        """As many ids, in order."""
        # 40 bits of milliseconds since 2020 (until 2054) and 24 random bits; within one millisecond ids count upwards.
        with self._lock:
            moment = max(0, int(self._now() * 1000) - _ID_EPOCH_MS)
            first = self._last + 1
            if moment > self._last >> _ID_RANDOM_BITS:
                first = (moment << _ID_RANDOM_BITS) | secrets.randbits(_ID_RANDOM_BITS)
            self._last = first + count - 1
            return [f"{number:016x}" for number in range(first, first + count)]

    def _begin_anew(self) -> None:
        """A forked child must not count on from where its parent counts on too."""
        self._lock = threading.Lock()
        self._last = (self._last & ~((1 << _ID_RANDOM_BITS) - 1)) | secrets.randbits(
            _ID_RANDOM_BITS
        )


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
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
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
    """One line of a transcript, newline included. Lone surrogates become U+FFFD (C57), NaN and infinities null.

    :raises EntryError: if it holds something that JSON cannot express.
    """
    try:
        try:
            return _dump(value)
        except ValueError:
            return _dump(_expressible(scrub(dict(value))))
    except (TypeError, ValueError, RecursionError) as error:
        raise EntryError(
            f"an entry of type {value.get('type')!r} cannot be written as JSON: {error}",
            hint="Messages hold texts, numbers, booleans, null, lists and objects only.",
        ) from error


# What contains itself ends in a RecursionError without the bookkeeping of check_circular.
_ENCODER = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
)


def _dump(value: Mapping[str, Any]) -> bytes:
    return _ENCODER.encode(value).encode("utf-8") + b"\n"


def _expressible(value: Any) -> Any:
    """A copy without the numbers that JSON lacks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _expressible(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_expressible(item) for item in value]
    return value


def encode_entry(entry: Entry) -> tuple[Entry, bytes]:
    """A line, and the entry as it will be read back: the same object if nothing in it had to be replaced.

    :raises EntryError: if it holds something that JSON cannot express.
    """
    try:
        return entry, _dump(entry)
    except (TypeError, ValueError, RecursionError):
        line = encode_line(entry)
        return json.loads(line), line


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
    return (
        value is not None and value["type"] == "session" and reference(value.get("id")) is not None
    )


def format_version(header: Header) -> int:
    """The format version that a header states: 1 where it states none, the current one where it is unreadable."""
    version: Any = header.get("version", 1)
    if isinstance(version, str) and version.isascii() and version.isdigit():
        return int(version[:9])
    return version if type(version) is int else FORMAT_VERSION


def reference(value: object) -> str | None:
    """What an id field names; anything but a text with something in it names nothing."""
    return value if isinstance(value, str) and value else None


def identified(value: Mapping[str, Any], header_id: str, offset: int) -> Entry:
    """The entry on a line, with an id derived from where it stands if it has none."""
    fields: Any = value
    if reference(fields.get("id")) is None:
        fields = {**value, "id": derived_id(header_id, offset)}
    entry: Entry = fields
    return entry


def derived_id(header_id: str, offset: int) -> str:
    """The id of an entry that has none, from its file's header and its byte offset (design 7)."""
    return hashlib.sha256(f"{header_id}:{offset}".encode()).hexdigest()[:16]
