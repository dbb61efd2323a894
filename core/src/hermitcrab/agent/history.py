"""What of a session's messages a turn may see, before the engine assembles them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hermitcrab.messages.provenance import is_group_context
from hermitcrab.messages.types import Message
from hermitcrab.sessions.activation import shown_context
from hermitcrab.sessions.context import ContextItem


def limited_history(
    items: Sequence[ContextItem], *, turns: int | None, overheard: int
) -> list[Message]:
    """The summary and the last user turns; cut only where a user message stands (C44).

    :param turns: how many user turns, ``None`` for all.
    :param overheard: how many messages of a group that were not for the agent it sees before one that was.
    """
    head = 1 if items and items[0].is_summary else 0
    shown = shown_context([item.message for item in items], overheard)
    kept = [item for item, is_shown in zip(items, shown, strict=True) if is_shown]
    start = head if turns is None else _start_of(kept, turns, head)
    return [item.message for item in (*kept[:head], *kept[start:])]


def _start_of(items: Sequence[ContextItem], turns: int, head: int) -> int:
    """Where the last turns begin: what was said in a group before a turn belongs to it."""
    starts = [
        index
        for index, item in enumerate(items)
        if index >= head and item.message.get("role") == "user" and not item.is_synthetic
    ]
    if len(starts) <= turns:
        return head
    start = starts[-turns]
    while start > head and is_group_context(items[start - 1].message):
        start -= 1
    return start
