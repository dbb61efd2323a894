"""A transcript in outline: where each entry stands in the file, and which of them are shown, without their contents.

So a conversation of any size can be written out while only one of its entries is in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from attrs import frozen

from hermitcrab.sessions.branch import leaf_after, linked
from hermitcrab.sessions.format import (
    FORMAT_VERSION,
    Entry,
    Header,
    decode_line,
    format_version,
    identified,
)
from hermitcrab.sessions.lines import open_transcript, read_header
from hermitcrab.sessions.repair.lineage import Place, lineage_of, way_up
from hermitcrab.sessions.tree import labels_on, name_on
from hermitcrab.sessions.upgrade import upgrade_entries

#: What decides on the tree, and on what is said of it.
_STRUCTURE = (
    "type",
    "id",
    "parentId",
    "targetId",
    "firstKeptEntryId",
    "firstKeptEntryIndex",
    "label",
    "name",
)


@frozen(kw_only=True)
class OutlinedBranch:
    """The places of a branch's entries; ``fork`` is the place behind which it leaves what was shown before."""

    places: tuple[int, ...]
    fork: Place = None


@frozen(kw_only=True)
class Outline:
    """The entries of a transcript without their contents, where each line begins, and the branches.

    The active branch comes first, with all of its entries, then the others behind the points at which they leave.
    ``bad_lines`` counts lines that hold no entry, ``is_unfinished`` says that the last one has no end.
    """

    header: Header
    entries: tuple[Entry, ...]
    offsets: tuple[int, ...]
    branches: tuple[OutlinedBranch, ...]
    bad_lines: int
    is_unfinished: bool

    @property
    def name(self) -> str | None:
        """What the active branch calls the session."""
        return name_on([self.entries[place] for place in self.branches[0].places])

    def labels(self) -> dict[str, str]:
        """The labels on the active branch by entry id."""
        path = [self.entries[place] for place in self.branches[0].places]
        return dict(labels_on(path, {entry["id"] for entry in self.entries}).by_entry)


def outline(path: Path) -> Outline:
    """Read a transcript once, keeping only where its entries stand.

    :raises TranscriptError: if it cannot be read.
    """
    entries: list[Entry] = []
    offsets: list[int] = []
    offset = bad_lines = 0
    is_unfinished = False
    with open_transcript(path) as file:
        header, _ = read_header(file, path)
        file.seek(0)
        for line in file:
            value = decode_line(line)
            if value is not None and value["type"] != "session":
                entries.append(identified(_structure(value), header["id"], offset))
                offsets.append(offset)
            elif value is None and not line.endswith(b"\n"):
                is_unfinished = True
            elif offset and line.strip():
                bad_lines += 1
            offset += len(line)
    whole = tuple(linked(upgrade_entries(entries, format_version(header)), None))
    return Outline(
        header=header,
        entries=whole,
        offsets=tuple(offsets),
        branches=tuple(_branches(whole)),
        bad_lines=bad_lines,
        is_unfinished=is_unfinished,
    )


def entry_at(file: BinaryIO, outlined: Outline, place: int) -> Entry:
    """The whole entry at a place, in terms of version 3."""
    file.seek(outlined.offsets[place])
    value = decode_line(file.readline()) or {**outlined.entries[place]}
    entry = identified(value, outlined.header["id"], outlined.offsets[place])
    version = format_version(outlined.header)
    # The tree is known: only what the entry says itself is brought up to date.
    return upgrade_entries([entry], version)[0] if version < FORMAT_VERSION else entry


def _structure(value: dict[str, Any]) -> dict[str, Any]:
    return {name: value[name] for name in _STRUCTURE if name in value}


def _branches(entries: Sequence[Entry]) -> Iterator[OutlinedBranch]:
    """The active branch, then every other way down from what was shown before, in the order of the file."""
    lineage = lineage_of(entries)
    parents = lineage.as_read()
    leaf = lineage.place_of(leaf_after(entries, None), len(entries))
    shown: set[int] = set()
    active = list(reversed(way_up(leaf, parents)))
    shown.update(active)
    yield OutlinedBranch(places=tuple(_said_once(active, entries)))
    followed = {
        _behind_leaves(parents[place], entries, parents)
        for place, entry in enumerate(entries)
        if not _is_leaf(entry)
    }
    for tip, entry in enumerate(entries):
        if tip in followed or tip in shown or _is_leaf(entry):
            continue
        own: list[int] = []
        place: Place = tip
        while place is not None and place not in shown:
            own.append(place)
            shown.add(place)
            place = parents[place]
        fork = _behind_leaves(place, entries, parents)
        yield OutlinedBranch(places=tuple(_said_once(reversed(own), entries)), fork=fork)


def _said_once(places: Iterable[int], entries: Sequence[Entry]) -> Iterator[int]:
    """The places of a way, every id where it stands first (C12), without ``leaf`` entries."""
    seen: set[str] = set()
    for place in places:
        entry = entries[place]
        if entry["id"] not in seen and not _is_leaf(entry):
            seen.add(entry["id"])
            yield place


def _behind_leaves(place: Place, entries: Sequence[Entry], parents: Sequence[Place]) -> Place:
    while place is not None and _is_leaf(entries[place]):
        place = parents[place]
    return place


def _is_leaf(entry: Entry) -> bool:
    return entry["type"] == "leaf"
