"""Reading transcripts: backwards for a turn, forwards for everything else (design 5, context 9)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from attrs import evolve, frozen

from hermitcrab.errors import TranscriptError
from hermitcrab.sessions.format import (
    FORMAT_VERSION,
    Entry,
    Header,
    decode_line,
    derived_id,
    is_header,
)
from hermitcrab.sessions.upgrade import upgrade_entries

_CHUNK_BYTES = 64 * 1024
_HEADER_BYTES = 1024 * 1024


@frozen(kw_only=True)
class ReadFaults:
    """What a reader passed over: nothing of it was changed on disk.

    ``bad_lines`` are byte offsets of lines that hold no entry, ``missing_ancestor`` is an id that no line carries,
    ``unfinished_bytes`` counts the bytes behind the last newline.
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

    ``end`` is the byte offset behind the last whole line that was read, ``start`` that of the first entry.
    """

    header: Header
    version: int
    entries: tuple[Entry, ...]
    leaf_id: str | None
    end: int
    faults: ReadFaults
    start: int = 0


@frozen(kw_only=True)
class TranscriptContents:
    """A whole transcript; every entry has an id, whatever the version of the file."""

    path: Path
    header: Header
    version: int
    entries: tuple[Entry, ...]
    faults: ReadFaults

    def leaf_id(self) -> str | None:
        """The id at the end of the active branch."""
        return leaf_after(self.entries, None)

    def branch(self) -> tuple[Entry, ...]:
        """The entries from the root to the leaf, compacted ones included."""
        by_id = {entry["id"]: entry for entry in self.entries if "id" in entry}
        return path_to(self.leaf_id(), by_id)[0]


def leaf_after(entries: Sequence[Entry], leaf_id: str | None) -> str | None:
    """The leaf once ``entries`` follow in file order: the last entry, or the target of a ``leaf`` entry."""
    for entry in entries:
        if entry["type"] == "leaf":
            leaf_id = entry.get("targetId")
        elif isinstance(entry.get("id"), str):
            leaf_id = entry["id"]
    return leaf_id


def path_to(leaf_id: str | None, by_id: dict[str, Entry]) -> tuple[tuple[Entry, ...], str | None]:
    """The entries from the root to a leaf, and the ancestor that is missing, if one is. Cycles end the walk."""
    path: list[Entry] = []
    seen: set[str] = set()
    while leaf_id is not None and leaf_id not in seen:
        entry = by_id.get(leaf_id)
        if entry is None:
            return tuple(reversed(path)), leaf_id
        seen.add(leaf_id)
        path.append(entry)
        leaf_id = entry.get("parentId")
    return tuple(reversed(path)), None


def open_transcript(path: Path) -> BinaryIO:
    """Open a transcript for reading.

    :raises TranscriptError: if it is missing, a directory or unreadable.
    """
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise TranscriptError(
            "there is no such transcript",
            where=path,
            hint="Check the path, or `hermitcrab sessions list`.",
        ) from None
    except IsADirectoryError:
        raise TranscriptError(
            "this is a directory, not a transcript", where=path, hint="Name the .jsonl file."
        ) from None
    except OSError as error:
        raise TranscriptError(
            f"the transcript cannot be opened: {error.strerror}", where=path
        ) from error


def read_header(file: BinaryIO, path: Path) -> tuple[Header, bool]:
    """The header, and whether it had to be rebuilt from the file name and the first timestamp (design 5)."""
    file.seek(0)
    first = file.readline(_HEADER_BYTES)
    value = decode_line(first) if first.endswith(b"\n") else None
    if value is not None and is_header(value):
        return cast(Header, value), False
    header: Header = {"type": "session", "id": path.name.removesuffix(".jsonl")}
    entry = value
    for _ in range(20):
        if entry is not None and isinstance(entry.get("timestamp"), str):
            header["timestamp"] = entry["timestamp"]
            header["version"] = FORMAT_VERSION if isinstance(entry.get("id"), str) else 1
            break
        line = file.readline(_HEADER_BYTES)
        if not line:
            break
        entry = decode_line(line)
    return header, True


def lines_backwards(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines before ``end``, last first, each with its byte offset and without its newline.

    The bytes between the last newline and ``end`` are not a whole line; they come first, at their offset.
    """
    position, rest = end, b""
    while position > 0:
        start = max(0, position - _CHUNK_BYTES)
        file.seek(start)
        block = file.read(position - start) + rest
        *lines, head = block.split(b"\n")[::-1]
        offset = start + len(block)
        for line in lines:
            offset -= len(line)
            yield offset, line
            offset -= 1
        # A line longer than a chunk would be joined again and again; larger steps keep that linear.
        position, rest = start, head
        if len(head) > _CHUNK_BYTES:
            position, rest = _extend(file, start, head)
    offset = len(rest)
    for line in reversed(rest.split(b"\n")):
        offset -= len(line)
        yield offset, line
        offset -= 1


def _extend(file: BinaryIO, position: int, head: bytes) -> tuple[int, bytes]:
    """Read back to the newline that starts a long line."""
    pieces = [head]
    while position > 0:
        start = max(0, position - _CHUNK_BYTES)
        file.seek(start)
        piece = file.read(position - start)
        pieces.append(piece)
        position = start
        if b"\n" in piece:
            break
    return position, b"".join(reversed(pieces))


def read_branch(path: Path) -> Branch:
    """Read what a turn needs, from the end of the file (design 5, "Reading for a turn").

    :raises TranscriptError: if the file cannot be read.
    """
    with open_transcript(path) as file:
        size = file.seek(0, os.SEEK_END)
        header, rebuilt = read_header(file, path)
        version = header.get("version", 1)
        if version != FORMAT_VERSION:
            return _branch_of(_contents(file, path, header, rebuilt), size)
        branch = _scan_back(file, size, header)
    faults = evolve(branch.faults, header_rebuilt=rebuilt)
    if faults.missing_ancestor is not None:
        branch = _branch_of(read_transcript(path), size)
        faults = evolve(branch.faults, header_rebuilt=rebuilt)
    return evolve(branch, faults=faults)


def _scan_back(file: BinaryIO, size: int, header: Header) -> Branch:
    path: list[Entry] = []
    bad: list[int] = []
    end, unfinished = size, 0
    want: str | None = None
    leaf_id: str | None = None
    stop_at: str | None = None
    compacted = found_leaf = done = False
    start = 0
    for offset, line in lines_backwards(file, size):
        if offset + len(line) == size and size:
            end, unfinished = offset, len(line)
            continue
        if done or not line.strip():
            if done:
                break
            continue
        if found_leaf and want is not None and want.encode() not in line and _looks_whole(line):
            continue
        value = decode_line(line)
        if value is None:
            bad.append(offset)
            continue
        entry = cast(Entry, value)
        if entry["type"] == "session" and offset == 0:
            break
        if not found_leaf:
            found_leaf = True
            want = leaf_after([entry], None)
            leaf_id = want
        if want is None:
            break
        if entry.get("id") != want or entry["type"] == "leaf":
            continue
        path.append(entry)
        start = offset
        if entry["type"] == "compaction" and not compacted:
            compacted = True
            stop_at = entry.get("firstKeptEntryId")
        done = compacted and stop_at in {entry["id"], None}
        want = None if done else entry.get("parentId")
        done = done or want is None
    entries = tuple(reversed(path))
    missing = want if want is not None and not done else None
    if compacted and stop_at is not None and not done and missing is None:
        entries = kept_part(entries)
    return Branch(
        header=header,
        version=FORMAT_VERSION,
        entries=entries,
        leaf_id=leaf_id,
        end=end,
        start=start,
        faults=ReadFaults(
            bad_lines=tuple(reversed(bad)), missing_ancestor=missing, unfinished_bytes=unfinished
        ),
    )


def _looks_whole(line: bytes) -> bool:
    """Whether a line that nobody asks for may be passed over without parsing it."""
    return line.startswith(b"{") and line.rstrip().endswith(b"}")


def kept_part(path: Sequence[Entry]) -> tuple[Entry, ...]:
    """A path without what its last compaction summarised (context 9.3)."""
    last = next(
        (index for index in range(len(path) - 1, -1, -1) if path[index]["type"] == "compaction"),
        None,
    )
    if last is None:
        return tuple(path)
    first_kept = path[last].get("firstKeptEntryId")
    start = next((i for i in range(last) if path[i].get("id") == first_kept), last)
    return tuple(path[start:])


def _branch_of(contents: TranscriptContents, size: int) -> Branch:
    by_id = {entry["id"]: entry for entry in contents.entries if "id" in entry}
    leaf_id = contents.leaf_id()
    path, missing = path_to(leaf_id, by_id)
    return Branch(
        header=contents.header,
        version=contents.version,
        entries=kept_part(path),
        leaf_id=leaf_id,
        end=size - contents.faults.unfinished_bytes,
        faults=evolve(contents.faults, missing_ancestor=missing),
    )


def read_transcript(path: Path) -> TranscriptContents:
    """Read a whole transcript of any version, in file order.

    :raises TranscriptError: if the file cannot be read or holds no entry at all.
    """
    with open_transcript(path) as file:
        header, rebuilt = read_header(file, path)
        contents = _contents(file, path, header, rebuilt)
    if not contents.entries and rebuilt:
        raise TranscriptError(
            "this file is empty"
            if not path.stat().st_size
            else "no line of this file is a transcript entry",
            where=path,
            hint="A transcript is JSON Lines: a header of type `session`, then one entry a line.",
        )
    return contents


def _contents(file: BinaryIO, path: Path, header: Header, rebuilt: bool) -> TranscriptContents:
    version = header.get("version", 1)
    entries: list[Entry] = []
    bad: list[int] = []
    offset = unfinished = 0
    file.seek(0)
    for line in file:
        value = decode_line(line)
        if value is None and not line.endswith(b"\n"):
            unfinished = len(line)
        elif value is None:
            if line.strip():
                bad.append(offset)
        elif not (value["type"] == "session" and offset == 0):
            value.setdefault("id", derived_id(header["id"], offset))
            entries.append(cast(Entry, value))
        offset += len(line)
    if rebuilt and bad[:1] == [0]:
        bad = bad[1:]
    return TranscriptContents(
        path=path,
        header=header,
        version=version,
        entries=tuple(upgrade_entries(entries, version)),
        faults=ReadFaults(
            bad_lines=tuple(bad), header_rebuilt=rebuilt, unfinished_bytes=unfinished
        ),
    )
