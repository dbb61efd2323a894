"""Putting a file in the place of another in one step, so that a crash leaves the old one or the new one."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path


def replace_file(path: Path, data: bytes, *, check: Callable[[], None] = lambda: None) -> None:
    """Write ``data`` to ``path``, durable when this returns; a file that stands there lends its mode.

    :param check: called when the new file is whole and before it takes its place; may raise.
    :raises OSError: if the folder cannot be written.
    """
    descriptor, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(descriptor, _mode_for(path))
            os.fsync(descriptor)
        check()
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise


def _mode_for(path: Path) -> int:
    """The mode of the file that is there, or that of a new one."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return 0o600
