"""The files beside a transcript that hold media and very large tool results: ``<sessionId>.blobs/<sha256>`` (design 5).

A file is written once, whole, before the entry that names it: a process that dies in between leaves a file that nobody
names, never an entry without its file. What is read is checked against its name.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from hermitcrab.errors import TranscriptError
from hermitcrab.messages.text import scrub_text
from hermitcrab.messages.types import Message
from hermitcrab.sessions.blobs.blobs import BlobReference, externalise, references_in, restore
from hermitcrab.sessions.format import Entry

logger = logging.getLogger("hermitcrab.sessions")

_NAME = re.compile(r"[0-9a-f]{64}")


def blob_folder(transcript: Path) -> Path:
    """The folder with the blobs of a transcript, of its backups and of its archives; it may not be there."""
    return transcript.with_name(f"{transcript.name.partition('.jsonl')[0]}.blobs")


def blob_names(folder: Path) -> list[str]:
    """The names of the blobs in a folder; what else is there is not listed."""
    return sorted(filter(_NAME.fullmatch, os.listdir(folder))) if folder.is_dir() else []


# -- entries -----------------------------------------------------------------------------------


def storing(
    make: Callable[[str | None, Sequence[Entry]], Sequence[Entry]], transcript: Path, *, flush: bool
) -> Callable[[str | None, Sequence[Entry]], Sequence[Entry]]:
    """An entry maker whose entries have their media and large results beside the transcript.

    :param flush: whether to wait until the disk has them (fsync).
    """

    def made(leaf_id: str | None, found: Sequence[Entry]) -> Sequence[Entry]:
        return [store_entry(entry, transcript, flush=flush) for entry in make(leaf_id, found)]

    return made


def store_entry(entry: Entry, transcript: Path, *, flush: bool) -> Entry:
    """The entry as ``transcript`` is to hold it, once the files that it names are there; often the same object.

    References that the transcript's folder has, and those of an entry that is appended anew, stay as they are.

    :raises TranscriptError: if a file cannot be written.
    """
    message = _message_in(entry)
    if message is None:
        return entry

    def is_kept(reference: BlobReference) -> bool:
        return "rewriteOf" in entry or (blob_folder(transcript) / reference.sha256).is_file()

    stored, blobs = externalise(message, is_kept=is_kept, clean=scrub_text)
    for sha256, content in blobs.items():
        write_blob(blob_folder(transcript), sha256, content, flush=flush)
    return entry if stored is message else _with_message(entry, stored)


def restore_entry(entry: Entry, folder: Path, *, texts: bool = True) -> Entry:
    """The entry with everything inline, as another program or another session needs it.

    :param folder: the :func:`blob_folder` of the transcript that it stands in.
    :param texts: as in :func:`restore_message`.
    """
    message = _message_in(entry)
    if message is None:
        return entry
    restored = restore_message(message, folder, texts=texts)
    return entry if restored is message else _with_message(entry, restored)


def restore_message(
    message: Message,
    folder: Path,
    *,
    texts: bool = True,
    report: Callable[[str], None] = lambda fault: logger.warning("%s", fault),
) -> Message:
    """The message with what is kept in ``folder``; a sentence takes the place of what is missing or damaged.

    :param texts: whether large texts are wanted too; media always are.
    :param report: told what could not be restored, by default in the log.
    """
    return restore(
        message, lambda reference: read_blob(folder, reference), texts=texts, report=report
    )


def entry_references(entry: Entry) -> Iterator[BlobReference]:
    """What of an entry is kept beside its transcript."""
    message = _message_in(entry)
    return iter(()) if message is None else references_in(message)


def _message_in(entry: Entry) -> Message | None:
    """What of an entry has content: its message, or itself if it is a plugin's message."""
    fields: Any = entry.get("message") if entry["type"] == "message" else entry
    is_readable = entry["type"] in {"message", "custom_message"} and isinstance(fields, dict)
    return fields if is_readable else None


def _with_message(entry: Entry, message: Message) -> Entry:
    fields: Any = {**entry, "message": message} if entry["type"] == "message" else message
    changed: Entry = fields
    return changed


# -- files -------------------------------------------------------------------------------------


def read_blob(folder: Path, reference: BlobReference) -> bytes:
    """The bytes that a reference names.

    :raises TranscriptError: if they are not there, or are others.
    """
    path = folder / reference.sha256
    try:
        content = _content(path, reference.bytes)
    except FileNotFoundError as error:
        raise TranscriptError("its file is missing", where=path) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise TranscriptError(f"its file cannot be read: {reason}", where=path) from error
    if content is None or hashlib.sha256(content).hexdigest() != reference.sha256:
        raise TranscriptError("its file is damaged", where=path)
    return content


def _content(path: Path, size: int) -> bytes | None:
    """The bytes of a plain file of this size; ``None`` if it is anything else."""
    with _opened(path) as file:
        state = os.fstat(file.fileno())
        is_right = stat.S_ISREG(state.st_mode) and state.st_size == size
        return file.read() if is_right else None


def _opened(path: Path) -> BinaryIO:
    # A link could lead anywhere, and opening a pipe would wait for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return open(os.open(path, flags), "rb")


def write_blob(folder: Path, sha256: str, content: bytes, *, flush: bool) -> None:
    """Write a blob, unless it stands there.

    :raises TranscriptError: if it cannot be written.
    """
    path = folder / sha256
    try:
        if not _stands(path, content):
            folder.mkdir(mode=0o700, exist_ok=True)
            _write_at_once(path, io.BytesIO(content), flush=flush)
    except OSError as error:
        raise TranscriptError(
            f"media or a large result cannot be written: {error.strerror or error}",
            where=path,
            hint="Nothing that was written before is lost. Check the disk and the folder's permissions.",
        ) from error


def _stands(path: Path, content: bytes) -> bool:
    """Whether the file is there with this content; one that is damaged is written anew."""
    try:
        return _content(path, len(content)) == content
    except OSError:
        return False


def copy_blobs(source_file: Path, target_file: Path) -> int:
    """Give the transcript ``target_file`` the blobs of ``source_file``, before entries are copied; returns how many.

    :raises TranscriptError: if one cannot be copied.
    """
    source, target = blob_folder(source_file), blob_folder(target_file)
    copied = 0
    try:
        for name in blob_names(source):
            if (target / name).exists() or not stat.S_ISREG((source / name).lstat().st_mode):
                continue
            target.mkdir(mode=0o700, exist_ok=True)
            with _opened(source / name) as file:
                _write_at_once(target / name, file, flush=True)
            copied += 1
    except OSError as error:
        raise TranscriptError(
            f"the media and large results of {source_file.name} cannot be copied: {error.strerror or error}",
            where=target,
            hint="Check the disk and the folder's permissions.",
        ) from error
    return copied


def _write_at_once(path: Path, content: BinaryIO, *, flush: bool) -> None:
    """A file of mode 0600 that is there whole or not at all."""
    descriptor, name = tempfile.mkstemp(
        prefix=f"{path.name[:16]}-", suffix=".part", dir=path.parent
    )
    try:
        with open(descriptor, "wb") as file:
            shutil.copyfileobj(content, file)
            file.flush()
            if flush:
                os.fsync(descriptor)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    if flush:
        _sync_folder(path.parent)
        _sync_folder(path.parent.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
