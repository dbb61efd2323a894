"""User messages that were delivered twice (context 6.7). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hermitcrab.messages.media import MEDIA_TYPES
from hermitcrab.messages.text import blocks_of, text_of
from hermitcrab.messages.types import Message

#: The shortest text, in characters, that nobody is likely to write twice within :data:`WITHIN_MS`.
SHORTEST = 24
#: How soon the same text counts as the same message, in milliseconds.
WITHIN_MS = 60_000


def without_repeated_asks(messages: Sequence[Message]) -> list[Message]:
    """The messages without those of the user that say, within a minute, what the last like them has said.

    White space does not count. Messages without a time, with media, or with short texts always stay.
    """
    heard: dict[str, int] = {}
    kept: list[Message] = []
    for message in messages:
        said = _said(message)
        if said is None:
            kept.append(message)
            continue
        text, moment = said
        before = heard.get(text)
        heard[text] = moment
        if before is None or not 0 <= moment - before <= WITHIN_MS:
            kept.append(message)
    return kept


def _said(message: Message) -> tuple[str, int] | None:
    """The text of a user message as it is compared, and its time in milliseconds."""
    moment = message.get("timestamp")
    if message.get("role") != "user" or not isinstance(moment, int | float):
        return None
    if any(block["type"] in MEDIA_TYPES for block in blocks_of(message)):
        return None
    text = " ".join(text_of(message).split())
    return (text, int(moment)) if len(text) >= SHORTEST else None
