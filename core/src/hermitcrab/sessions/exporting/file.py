"""Writing an export to a file that its owner alone may read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def write_new_file(path: Path, pieces: Iterable[bytes], *, may_replace: bool = False) -> None:
    """Write ``pieces`` to ``path``, readable and writable for its owner: the whole of it or nothing.

    :raises FileExistsError: if something is there already, and it may not be replaced.
    :raises OSError: if it cannot be written; what stood there is as it was.
    """
    if not may_replace and os.path.lexists(path):
        raise FileExistsError(path)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:80]}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        if may_replace:
            os.replace(name, path)
        else:
            _publish(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _publish(name: str, path: Path) -> None:
    """Give a file its place, unless something came there meanwhile."""
    try:
        os.link(name, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(path):
            raise FileExistsError(path) from None
        os.rename(name, path)
    else:
        os.unlink(name)
