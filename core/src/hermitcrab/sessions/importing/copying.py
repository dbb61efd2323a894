"""Bringing one transcript into a home: it is there whole or not at all, and its entries come after it (design 5)."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hermitcrab.errors import SessionError, TranscriptError
from hermitcrab.sessions.blobs.files import blob_folder, copy_blobs
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.entry import SessionEntry, record_of
from hermitcrab.sessions.format import (
    ENTRY_CHANGE,
    FORMAT_VERSION,
    REPLACES_RECORDS,
    Entry,
    IdSource,
    iso,
)
from hermitcrab.sessions.importing.decisions import Relation
from hermitcrab.sessions.importing.sources import SourceTranscript
from hermitcrab.sessions.importing.values import WantedSession
from hermitcrab.sessions.locks import exclusive
from hermitcrab.sessions.repair.rebuilding import scan_transcript
from hermitcrab.sessions.transcript import JsonlTranscriptStore, end_of

#: The steps of bringing a session in, in their order; at each of them the sessions here are whole.
STEPS = ("locked", "copied", "recorded", "in place", "named")
#: Where files are put together; nothing there is a session.
WORKSHOP = ".importing"

_CHUNK_BYTES = 1_048_576
_ids = IdSource()


def _nothing(step: str) -> None:
    return None


def relation_to(source: SourceTranscript, target: Path) -> Relation:
    """Whether ``target`` holds what ``source`` does.

    :raises TranscriptError: if one of them cannot be read.
    """
    try:
        if not target.exists():
            return "absent"
        with _opened(source) as descriptor, target.open("rb") as there:
            for chunk in _chunks(descriptor, source):
                if there.read(len(chunk)) != chunk:
                    return "differs"
    except OSError as error:
        raise TranscriptError(
            f"it cannot be compared with what is here: {error.strerror or error}", where=target
        ) from error
    return "contained"


def other_session_id(source: SourceTranscript, session_id: str) -> str:
    """The session id of a transcript whose own id is taken: the same at every import of the same content."""
    digest = hashlib.sha256()
    with _opened(source) as descriptor:
        for chunk in _chunks(descriptor, source):
            digest.update(chunk)
    return f"import-{digest.hexdigest()[:8]}_{session_id}"


def bring_in(
    wanted: WantedSession,
    folder: Path,
    table: SessionEntries,
    *,
    lock_timeout_ms: int,
    on_step: Callable[[str], None] = _nothing,
) -> None:
    """Copy a transcript into the sessions folder of an agent, then add its entries.

    A process that dies on the way leaves whole sessions only, and the next import completes what it began.

    :param on_step: is told each of :data:`STEPS` when it is reached.
    :raises SessionLockedError: if another process imports the same session.
    :raises SessionError: if something cannot be read or written, or changed meanwhile.
    """
    target = folder / f"{wanted.session_id}.jsonl"
    make_private(folder)
    table.prepare()
    lock = target.with_name(f"{target.name}.lock")
    with exclusive(lock, purpose="import", timeout_ms=lock_timeout_ms):
        on_step("locked")
        relation = relation_to(wanted.source, target)
        if relation == "differs":
            raise TranscriptError("another program wrote it meanwhile", where=target)
        if relation == "absent":
            try:
                _put_in_place(wanted, target, on_step)
            except OSError as error:
                raise TranscriptError(
                    f"the transcript cannot be copied: {error.strerror or error}",
                    where=target,
                    hint="Nothing of it is here. Check the disk and the folder's permissions.",
                ) from error
    if relation == "contained":
        _record_what_is_missing(wanted, target, lock_timeout_ms)
    for entry in wanted.entries:
        standing = table.add(entry)
        if standing.session_id != entry.session_id:
            raise TranscriptError(f"{entry.key} was given to another session meanwhile")
    on_step("named")


def clear_workshop(folder: Path) -> None:
    """Remove what no import uses any more from the sessions folder of an agent."""
    workshop = folder / WORKSHOP
    for name in {path.name.removesuffix(".lock") for path in workshop.glob("*.jsonl*")}:
        with (
            suppress(SessionError),  # another import is at work on it
            exclusive(folder / f"{name}.lock", purpose="import", timeout_ms=0),
        ):
            _sweep(workshop / name)
    with suppress(OSError):  # it is not there, or another import is at work in it
        workshop.rmdir()


def make_private(folder: Path) -> None:
    """Make a folder and those above it, for their owner alone."""
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            with suppress(FileExistsError):
                each.mkdir(mode=0o700)


def _put_in_place(wanted: WantedSession, target: Path, on_step: Callable[[str], None]) -> None:
    workshop = target.parent / WORKSHOP
    make_private(workshop)
    # A fixed name: what a killed process left there, the next holder of the lock writes over.
    copy = workshop / target.name
    try:
        _copy_blobs(wanted.source, target)
        is_told = bool(wanted.entries) and not wanted.is_recorded
        # Appending waits for the disk to have the whole file, so that copying need not.
        _copy(wanted.source, copy, flush=not is_told)
        on_step("copied")
        if is_told:
            _append_records(wanted, JsonlTranscriptStore(workshop), wanted.entries)
        on_step("recorded")
        os.rename(copy, target)
    finally:
        _sweep(copy)
    _sync(target.parent)
    on_step("in place")


def _sweep(copy: Path) -> None:
    """Remove a copy and its lock; a process that was killed may have left either."""
    for leftover in (copy, copy.with_name(f"{copy.name}.lock")):
        with suppress(OSError):
            leftover.unlink(missing_ok=True)


def _copy_blobs(source: SourceTranscript, target: Path) -> None:
    """What the transcript keeps beside it is there before an entry names it; a link is not followed."""
    name = f"{source.path.name.partition('.jsonl')[0]}.jsonl"
    beside = source.path.with_name(name)
    if not blob_folder(beside).is_symlink():
        copy_blobs(beside, target)


def _copy(source: SourceTranscript, copy: Path, *, flush: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    written = os.open(copy, flags, 0o600)
    try:
        with _opened(source) as descriptor:
            for chunk in _chunks(descriptor, source):
                view = memoryview(chunk)
                while view:
                    view = view[os.write(written, view) :]
        if flush:
            os.fsync(written)
    finally:
        os.close(written)


def _append_records(
    wanted: WantedSession, store: JsonlTranscriptStore, entries: Sequence[SessionEntry]
) -> None:
    """Let a transcript tell of its entries, so that a lost table can be made again from it."""
    store.append(
        wanted.session_id,
        end_of(store.read_branch(wanted.session_id)),
        lambda leaf_id, found: [
            _record(entry, wanted.source, is_first=not number)
            for number, entry in enumerate(entries)
        ],
        purpose="import",
        flush=True,
    )


def _record(entry: SessionEntry, source: SourceTranscript, *, is_first: bool) -> Entry:
    data = record_of(entry)
    if is_first and source.facts.namings:
        data[REPLACES_RECORDS] = True
    # The time of the last activity: a rebuilt table takes it from the last line.
    moment = max(entry.updated_at, source.facts.last_moment)
    made: Any = {
        "type": "custom",
        "id": _ids.next(),
        "timestamp": iso(datetime.fromtimestamp(moment / 1000, UTC)),
        "customType": ENTRY_CHANGE,
        "data": data,
    }
    record: Entry = made
    return record


def _record_what_is_missing(wanted: WantedSession, target: Path, lock_timeout_ms: int) -> None:
    """A transcript that was put here by hand tells nothing of its entries; one of an older format stays as it is."""
    if not wanted.entries or wanted.is_recorded:
        return
    facts = scan_transcript(target)
    missing = [entry for entry in wanted.entries if entry.key not in facts.by_key]
    if missing and facts.version == FORMAT_VERSION:
        store = JsonlTranscriptStore(target.parent, lock_timeout_ms=lock_timeout_ms)
        _append_records(wanted, store, missing)


@contextmanager
def _opened(source: SourceTranscript) -> Iterator[int]:
    """The source, if it is still the file that was looked at."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(source.path, flags)
    try:
        state = os.fstat(descriptor)
        if (
            not stat.S_ISREG(state.st_mode)
            or (state.st_dev, state.st_ino) != source.identity
            or state.st_size != source.size
        ):
            raise _changed(source)
        yield descriptor
    finally:
        os.close(descriptor)


def _chunks(descriptor: int, source: SourceTranscript) -> Iterator[bytes]:
    """The bytes that were looked at."""
    left = source.size
    while left:
        chunk = os.read(descriptor, min(left, _CHUNK_BYTES))
        if not chunk:
            raise _changed(source)
        left -= len(chunk)
        yield chunk


def _changed(source: SourceTranscript) -> TranscriptError:
    return TranscriptError(
        "the transcript changes while it is imported",
        where=source.path,
        hint="Stop the program that writes it, and import it again.",
    )


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
