"""The vectors of an index: rows of a mapped matrix file, and the SQLite rows that say whose they are."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from hermitcrab_memory_core.identity import Identity
from hermitcrab_memory_core.matrix import MatrixFile
from hermitcrab_memory_core.schema import immediate

if TYPE_CHECKING:
    import sqlite3

    from hermitcrab_memory_core.matrix import Vectors

# Rows of passages that are gone are left in the file until they are this many and more than the living ones.
_MOST_DEAD_ROWS = 1000


@frozen
class Generation:
    """Vectors that may be compared with each other: the ``name`` of their file, and how many rows it has.

    A name is never used twice, so that a process with an index that was set aside cannot write into a newer file.
    """

    name: str
    identity: Identity
    rows: int


@frozen
class Pending:
    """A passage that has no vector yet, and the text to embed for it."""

    passage: int
    text: str


@frozen
class NewVector:
    """The vector of a passage; ``vector`` has length 1, ``hash`` is that of its text."""

    passage: int
    hash: bytes
    vector: bytes


@frozen
class Nearest:
    """Cosines by passage, and the mean over all rows: what having nothing in common looks like."""

    cosines: Mapping[int, float]
    mean: float


class VectorStore:
    """The vectors behind one connection to an index. Used from one thread at a time."""

    def __init__(self, connection: sqlite3.Connection, index_path: Path) -> None:
        self._connection = connection
        self._index_path = index_path
        self._mapped: tuple[str, Vectors] | None = None
        #: Where only some files may be searched, their paths in JSON.
        self.scope: str | None = None
        self._sweep()

    def generation(self) -> Generation | None:
        """The vectors that the index has, if it has any."""
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'vectors'").fetchone()
        if row is None:
            return None
        name, rows, identity = json.loads(row[0])
        return Generation(name, Identity.from_json(identity), rows)

    def count(self) -> int:
        """How many passages have a vector."""
        return int(self._connection.execute("SELECT count(*) FROM vector_rows").fetchone()[0])

    def begin(self, identity: Identity) -> Generation:
        """Start anew, without any vector."""
        with immediate(self._connection):
            new = Generation(_new_name(), identity, 0)
            self._connection.execute("DELETE FROM vector_rows")
            self._keep(new)
        self._sweep()
        return new

    def adopt(self, identity: Identity) -> None:
        """Say that the vectors there are have this identity."""
        with immediate(self._connection):
            current = self.generation()
            if current is not None:
                self._keep(evolve(current, identity=identity))

    def pending(
        self, *, after: int = 0, limit: int = 256, everything: bool = False
    ) -> list[Pending]:
        """Passages with an id above ``after`` that have no vector; ``everything`` is all passages."""
        rows = self._connection.execute(
            "SELECT p.id, coalesce(p.embedding_text, p.text) FROM passages AS p "
            "WHERE p.id > ? AND (? OR NOT EXISTS "
            "(SELECT 1 FROM vector_rows AS v WHERE v.passage = p.id)) ORDER BY p.id LIMIT ?",
            (after, everything, limit),
        )
        return [Pending(*row) for row in rows]

    def hashes(self) -> list[bytes]:
        """The hashes of all texts that have a vector here."""
        return [row[0] for row in self._connection.execute("SELECT hash FROM vector_rows")]

    def append(self, name: str, dims: int, vectors: Sequence[NewVector]) -> bool:
        """Add vectors of passages that are still there; ``False`` if generation ``name`` is no more.

        :raises LostMatrixError: the matrix file is missing or damaged.
        """
        import numpy as np

        with immediate(self._connection):
            current = self.generation()
            if current is None or current.name != name:
                return False
            if current.identity.dims not in (0, dims):
                return False
            wanted = self._without_vector(vectors)
            if wanted:
                data = np.frombuffer(b"".join(each.vector for each in wanted), dtype="<f4")
                file = MatrixFile(self._path(name), dims)
                file.append(data.reshape(len(wanted), dims), rows=current.rows)
            self._connection.executemany(
                "INSERT INTO vector_rows VALUES (?, ?, ?)",
                (
                    (row, each.passage, each.hash)
                    for row, each in enumerate(wanted, start=current.rows)
                ),
            )
            identity = evolve(current.identity, dims=dims)
            self._keep(Generation(name, identity, current.rows + len(wanted)))
        return True

    def nearest(self, query: Vectors, *, limit: int, also: Iterable[int] = ()) -> Nearest:
        """Cosines of the ``limit`` passages nearest to ``query``, and of those in ``also`` that have a vector.

        :raises LostMatrixError: the matrix file is missing or damaged, or was replaced a moment ago.
        """
        current = self.generation()
        if current is None or current.rows == 0 or len(query) != current.identity.dims:
            return Nearest({}, 0.0)
        cosines = self._matrix(current) @ query
        others = self._connection.execute(
            "SELECT passage, row FROM vector_rows "
            "WHERE passage IN (SELECT value FROM json_each(?))",
            (json.dumps(list(also)),),
        )
        chosen = dict([*self._best(cosines, limit), *others])
        return Nearest(
            {passage: float(cosines[row]) for passage, row in chosen.items()},
            float(cosines.mean()),
        )

    def _best(self, cosines: Vectors, limit: int) -> list[tuple[int, int]]:
        """The ``limit`` passages with the highest cosines, and their rows; most rows are of living passages."""
        import numpy as np

        if self.scope is not None:
            return self._best_within(cosines, limit, self.scope)
        taken = 0
        found: list[tuple[int, int]] = []
        while len(found) < limit and taken < len(cosines):
            taken = min(len(cosines), max(2 * limit, 4 * taken))
            best = np.argpartition(cosines, len(cosines) - taken)[len(cosines) - taken :]
            found = self._connection.execute(
                "SELECT passage, row FROM vector_rows "
                "WHERE row IN (SELECT value FROM json_each(?))",
                (json.dumps(best.tolist()),),
            ).fetchall()
        found.sort(key=lambda each: -cosines[each[1]])
        return found[:limit]

    def _best_within(self, cosines: Vectors, limit: int, scope: str) -> list[tuple[int, int]]:
        rows = self._connection.execute(
            "SELECT v.passage, v.row FROM passages AS p JOIN vector_rows AS v ON v.passage = p.id "
            "WHERE p.path IN (SELECT value FROM json_each(?))",
            (scope,),
        )
        return sorted(rows, key=lambda each: -cosines[each[1]])[:limit]

    def compact(self) -> bool:
        """Copy the living rows into a new file, if most of the old one is dead; whether it did.

        :raises LostMatrixError: the matrix file is missing or damaged.
        """
        current = self.generation()
        living = self.count()
        if current is None or current.rows - living <= max(living, _MOST_DEAD_ROWS):
            return False
        with immediate(self._connection):
            current = self.generation()
            if current is None:
                return False
            rows = self._connection.execute(
                "SELECT row, passage, hash FROM vector_rows ORDER BY passage"
            ).fetchall()
            new = Generation(_new_name(), current.identity, len(rows))
            file = MatrixFile(self._path(new.name), new.identity.dims)
            file.copy_of(self._matrix(current), [row[0] for row in rows])
            self._connection.execute("DELETE FROM vector_rows")
            self._connection.executemany(
                "INSERT INTO vector_rows VALUES (?, ?, ?)",
                ((number, *row[1:]) for number, row in enumerate(rows)),
            )
            self._keep(new)
        self._sweep()
        return True

    def size(self) -> int:
        """Bytes of the matrix file."""
        current = self.generation()
        return 0 if current is None else current.rows * current.identity.dims * 4

    def close(self) -> None:
        self._mapped = None

    def _keep(self, generation: Generation) -> None:
        value = json.dumps([generation.name, generation.rows, generation.identity.to_json()])
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('vectors', ?)", (value,))

    def _without_vector(self, vectors: Sequence[NewVector]) -> list[NewVector]:
        """Those whose passage is there and has no vector: another process may have been faster."""
        rows = self._connection.execute(
            "SELECT id FROM passages WHERE id IN (SELECT value FROM json_each(?)) "
            "AND id NOT IN (SELECT passage FROM vector_rows)",
            (json.dumps([each.passage for each in vectors]),),
        )
        free = {row[0] for row in rows}
        return [each for each in vectors if each.passage in free]

    def _matrix(self, generation: Generation) -> Vectors:
        if self._mapped is not None:
            name, matrix = self._mapped
            if name == generation.name and len(matrix) >= generation.rows:
                return matrix[: generation.rows]
        file = MatrixFile(self._path(generation.name), generation.identity.dims)
        matrix = file.mapped(generation.rows)
        self._mapped = (generation.name, matrix)
        return matrix

    def _path(self, name: str) -> Path:
        return self._index_path.with_name(f"{self._index_path.stem}.vectors-{name}.f32")

    def _sweep(self) -> None:
        """Remove matrix files that no index points to; one that is being written is behind the write lock."""
        if not self._stale():
            return
        with immediate(self._connection):
            for path in self._stale():
                try:
                    path.unlink(missing_ok=True)
                except (
                    PermissionError
                ):  # still mapped, where the system minds; the next sweep takes it
                    continue

    def _stale(self) -> list[Path]:
        current = self.generation()
        kept = None if current is None else self._path(current.name)
        pattern = f"{self._index_path.stem}.vectors-*.f32"
        return [path for path in self._index_path.parent.glob(pattern) if path != kept]


def _new_name() -> str:
    return secrets.token_hex(6)
