"""Which entries of a transcript form the active branch (context 9.2, 9.3). Nothing here touches a file."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from hermitcrab.sessions.format import Entry, reference


def leaf_after(entries: Iterable[Entry], leaf_id: str | None) -> str | None:
    """The leaf once ``entries`` follow in file order: the last entry, or the target of a ``leaf`` entry."""
    for entry in entries:
        leaf_id = leaf_behind(entry, leaf_id)
    return leaf_id


def leaf_behind(entry: Entry, leaf_id: str | None) -> str | None:
    """The leaf once ``entry`` follows one whose leaf was ``leaf_id``."""
    if entry["type"] == "leaf":
        return parent_of(entry)
    return reference(entry.get("id")) or leaf_id


def has_parent(entry: Entry) -> bool:
    """Whether an entry says what it follows; one of a linear file does not, and follows the line before."""
    return "parentId" in entry and (entry["parentId"] is None or isinstance(entry["parentId"], str))


def linked(entries: Iterable[Entry], leaf_id: str | None) -> list[Entry]:
    """The entries, those without a parent linked to the leaf where they stand."""
    found: list[Entry] = []
    for entry in entries:
        if not has_parent(entry):
            entry = entry.copy()
            entry["parentId"] = leaf_id
        found.append(entry)
        leaf_id = leaf_behind(entry, leaf_id)
    return found


def path_to(leaf_id: str | None, entries: Sequence[Entry]) -> tuple[tuple[Entry, ...], str | None]:
    """The entries from the root to a leaf, and the ancestor that is missing, if one is.

    ``entries`` are all of a file, in its order. An id means the nearest line before the one that names it, and only
    where there is none a later one. A cycle ends the walk, and its id counts as missing: it hides the root.
    """
    positions: dict[str, list[int]] = {}
    for position, entry in enumerate(entries):
        positions.setdefault(entry["id"], []).append(position)
    path: list[Entry] = []
    seen: set[int] = set()
    before = len(entries)
    while leaf_id is not None:
        before = _nearest(positions.get(leaf_id, ()), before)
        if before < 0 or before in seen:
            return tuple(reversed(path)), leaf_id
        seen.add(before)
        entry = entries[before]
        leaf_id = parent_of(entry)
        if entry["type"] != "leaf":
            path.append(entry)
    return tuple(reversed(path)), None


def _nearest(positions: Sequence[int], before: int) -> int:
    """The greatest position below ``before``, else the greatest of all, else -1."""
    if not positions:
        return -1
    return positions[bisect_left(positions, before) - 1]


def parent_of(entry: Entry) -> str | None:
    """What an entry follows; a ``leaf`` entry stands for its target."""
    return reference(entry.get("targetId" if entry["type"] == "leaf" else "parentId"))


def kept_part(path: Sequence[Entry]) -> tuple[Entry, ...]:
    """A path without what its last compaction summarised (context 9.3)."""
    last = next(
        (index for index in range(len(path) - 1, -1, -1) if path[index]["type"] == "compaction"),
        None,
    )
    if last is None:
        return tuple(path)
    first_kept = path[last].get("firstKeptEntryId")
    if first_kept == path[last].get("id"):
        return tuple(path[last:])
    start = next((i for i in range(last - 1, -1, -1) if path[i].get("id") == first_kept), last)
    return tuple(path[start:])


def without_repeats(path: Sequence[Entry]) -> tuple[Entry, ...]:
    """A path in which every id stands once, where it stood first (C12)."""
    first: dict[str, Entry] = {}
    for entry in path:
        first.setdefault(entry["id"], entry)
    return tuple(first.values())
