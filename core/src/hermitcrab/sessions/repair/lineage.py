"""Which entry of a transcript follows which, by their places in the file, and where that breaks off. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from attrs import frozen

from hermitcrab.sessions.branch import parent_of
from hermitcrab.sessions.format import Entry, reference

#: Stands for an entry that is named and is nowhere.
NOWHERE = -1

Place = int | None


@frozen(kw_only=True)
class Lineage:
    """The place that each entry follows, as readers find it; ``None`` is a root.

    ``parents`` hold :data:`NOWHERE` for a missing ancestor. ``cuts`` are the places whose parent closes a cycle, which
    is where a reader stops. ``positions`` are the places of an id, ascending.
    """

    parents: tuple[Place, ...]
    cuts: frozenset[int]
    positions: dict[str, list[int]]

    def place_of(self, entry_id: str | None, before: int) -> Place:
        """Where a reader finds an id that the line ``before`` names: the nearest line before it, else the last."""
        places = self.positions.get(entry_id or "")
        return None if not places else places[bisect_left(places, before) - 1]

    def is_broken(self, place: int) -> bool:
        """Whether a reader comes to the end of the way here although a parent is named."""
        return self.parents[place] == NOWHERE or place in self.cuts

    def as_read(self) -> list[Place]:
        """The parents as far as readers follow them: no missing ancestor and no cycle is left."""
        return [
            None if self.is_broken(place) else parent for place, parent in enumerate(self.parents)
        ]


def lineage_of(entries: Sequence[Entry]) -> Lineage:
    """How the linked entries of a file hang together; an id means the nearest line before the one that names it."""
    positions: dict[str, list[int]] = {}
    for place, entry in enumerate(entries):
        positions.setdefault(entry["id"], []).append(place)
    parents: list[Place] = []
    for place, entry in enumerate(entries):
        parent_id = parent_of(entry)
        places = positions.get(parent_id or "", [])
        if parent_id is None:
            parents.append(None)
        else:
            parents.append(places[bisect_left(places, place) - 1] if places else NOWHERE)
    return Lineage(parents=tuple(parents), cuts=_cuts(parents), positions=positions)


def _cuts(parents: Sequence[Place]) -> frozenset[int]:
    """Where to cut so that no cycle is left; the active branch, which ends the file, keeps all that it shows."""
    cuts: set[int] = set()
    walked: list[int | None] = [None] * len(parents)
    for start in range(len(parents) - 1, -1, -1):
        place: Place = start
        while place is not None and place != NOWHERE and walked[place] is None:
            walked[place] = start
            parent = parents[place]
            if parent is not None and parent != NOWHERE and walked[parent] == start:
                cuts.add(place)
                break
            place = parent
    return frozenset(cuts)


def way_up(place: Place, parents: Sequence[Place]) -> list[int]:
    """The places from an entry to its root, over parents without breaks."""
    way: list[int] = []
    while place is not None:
        way.append(place)
        place = parents[place]
    return way


def without_breaks(entries: Sequence[Entry], lineage: Lineage) -> list[Place]:
    """The parents, where they break off set to the nearest entry before in the file that is no descendant."""
    parents = lineage.as_read()
    looks_ahead = any(parent is not None and parent > place for place, parent in enumerate(parents))
    for place in range(len(entries)):
        if lineage.is_broken(place):
            parents[place] = _nearest_before(place, entries, parents, looks_ahead)
    return parents


def _nearest_before(
    place: int, entries: Sequence[Entry], parents: Sequence[Place], looks_ahead: bool
) -> Place:
    for candidate in range(place - 1, -1, -1):
        if entries[candidate]["type"] == "leaf":
            continue
        if not looks_ahead or place not in way_up(candidate, parents):
            return candidate
    return None


def kept_place(
    place: int, entries: Sequence[Entry], parents: Sequence[Place]
) -> tuple[bool, Place]:
    """Whether the first entry that a compaction keeps is on its way, and where (context 9.3).

    One that names itself keeps nothing, and says so: that is no fault.
    """
    first_kept = reference(entries[place].get("firstKeptEntryId"))
    if first_kept is None:
        return False, None
    if first_kept == entries[place]["id"]:
        return True, place
    above = parents[place]
    while above is not None:
        if entries[above]["id"] == first_kept and entries[above]["type"] != "leaf":
            return True, above
        above = parents[above]
    return False, None
