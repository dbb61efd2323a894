"""What a forked session takes over from its parent's active branch."""

from __future__ import annotations

from collections.abc import Sequence

from hermitcrab.messages.pairing import is_broken
from hermitcrab.messages.text import result_call_id, tool_calls_of
from hermitcrab.sessions.branch import kept_part
from hermitcrab.sessions.context import message_of
from hermitcrab.sessions.format import ENTRY_CHANGE, Entry


def forked_entries(path: Sequence[Entry]) -> list[Entry]:
    """The entries of a branch for another transcript: since the last compaction, its summary included.

    Calls of tools that are still open stay behind with all that follows them, so pairs are whole. What speaks of the
    parent's own session entry stays behind too. Ids are kept; parents are left to the append.
    """
    kept = kept_part(path)
    return [
        _without_parent(entry)
        for entry in kept[: _end_of_whole_pairs(kept)]
        if entry.get("customType") != ENTRY_CHANGE and entry["type"] not in {"leaf", "label"}
    ]


def _end_of_whole_pairs(path: Sequence[Entry]) -> int:
    """Where to cut so that no call of the last answer that has any lacks its result."""
    answered: set[str] = set()
    for index in range(len(path) - 1, -1, -1):
        message = message_of(path[index])
        if message is None:
            continue
        role = message.get("role")
        if role == "toolResult":
            answered.add(result_call_id(message))
        elif role == "assistant" and not is_broken(message) and (calls := tool_calls_of(message)):
            return len(path) if all(call["id"] in answered for call in calls) else index
    return len(path)


def _without_parent(entry: Entry) -> Entry:
    copied = entry.copy()
    copied.pop("parentId", None)
    return copied
