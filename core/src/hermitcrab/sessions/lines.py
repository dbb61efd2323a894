"""The lines of a transcript file, in either direction, without loading it whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from hermitcrab.errors import TranscriptError
from hermitcrab.sessions.format import FORMAT_VERSION, Header, decode_line, is_header, reference

_CHUNK_BYTES = 64 * 1024
#: How many lines are searched for the time and the version of a file whose header is damaged.
_LINES_SEARCHED = 20


def open_transcript(path: Path) -> BinaryIO:
    """Open a transcript for reading.

    :raises TranscriptError: if it is missing, a directory or unreadable.
    """
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise TranscriptError(
            "there is no such transcript",
            where=path,
            hint="Check the path, or `hermitcrab sessions list`.",
        ) from None
    except IsADirectoryError:
        raise TranscriptError(
            "this is a directory, not a transcript", where=path, hint="Name the .jsonl file."
        ) from None
    except OSError as error:
        raise TranscriptError(
            f"the transcript cannot be opened: {error.strerror}", where=path
        ) from error


def read_header(file: BinaryIO, path: Path) -> tuple[Header, bool]:
    """The header, and whether it had to be rebuilt from the file name and the first lines (design 5)."""
    file.seek(0)
    value = decode_line(file.readline())
    if value is not None and is_header(value):
        return cast(Header, value), False
    header: Header = {
        "type": "session",
        "id": path.name.removesuffix(".jsonl"),
        "version": FORMAT_VERSION,
    }
    for _ in range(_LINES_SEARCHED):
        if value is not None and value["type"] != "session":
            header["version"] = 1 if reference(value.get("id")) is None else FORMAT_VERSION
            if isinstance(value.get("timestamp"), str):
                header["timestamp"] = value["timestamp"]
                break
        line = file.readline()
        if not line:
            break
        value = decode_line(line)
    return header, True


def lines_backwards(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines before ``end``, last first, each with its byte offset and without its newline.

    The bytes between the last newline and ``end`` are not a whole line; they come first, at their offset.
    """
    line_end = position = end
    while position > 0:
        start = max(0, position - _CHUNK_BYTES)
        chunk = _read(file, start, position)
        newline = chunk.rfind(b"\n")
        while newline >= 0:
            offset = start + newline + 1
            if line_end <= position:
                yield offset, chunk[newline + 1 : line_end - start]
            else:
                yield offset, _read(file, offset, line_end)
            line_end = start + newline
            newline = chunk.rfind(b"\n", 0, newline)
        position = start
    yield 0, _read(file, 0, line_end)


def _read(file: BinaryIO, start: int, end: int) -> bytes:
    file.seek(start)
    return file.read(end - start)
