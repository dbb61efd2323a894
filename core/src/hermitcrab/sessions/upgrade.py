"""What older transcript versions say in the terms of version 3 (context 9.2); files are left as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hermitcrab.sessions.format import FORMAT_VERSION, Entry


def upgrade_entries(entries: Sequence[Entry], version: int) -> list[Entry]:
    """Entries of a file of ``version`` as version 3 has them; each must have an id already."""
    upgraded = list(entries)
    if version < 2:
        upgraded = _link(upgraded)
    if version < FORMAT_VERSION:
        upgraded = [_rename_hook_message(entry) for entry in upgraded]
    return upgraded


def _link(entries: Sequence[Entry]) -> list[Entry]:
    """Version 1 is a plain list: every entry follows the one before, and compactions count entries."""
    linked: list[Entry] = []
    parent: str | None = None
    for entry in entries:
        copy = entry.copy()
        copy["parentId"] = parent
        fields: dict[str, Any] = {**copy}
        index = fields.get("firstKeptEntryIndex")
        if (
            copy["type"] == "compaction"
            and isinstance(index, int)
            and "firstKeptEntryId" not in copy
        ):
            # The index counts lines of the file, the header being line 0.
            position = index - 1
            if 0 <= position < len(entries):
                copy["firstKeptEntryId"] = entries[position]["id"]
        linked.append(copy)
        parent = copy["id"]
    return linked


def _rename_hook_message(entry: Entry) -> Entry:
    message = entry.get("message")
    if (
        entry["type"] != "message"
        or not isinstance(message, dict)
        or message.get("role") != "hookMessage"
    ):
        return entry
    renamed = entry.copy()
    changed = message.copy()
    changed["role"] = "custom"
    renamed["message"] = changed
    return renamed
