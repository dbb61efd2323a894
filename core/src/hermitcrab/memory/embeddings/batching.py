"""Which texts travel together in one request (memory 5.4). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

#: The UTF-8 bytes of the texts of one request; a longer text travels alone.
BATCH_BYTES = 8_000


def batches(
    texts: Sequence[str], *, max_items: int, max_bytes: int = BATCH_BYTES
) -> Iterator[list[str]]:
    """The texts in order, in as few groups as the two limits allow."""
    group: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode("utf-8", "replace"))
        if group and (len(group) >= max_items or size + length > max_bytes):
            yield group
            group, size = [], 0
        group.append(text)
        size += length
    if group:
        yield group
