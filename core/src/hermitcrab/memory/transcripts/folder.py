"""The transcripts in a sessions folder that may be indexed, and whose they are (memory 3.9). Blocking."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from attrs import evolve, field, frozen

from hermitcrab.errors import SessionError
from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.keys import agent_id_of, is_cron
from hermitcrab.sessions.maintenance.archives import copied_from
from hermitcrab.sessions.maintenance.file_names import base_stem, parse_name
from hermitcrab.sessions.maintenance.folder import Ownership, StoredFile, with_header
from hermitcrab.sessions.repair.rebuilding import scan_transcript

#: What the path of a transcript begins with.
PREFIX = "sessions/"

_RETAINED = frozenset({"reset", "deleted"})


@frozen(kw_only=True)
class TranscriptFile:
    """A transcript or an archive of one; ``path`` is ``sessions/<file name>``, ``size`` in bytes.

    ``keys`` are the sessions that it belongs to; ``is_current`` says that one of them goes on with it.
    """

    path: str
    absolute: Path
    mtime_ns: int
    size: int
    keys: frozenset[str] = frozenset()
    is_current: bool = False


@frozen(kw_only=True)
class Listing:
    """The transcripts to index; how many belong to nobody; and who started each session."""

    files: tuple[TranscriptFile, ...] = ()
    unowned: int = 0
    parents: dict[str, str | None] = field(factory=dict)


class TranscriptFolder:
    """The sessions folder of one agent; what cannot change about a file is read once."""

    def __init__(
        self, folder: Path, entries: Callable[[], Iterable[SessionEntry]], *, agent_id: str
    ) -> None:
        self._folder = folder
        self._entries = entries
        self._agent_id = agent_id
        self._headers: dict[str, StoredFile] = {}
        self._told: dict[str, tuple[int, str | None]] = {}

    def listed(self) -> Listing:
        """What there is now, by name.

        Left out are backups, compressed archives, transcripts that a session goes on from in a copy, sessions of
        scheduled jobs, and what belongs to no session of the agent. Archives of reset and deleted sessions stay.

        :raises OSError: if the folder cannot be read.
        :raises SessionError: if the session entries cannot be read.
        """
        found = [each for each in self._scanned() if _may_count(each[0])]
        entries = tuple(self._entries())
        stored = [self._with_header(file, state) for file, state in found]
        ownership = Ownership(entries, stored)
        copied = copied_from(stored)
        files: list[TranscriptFile] = []
        unowned = 0
        for file, (_, state) in zip(stored, found, strict=True):
            if file.parsed.stem in copied:
                continue
            whose = ownership.of(file.parsed.stem)
            keys = self._own(whose.keys or self._told_keys(file))
            if not keys:
                unowned += 1
            elif not all(map(is_cron, keys)):
                files.append(
                    TranscriptFile(
                        path=f"{PREFIX}{file.name}",
                        absolute=self._folder / file.name,
                        mtime_ns=state.st_mtime_ns,
                        size=state.st_size,
                        keys=keys,
                        is_current=file.parsed.kind == "transcript" and bool(whose.current),
                    )
                )
        parents = {entry.key: entry.spawned_by for entry in entries}
        return Listing(files=tuple(files), unowned=unowned, parents=parents)

    def _scanned(self) -> list[tuple[StoredFile, os.stat_result]]:
        try:
            with os.scandir(self._folder) as listing:
                names = sorted(each.name for each in listing)
        except FileNotFoundError:
            return []
        found = []
        for name in names:
            try:
                state = os.lstat(self._folder / name)
            except OSError:  # it has gone meanwhile
                continue
            if stat.S_ISREG(state.st_mode):
                stored = StoredFile(
                    name=name, bytes=state.st_size, modified_at=state.st_mtime_ns // 1_000_000
                )
                found.append((stored, state))
        return found

    def _with_header(self, file: StoredFile, state: os.stat_result) -> StoredFile:
        known = self._headers.get(file.name)
        if known is None or known.format is None:
            known = with_header(file, self._folder / file.name)
            self._headers[file.name] = known
        return evolve(known, bytes=file.bytes, modified_at=file.modified_at)

    def _told_keys(self, file: StoredFile) -> frozenset[str]:
        """The session that a transcript says itself it belonged to last, where no entry knows it any more (#53550)."""
        known = self._told.get(file.name)
        if known is None or known[0] != file.bytes:
            known = (file.bytes, self._scanned_key(file))
            self._told[file.name] = known
        return frozenset(() if known[1] is None else (known[1],))

    def _scanned_key(self, file: StoredFile) -> str | None:
        try:
            facts = scan_transcript(self._folder / file.name, base_stem(file.parsed.stem or ""))
        except (SessionError, OSError):  # nobody's, then
            return None
        return facts.namings[-1].key if facts.namings else None

    def _own(self, keys: Iterable[str]) -> frozenset[str]:
        return frozenset(key for key in keys if agent_id_of(key, self._agent_id) == self._agent_id)


def _may_count(file: StoredFile) -> bool:
    name = parse_name(file.name)
    if name.kind == "archive":
        return name.reason in _RETAINED and not file.name.endswith(".zst")
    return name.kind == "transcript"
