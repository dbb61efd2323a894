"""Paths that a model gives: resolved inside the workspace after following links, or refused."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from hermitcrab.errors import PathRefusedError
from hermitcrab.memory.files.discover import MEMORY_DIRECTORY, ROOT_FILES

_DRIVE = re.compile(r"[A-Za-z]:")
_SEPARATORS = re.compile(r"[/\\]")
_UNENCODABLE = re.compile("[\x00\ud800-\udfff]")


def safe_path(workspace: Path, relative: str) -> Path:
    """The absolute path of ``relative`` inside ``workspace``, links followed; the file need not exist.

    The workspace itself may be a symbolic link; containment is decided by path components.

    :raises PathRefusedError: the path is empty, absolute, has ``..``, ``~``, a NUL or a drive, leads outside, or
        differs from a name that is there only in its Unicode form.
    """
    _refuse_unless(_is_plain(relative), relative, "must be relative to the workspace, without '..'")
    root = _resolved(workspace, relative)
    target = _resolved(root / relative, relative)
    _refuse_unless(target.is_relative_to(root), relative, "leads outside the workspace")
    twin = _twin(root, target)
    _refuse_unless(
        twin is None, relative, f"differs only in Unicode form from {twin!r}, which is there"
    )
    return target


def _twin(root: Path, target: Path) -> str | None:
    """The name of an entry that looks like a part of ``target`` that is not there, such as é in two characters.

    Two files whose names look the same would be one memory for a person and two for the program.
    """
    folder = root
    for part in target.relative_to(root).parts:
        inner = folder / part
        if os.path.lexists(inner):
            folder = inner
            continue
        if part.isascii():
            return None
        wanted = unicodedata.normalize("NFC", part)
        try:
            names = os.listdir(folder)
        except OSError:
            return None
        return next((name for name in names if unicodedata.normalize("NFC", name) == wanted), None)
    return None


def memory_path(workspace: Path, path: str, extra_paths: Iterable[str | Path] = ()) -> Path:
    """The absolute path of a memory file (memory 6.5): a root file, Markdown below ``memory/``, or an extra path.

    :raises PathRefusedError: it is none of these, before or after following links.
    """
    text = path.strip()
    _refuse_unless(text != "" and not _UNENCODABLE.search(text), path, "is not a path")
    _refuse_unless(text.endswith(".md"), path, "is not a Markdown file of memory")
    extra = _within_extra(workspace, text, extra_paths)
    if extra is not None:
        return extra
    target = safe_path(workspace, text)
    inside = target.relative_to(_resolved(workspace, path)).parts
    is_memory = inside[0] == MEMORY_DIRECTORY if len(inside) > 1 else inside[0] in ROOT_FILES
    _refuse_unless(is_memory, path, "is not a file of memory")
    return target


def _is_plain(relative: str) -> bool:
    parts = _SEPARATORS.split(relative)
    return (
        relative.strip() != ""
        and parts[0] != ""
        and not parts[0].startswith("~")
        and ".." not in parts
        and not _DRIVE.match(relative)
        and not _UNENCODABLE.search(relative)
    )


def _within_extra(workspace: Path, text: str, extra_paths: Iterable[str | Path]) -> Path | None:
    target = Path(os.path.abspath(workspace / text))
    for extra in extra_paths:
        allowed = Path(os.path.abspath(workspace / Path(str(extra).strip()).expanduser()))
        resolved = _resolved(target, text)
        if target.is_relative_to(allowed) and resolved.is_relative_to(_resolved(allowed, text)):
            return resolved
    return None


def _resolved(path: Path, given: str) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle
        raise PathRefusedError(
            f"the path cannot be resolved ({error})", where=_shown(given)
        ) from error


def _refuse_unless(allowed: bool, path: str, reason: str) -> None:
    if not allowed:
        raise PathRefusedError(
            f"the path {reason}",
            where=_shown(path),
            hint="Give a path relative to the workspace, such as memory/2026-01-31.md",
        )


def _shown(path: str) -> str:
    return ascii(path) if _UNENCODABLE.search(path) or not path.strip() else path
