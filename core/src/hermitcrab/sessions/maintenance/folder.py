"""What stands in a sessions folder: its files with sizes and times, and which session each of them belongs to."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path, PureWindowsPath
from typing import Literal

from attrs import evolve, frozen

from hermitcrab.errors import TranscriptError
from hermitcrab.sessions.entry import SessionEntry, milliseconds
from hermitcrab.sessions.format import format_version, parse_time, reference
from hermitcrab.sessions.lines import open_transcript, read_header
from hermitcrab.sessions.maintenance.file_names import FileName, base_stem, parse_name

#: ``current``: what the entry of a key names. ``previous``: what it named before. ``related``: what neither is named,
#: but is tied to one of them by the ``parentSession`` of a header.
Relation = Literal["current", "previous", "related"]


@frozen(kw_only=True)
class StoredFile:
    """A file of a sessions folder; of a folder with blobs, all that is in it.

    :param modified_at: in milliseconds, as the other times.
    :param started_at: when a transcript says that it began, ``parent`` the one that it goes on from, ``format`` its
        version.
    """

    name: str
    bytes: int
    modified_at: int
    started_at: int | None = None
    parent: str | None = None
    format: int | None = None
    is_folder: bool = False

    @cached_property
    def parsed(self) -> FileName:
        """What its name says."""
        return parse_name(self.name, is_folder=self.is_folder)


@frozen(kw_only=True)
class Snapshot:
    """A sessions folder at one moment."""

    entries: tuple[SessionEntry, ...]
    files: tuple[StoredFile, ...]


@frozen(kw_only=True)
class Belonging:
    """Which keys a transcript belongs to, and which of them go on with it; none if no session has to do with it."""

    keys: frozenset[str] = frozenset()
    current: frozenset[str] = frozenset()
    is_related: bool = False

    @property
    def relation(self) -> Relation | None:
        """What the transcript is to its sessions; the strongest of all counts."""
        if not self.keys:
            return None
        return "current" if self.current else "related" if self.is_related else "previous"

    def among(self, keys: Set[str]) -> Belonging:
        """The same, with no sessions but these."""
        return evolve(self, keys=self.keys & keys, current=self.current & keys)


NOBODY = Belonging()


class Ownership:
    """Which session each transcript and archive of a folder belongs to."""

    def __init__(self, entries: Iterable[SessionEntry], files: Iterable[StoredFile]) -> None:
        self._known: dict[str, Belonging] = {}
        for entry in entries:
            for session_id in entry.previous_session_ids:
                self._add(session_id, entry.key, "previous")
        for entry in entries:
            self._add(entry.session_id, entry.key, "current")
        self._add_related([file for file in files if file.parsed.kind == "transcript"])

    def of(self, stem: str | None) -> Belonging:
        """Whose a transcript is, by its name without ``.jsonl``; topics belong to their session (sessions 2.1)."""
        if stem is None:
            return NOBODY
        return self._known.get(stem) or self._known.get(base_stem(stem)) or NOBODY

    def _add(self, stem: str, key: str, relation: Relation) -> None:
        known = self._known.get(stem, NOBODY)
        self._known[stem] = Belonging(
            keys=known.keys | {key},
            current=known.current | ({key} if relation == "current" else set()),
            is_related=relation == "related",
        )

    def _add_related(self, transcripts: Sequence[StoredFile]) -> None:
        """Give transcripts that no entry names to the sessions that theirs go on from, or that go on from them."""
        tied: dict[str, set[str]] = {}
        for file in transcripts:
            if (stem := file.parsed.stem) is not None and file.parent is not None:
                tied.setdefault(stem, set()).add(file.parent)
                tied.setdefault(file.parent, set()).add(stem)
        named = {stem: whose for stem in tied if (whose := self.of(stem)).keys}
        for start, whose in named.items():
            for stem in _reached(start, tied, named):
                for key in whose.keys:
                    self._add(stem, key, "related")


def _reached(
    start: str, tied: Mapping[str, Iterable[str]], stops: Mapping[str, object]
) -> set[str]:
    """What can be reached from ``start`` without going through what is a stop."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for stem in tied[waiting.pop()]:
            if stem not in stops and stem not in found:
                found.add(stem)
                waiting.append(stem)
    return found


def read_files(folder: Path) -> tuple[StoredFile, ...]:
    """The files of a sessions folder, by name; links are no part of it. Blocking.

    :raises OSError: if the folder cannot be read.
    """
    found = []
    with os.scandir(folder) as listing:
        for each in sorted(listing, key=lambda each: each.name):
            try:
                stored = _stored(each)
            except OSError:  # it has gone meanwhile
                continue
            if stored is not None:
                found.append(stored)
    return tuple(found)


def _stored(entry: os.DirEntry[str]) -> StoredFile | None:
    state = entry.stat(follow_symlinks=False)
    if stat.S_ISDIR(state.st_mode):
        size, newest = _measure(Path(entry.path))
        modified_at = max(newest, _modified(state))
        return StoredFile(name=entry.name, bytes=size, modified_at=modified_at, is_folder=True)
    if not stat.S_ISREG(state.st_mode):
        return None
    stored = StoredFile(name=entry.name, bytes=state.st_size, modified_at=_modified(state))
    return with_header(stored, Path(entry.path)) if stored.parsed.kind == "transcript" else stored


def _measure(folder: Path) -> tuple[int, int]:
    """The bytes of all files in a folder, and when the newest of them was written."""
    size = newest = 0
    for place, _, names in os.walk(folder):
        for name in names:
            state = os.lstat(os.path.join(place, name))
            size, newest = size + state.st_size, max(newest, _modified(state))
    return size, newest


def _modified(state: os.stat_result) -> int:
    return state.st_mtime_ns // 1_000_000


def with_header(file: StoredFile, path: Path) -> StoredFile:
    """The file with what its header says; as it is, where that cannot be read. Blocking."""
    try:
        with open_transcript(path) as opened:
            header, _ = read_header(opened, path)
    except (TranscriptError, OSError):
        return file
    moment, parent = parse_time(header.get("timestamp")), reference(header.get("parentSession"))
    return evolve(
        file,
        started_at=None if moment is None else milliseconds(moment),
        parent=None if parent is None else PureWindowsPath(parent).name.removesuffix(".jsonl"),
        format=format_version(header),
    )
