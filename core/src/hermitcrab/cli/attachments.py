"""What of a message does not fit on a screen: its media, and large results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermitcrab.messages.types import Message

_TEXTS = frozenset({"content", "output", "text"})


def attachment_lines(message: Message) -> Iterator[str]:
    """``(image, 34 KB)`` for each of its media, and the size of a result whose ends alone the transcript holds."""
    from hermitcrab.messages.media import MEDIA_TYPES, media_bytes, media_name, shown_size
    from hermitcrab.messages.text import blocks_of
    from hermitcrab.sessions.blobs.blobs import references_in

    for block in blocks_of(message):
        if block["type"] in MEDIA_TYPES:
            size = media_bytes(block)
            yield f"({media_name(block)}{'' if size is None else f', {shown_size(size)}'})"
    for reference in references_in(message):
        if reference.field in _TEXTS:
            yield f"(head and tail of {shown_size(reference.bytes)})"
