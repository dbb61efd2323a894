"""Reading the daily notes of the last days; no link is followed below the workspace (memory 1.4)."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hermitcrab.memory.files.discover import MEMORY_DIRECTORY
from hermitcrab.memory.startup import ListedFile, StartupNote, names_of_day
from hermitcrab.messages.text import scrub_text

logger = logging.getLogger("hermitcrab.memory")

_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def read_startup_notes(
    workspace: Path, stamps: Sequence[str], *, file_bytes: int
) -> tuple[list[StartupNote], bool]:
    """The notes of these days, in order, and whether larger files than ``file_bytes`` were left out.

    What cannot be read is left out and logged. Call it in a worker thread.
    """
    notes: list[StartupNote] = []
    is_partial = False
    try:
        with _memory_folder(workspace) as folder:
            listed = _listed(folder)
            for name in (name for stamp in stamps for name in names_of_day(stamp, listed)):
                data = _read(folder, name, file_bytes)
                is_partial = is_partial or (data is not None and len(data) > file_bytes)
                if data is not None and len(data) <= file_bytes:
                    text = scrub_text(data.decode("utf-8-sig", "replace"))
                    notes.append(StartupNote(f"{MEMORY_DIRECTORY}/{name}", text))
    except FileNotFoundError:
        pass  # no notes yet
    except OSError as error:
        logger.warning("the daily notes cannot be read: %s", error)
    return notes, is_partial


@contextmanager
def _memory_folder(workspace: Path) -> Iterator[int]:
    """The folder ``memory``, opened; the workspace itself may be a link, the folder may not."""
    root = os.open(workspace, _FOLDER_FLAGS)
    try:
        folder = os.open(MEMORY_DIRECTORY, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=root)
    finally:
        os.close(root)
    try:
        yield folder
    finally:
        os.close(folder)


def _listed(folder: int) -> list[ListedFile]:
    """The regular Markdown files of a folder; of one that cannot be listed, none."""
    try:
        readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        try:
            names = [name for name in os.listdir(readable) if name.endswith(".md")]
        finally:
            os.close(readable)
    except OSError as error:
        logger.warning("the folder %s cannot be listed: %s", MEMORY_DIRECTORY, error)
        return []
    return [file for name in names if (file := _examined(folder, name)) is not None]


def _examined(folder: int, name: str) -> ListedFile | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return ListedFile(name, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def _read(folder: int, name: str, file_bytes: int) -> bytes | None:
    """At most one byte more than ``file_bytes`` of a regular file."""
    try:
        with os.fdopen(os.open(name, _FILE_FLAGS, dir_fd=folder), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return None
            return stream.read(file_bytes + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        logger.warning("the daily note %s cannot be read: %s", name, error)
        return None
