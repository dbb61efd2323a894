"""Removing sessions and files, as a plan says or as somebody asks (sessions 2.8, 2.10). Blocking.

The transcripts of a session that goes are renamed first, the current one last, and its entry goes in the same
transaction. A process that dies in between leaves the session as it was, or an entry whose transcript is a ``.deleted``
archive; the next one finishes that. A table that is rebuilt does not read archives, so nothing comes back.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from hermitcrab.errors import SessionError, SessionLockedError
from hermitcrab.sessions import database
from hermitcrab.sessions.entries import SessionEntries, SessionEntry, from_json, row_of
from hermitcrab.sessions.events import SessionChanged, change_of
from hermitcrab.sessions.locks import exclusive
from hermitcrab.sessions.maintenance.file_names import archive_name, base_stem, parse_name
from hermitcrab.sessions.maintenance.folder import StoredFile
from hermitcrab.sessions.maintenance.plan import FileRemoval, Removal, SessionRemoval

if TYPE_CHECKING:
    import sqlite3

logger = logging.getLogger("hermitcrab.sessions")

Clock = Callable[[], datetime]


@frozen(kw_only=True)
class Removed:
    """What was removed, and the archives that it left."""

    removal: Removal
    archives: tuple[Path, ...] = ()

    @property
    def event(self) -> SessionChanged | None:
        """What to tell listeners: that a session is gone. The rule is the reason."""
        removal = self.removal
        if isinstance(removal, FileRemoval):
            return None
        return change_of("deleted", removal.entry, reason=removal.rule)


@frozen(kw_only=True)
class Skipped:
    """What was left alone, and why."""

    removal: Removal
    why: str


class _LeaveError(Exception):
    """Something is not as it was when its removal was decided."""


class Remover:
    """Removes what stands in the folder of a table, and nothing outside of it; links are not followed.

    Each time it looks again, under the locks: what was used since the decision stays.
    """

    def __init__(self, entries: SessionEntries, *, clock: Clock, lock_timeout_ms: int) -> None:
        self._entries = entries
        self._folder = entries.folder
        self._clock = clock
        self._lock_timeout_ms = lock_timeout_ms

    def remove(self, removal: Removal) -> Removed | Skipped:
        """Remove a session or a file. Whatever keeps it from that is logged and returned."""
        try:
            if isinstance(removal, SessionRemoval):
                done = self._remove_session(removal)
            else:
                self._remove_file(removal)
                done = Removed(removal=removal)
        except (_LeaveError, SessionError, OSError) as error:
            if not isinstance(error, _LeaveError | SessionLockedError):
                logger.warning("%s could not be removed: %s", _subject(removal), error)
            return Skipped(removal=removal, why=str(error))
        keys = [removal.entry.key] if isinstance(removal, SessionRemoval) else removal.keys
        extra = {"session_key": ", ".join(keys) or None}
        logger.info("removed %s: %s", _subject(removal), removal.why, extra=extra)
        return done

    # -- sessions -----------------------------------------------------------------------------

    def _remove_session(self, removal: SessionRemoval) -> Removed:
        entry = removal.entry
        files = [f for f in (*removal.archived, *removal.deleted) if f.parsed.kind == "transcript"]
        files.sort(key=lambda file: file.parsed.stem == entry.session_id)
        with self._locked(file.name for file in files):
            archives = self._entries.transact(
                lambda connection: self._take_row(connection, removal, files)
            )
            for file in removal.deleted:
                self._delete(archives.get(file.name) or self._folder / file.name)
        kept = [archives[file.name] for file in removal.archived if file.name in archives]
        return Removed(removal=removal, archives=tuple(kept))

    def _take_row(
        self, connection: sqlite3.Connection, removal: SessionRemoval, files: Iterable[StoredFile]
    ) -> dict[str, Path]:
        """Delete the row, once the transcripts have the names of archives; returns those by the old names."""
        entry = removal.entry
        row = connection.execute(database.GET, (entry.key,)).fetchone()
        if row is None:
            raise _LeaveError("it is gone already")
        if from_json(entry.key, json.loads(row[0])) != entry:
            raise _LeaveError("it was used meanwhile")
        stems = {file.parsed.stem or "" for file in files}
        if entry.session_id not in stems and self._stands_alone(connection, entry):
            raise _LeaveError("its transcript is there again")
        if any(_goes_on(connection, stem, entry.key) for stem in stems):
            raise _LeaveError("another session needs its transcript now")
        for file in files:
            self._check(file)
        archives = {file.name: self._archive(file) for file in files}
        if archives:
            _sync(self._folder)
        connection.execute("delete from session_entries where key = ?", (entry.key,))
        return archives

    def _stands_alone(self, connection: sqlite3.Connection, entry: SessionEntry) -> bool:
        """Whether the transcript that an entry names is there, and nobody else's."""
        if not (self._folder / f"{entry.session_id}.jsonl").exists():
            return False
        elsewhere = "select 1 from session_entries where key <> ? and instr(entry, ?) > 0"
        return connection.execute(elsewhere, (entry.key, entry.session_id)).fetchone() is None

    def _archive(self, file: StoredFile) -> Path:
        moment = self._clock()
        target = self._folder / archive_name(file.name, "deleted", moment)
        if os.path.lexists(target):
            raise _LeaveError(f"{target.name} stands there already")
        os.rename(self._folder / file.name, target)
        return target

    # -- files --------------------------------------------------------------------------------

    def _remove_file(self, removal: FileRemoval) -> None:
        file, kind = removal.file, removal.file.parsed.kind
        if kind == "transcript":
            with self._locked([file.name]):
                self._entries.transact(lambda connection: self._take_earlier(connection, removal))
        elif kind == "lock":
            self._remove_lock(file)
        elif kind == "blobs":
            if self._needs_blobs(file.parsed.stem):
                raise _LeaveError("its transcript is there again")
            self._delete(self._folder / file.name)
        elif kind == "temporary" and file.parsed.stem is not None:
            with self._locked([f"{file.parsed.stem}.jsonl"]):
                self._check(file)
                self._delete(self._folder / file.name)
        else:
            self._check(file)
            self._delete(self._folder / file.name)

    def _take_earlier(self, connection: sqlite3.Connection, removal: FileRemoval) -> None:
        """Delete a transcript that no entry goes on with, and what entries say of it."""
        file, stem = removal.file, removal.file.parsed.stem or ""
        naming = connection.execute(
            "select key, session_id, entry from session_entries where session_id in (?, ?) or instr(entry, ?) > 0",
            (stem, base_stem(stem), stem),
        ).fetchall()
        for key, session_id, text in naming:
            if session_id in {stem, base_stem(stem)} or key not in removal.keys:
                raise _LeaveError("a session needs it now")
            entry = from_json(key, json.loads(text))
            left = tuple(each for each in entry.previous_session_ids if each != stem)
            changed = evolve(entry, previous_session_ids=left)
            connection.execute(database.WRITE, row_of(changed))
        self._check(file)
        self._delete(self._folder / file.name)

    def _remove_lock(self, file: StoredFile) -> None:
        """Delete a lock file while it is held, which says that nobody else holds it."""
        path = self._folder / file.name
        if not path.exists():
            return
        with exclusive(path, purpose="delete", timeout_ms=0):
            if path.with_name(f"{file.parsed.stem}.jsonl").exists():
                raise _LeaveError("its transcript is there again")
            self._delete(path)

    def _needs_blobs(self, stem: str | None) -> bool:
        parsed = map(parse_name, os.listdir(self._folder))
        return any(each.stem == stem and each.kind in {"transcript", "archive"} for each in parsed)

    # -- what all do --------------------------------------------------------------------------

    @contextmanager
    def _locked(self, transcripts: Iterable[str]) -> Iterator[None]:
        """Hold the locks of transcripts; a lock file goes with its transcript."""
        with ExitStack() as held:
            for name in sorted(transcripts):
                held.enter_context(
                    exclusive(
                        self._lock_of(name), purpose="delete", timeout_ms=self._lock_timeout_ms
                    )
                )
                held.callback(self._drop_lock, name)
            yield

    def _drop_lock(self, transcript: str) -> None:
        """Delete the lock file of a transcript that is gone, while it is held: those who wait take a new one."""
        if not (self._folder / transcript).exists():
            with suppress(FileNotFoundError):
                self._lock_of(transcript).unlink()

    def _lock_of(self, transcript: str) -> Path:
        return self._folder / f"{transcript}.lock"

    def _check(self, file: StoredFile) -> None:
        """See to it that a file is the plain one that it was."""
        try:
            state = os.lstat(self._folder / file.name)
        except FileNotFoundError:
            raise _LeaveError("it is gone already") from None
        is_same = (state.st_size, state.st_mtime_ns // 1_000_000) == (file.bytes, file.modified_at)
        if not (stat.S_ISREG(state.st_mode) and is_same):
            raise _LeaveError("it was written to meanwhile")

    @staticmethod
    def _delete(path: Path) -> None:
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.lstat(path).st_mode):
                shutil.rmtree(path)
            else:
                path.unlink()


def _subject(removal: Removal) -> str:
    if isinstance(removal, SessionRemoval):
        return f"session {removal.entry.key} ({removal.entry.session_id})"
    of_whom = f" of {', '.join(removal.keys)}" if removal.keys else ""
    return f"{removal.file.name}{of_whom}"


def _goes_on(connection: sqlite3.Connection, stem: str, key: str) -> bool:
    """Whether another key than this one names a transcript as its current one."""
    return any(
        connection.execute(
            "select 1 from session_entries where session_id = ? and key <> ?", (session_id, key)
        ).fetchone()
        for session_id in {stem, base_stem(stem)}
    )


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
