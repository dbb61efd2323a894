"""What new entries do to a branch that is known already. Nothing here touches a file."""

from __future__ import annotations

from collections.abc import Sequence

from hermitcrab.sessions.branch import leaf_behind
from hermitcrab.sessions.format import ENTRY_CHANGE, Entry


def lengthens(leaf_id: str | None, news: Sequence[Entry], new_leaf_id: str | None) -> bool:
    """Whether new entries lengthen the branch and do nothing else to it, up to the new leaf."""
    for entry in news:
        if entry["type"] in {"leaf", "compaction"} or entry.get("parentId") != leaf_id:
            return False
        leaf_id = leaf_behind(entry, leaf_id)
    return leaf_id == new_leaf_id


def goes_on_from(entry_id: str, path: Sequence[Entry]) -> bool:
    """Whether a path has come from this entry to its end without a compaction."""
    for entry in reversed(path):
        if entry["id"] == entry_id:
            return True
        if entry["type"] == "compaction":
            return False
    return False


def changes_session(entry: Entry) -> bool:
    """Whether who appended this entry also changed the session entry."""
    return entry["type"] == "compaction" or entry.get("customType") == ENTRY_CHANGE


def says_something_new(entry: Entry) -> bool:
    """Whether an entry is a message that was not there before, in other words."""
    return entry["type"] == "message" and "rewriteOf" not in entry
