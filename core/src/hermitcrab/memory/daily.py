"""The daily file: one Markdown file per day of the user, to which text is only ever appended."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from attrs import define, field, frozen

from hermitcrab.errors import PathRefusedError, ToolError
from hermitcrab.memory.files.paths import safe_path
from hermitcrab.messages.text import scrub_text

#: How long an append waits for another process, in seconds.
LOCK_TIMEOUT_S = 30.0

_DAILY_NAME = re.compile(r"memory/[0-9]{4}-[0-9]{2}-[0-9]{2}\.md")
_HEADING = re.compile(r"#{1,6}\s")
_ITEM = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])\s")
_FENCE = re.compile(r"\s*(```|~~~)")


def daily_path(now: datetime, zone: tzinfo) -> str:
    """The daily file of the user's day at ``now``, relative to the workspace; a naive ``now`` is in UTC."""
    aware = now if now.tzinfo is not None else now.replace(tzinfo=UTC)
    return f"memory/{aware.astimezone(zone):%Y-%m-%d}.md"


@frozen
class AppendOnlyDailyFile:
    """The one file that a flush may write to.

    ``lock_path`` stands outside the workspace; it serialises appends of several processes.

    :raises PathRefusedError: ``path`` is not a daily file inside the workspace.
    """

    workspace: Path
    path: str
    lock_path: Path

    def __attrs_post_init__(self) -> None:
        if not _DAILY_NAME.fullmatch(self.path):
            raise PathRefusedError(
                "this is not a daily memory file",
                where=self.path,
                hint="Its name is memory/YYYY-MM-DD.md",
            )
        safe_path(self.workspace, self.path)

    def create(self) -> None:
        """Create the file, empty, if it is missing.

        :raises OSError: the workspace cannot be written.
        """
        os.close(self._open())

    def append(self, text: str) -> int:
        """Append what the file does not have yet, and return how many bytes were written.

        :raises ToolError: another process held the file too long.
        :raises OSError: the file cannot be written.
        """
        from filelock import FileLock, Timeout

        self.lock_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(
            str(self.lock_path),
            timeout=LOCK_TIMEOUT_S,
            mode=0o600,
            thread_local=False,
            fallback_to_soft=False,
        )
        try:
            with lock:
                return self._append_locked(scrub_text(text))
        except Timeout as error:
            raise ToolError(
                "another process is writing to the file", where=self.path, hint="Try again later"
            ) from error

    def _append_locked(self, text: str) -> int:
        descriptor = self._open()
        with os.fdopen(descriptor, "rb+", buffering=0) as stream:
            existing = stream.read()
            data = addition(existing.decode("utf-8", "replace"), text).encode()
            # Opened for append: the position does not matter, old bytes cannot be touched.
            written = 0
            while written < len(data):
                written += stream.write(data[written:])
            return written

    def _open(self) -> int:
        target = safe_path(self.workspace, self.path)
        target.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        return os.open(target, flags, 0o600)


#: A unit of this many characters means the same under any heading.
_STANDS_ALONE = 30
_BOUNDARY = "\0"


def addition(existing: str, payload: str) -> str:
    """What to append to ``existing`` so that it says all that ``payload`` says, without saying anything twice.

    List items, paragraphs and fenced blocks that stand in the file already are left out, and headings that this
    leaves bare. Short ones count as new under a heading that the file does not have: what they say depends on it.
    """
    known = [line.rstrip() for line in existing.split("\n")]
    lines = [line.rstrip() for line in payload.replace("\r\n", "\n").split("\n")]
    kept: list[str] = []
    for section in _sections(lines):
        # A blank line will stand between the two: no unit runs from one into the other.
        kept += section.missing_from([*known, _BOUNDARY, *kept])
    body = "\n".join(kept).strip("\n")
    if not body.strip():
        return ""
    return _separator(existing) + body + "\n"


def _separator(existing: str) -> str:
    if not existing.strip():
        return "" if existing == "" or existing.endswith("\n") else "\n"
    ending = existing[-2:].replace("\r", "")
    return "\n\n" if not ending.endswith("\n") else "" if ending == "\n\n" else "\n"


@define
class _Section:
    """A heading, if any, and the units under it: runs of lines that only make sense together."""

    heading: str | None = None
    units: list[list[str]] = field(factory=list)

    def missing_from(self, known: Sequence[str]) -> list[str]:
        is_new = self.heading is not None and self.heading not in known
        fresh = [unit for unit in self.units if not self._says_again(unit, known, is_new)]
        if is_new and all(unit == [""] for unit in self.units):
            return [self.heading or ""]
        if all(unit == [""] for unit in fresh):
            return []
        heading = [] if self.heading is None else [self.heading]
        return [*heading, *(line for unit in fresh for line in unit)]

    def _says_again(self, unit: list[str], known: Sequence[str], is_new: bool) -> bool:
        """Under a new heading only what is long enough to mean the same anywhere counts as said."""
        if unit == [""] or (is_new and sum(map(len, unit)) < _STANDS_ALONE):
            return False
        return _contains(known, unit)


def _sections(lines: Sequence[str]) -> Iterator[_Section]:
    section = _Section()
    for unit in _units(lines):
        if len(unit) == 1 and _HEADING.match(unit[0] + " "):
            yield section
            section = _Section(unit[0])
        else:
            section.units.append(unit)
    yield section


def _units(lines: Sequence[str]) -> Iterator[list[str]]:
    """List items, paragraphs, fenced blocks, headings; a blank line is a unit of its own."""
    unit: list[str] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        end = _fence_end(lines, position)
        starts_anew = not line or end or _HEADING.match(line + " ") or _ITEM.match(line + " ")
        if unit and (starts_anew or _HEADING.match(unit[-1] + " ")):
            yield unit
            unit = []
        if not line or end:
            yield list(lines[position : end or position + 1])
        else:
            unit.append(line)
        position = end or position + 1
    if unit:
        yield unit


def _fence_end(lines: Sequence[str], start: int) -> int:
    """One past the line that closes the fence opened at ``start``; 0 if none is opened or none closes it."""
    match = _FENCE.match(lines[start])
    if match is None:
        return 0
    for position in range(start + 1, len(lines)):
        if lines[position].strip() == match[1]:
            return position + 1
    return 0


def _contains(lines: Sequence[str], unit: Sequence[str]) -> bool:
    """Whether ``unit`` stands in ``lines`` as a run of whole lines."""
    size = len(unit)
    return any(
        lines[start] == unit[0] and list(lines[start : start + size]) == list(unit)
        for start in range(len(lines) - size + 1)
    )
