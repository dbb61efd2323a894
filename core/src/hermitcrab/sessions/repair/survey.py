"""What stands in a transcript file, line by line: the ground on which it is verified and mended (design 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

from attrs import frozen

from hermitcrab.sessions.branch import linked
from hermitcrab.sessions.format import (
    FORMAT_VERSION,
    Entry,
    Header,
    decode_line,
    format_version,
    identified,
    is_header,
)
from hermitcrab.sessions.lines import read_header
from hermitcrab.sessions.upgrade import upgrade_entries


@frozen(kw_only=True)
class Line:
    """A line of a file: its number from 1, its byte offset, its bytes without the newline, and what they say.

    ``value`` is ``None`` where the bytes are no JSON object with a type.
    """

    number: int
    offset: int
    content: bytes
    value: dict[str, Any] | None


@frozen(kw_only=True)
class Survey:
    """A transcript file as it is.

    ``header`` is what readers take for the header, ``header_line`` the first line unless an entry stands there.
    ``entries`` are what readers see, linked and in terms of version 3; ``unlinked`` are the same without the parents
    that only follow from their place, and ``lines`` the lines that they stand on. ``torn`` is what stands behind the
    last newline without being an entry.
    """

    path: Path
    header: Header
    header_rebuilt: bool
    header_line: Line | None
    version: int
    entries: tuple[Entry, ...]
    unlinked: tuple[Entry, ...]
    lines: tuple[Line, ...]
    bad_lines: tuple[Line, ...]
    torn: Line | None

    @property
    def is_newer(self) -> bool:
        """Whether the format is one that we do not know."""
        return not self.header_rebuilt and self.version > FORMAT_VERSION

    @property
    def has_unreadable_version(self) -> bool:
        """Whether the header's version is something else than a number from 1."""
        stated: Any = self.header.get("version", 1)
        is_text = isinstance(stated, str) and stated.isascii() and stated.isdigit()
        is_number = type(stated) is int or is_text
        return not self.header_rebuilt and (not is_number or self.version < 1)

    @property
    def is_named_after_header(self) -> bool:
        """Whether the file is called as its session id, as a topic of it, or as a fork (sessions 2.1)."""
        stem, header_id = self.path.name.removesuffix(".jsonl"), self.header["id"]
        return (
            stem == header_id
            or stem.startswith(f"{header_id}-topic-")
            or stem.endswith(f"_{header_id}")
        )

    @property
    def is_transcript(self) -> bool:
        """Whether there is a header, an entry, or at least nothing but the damaged beginning of one."""
        whole = bool(self.entries) or not self.header_rebuilt
        return whole or not (self.bad_lines or self.torn)


def survey_file(file: BinaryIO, path: Path) -> Survey:
    """Look at every line of an open transcript; nothing is written.

    :param path: where it is, which stands for an id that the header lacks.
    """
    header, rebuilt = read_header(file, path)
    version = format_version(header)
    file.seek(0)
    lines: list[Line] = []
    offset = 0
    for number, content in enumerate(file, start=1):
        whole = content.removesuffix(b"\n")
        lines.append(Line(number=number, offset=offset, content=whole, value=decode_line(content)))
        offset += len(content)
    first = lines[0] if lines else None
    header_line = None if first is None or _is_entry(first) else first
    last = lines[-1] if lines else None
    is_torn = last is not None and last.value is None and last.offset + len(last.content) == offset
    torn = last if is_torn and last is not header_line else None
    found = [line for line in lines if _is_entry(line)]
    known = {line.number for line in (header_line, torn) if line is not None}
    unlinked = upgrade_entries(
        [identified(line.value or {}, header["id"], line.offset) for line in found], version
    )
    return Survey(
        path=path,
        header=header,
        header_rebuilt=rebuilt,
        header_line=header_line,
        version=version,
        entries=tuple(linked(unlinked, None)),
        unlinked=tuple(unlinked),
        lines=tuple(found),
        bad_lines=tuple(
            line
            for line in lines
            if line.number not in known and not _is_entry(line) and line.content.strip()
        ),
        torn=torn,
    )


def _is_entry(line: Line) -> bool:
    return line.value is not None and line.value["type"] != "session"


def other_header(survey: Survey) -> dict[str, Any] | None:
    """A header that stands further down, where the first line is none."""
    for line in survey.bad_lines:
        if line.value is not None and is_header(line.value):
            return line.value
    return None
