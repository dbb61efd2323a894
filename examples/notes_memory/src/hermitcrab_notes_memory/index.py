"""The index: the passages of all notes, in one JSON file that may be deleted at any time."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from attrs import asdict, frozen

from hermitcrab.memory.files import MemoryFile, load, passages_of

VERSION = 1


@frozen
class Piece:
    """A passage of a note; lines count from 1, both ends included."""

    start_line: int
    end_line: int
    text: str


@frozen
class Note:
    """A note as it was read: its time of change, its size in bytes, and its passages."""

    mtime_ns: int
    size: int
    pieces: tuple[Piece, ...]

    def is_of(self, file: MemoryFile) -> bool:
        """Whether the file looks as it did when it was read."""
        return (self.mtime_ns, self.size) == (file.mtime_ns, file.size)


def read_note(file: MemoryFile) -> Note:
    """Read a note.

    :raises OSError: it vanished or cannot be read.
    """
    text, _ = load(file)
    pieces = tuple(Piece(each.start_line, each.end_line, each.text) for each in passages_of(text))
    return Note(file.mtime_ns, file.size, pieces)


def read_index(file: Path) -> dict[str, Note]:
    """The notes by path; none where no index can be read, so that it is made again."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        if stored["version"] != VERSION:
            return {}
        return {
            path: Note(note["mtime_ns"], note["size"], tuple(Piece(**p) for p in note["pieces"]))
            for path, note in stored["notes"].items()
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def write_index(file: Path, notes: Mapping[str, Note]) -> None:
    """Put a new index in the place of the old one, in one step.

    :raises OSError: the folder cannot be written.
    """
    stored = {"version": VERSION, "notes": {path: asdict(note) for path, note in notes.items()}}
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, unfinished = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(stored, stream, ensure_ascii=False)
        os.replace(unfinished, file)
    except BaseException:
        os.unlink(unfinished)
        raise
