"""The SQLite index of memory files. Used from one thread at a time; every write is one transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import evolve, frozen

from hermitcrab.memory.files import (
    Chunk,
    Keywords,
    MemoryFile,
    Passage,
    chunk_markdown,
    index_terms,
    passages_of,
)
from hermitcrab_memory_core.ranking import Matches, Place
from hermitcrab_memory_core.schema import connect
from hermitcrab_memory_core.terms import chunk_expressions, passage_expressions

SOURCE = "memory"

# BM25 over passages, with the weights of words, headings, path, pairs, characters; and over chunks.
_PASSAGE_SCORE = "-bm25(passage_terms, 1.0, 0.3, 0.3, 1.0, 0.1)"
_CHUNK_SCORE = "-bm25(chunk_terms)"
_MOST_ROWS_PER_TERM = 2000


@frozen
class StoredFile:
    """What the index knows of a file; times are in nanoseconds since the epoch."""

    hash: str
    mtime_ns: int
    size: int
    read_at_ns: int


@frozen
class StoredPassage:
    """A passage by its place in the index; passages of one file follow each other."""

    id: int
    path: str
    start_line: int
    end_line: int
    text: str


class Index:
    """An open index."""

    def __init__(self, path: Path, *, chunk_tokens: int, chunk_overlap: int) -> None:
        """Open or create the index at ``path``; another chunk size than it was built with empties it.

        :raises OutdatedIndexError: the file was built by another version.
        :raises OSError: the directory cannot be written.
        :raises sqlite3.Error: the file cannot be opened or is no database.
        """
        self._tokens = chunk_tokens
        self._overlap = chunk_overlap
        self._connection = connect(path)
        try:
            self._match_chunking()
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def files(self) -> dict[str, StoredFile]:
        """Every file in the index by its path."""
        rows = self._connection.execute("SELECT path, hash, mtime_ns, size, read_at_ns FROM files")
        return {row[0]: StoredFile(*row[1:]) for row in rows}

    def file(self, path: str) -> StoredFile | None:
        """What the index knows of one file."""
        row = self._connection.execute(
            "SELECT hash, mtime_ns, size, read_at_ns FROM files WHERE path = ?", (path,)
        ).fetchone()
        return None if row is None else StoredFile(*row)

    def counts(self) -> tuple[int, int]:
        """How many files and chunks there are."""
        row = self._connection.execute(
            "SELECT (SELECT count(*) FROM files), (SELECT count(*) FROM chunks)"
        ).fetchone()
        return row[0], row[1]

    def replace(self, file: MemoryFile, text: str, digest: str, read_at_ns: int) -> int:
        """Index ``text`` in place of what the index has of ``file``; how many chunks it has now."""
        chunks = chunk_markdown(text, tokens=self._tokens, overlap=self._overlap)
        passages = passages_of(text)
        with self._transaction():
            self._clear(file.path)
            for chunk in chunks:
                self._add_chunk(file.path, chunk)
            path_terms = _joined(_path_terms(file.path))
            for passage in passages:
                self._add_passage(file.path, path_terms, passage)
            self._connection.execute(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)",
                (file.path, SOURCE, digest, file.mtime_ns, file.size, read_at_ns),
            )
        return len(chunks)

    def touch(self, file: MemoryFile, read_at_ns: int) -> None:
        """Note that ``file`` was read and has not changed."""
        self._connection.execute(
            "UPDATE files SET mtime_ns = ?, size = ?, read_at_ns = ? WHERE path = ?",
            (file.mtime_ns, file.size, read_at_ns, file.path),
        )

    def remove(self, path: str) -> None:
        """Forget a file."""
        with self._transaction():
            self._clear(path)
            self._connection.execute("DELETE FROM files WHERE path = ?", (path,))

    def passage_matches(self, terms: Keywords) -> list[Matches]:
        """For each term the passages that have it."""
        return self._matches("passage_terms", _PASSAGE_SCORE, passage_expressions(terms))

    def chunk_matches(self, terms: Keywords) -> list[Matches]:
        """For each term the chunks that have it."""
        return self._matches("chunk_terms", _CHUNK_SCORE, chunk_expressions(terms))

    def passages(self, matches: Iterable[Matches]) -> dict[int, Place]:
        """Where the passages of ``matches`` stand."""
        return self._places("passages", matches)

    def chunks(self, matches: Iterable[Matches]) -> dict[int, Place]:
        """Where the chunks of ``matches`` stand."""
        return self._places("chunks", matches)

    def around(self, passage_id: int) -> list[StoredPassage]:
        """A passage and its neighbours in the same file, in order."""
        rows = self._connection.execute(
            "SELECT n.id, n.path, n.start_line, n.end_line, n.text FROM passages AS n "
            "JOIN passages AS p ON p.id = ? AND p.path = n.path "
            "WHERE n.id BETWEEN p.id - 1 AND p.id + 1 ORDER BY n.id",
            (passage_id,),
        )
        return [StoredPassage(*row) for row in rows]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads inside see one state of the index, whatever other processes write."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _matches(self, table: str, score: str, expressions: Sequence[str]) -> list[Matches]:
        rows = self._connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        matches = [self._match(table, score, expression, rows) for expression in expressions]
        found = {row for match in matches for row in match.scores}
        return [
            match
            if match.matching == len(match.scores)
            else evolve(match, scores=self._completed(table, score, expression, match, found))
            for expression, match in zip(expressions, matches, strict=True)
        ]

    def _match(self, table: str, score: str, expression: str, rows: int) -> Matches:
        best = self._connection.execute(
            f"SELECT rowid, {score} AS score FROM {table} WHERE {table} MATCH ? "
            "ORDER BY score DESC LIMIT ?",
            (expression, _MOST_ROWS_PER_TERM),
        )
        scores = dict(best.fetchall())
        matching = len(scores)
        if matching == _MOST_ROWS_PER_TERM:
            matching = self._connection.execute(
                f"SELECT count(*) FROM {table} WHERE {table} MATCH ?", (expression,)
            ).fetchone()[0]
        return Matches(rows, matching, scores)

    def _completed(
        self, table: str, score: str, expression: str, match: Matches, found: set[int]
    ) -> dict[int, float]:
        """The scores of a common term also in the rows that were found for the other terms."""
        # The plus keeps SQLite from running MATCH once for each row id.
        rows = self._connection.execute(
            f"SELECT rowid, {score} FROM {table} WHERE {table} MATCH ? "
            "AND +rowid IN (SELECT value FROM json_each(?))",
            (expression, json.dumps(list(found - match.scores.keys()))),
        )
        return {**match.scores, **dict(rows.fetchall())}

    def _places(self, table: str, matches: Iterable[Matches]) -> dict[int, Place]:
        ids = {row for match in matches for row in match.scores}
        rows = self._connection.execute(
            f"SELECT id, path, start_line, end_line FROM {table} "
            "WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(ids)),),
        )
        return {row[0]: Place(*row) for row in rows}

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _match_chunking(self) -> None:
        chunking = json.dumps([self._tokens, self._overlap])
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'chunking'").fetchone()
        if row is not None and row[0] == chunking:
            return
        with self._transaction():
            for table in ("files", "chunks", "passages", "chunk_terms", "passage_terms"):
                self._connection.execute(f"DELETE FROM {table}")
            self._connection.execute(
                "INSERT OR REPLACE INTO meta VALUES ('chunking', ?)", (chunking,)
            )

    def _clear(self, path: str) -> None:
        for terms, table in (("chunk_terms", "chunks"), ("passage_terms", "passages")):
            self._connection.execute(
                f"DELETE FROM {terms} WHERE rowid IN (SELECT id FROM {table} WHERE path = ?)",
                (path,),
            )
            self._connection.execute(f"DELETE FROM {table} WHERE path = ?", (path,))

    def _add_chunk(self, path: str, chunk: Chunk) -> None:
        cursor = self._connection.execute(
            "INSERT INTO chunks (path, source, start_line, end_line, hash, text, updated_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (path, SOURCE, chunk.start_line, chunk.end_line, chunk.hash, chunk.text, _now_ms()),
        )
        terms = index_terms(chunk.text)
        self._connection.execute(
            "INSERT INTO chunk_terms (rowid, words, pairs) VALUES (?, ?, ?)",
            (cursor.lastrowid, _joined(terms.words), _joined(terms.pairs)),
        )

    def _add_passage(self, path: str, path_terms: str, passage: Passage) -> None:
        cursor = self._connection.execute(
            "INSERT INTO passages (path, start_line, end_line, text) VALUES (?, ?, ?, ?)",
            (path, passage.start_line, passage.end_line, passage.text),
        )
        own = index_terms(passage.text)
        above = index_terms("\n".join(passage.headings))
        self._connection.execute(
            "INSERT INTO passage_terms "
            "(rowid, words, headings, path, pairs, characters) VALUES (?, ?, ?, ?, ?, ?)",
            (
                cursor.lastrowid,
                _joined(own.words),
                _joined(above.words + above.pairs),
                path_terms,
                _joined(own.pairs),
                _joined(own.characters),
            ),
        )


def _path_terms(path: str) -> tuple[str, ...]:
    """The words of a path but for ``memory/`` and ``.md``: a word that every path has would weigh nothing."""
    terms = index_terms(path.removeprefix("memory/").removesuffix(".md"))
    return terms.words + terms.pairs


def _joined(terms: Sequence[str]) -> str:
    return " ".join(terms)


def _now_ms() -> int:
    return int(time.time() * 1000)
