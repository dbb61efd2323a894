"""The matrix file: vectors of float32 one after another, mapped into memory for a search.

A file is only ever appended to, and which of its rows are valid stands in SQLite. So whoever has mapped it never sees
a row change, and what a killed writer left behind the last valid row is written over by the next one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

_BYTES = 4
_COPIED_ROWS = 4096


class LostMatrixError(Exception):
    """The file is missing or shorter than SQLite says."""


@frozen
class MatrixFile:
    """The file of one generation of vectors of ``dims`` numbers each."""

    path: Path
    dims: int

    def append(self, vectors: Vectors, *, rows: int) -> None:
        """Write ``vectors`` behind the first ``rows`` rows and wait until they are on the disk.

        :raises LostMatrixError: the file has fewer than ``rows`` rows.
        :raises OSError: the disk is full, or the folder cannot be written.
        """
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        descriptor = os.open(self.path, flags, 0o600)
        try:
            start = rows * self.dims * _BYTES
            if os.fstat(descriptor).st_size < start:
                raise LostMatrixError(f"{self.path.name} has fewer than {rows:,} rows")
            with os.fdopen(descriptor, "r+b", closefd=False) as stream:
                stream.seek(start)
                stream.write(vectors.astype("<f4", copy=False).tobytes())
                stream.flush()
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def mapped(self, rows: int) -> Vectors:
        """The first ``rows`` rows, mapped and not read.

        :raises LostMatrixError: the file is missing or shorter.
        """
        import numpy as np

        try:
            if self.path.stat().st_size < rows * self.dims * _BYTES:
                raise LostMatrixError(f"{self.path.name} has fewer than {rows:,} rows")
            return np.memmap(self.path, dtype="<f4", mode="r", shape=(rows, self.dims))
        except FileNotFoundError as error:
            raise LostMatrixError(f"{self.path.name} is missing") from error

    def copy_of(self, source: Vectors, rows: Sequence[int]) -> None:
        """Write the ``rows`` of ``source`` into this file, in that order."""
        self.path.unlink(missing_ok=True)
        for start in range(0, len(rows), _COPIED_ROWS):
            self.append(source[rows[start : start + _COPIED_ROWS]], rows=start)
