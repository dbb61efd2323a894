"""What stands above the notes on one part of a conversation when parts are merged (context 4.8, version B). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hermitcrab.messages.types import Message

EARLIER_NOTES = "earlier notes, older than all that follows"


def part_label(number: int, total: int, messages: Sequence[Message]) -> str:
    """Such as ``[Chunk 1/2 — oldest messages, 2026-01-02 09:30 — 2026-01-02 11:05 UTC]``.

    :param number: of this part, from 1 on, among :param total:.
    :param messages: of this part; none where the notes are those of an earlier compaction.
    """
    if not messages:
        return f"[Chunk {number}/{total} — {EARLIER_NOTES}]"
    place = {1: "oldest messages", total: "most recent messages"}.get(number, "messages between")
    span = time_span(messages)
    return f"[Chunk {number}/{total} — {place}{f', {span}' if span else ''}]"


def time_span(messages: Sequence[Message]) -> str:
    """The first and the last minute of some messages in UTC; empty where no message has a time."""
    moments = [moment for message in messages if (moment := _moment(message)) is not None]
    if not moments:
        return ""
    return f"{min(moments):%Y-%m-%d %H:%M} — {max(moments):%Y-%m-%d %H:%M} UTC"


def last_moment_ms(messages: Sequence[Message]) -> int | None:
    """When the newest of some messages was written, in milliseconds since 1970; ``None`` where none has a time."""
    moments = [moment for message in messages if (moment := _moment(message)) is not None]
    return round(max(moments).timestamp() * 1000) if moments else None


def _moment(message: Message) -> datetime | None:
    value = message.get("timestamp")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return datetime.fromtimestamp(value / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        # Foreign transcripts may hold any number.
        return None
