"""Reading transcripts: backwards for a turn, forwards for everything else (design 5, context 9)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from attrs import define, evolve, field, frozen

from hermitcrab.errors import TranscriptError
from hermitcrab.sessions.branch import (
    has_parent,
    kept_part,
    leaf_after,
    linked,
    parent_of,
    path_to,
    without_repeats,
)
from hermitcrab.sessions.format import (
    FORMAT_VERSION,
    Entry,
    Header,
    decode_line,
    format_version,
    identified,
    reference,
)
from hermitcrab.sessions.lines import lines_backwards, open_transcript, read_header
from hermitcrab.sessions.upgrade import upgrade_entries


@frozen(kw_only=True)
class ReadFaults:
    """What a reader passed over: nothing of it was changed on disk.

    ``bad_lines`` are byte offsets of lines that hold no entry, ``missing_ancestor`` is an id that no line before it
    carries, ``unfinished_bytes`` counts the bytes behind the last newline where they are not a whole entry.
    """

    bad_lines: tuple[int, ...] = ()
    header_rebuilt: bool = False
    missing_ancestor: str | None = None
    unfinished_bytes: int = 0

    @property
    def any(self) -> bool:
        return bool(self.bad_lines or self.header_rebuilt or self.missing_ancestor)


@frozen(kw_only=True)
class Branch:
    """The active branch of a transcript, from the first entry that the last compaction kept to the leaf.

    ``end`` is the byte offset behind the last whole line that was read, ``start`` that of the first entry. ``inode``
    names the file that was read.
    """

    header: Header
    version: int
    entries: tuple[Entry, ...]
    leaf_id: str | None
    end: int
    faults: ReadFaults
    start: int = 0
    inode: int | None = field(default=None, eq=False)


@frozen(kw_only=True)
class TranscriptContents:
    """A whole transcript; every entry has an id and a parent, whatever the version of the file.

    ``end`` is the byte offset behind the last whole line.
    """

    path: Path
    header: Header
    version: int
    entries: tuple[Entry, ...]
    faults: ReadFaults
    end: int

    def leaf_id(self) -> str | None:
        """The id at the end of the active branch."""
        return leaf_after(self.entries, None)

    def branch(self) -> tuple[Entry, ...]:
        """The entries from the root to the leaf, compacted ones included."""
        return without_repeats(path_to(self.leaf_id(), self.entries)[0])


def read_branch(path: Path) -> Branch:
    """Read what a turn needs, from the end of the file (design 5, "Reading for a turn").

    :raises TranscriptError: if the file cannot be read.
    """
    with open_transcript(path) as file:
        header, rebuilt = read_header(file, path)
        version = format_version(header)
        inode = os.fstat(file.fileno()).st_ino
        if version >= FORMAT_VERSION:
            branch = _scan_back(file, header, rebuilt)
            if branch.faults.missing_ancestor is None:
                return evolve(branch, inode=inode)
        return evolve(_branch_of(_contents(file, path, header, rebuilt)), inode=inode)


def _scan_back(file: BinaryIO, header: Header, rebuilt: bool) -> Branch:
    size = file.seek(0, os.SEEK_END)
    end, unfinished = size, 0
    scan = _BackwardScan(header_id=header["id"])
    for offset, line in lines_backwards(file, size):
        if line and offset + len(line) == size and decode_line(line) is None:
            end, unfinished = offset, len(line)
            continue
        scan.take(offset, line)
        if scan.finished:
            break
    path = tuple(entry for _, entry in reversed(scan.path))
    kept = kept_part(path)
    return Branch(
        header=header,
        version=format_version(header),
        entries=without_repeats(kept),
        leaf_id=scan.leaf_id,
        end=end,
        start=scan.path[len(kept) - 1][0] if kept else end,
        faults=ReadFaults(
            bad_lines=_without_header(tuple(reversed(scan.bad_lines)), rebuilt),
            header_rebuilt=rebuilt,
            missing_ancestor=scan.want,
            unfinished_bytes=unfinished,
        ),
    )


@define(kw_only=True)
class _BackwardScan:
    """Picks the active branch out of lines that come last first.

    ``takes_next`` says that the next entry is wanted whatever its id: it is the leaf, or the entry behind it names no
    parent. Otherwise ``want`` is the id to look for, and ``None`` the end of the way.
    """

    header_id: str
    takes_next: bool = True
    want: str | None = None
    leaf_id: str | None = None
    stop_at: str | None = None
    path: list[tuple[int, Entry]] = field(factory=list)
    bad_lines: list[int] = field(factory=list)
    _has_leaf: bool = False
    _has_compaction: bool = False

    @property
    def finished(self) -> bool:
        return not self.takes_next and self.want is None

    def take(self, offset: int, line: bytes) -> None:
        """Look at one line."""
        if not line.strip():
            return
        if self.want is not None and self.want.encode() not in line and _looks_whole(line):
            return
        value = decode_line(line)
        if value is None or value["type"] == "session":
            if offset or value is None:
                self.bad_lines.append(offset)
            return
        entry = identified(value, self.header_id, offset)
        if not self._has_leaf:
            self._has_leaf = True
            self.leaf_id = leaf_after([entry], None)
        if self.takes_next or entry["id"] == self.want:
            self._follow(offset, entry)

    def _follow(self, offset: int, entry: Entry) -> None:
        is_leaf = entry["type"] == "leaf"
        if not is_leaf:
            self.path.append((offset, entry))
        if entry["type"] == "compaction" and not self._has_compaction:
            self._has_compaction = True
            self.stop_at = reference(entry.get("firstKeptEntryId")) or entry["id"]
        self.takes_next = not is_leaf and not has_parent(entry)
        self.want = parent_of(entry)
        if self.stop_at == entry["id"] and not is_leaf:
            self.takes_next, self.want = False, None


def _looks_whole(line: bytes) -> bool:
    """Whether a line that nobody asks for may be passed over without parsing it."""
    return line.startswith(b"{") and line.rstrip().endswith(b"}")


def _branch_of(contents: TranscriptContents) -> Branch:
    leaf_id = contents.leaf_id()
    path, missing = path_to(leaf_id, contents.entries)
    return Branch(
        header=contents.header,
        version=contents.version,
        entries=without_repeats(kept_part(path)),
        leaf_id=leaf_id,
        end=contents.end,
        faults=evolve(contents.faults, missing_ancestor=missing),
    )


def read_transcript(path: Path) -> TranscriptContents:
    """Read a whole transcript of any version, in file order.

    :raises TranscriptError: if the file cannot be read or holds neither a header nor an entry.
    """
    with open_transcript(path) as file:
        header, rebuilt = read_header(file, path)
        contents = _contents(file, path, header, rebuilt)
    if not contents.entries and rebuilt:
        raise TranscriptError(
            "no line of this file is a transcript entry"
            if path.stat().st_size
            else "this file is empty",
            where=path,
            hint="A transcript is JSON Lines: a header of type `session`, then one entry a line.",
        )
    return contents


def _contents(file: BinaryIO, path: Path, header: Header, rebuilt: bool) -> TranscriptContents:
    version = format_version(header)
    entries: list[Entry] = []
    bad: list[int] = []
    offset = unfinished = 0
    file.seek(0)
    for line in file:
        value = decode_line(line)
        if value is None and not line.endswith(b"\n"):
            unfinished = len(line)
            break
        if value is not None and value["type"] != "session":
            entries.append(identified(value, header["id"], offset))
        elif offset and line.strip():
            bad.append(offset)
        offset += len(line)
    upgraded = upgrade_entries(entries, version)
    return TranscriptContents(
        path=path,
        header=header,
        version=version,
        entries=tuple(linked(upgraded, None)),
        faults=ReadFaults(
            bad_lines=tuple(bad), header_rebuilt=rebuilt, unfinished_bytes=unfinished
        ),
        end=offset,
    )


def _without_header(bad_lines: tuple[int, ...], rebuilt: bool) -> tuple[int, ...]:
    """A damaged first line counts as the header's damage, not as a bad line."""
    return bad_lines[1:] if rebuilt and bad_lines[:1] == (0,) else bad_lines
