"""Verifying transcript files, and mending them under their lock with a backup beside them (design 5)."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from attrs import evolve, frozen

from hermitcrab.errors import TranscriptError
from hermitcrab.sessions.blobs.check import BLOB_KINDS, blob_findings
from hermitcrab.sessions.lines import open_transcript
from hermitcrab.sessions.locks import exclusive
from hermitcrab.sessions.repair.mended import mended_content
from hermitcrab.sessions.repair.survey import Survey, survey_file
from hermitcrab.sessions.repair.verify import Finding, findings_in, has_errors, is_mendable

logger = logging.getLogger("hermitcrab.sessions")

#: The steps of mending a file, in their order; at each of them the old or the new file stands there whole.
STEPS = (
    "locked",
    "backup opened",
    "backup written",
    "backup in place",
    "mended file opened",
    "mended file written",
    "mended file in place",
    "done",
)
_UNTOUCHED = "The transcript is as it was."


def _nothing(step: str) -> None:
    return None


@frozen(kw_only=True)
class Verification:
    """What was found in a transcript file, and whether it was mended.

    ``entries`` and ``messages`` count all branches. ``backup`` is a copy of the file as it was, where it was mended.
    """

    path: Path
    session_id: str | None
    entries: int
    messages: int
    findings: tuple[Finding, ...]
    fixed: bool = False
    backup: Path | None = None

    @property
    def unmended(self) -> tuple[Finding, ...]:
        """The findings that are more than information and still hold."""
        return tuple(
            each for each in self.findings if each.is_error and not (self.fixed and each.fixable)
        )


def verify_transcript(path: Path, *, session_id: str | None = None) -> Verification:
    """Look at a transcript and the files beside it; nothing is written and no lock is taken.

    :param session_id: the id that its header must have, because of its place; ``None`` for a file that may be called
        anything.
    :raises TranscriptError: if it cannot be read.
    """
    content, _ = _read(path)
    survey = _survey(content, path)
    return _verification(survey, session_id, blob_findings(survey))


def mend_transcript(
    path: Path,
    *,
    session_id: str | None = None,
    lock_timeout_ms: int = 10_000,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    on_step: Callable[[str], None] = _nothing,
) -> Verification:
    """Mend what can be mended: a backup comes first, then the mended file takes the old one's place at once.

    A process that dies on the way leaves the old or the new file, whole. Bad lines stay in the backup. A file without
    anything to mend is not touched.

    :param session_id: as in :func:`verify_transcript`.
    :param on_step: is told each of :data:`STEPS` when it is reached.
    :raises SessionLockedError: if another process holds the transcript too long.
    :raises TranscriptError: if it cannot be read or written, or if it changed meanwhile; it is as it was then.
    """
    target = path.resolve()
    found = verify_transcript(path, session_id=session_id)
    if not is_mendable(found.findings):
        return found
    blobs = [finding for finding in found.findings if finding.kind in BLOB_KINDS]
    lock = path.with_name(f"{path.name}.lock")
    with exclusive(lock, purpose="mend", timeout_ms=lock_timeout_ms):
        on_step("locked")
        content, state = _read(target)
        survey = _survey(content, path)
        found = _verification(survey, session_id, blobs)
        if not is_mendable(found.findings):
            return found
        mended = _checked(survey, session_id, clock())
        try:
            backup = _replace(target, content, mended, state, clock(), on_step)
        except OSError as error:
            raise TranscriptError(
                f"the transcript cannot be mended: {error.strerror or error}",
                where=path,
                hint=f"{_UNTOUCHED} Check the free space of the disk and the folder's permissions.",
            ) from error
    on_step("done")
    return evolve(found, fixed=True, backup=backup)


def _read(path: Path) -> tuple[bytes, os.stat_result]:
    """A file's bytes, and its state before they were read."""
    with open_transcript(path) as file:
        state = os.fstat(file.fileno())
        try:
            return file.read(), state
        except OSError as error:
            raise TranscriptError(
                f"the transcript cannot be read: {error.strerror or error}", where=path
            ) from error


def _survey(content: bytes, path: Path) -> Survey:
    return survey_file(io.BytesIO(content), path)


def _verification(survey: Survey, session_id: str | None, blobs: Sequence[Finding]) -> Verification:
    return Verification(
        path=survey.path,
        session_id=survey.header["id"],
        entries=len(survey.entries),
        messages=sum(entry["type"] == "message" for entry in survey.entries),
        findings=(*findings_in(survey, session_id=session_id), *blobs),
    )


def _checked(survey: Survey, session_id: str | None, moment: datetime) -> bytes:
    """The mended content, which is verified before it takes the place of anything."""
    mended = mended_content(survey, session_id=session_id, moment=moment)
    left = findings_in(_survey(mended, survey.path), session_id=session_id)
    if has_errors(left):
        first = next(finding for finding in left if finding.is_error)
        raise TranscriptError(
            f"mending would not do: line {first.line} of the result: {first.message}",
            where=survey.path,
            hint=f"{_UNTOUCHED} Please report this.",
        )
    return mended


def _replace(
    target: Path,
    content: bytes,
    mended: bytes,
    state: os.stat_result,
    moment: datetime,
    on_step: Callable[[str], None],
) -> Path:
    stamp = f"{moment.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"
    backup = target.with_name(f"{target.name}.bak-{stamp}")
    # Fixed names: what a killed process left there, the next holder of the lock writes over.
    unfinished_backup = target.with_name(f"{target.name}.mending-backup")
    unfinished = target.with_name(f"{target.name}.mending")
    with _removed_on_failure(unfinished_backup, unfinished, backup):
        with _new_file(unfinished_backup, 0o600) as descriptor:
            on_step("backup opened")
            _write_whole(descriptor, content)
            on_step("backup written")
        os.rename(unfinished_backup, backup)
        _sync_folder(target.parent)
        on_step("backup in place")
        with _new_file(unfinished, state.st_mode & 0o777) as descriptor:
            on_step("mended file opened")
            _write_whole(descriptor, mended)
            on_step("mended file written")
        if _identity(os.stat(target)) != _identity(state):
            raise TranscriptError(
                "the transcript changed while it was being mended",
                where=target,
                hint="Nothing of it was lost. Try again when nobody writes to it.",
            )
    try:
        os.replace(unfinished, target)
    except OSError:
        _remove(unfinished, backup)
        raise
    on_step("mended file in place")
    try:
        _sync_folder(target.parent)
    except OSError as error:
        logger.warning("%s is mended, but the disk may not have it yet: %s", target, error)
    return backup


def _identity(state: os.stat_result) -> tuple[int, ...]:
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns


@contextmanager
def _removed_on_failure(*files: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        _remove(*files)
        raise


def _remove(*files: Path) -> None:
    for file in files:
        with suppress(OSError):
            file.unlink(missing_ok=True)


@contextmanager
def _new_file(path: Path, mode: int) -> Iterator[int]:
    """A file to write; on the disk when the block ends."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        os.fchmod(descriptor, mode)
        yield descriptor
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_whole(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
