"""Transcripts as JSON Lines files: creating, appending under the lock, reading back (design 5)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from attrs import field, frozen

from hermitcrab.errors import TranscriptError
from hermitcrab.sessions.branch import leaf_after, linked
from hermitcrab.sessions.format import (
    Entry,
    Header,
    decode_line,
    encode_entry,
    encode_line,
    identified,
)
from hermitcrab.sessions.keys import check_session_id, is_session_id
from hermitcrab.sessions.lines import open_transcript
from hermitcrab.sessions.locks import exclusive
from hermitcrab.sessions.reading import (
    Branch,
    TranscriptContents,
    read_branch,
    read_transcript,
)


@frozen(kw_only=True)
class Position:
    """Where a reader stands in a transcript: the byte offset behind what it read, and the leaf there.

    ``header_id`` is the id in the header, from which the ids of entries without one are derived. ``inode`` names the
    file: in one that took its place, as a mended transcript does, the offset means nothing.
    """

    end: int
    leaf_id: str | None
    header_id: str
    inode: int | None = field(default=None, eq=False)


def end_of(branch: Branch) -> Position:
    """Where somebody stands who has read this branch."""
    return Position(
        end=branch.end,
        leaf_id=branch.leaf_id,
        header_id=branch.header["id"],
        inode=branch.inode,
    )


@frozen(kw_only=True)
class AppendResult:
    """What an append found and did: entries that others had written meanwhile, then our own."""

    found: tuple[Entry, ...]
    written: tuple[Entry, ...]
    position: Position


#: Makes the entries to write, once the true leaf and what others appended are known.
EntryMaker = Callable[[str | None, Sequence[Entry]], Sequence[Entry]]


class TranscriptStore(Protocol):
    """Where transcripts are kept; every method blocks and is called in a worker thread."""

    def path(self, session_id: str) -> Path: ...
    def create(self, header: Header, *, flush: bool = False) -> Position: ...
    def append(
        self, session_id: str, position: Position, make: EntryMaker, *, purpose: str, flush: bool
    ) -> AppendResult: ...
    def read_on(self, session_id: str, position: Position) -> AppendResult: ...
    def read_branch(self, session_id: str) -> Branch: ...
    def read_all(self, session_id: str) -> TranscriptContents: ...
    def sync(self, session_id: str) -> None: ...
    def list(self) -> list[str]: ...


class JsonlTranscriptStore:
    """The transcripts of one agent, one file a session id, in one folder."""

    def __init__(self, folder: Path, *, lock_timeout_ms: int = 10_000) -> None:
        self._folder = folder
        self._lock_timeout_ms = lock_timeout_ms

    def path(self, session_id: str) -> Path:
        """The file of a session id."""
        return _files(self._folder, session_id)[0]

    def list(self) -> list[str]:
        """The ids of all transcripts in the folder."""
        if not self._folder.is_dir():
            return []
        names = (path.name.removesuffix(".jsonl") for path in self._folder.glob("*.jsonl"))
        return sorted(filter(is_session_id, names))

    def create(self, header: Header, *, flush: bool = False) -> Position:
        """Create a transcript with this header.

        :param flush: whether to wait until the disk has the file's name (fsync of its folder).
        :raises TranscriptError: if it exists, or cannot be written.
        """
        path = self.path(header["id"])
        line = encode_line(header)
        try:
            missing = [each for each in (self._folder, *self._folder.parents) if not each.exists()]
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except OSError as error:
            raise _write_error(path, error) from error
        try:
            _write_whole(descriptor, line)
            if flush:
                for folder in (path.parent, *(each.parent for each in missing)):
                    _sync_folder(folder)
        except OSError as error:
            raise _write_error(path, error) from error
        finally:
            os.close(descriptor)
        return Position(end=len(line), leaf_id=None, header_id=header["id"])

    def append(
        self, session_id: str, position: Position, make: EntryMaker, *, purpose: str, flush: bool
    ) -> AppendResult:
        """Append entries behind the true leaf.

        Under the lock, whatever stands behind ``position`` is read first; ``make`` then gets the leaf and those
        entries, and returns what to write. Entries without a parent are chained behind the leaf.

        :param flush: whether to wait until the disk has it (fsync).
        :raises SessionLockedError: if another process holds the transcript too long.
        :raises TranscriptError: if it cannot be written; what stood there before is intact.
        """
        path, lock = _files(self._folder, session_id)
        with exclusive(lock, purpose=purpose, timeout_ms=self._lock_timeout_ms):
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
            except OSError as error:
                raise _write_error(path, error) from error
            try:
                return _append(path, descriptor, position, make, flush)
            except OSError as error:
                raise _write_error(path, error) from error
            finally:
                os.close(descriptor)

    def read_on(self, session_id: str, position: Position) -> AppendResult:
        """What stands behind ``position``, without the lock: a line that is being written counts once it is whole.

        :raises TranscriptError: if the transcript cannot be read.
        """
        path = self.path(session_id)
        with open_transcript(path) as file:
            try:
                return _append(path, file.fileno(), position, lambda leaf_id, found: (), False)
            except OSError as error:
                raise TranscriptError(
                    f"the transcript cannot be read: {error.strerror or error}", where=path
                ) from error

    def read_branch(self, session_id: str) -> Branch:
        """What a turn needs, read from the end of the file."""
        return read_branch(self.path(session_id))

    def read_all(self, session_id: str) -> TranscriptContents:
        """The whole transcript."""
        return read_transcript(self.path(session_id))

    def sync(self, session_id: str) -> None:
        """Wait until the disk has everything that was appended (fsync)."""
        path = self.path(session_id)
        try:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _write_error(path, error) from error


@lru_cache(maxsize=1024)
def _files(folder: Path, session_id: str) -> tuple[Path, Path]:
    """The transcript and its lock file; every append needs them, and to build a path is not cheap."""
    name = f"{check_session_id(session_id)}.jsonl"
    return folder / name, folder / f"{name}.lock"


def _append(
    path: Path, descriptor: int, position: Position, make: EntryMaker, flush: bool
) -> AppendResult:
    state = os.fstat(descriptor)
    size = state.st_size
    if size < position.end or position.inode not in {None, state.st_ino}:
        position = _reread(path, position)
    found, end = _read_behind(descriptor, position, size)
    leaf_id = leaf_after(found, position.leaf_id)
    written, lines = _chained(make(leaf_id, found), leaf_id)
    if written:
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        data = (b"\n" if torn else b"") + b"".join(lines)
        _write_whole(descriptor, data)
        end = size + len(data)
    if flush:
        # Also where nothing is written: an entry that stands there already may not be on the disk yet.
        os.fsync(descriptor)
    return AppendResult(
        found=tuple(found),
        written=tuple(written),
        position=Position(
            end=end,
            leaf_id=leaf_after(written, leaf_id),
            header_id=position.header_id,
            inode=state.st_ino,
        ),
    )


def _reread(path: Path, position: Position) -> Position:
    """Where the file ends now that it is shorter or another one, such as a restored backup or a mended transcript."""
    return end_of(read_branch(path))


def _read_behind(descriptor: int, position: Position, size: int) -> tuple[list[Entry], int]:
    """The entries behind ``position``, and the offset behind the last of them.

    Under the lock nobody writes, so a whole entry that lacks only its newline counts, and anything else is torn.
    """
    found: list[Entry] = []
    offset = position.end
    if offset == size:
        return found, offset
    lines = _read_range(descriptor, offset, size).split(b"\n")
    for number, line in enumerate(lines, start=1):
        value = decode_line(line)
        if value is not None and value["type"] != "session":
            found.append(identified(value, position.header_id, offset))
        elif number == len(lines):
            break
        offset += len(line) + (number < len(lines))
    return linked(found, position.leaf_id), offset


def _read_range(descriptor: int, start: int, end: int) -> bytes:
    pieces: list[bytes] = []
    while start < end:
        piece = os.pread(descriptor, end - start, start)
        if not piece:
            break
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)


def _chained(entries: Sequence[Entry], leaf_id: str | None) -> tuple[list[Entry], list[bytes]]:
    """Entries in one line behind the leaf, and their lines; an entry that names its parent keeps it."""
    chained: list[Entry] = []
    lines: list[bytes] = []
    for entry in linked(entries, leaf_id):
        written, line = encode_entry(entry)
        chained.append(written)
        lines.append(line)
    return chained, lines


def _write_whole(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_error(path: Path, error: OSError) -> TranscriptError:
    return TranscriptError(
        f"the transcript cannot be written: {error.strerror or error}",
        where=path,
        hint="Nothing that was written before is lost. Check the disk and the folder's permissions.",
    )
