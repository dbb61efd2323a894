"""Reading a range of lines within fixed limits (memory 6.5)."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path

from hermitcrab.errors import ToolError
from hermitcrab.memory.contract import ReadResult
from hermitcrab.memory.files.paths import memory_path

MAX_LINES = 120
MAX_CHARACTERS = 12_000


def read_memory(
    workspace: Path,
    path: str,
    *,
    start: int = 1,
    lines: int | None = None,
    extra_paths: Iterable[str | Path] = (),
) -> ReadResult:
    """Lines of a memory file; a missing one has no text and the status ``not_found``.

    :raises PathRefusedError: the path is not one of memory.
    :raises ToolError: the file cannot be read.
    """
    target = memory_path(workspace, path, extra_paths)
    return read_lines(target, path=path.strip(), start=start, lines=lines)


def read_lines(
    target: Path, *, path: str | None = None, start: int = 1, lines: int | None = None
) -> ReadResult:
    """At most 120 whole lines and 12,000 characters of a file from line ``start`` on, counted from 1.

    A single longer line is cut. ``target`` has been checked already; ``path`` is how the result names it.

    :raises ToolError: the file is not a regular one or cannot be read.
    """
    name = str(target) if path is None else path
    try:
        if not stat.S_ISREG(target.stat().st_mode):
            raise ToolError("this is not a file", where=name)
        text = target.read_bytes().decode("utf-8-sig", "replace")
    except FileNotFoundError:
        return ReadResult(path=name, start=max(1, start), status="not_found")
    except OSError as error:
        raise ToolError(f"the file cannot be read ({error.strerror})", where=name) from error
    return _cut(name, text.replace("\r\n", "\n"), max(1, start), lines)


def _cut(name: str, text: str, start: int, lines: int | None) -> ReadResult:
    every = text.split("\n")
    if every[-1] == "":
        every.pop()
    wanted = every[start - 1 : start - 1 + max(1, min(lines or MAX_LINES, MAX_LINES))]
    kept = _within_characters(wanted)
    if wanted and not kept:
        kept = [wanted[0][:MAX_CHARACTERS]]
    following = start + len(kept)
    more = bool(kept) and following <= len(every)
    return ReadResult(
        path=name,
        text="\n".join(kept),
        start=start,
        lines=len(kept),
        truncated=more or (bool(wanted) and len(wanted[0]) > MAX_CHARACTERS),
        next_start=following if more else None,
    )


def _within_characters(lines: list[str]) -> list[str]:
    used = 0
    for count, line in enumerate(lines):
        used += len(line) + 1
        if used > MAX_CHARACTERS + 1:
            return lines[:count]
    return lines
