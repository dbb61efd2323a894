"""What there is to import at a path: transcripts, and the entries beside them (sessions 2.1). Nothing is written.

Links are not followed: what is read is what stands under the path that the user named.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from hermitcrab.errors import TranscriptError
from hermitcrab.sessions.format import FORMAT_VERSION
from hermitcrab.sessions.importing.names import (
    TranscriptName,
    agent_of_folder,
    is_interesting,
    parse_name,
    safe_session_id,
    why_not_imported,
)
from hermitcrab.sessions.lines import open_transcript, read_header
from hermitcrab.sessions.repair.rebuilding import TranscriptFacts, scan_transcript

_ENTRIES = "sessions.json"
_CHUNK_BYTES = 1_048_576
#: Bytes; whatever has a longer line was not written by a conversation, and would have to be held in memory.
LONGEST_LINE = 268_435_456
#: Bytes; a longer ``sessions.json`` is not read.
LARGEST_ENTRIES = 268_435_456

_DATABASE = "it may hold conversations of a newer version, in a form that is not read"
#: Told how many of how many files were looked at, and which is next.
Progress = Callable[[int, int, str], None]


@frozen(kw_only=True)
class SourceTranscript:
    """A transcript that can be imported.

    ``session_id`` is what its header states, else what its name does. ``size`` in bytes and ``identity`` say what was
    looked at, should the file change meanwhile.
    """

    path: Path
    name: TranscriptName
    session_id: str
    size: int
    identity: tuple[int, int]
    facts: TranscriptFacts


@frozen(kw_only=True)
class SourceFolder:
    """The transcripts of one folder, the agent that its place names, and the rows of its ``sessions.json`` by key."""

    path: Path
    agent_id: str | None
    transcripts: tuple[SourceTranscript, ...]
    rows: Mapping[str, Any] = field(factory=dict)


@frozen
class LeftOut:
    """A file that is not imported, and why."""

    path: Path
    reason: str


@frozen(kw_only=True)
class Sources:
    """All that was found. ``is_one_file`` says that a file was named: the rest of its folder does not matter then.

    ``other_files`` counts those that have nothing to do with transcripts.
    """

    folders: tuple[SourceFolder, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
    other_files: int = 0
    is_one_file: bool = False


@frozen(kw_only=True)
class _Listing:
    """The files of one folder that are to be looked at."""

    folder: Path
    files: tuple[Path, ...]


def survey_sources(source: Path, on_progress: Progress) -> Sources:
    """Look at a transcript, a folder of them, or a whole home of sessions.

    :raises TranscriptError: if there is nothing at the path.
    """
    try:
        root = source.expanduser().resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise TranscriptError(
            "there is nothing to import",
            where=source,
            hint="Name a transcript, a folder of transcripts, or a home with a folder agents.",
        ) from error
    left_out: list[LeftOut] = []
    notes: list[str] = []
    if root.is_file() and root.name != _ENTRIES:
        folder = SourceFolder(
            path=root.parent,
            agent_id=agent_of_folder(root.parent),
            transcripts=tuple(_transcripts([root], left_out, on_progress, is_named=True)),
            rows=_rows(root.parent, notes),
        )
        return Sources(
            folders=(folder,), left_out=tuple(left_out), notes=tuple(notes), is_one_file=True
        )
    walk = _Walk(left_out)
    listings = list(walk.listings(root.parent if root.is_file() else root))
    total = sum(len(each.files) for each in listings)
    folders, done = [], 0
    for listing in listings:
        folders.append(
            SourceFolder(
                path=listing.folder,
                agent_id=agent_of_folder(listing.folder),
                transcripts=tuple(
                    _transcripts(listing.files, left_out, on_progress, before=done, total=total)
                ),
                rows=_rows(listing.folder, notes),
            )
        )
        done += len(listing.files)
    return Sources(
        folders=tuple(folders),
        left_out=tuple(left_out),
        notes=tuple(notes),
        other_files=walk.other_files,
    )


class _Walk:
    """Finds the files to look at; what is passed over is named in ``left_out``, or counted."""

    def __init__(self, left_out: list[LeftOut]) -> None:
        self.other_files = 0
        self._left_out = left_out

    def listings(self, root: Path) -> Iterator[_Listing]:
        """The folders with transcripts; of a home, only those that hold sessions."""
        agents = root / "agents"
        if not any(agents.glob("*/sessions")):
            yield from self._below(root)
            return
        for agent in self._names(agents) if self._may_enter(agents) else ():
            folder, sessions = agents / agent, agents / agent / "sessions"
            if not self._may_enter(folder):
                continue
            for database in sorted(folder.glob("agent/*.sqlite")):
                self._left_out.append(LeftOut(database, _DATABASE))
            if sessions.is_dir() and self._may_enter(sessions):
                yield self._listing(sessions, self._names(sessions))
        legacy = root / "sessions"
        if legacy.is_dir() and self._may_enter(legacy):
            yield self._listing(legacy, self._names(legacy))

    def _names(self, folder: Path) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except OSError as error:
            self._pass_over(error)
            return []

    def _below(self, root: Path) -> Iterator[_Listing]:
        for place, folders, names in os.walk(root, onerror=self._pass_over, followlinks=False):
            kept = [name for name in sorted(folders) if not name.endswith(".blobs")]
            folders[:] = [name for name in kept if self._may_enter(Path(place) / name)]
            listing = self._listing(Path(place), sorted(names))
            if listing.files or _ENTRIES in names:
                yield listing

    def _pass_over(self, error: OSError) -> None:
        reason = f"it cannot be read: {error.strerror or error}"
        self._left_out.append(LeftOut(Path(error.filename), reason))

    def _may_enter(self, folder: Path) -> bool:
        if not folder.is_symlink():
            return True
        self._left_out.append(
            LeftOut(
                folder, "it is a link, and links are not followed; name its target to import it"
            )
        )
        return False

    def _listing(self, folder: Path, names: Sequence[str]) -> _Listing:
        files: list[Path] = []
        for name in names:
            path = folder / name
            reason = _why_not(path)
            if reason is None and parse_name(name) is not None:
                files.append(path)
            elif is_interesting(name) and not path.is_dir():
                self._left_out.append(
                    LeftOut(path, reason or "its name is not that of a transcript")
                )
            elif name != _ENTRIES and not path.is_dir():
                self.other_files += 1
        return _Listing(folder=folder, files=tuple(files))


def _why_not(path: Path) -> str | None:
    """Why a file is not looked into, by its name and kind."""
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    if stat.S_ISLNK(mode):
        return "it is a link, and links are not followed; name its target to import it"
    if not stat.S_ISREG(mode):
        return "it is no regular file"
    return why_not_imported(path.name)


def _transcripts(
    files: Sequence[Path],
    left_out: list[LeftOut],
    on_progress: Progress,
    *,
    before: int = 0,
    total: int = 1,
    is_named: bool = False,
) -> Iterator[SourceTranscript]:
    for number, path in enumerate(files):
        on_progress(before + number, total, path.name)
        name = parse_name(path.name)
        if name is None:
            name = TranscriptName(session_id=path.stem, is_plain=False)
        if is_named:
            name = evolve(name, archived=None)
        try:
            found = _transcript(path, name)
        except (TranscriptError, OSError) as error:
            found = f"it cannot be read: {getattr(error, 'message', error)}"
        if isinstance(found, str):
            left_out.append(LeftOut(path, found))
        else:
            yield found


def _transcript(path: Path, name: TranscriptName) -> SourceTranscript | str:
    """The transcript in a file, or why there is none."""
    state = path.stat()
    if not stat.S_ISREG(state.st_mode):
        return "it is no regular file"
    if not state.st_size:
        return "it is empty"
    with open_transcript(path) as file:
        if _has_longer_line(iter(lambda: file.read(_CHUNK_BYTES), b"")):
            return f"a line of it is longer than {LONGEST_LINE:,} bytes"
        header, is_rebuilt = read_header(file, path)
    session_id = safe_session_id(name.session_id) if is_rebuilt else header["id"]
    facts = scan_transcript(path, session_id)
    if is_rebuilt and not facts.messages and not facts.entry.compaction_count:
        return "no line of it is an entry of a transcript"
    if facts.version > FORMAT_VERSION:
        return f"its format {facts.version} is newer than {FORMAT_VERSION}; upgrade hermitcrab to import it"
    return SourceTranscript(
        path=path,
        name=name,
        session_id=session_id,
        size=state.st_size,
        identity=(state.st_dev, state.st_ino),
        facts=facts,
    )


def _has_longer_line(chunks: Iterator[bytes]) -> bool:
    length = 0
    for chunk in chunks:
        first, last = chunk.find(b"\n"), chunk.rfind(b"\n")
        length += len(chunk) if first < 0 else first
        if length > LONGEST_LINE:
            return True
        if last >= 0:
            length = len(chunk) - last - 1
    return False


def _rows(folder: Path, notes: list[str]) -> dict[str, Any]:
    """The rows of ``sessions.json`` by key; what keeps it from being read is noted, and no transcript suffers."""
    path = folder / _ENTRIES
    try:
        state = path.lstat()
    except OSError:
        return {}
    try:
        if not stat.S_ISREG(state.st_mode):
            raise ValueError("it is a link or no file, and is not followed")
        if state.st_size > LARGEST_ENTRIES:
            raise ValueError(f"it is larger than {LARGEST_ENTRIES:,} bytes")
        rows = json.loads(path.read_bytes())
        if not isinstance(rows, dict):
            raise ValueError("it holds no object")
    except (OSError, ValueError, RecursionError) as error:
        notes.append(
            f"{path} cannot be used, so the keys and settings in it are not known: {error}"
        )
        return {}
    return rows
