"""Which files make up an agent's memory (memory 3.3)."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen

ROOT_FILES = ("MEMORY.md", "memory.md", "USER.md")
MEMORY_DIRECTORY = "memory"

_SUFFIX = ".md"


@frozen
class MemoryFile:
    """A file of memory; ``path`` is relative to the workspace with forward slashes, ``size`` is in bytes."""

    path: str
    absolute: Path
    mtime_ns: int
    size: int


@frozen
class SkippedPath:
    """A path that looked like memory and was left out."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@frozen
class Discovery:
    """The files found, in the order root files, ``memory/``, extra paths; and what was skipped."""

    files: tuple[MemoryFile, ...] = ()
    skipped: tuple[SkippedPath, ...] = ()


def discover(workspace: Path, extra_paths: Iterable[str | Path] = ()) -> Discovery:
    """Find the Markdown files of memory below ``workspace`` and in ``extra_paths``.

    Extra paths are absolute or relative to the workspace. Symbolic links are refused at every level below the
    workspace, which itself may be one; each refused path is reported. The files are not read.
    """
    root = Path(os.path.abspath(workspace))
    found: dict[tuple[int, int], MemoryFile] = {}
    skipped: list[SkippedPath] = []
    for item in _walk(root, extra_paths):
        if isinstance(item, SkippedPath):
            skipped.append(item)
        else:
            identity, file = item
            found.setdefault(identity, file)
    return Discovery(tuple(found.values()), tuple(skipped))


def load(file: MemoryFile) -> tuple[str, str]:
    """The text of a memory file with plain newlines, and the SHA-256 of its bytes.

    :raises OSError: the file vanished or cannot be read.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(file.absolute, flags), "rb") as stream:
        data = stream.read()
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return text, hashlib.sha256(data).hexdigest()


_Found = tuple[tuple[int, int], MemoryFile]


def _walk(root: Path, extra_paths: Iterable[str | Path]) -> Iterator[_Found | SkippedPath]:
    for name in ROOT_FILES:
        yield from _examine(root, root / name)
    yield from _examine(root, root / MEMORY_DIRECTORY)
    for extra in extra_paths:
        text = str(extra).strip()
        if text:
            yield from _examine(root, Path(os.path.abspath(root / Path(text).expanduser())), True)


def _examine(root: Path, path: Path, must_exist: bool = False) -> Iterator[_Found | SkippedPath]:
    """``path`` itself if it is a Markdown file, or all such files below it if it is a directory."""
    name = _relative(root, path)
    try:
        status = path.lstat()
    except FileNotFoundError:
        if must_exist:
            yield SkippedPath(name, "there is no such file or directory")
        return
    except (OSError, ValueError) as error:
        yield SkippedPath(name, f"cannot be examined ({error})")
        return
    yield from _found(str(path), name, status, must_exist)


def _found(
    path: str, name: str, status: os.stat_result, must_exist: bool
) -> Iterator[_Found | SkippedPath]:
    if stat.S_ISLNK(status.st_mode):
        yield SkippedPath(name, "is a symbolic link")
    elif stat.S_ISDIR(status.st_mode):
        yield from _examine_directory(path, name)
    elif path.endswith(_SUFFIX) and stat.S_ISREG(status.st_mode):
        identity = (status.st_dev, status.st_ino)
        yield identity, MemoryFile(name, Path(path), status.st_mtime_ns, status.st_size)
    elif path.endswith(_SUFFIX) or must_exist:
        yield SkippedPath(name, "is not a regular Markdown file")


def _examine_directory(path: str, name: str) -> Iterator[_Found | SkippedPath]:
    # Plain text instead of paths: a memory of 10,000 files is looked through before every search.
    prefix = "" if name == "." else f"{name}/"
    try:
        children = sorted(os.listdir(path))
    except OSError as error:
        yield SkippedPath(name, f"cannot be listed ({error})")
        return
    for child in children:
        child_path, child_name = f"{path}{os.sep}{child}", f"{prefix}{child}"
        try:
            status = os.lstat(child_path)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            yield SkippedPath(child_name, f"cannot be examined ({error})")
            continue
        yield from _found(child_path, child_name, status, False)


def _relative(root: Path, path: Path) -> str:
    try:
        return Path(os.path.relpath(path, root)).as_posix()
    except ValueError:  # another drive
        return path.as_posix()
