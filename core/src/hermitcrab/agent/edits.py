"""Replacing pieces of a text file: all of them or none, each where it stands exactly once."""

from __future__ import annotations

import difflib
import os
import stat
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from attrs import frozen

from hermitcrab.agent.replacing import replace_file
from hermitcrab.errors import ToolError
from hermitcrab.messages.text import scrub_text

#: Bytes of the largest file that is edited.
MAX_FILE_BYTES = 4 * 1024 * 1024
#: Lines and characters of the difference that is shown.
MAX_DIFF_LINES = 60
MAX_DIFF_CHARACTERS = 4_000

_BOM = b"\xef\xbb\xbf"
_LINES_NAMED = 10
_LINE_CHARACTERS = 160


@frozen
class Edit:
    """A piece of text and what takes its place; line ends are ``\\n`` in both."""

    old: str
    new: str


@frozen
class _Place:
    """Where the edit with this number applies: offsets into the text."""

    start: int
    end: int
    edit: Edit
    number: int


def edits_of(arguments: Mapping[str, Any]) -> list[Edit]:
    """The edits that a call asks for: ``edits``, or ``oldText`` and ``newText`` alone. Raises ToolError."""
    given = arguments.get("edits", [])
    if not isinstance(given, list):
        raise ToolError("'edits' must be a list of objects with 'oldText' and 'newText'")
    if "oldText" in arguments or "newText" in arguments:
        given = [*given, arguments]
    if not given:
        raise ToolError("'edits' is required: a list of objects with 'oldText' and 'newText'")
    return [_edit(each, _label(number, len(given))) for number, each in enumerate(given)]


def _edit(given: Any, label: str) -> Edit:
    old, new = (
        (given.get("oldText"), given.get("newText")) if isinstance(given, dict) else (None, None)
    )
    if not isinstance(old, str) or not isinstance(new, str):
        raise ToolError(f"{label}'oldText' and 'newText' are required and must be texts")
    if not old:
        raise ToolError(
            f"{label}'oldText' is empty", hint="Give the text to replace, or use the tool write."
        )
    edit = Edit(_plain(old), _plain(new))
    if edit.old == edit.new:
        raise ToolError(f"{label}'oldText' and 'newText' are the same: nothing would change")
    return edit


def _label(number: int, count: int) -> str:
    return f"edits[{number}]: " if count > 1 else ""


def _plain(text: str) -> str:
    return scrub_text(text).replace("\r\n", "\n")


def edit_file(path: Path, name: str, edits: Sequence[Edit]) -> str:
    """Make ``edits`` in the file and return the difference as a unified diff.

    Line ends, a byte order mark and the mode of the file stay. The file is replaced in one step.

    :param path: has been checked already; ``name`` is how messages call it.
    :raises ToolError: the file cannot be edited, or an edit does not apply; the file is untouched then.
    """
    try:
        before = path.stat()
        data = _read(path, name, before)
        mark = _BOM if data.startswith(_BOM) else b""
        text = _decoded(data[len(mark) :], name)
        changed = edited(text, edits, name)
        replace_file(
            path,
            mark + changed.encode("utf-8"),
            check=lambda: _unchanged_since(path, name, before),
        )
    except OSError as error:
        raise ToolError(f"the file cannot be edited ({error.strerror})", where=name) from error
    return difference(text, changed, name)


def edited(text: str, edits: Sequence[Edit], name: str) -> str:
    """``text`` with ``edits`` made, each of which is looked for in the text as it was. Raises ToolError."""
    plain = text.replace("\r\n", "\n")
    places = sorted(
        (_place(plain, edit, number, len(edits), name) for number, edit in enumerate(edits)),
        key=lambda place: place.start,
    )
    for first, second in pairwise(places):
        if second.start < first.end:
            raise ToolError(
                f"edits[{first.number}] and edits[{second.number}] overlap",
                where=name,
                hint="Make one edit of them.",
            )
    return _applied(text, places)


def _place(text: str, edit: Edit, number: int, count: int, name: str) -> _Place:
    label = _label(number, count)
    found = _occurrences(text, edit.old)
    if not found:
        raise ToolError(
            f"{label}'oldText' was not found", where=name, hint=_nearest(text, edit.old)
        )
    if len(found) > 1:
        lines = [str(text.count("\n", 0, start) + 1) for start in found[:_LINES_NAMED]]
        more = " and on" if len(found) > _LINES_NAMED else ""
        raise ToolError(
            f"{label}'oldText' was found {len(found)} times, in lines {', '.join(lines)}{more}",
            where=name,
            hint="Give more of the text around the one to replace.",
        )
    return _Place(found[0], found[0] + len(edit.old), edit, number)


def _occurrences(text: str, piece: str) -> list[int]:
    """Where ``piece`` begins, overlapping occurrences included."""
    found: list[int] = []
    start = text.find(piece)
    while start >= 0:
        found.append(start)
        start = text.find(piece, start + 1)
    return found


def _nearest(text: str, piece: str) -> str:
    """What to do about a piece that is not there: the line most like its first one."""
    wanted = next((line for line in piece.split("\n") if line.strip()), "")
    lines = text.split("\n")
    shown = [line[:_LINE_CHARACTERS] for line in lines]
    same = [line for line in lines if line.split() == wanted.split()]
    if wanted in lines:
        return f"Line {lines.index(wanted) + 1} is as its first line, but what follows differs."
    near = same[:1] or difflib.get_close_matches(wanted[:_LINE_CHARACTERS], shown, n=1, cutoff=0.5)
    if not near:
        return "Read the file first: nothing in it looks like this."
    number = (lines.index(near[0]) if same else shown.index(near[0])) + 1
    return f"The nearest is line {number}: {near[0][:_LINE_CHARACTERS]!r}"


def _applied(text: str, places: Sequence[_Place]) -> str:
    """The text with pieces replaced whose offsets count ``\\r\\n`` as one; new lines end as those around them do."""
    # Where each "\r\n" stands when it counts as one character: so many "\r" come before what is behind it.
    ends: list[int] = []
    start = text.find("\r\n")
    while start >= 0:
        ends.append(start - len(ends))
        start = text.find("\r\n", start + 2)

    def offset(plain_offset: int) -> int:
        return plain_offset + bisect_left(ends, plain_offset)

    pieces: list[str] = []
    position = 0
    for place in places:
        start, end = offset(place.start), offset(place.end)
        old = text[start:end]
        pieces += [text[position:start], _with_line_ends(place.edit.new, old, text)]
        position = end
    return "".join([*pieces, text[position:]])


def _with_line_ends(new: str, old: str, text: str) -> str:
    around = old if "\n" in old else text
    uses_crlf = around.count("\r\n") * 2 > around.count("\n")
    return new.replace("\n", "\r\n") if uses_crlf else new


def difference(before: str, after: str, name: str) -> str:
    """A unified diff of two texts, cut to a readable length."""
    old, new = (text.replace("\r\n", "\n").split("\n") for text in (before, after))
    lines = list(difflib.unified_diff(old, new, name, name, n=2, lineterm=""))
    shown: list[str] = []
    for line in lines[:MAX_DIFF_LINES]:
        if sum(map(len, shown)) + len(line) > MAX_DIFF_CHARACTERS:
            break
        shown.append(line)
    left = len(lines) - len(shown)
    return "\n".join([*shown, f"[{left} more lines of the difference]"] if left else shown)


def _read(path: Path, name: str, status: os.stat_result) -> bytes:
    if not stat.S_ISREG(status.st_mode):
        raise ToolError("this is not a file", where=name)
    if status.st_size > MAX_FILE_BYTES:
        raise ToolError(f"the file is larger than {MAX_FILE_BYTES} bytes", where=name)
    if not os.access(path, os.W_OK):
        raise ToolError("the file is read-only", where=name)
    return path.read_bytes()


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError("the file is not UTF-8 text", where=name) from error


def _unchanged_since(path: Path, name: str, before: os.stat_result) -> None:
    now = path.stat()
    if (now.st_mtime_ns, now.st_size, now.st_ino) != (
        before.st_mtime_ns,
        before.st_size,
        before.st_ino,
    ):
        raise ToolError(
            "somebody else changed the file meanwhile", where=name, hint="Read it again."
        )
