"""The SQLite index of memory files. Used from one thread at a time; every write is one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from attrs import evolve, frozen

from hermitcrab.memory import Hit
from hermitcrab.memory.files import (
    Keywords,
    MemoryFile,
    chunk_markdown,
    passages_of,
)
from hermitcrab.memory.ranking.places import Place, StoredPassage
from hermitcrab.memory.ranking.units import embedding_texts
from hermitcrab_memory_core import line_maps
from hermitcrab_memory_core.cache_beside import CacheBeside
from hermitcrab_memory_core.embedding_cache import EmbeddingCache
from hermitcrab_memory_core.identity import chunking_of
from hermitcrab_memory_core.ranking import Matches, rarity
from hermitcrab_memory_core.rows import add_chunk, add_passage, path_terms_of
from hermitcrab_memory_core.schema import connect, immediate
from hermitcrab_memory_core.settings import MEMORY
from hermitcrab_memory_core.term_counts import TermCounts, state_of
from hermitcrab_memory_core.terms import chunk_expressions, passage_expressions, word_expressions
from hermitcrab_memory_core.vector_store import VectorStore

T = TypeVar("T")

# BM25 over passages, with the weights of words, headings, path, pairs, characters; and over chunks.
_PASSAGE_SCORE = "-bm25(passage_terms, 1.0, 0.3, 0.3, 1.0, 0.1)"
_CHUNK_SCORE = "-bm25(chunk_terms)"
_MOST_ROWS_PER_TERM = 2000
# The rows of a table of terms that belong to some files, which stand in a JSON list.
_ROWS_WITHIN = {
    f"{name}_terms": f"SELECT id FROM {name}s WHERE path IN (SELECT value FROM json_each(?))"
    for name in ("passage", "chunk")
}
# A term of more rows than this does not find rows of its own, if the rarer ones found enough.
_COMMON = 4000
_ENOUGH = 200


@frozen
class StoredFile:
    """What the index knows of a file; times are in nanoseconds since the epoch, ``chunking`` is what cut it."""

    hash: str
    mtime_ns: int
    size: int
    read_at_ns: int
    chunking: str


@frozen
class Counts:
    """How many there are."""

    files: int
    chunks: int
    passages: int


class Index:
    """An open index."""

    def __init__(
        self,
        path: Path,
        *,
        chunk_tokens: int,
        chunk_overlap: int,
        source: str = MEMORY,
        rendering: int = 0,
    ) -> None:
        """Open or create the index at ``path`` of one source; ``chunking`` says what a file must have been cut by.

        :raises OutdatedIndexError: the file was built by another version.
        :raises OSError: the directory cannot be written.
        :raises sqlite3.Error: the file cannot be opened or is no database.
        """
        self._tokens = chunk_tokens
        self._overlap = chunk_overlap
        self._source = source
        self._cache = CacheBeside(path)
        # Where only some files may be searched, their paths in JSON.
        self._scope: str | None = None
        self._files: tuple[tuple[int, int], Mapping[str, StoredFile]] | None = None
        self._counts: tuple[tuple[int, int], Counts] | None = None
        self.chunking = chunking_of(tokens=chunk_tokens, overlap=chunk_overlap, rendering=rendering)
        self._connection = connect(path)
        self._term_counts = TermCounts(self._connection)
        try:
            self.vectors = VectorStore(self._connection, path)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self.vectors.close()
        self._cache.close()
        self._connection.close()

    def with_cache(self, function: Callable[[EmbeddingCache], T]) -> T:
        """Call ``function`` with the embedding cache beside the index; a damaged cache is replaced by an empty one.

        :raises EmbeddingError: it cannot be opened or used.
        """
        return self._cache.use(function)

    def files(self) -> Mapping[str, StoredFile]:
        """Every file in the index by its path; read again only if somebody wrote since the last time."""
        state = state_of(self._connection)
        if self._files is None or self._files[0] != state:
            rows = self._connection.execute(
                "SELECT path, hash, mtime_ns, size, read_at_ns, chunking FROM files"
            )
            self._files = (state, {row[0]: StoredFile(*row[1:]) for row in rows})
        return self._files[1]

    def file(self, path: str) -> StoredFile | None:
        """What the index knows of one file."""
        row = self._connection.execute(
            "SELECT hash, mtime_ns, size, read_at_ns, chunking FROM files WHERE path = ?", (path,)
        ).fetchone()
        return None if row is None else StoredFile(*row)

    def counts(self) -> Counts:
        """How many files, chunks and passages there are; counted again only if somebody wrote."""
        state = state_of(self._connection)
        if self._counts is None or self._counts[0] != state:
            row = self._connection.execute(
                "SELECT count(*), total(chunks), total(passages) FROM files"
            ).fetchone()
            self._counts = (state, Counts(*map(int, row)))
        return self._counts[1]

    def texts(self, ids: Sequence[int]) -> dict[int, str]:
        """The texts of passages."""
        rows = self._connection.execute(
            "SELECT id, text FROM passages WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(ids)),),
        )
        return dict(rows.fetchall())

    def replace(
        self,
        file: MemoryFile,
        text: str,
        digest: str,
        read_at_ns: int,
        lines: Sequence[int] = (),
    ) -> int:
        """Index ``text`` in place of what the index has of ``file``; how many chunks it has now.

        A passage whose text to embed the file had before keeps its vector. ``lines`` says for each line of the text
        where it stands in the file, if not on the same line.
        """
        chunks = chunk_markdown(text, tokens=self._tokens, overlap=self._overlap)
        passages = passages_of(text)
        with immediate(self._connection):
            kept = self._vectors_of(file.path)
            self._clear(file.path)
            line_maps.keep(self._connection, file.path, lines)
            for chunk in chunks:
                add_chunk(self._connection, file.path, self._source, chunk)
            path_terms = path_terms_of(file.path)
            for passage, embedded in zip(passages, embedding_texts(passages), strict=True):
                add_passage(self._connection, file.path, path_terms, passage, embedded, kept)
            self._connection.execute(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    file.path,
                    self._source,
                    digest,
                    file.mtime_ns,
                    file.size,
                    read_at_ns,
                    self.chunking,
                    len(chunks),
                    len(passages),
                ),
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
        with immediate(self._connection):
            self._clear(path)
            line_maps.keep(self._connection, path, ())
            self._connection.execute("DELETE FROM files WHERE path = ?", (path,))

    def passage_matches(self, terms: Keywords) -> list[Matches]:
        """For each term the passages that have it."""
        expressions = passage_expressions(terms)
        return self._matches("passage_terms", _PASSAGE_SCORE, expressions, self.counts().passages)

    def chunk_matches(self, terms: Keywords) -> list[Matches]:
        """For each term the chunks that have it."""
        expressions = chunk_expressions(terms)
        return self._matches("chunk_terms", _CHUNK_SCORE, expressions, self.counts().chunks)

    def word_weights(self, terms: Keywords) -> dict[str, float]:
        """How rare each word of a query is among the passages."""
        rows = self.counts().passages
        return {
            word: rarity(rows, self._term_counts.of("passage_terms", expression))
            for word, expression in word_expressions(terms).items()
        }

    def passages(self, matches: Iterable[Matches]) -> dict[int, Place]:
        """Where the passages of ``matches`` stand."""
        return self._places("passages", matches)

    def chunks(self, matches: Iterable[Matches]) -> dict[int, Place]:
        """Where the chunks of ``matches`` stand."""
        return self._places("chunks", matches)

    def places_of(self, ids: Iterable[int]) -> dict[int, Place]:
        """Where these passages stand."""
        return self._places_of("passages", ids)

    def around(self, passage_id: int) -> list[StoredPassage]:
        """A passage and its neighbours in the same file, one before and two after it, in order."""
        rows = self._connection.execute(
            "SELECT n.id, n.path, n.start_line, n.end_line, n.text FROM passages AS n "
            "JOIN passages AS p ON p.id = ? AND p.path = n.path "
            "WHERE n.id BETWEEN p.id - 1 AND p.id + 2 ORDER BY n.id",
            (passage_id,),
        )
        return [StoredPassage(*row) for row in rows]

    def placed(self, hits: Iterable[Hit]) -> tuple[Hit, ...]:
        """Hits with the source of this index, and with lines of their files."""
        return tuple(line_maps.placed(self._connection, hits, self._source))

    @contextmanager
    def within(self, paths: Set[str] | None) -> Iterator[None]:
        """All searches inside find these files alone; ``None`` is all there are."""
        is_part = paths is not None and not paths >= self.files().keys()
        self._scope = json.dumps(sorted(paths)) if is_part and paths is not None else None
        self.vectors.scope = self._scope
        try:
            yield
        finally:
            self._scope = self.vectors.scope = None

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads inside see one state of the index, whatever other processes write."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _matches(
        self, table: str, score: str, expressions: Sequence[str], rows: int
    ) -> list[Matches]:
        counts = [self._term_counts.of(table, expression) for expression in expressions]
        matches = [Matches(rows, count, {}) for count in counts]
        found: set[int] = set()
        # The rarest first: a word that very many rows have is looked up only in what the others found.
        for place in sorted(range(len(counts)), key=counts.__getitem__):
            if counts[place] > _COMMON and len(found) >= _ENOUGH:
                continue
            scores = self._best(table, score, expressions[place])
            matches[place] = evolve(matches[place], scores=scores)
            found |= scores.keys()
        return [
            match
            if match.matching == len(match.scores)
            else evolve(match, scores=self._completed(table, score, expression, match, found))
            for expression, match in zip(expressions, matches, strict=True)
        ]

    def _best(self, table: str, score: str, expression: str) -> dict[int, float]:
        # The plus keeps SQLite from running MATCH once for each row id.
        within = f"AND +rowid IN ({_ROWS_WITHIN[table]}) " if self._scope is not None else ""
        scope = () if self._scope is None else (self._scope,)
        rows = self._connection.execute(
            f"SELECT rowid, {score} AS score FROM {table} WHERE {table} MATCH ? {within}"
            "ORDER BY score DESC LIMIT ?",
            (expression, *scope, _MOST_ROWS_PER_TERM),
        )
        return dict(rows.fetchall())

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
        return self._places_of(table, {row for match in matches for row in match.scores})

    def _places_of(self, table: str, ids: Iterable[int]) -> dict[int, Place]:
        within = "" if self._scope is None else "AND path IN (SELECT value FROM json_each(?))"
        scope = () if self._scope is None else (self._scope,)
        rows = self._connection.execute(
            f"SELECT id, path, start_line, end_line FROM {table} "
            f"WHERE id IN (SELECT value FROM json_each(?)) {within}",
            (json.dumps(list(ids)), *scope),
        )
        return {row[0]: Place(*row) for row in rows}

    def _vectors_of(self, path: str) -> dict[bytes, list[int]]:
        """The rows of the vectors of a file, by the hash of what was embedded."""
        rows: dict[bytes, list[int]] = {}
        for key, row in self._connection.execute(
            "SELECT v.hash, v.row FROM passages AS p JOIN vector_rows AS v ON v.passage = p.id "
            "WHERE p.path = ? ORDER BY v.row DESC",
            (path,),
        ):
            rows.setdefault(key, []).append(row)
        return rows

    def _clear(self, path: str) -> None:
        self._connection.execute(
            "DELETE FROM vector_rows WHERE passage IN (SELECT id FROM passages WHERE path = ?)",
            (path,),
        )
        for terms, table in (("chunk_terms", "chunks"), ("passage_terms", "passages")):
            self._connection.execute(
                f"DELETE FROM {terms} WHERE rowid IN (SELECT id FROM {table} WHERE path = ?)",
                (path,),
            )
            self._connection.execute(f"DELETE FROM {table} WHERE path = ?", (path,))
