"""Finding passages: what words and vectors say of them, joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import islice

from attrs import frozen

from hermitcrab.memory import Explanation, Hit
from hermitcrab.memory.ranking import (
    Fused,
    FusionSettings,
    Place,
    StoredPassage,
    Unit,
    chosen,
    fuse,
    named_dates,
    note_day,
)
from hermitcrab_memory_chroma.connection import CollectionSpec, Connection
from hermitcrab_memory_chroma.embedder import Vector
from hermitcrab_memory_chroma.file_rows import beside
from hermitcrab_memory_chroma.keyword_side import WordMatches, match_words
from hermitcrab_memory_chroma.memory_rows import cosine
from hermitcrab_memory_chroma.rows import Row, by_id, every, nearest

# A passage without a word of the question is found from this cosine on.
_LEAST_COSINE = 0.2
# How many neighbours a search by vectors brings at most: more cost Chroma more than they help.
_MOST_NEAR = 100
# What a snippet may take in beside the passage.
_AROUND = (-1, 1, 2)
# Passages of one file have consecutive numbers; files are this far apart.
_FILE_STEP = 1_000_000


@frozen(kw_only=True)
class Question:
    """What is looked for; without a ``vector`` by words alone."""

    text: str
    settings: FusionSettings
    today: date
    vector: Vector | None = None

    @property
    def uses_vectors(self) -> bool:
        return self.vector is not None and self.settings.shares[1] > 0 and any(self.vector)

    @property
    def uses_words(self) -> bool:
        return self.settings.shares[0] > 0 or not self.uses_vectors


@frozen(kw_only=True)
class Library:
    """Where the passages and vectors of one workspace are; ``vectors`` is None where there are none to search."""

    connection: Connection
    passages: CollectionSpec
    vectors: CollectionSpec | None = None


async def find(
    libraries: Sequence[Library], workspace: str, question: Question, limit: int
) -> list[tuple[Fused, Hit]]:
    """The best ``limit`` hits of all ``libraries``, each behind what it was made of.

    :param workspace: the one whose paths are shown as they are.
    """
    shelf = _Shelf(workspace)
    units: list[Unit] = []
    for library in libraries:
        units += await _candidates(library, question, shelf)
    ranked = fuse(
        units,
        question.settings.suited(question.text),
        today=question.today,
        named=named_dates(question.text),
        texts=shelf.texts,
    )
    await _add_neighbours(libraries, shelf, [item.place.id for item in ranked[: 3 * limit]])
    return list(islice(chosen(ranked, shelf.around), limit))


async def _candidates(library: Library, question: Question, shelf: _Shelf) -> list[Unit]:
    words = WordMatches({}, {})
    if question.uses_words:
        words = await match_words(
            library.connection, library.passages, None, question.text, beside=beside
        )
    rows = {row_id: words.rows[row_id] for row_id in words.scores}
    cosines = await _cosines(library, question, rows)
    rows = {**rows, **await _alike(library, cosines, rows)}
    return [_unit(shelf.place(row), row, words, cosines) for row in rows.values()]


async def _add_neighbours(
    libraries: Sequence[Library], shelf: _Shelf, numbers: Sequence[int]
) -> None:
    """Fetch what snippets may take in; a hit may swallow the two that stand beside it."""
    near = {row_id for number in numbers for row_id in beside(shelf.row_id(number), _AROUND)}
    missing = sorted(row_id for row_id in near if row_id not in shelf)
    for library in libraries:
        for row in await by_id(
            library.connection, library.passages, missing, include=("metadatas",)
        ):
            shelf.place(row)


def explained(found: Iterable[tuple[Fused, Hit]]) -> tuple[Explanation, ...]:
    """Why hits rank where they do."""
    return tuple(
        Explanation(
            hit=hit,
            keyword=item.keyword or None,
            vector=item.vector,
            decay=item.decay,
            named_date=item.named_date,
        )
        for item, hit in found
    )


class _Shelf:
    """Rows by numbers, which is how ranking names passages."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._ids: set[str] = set()
        self._files: dict[str, int] = {}
        self._rows: dict[int, Row] = {}

    def __contains__(self, row_id: str) -> bool:
        return row_id in self._ids

    def place(self, row: Row) -> Place:
        """Where a row stands; it can be looked up from now on."""
        file_id, _, position = row.id.rpartition(":")
        number = self._files.setdefault(file_id, len(self._files)) * _FILE_STEP + int(position)
        self._rows[number] = row
        self._ids.add(row.id)
        data = row.metadata
        return Place(number, self._path(row), int(data["startLine"]), int(data["endLine"]))

    def row_id(self, number: int) -> str:
        return self._rows[number].id

    def texts(self, numbers: Sequence[int]) -> Mapping[int, str]:
        return {number: str(self._rows[number].metadata["text"]) for number in numbers}

    def around(self, number: int) -> list[StoredPassage]:
        """The passage and those beside it that are known."""
        numbers = (number + step for step in (-1, 0, 1, 2))
        return [self._stored(each) for each in numbers if each in self._rows]

    def _stored(self, number: int) -> StoredPassage:
        row = self._rows[number]
        data = row.metadata
        return StoredPassage(
            number, self._path(row), int(data["startLine"]), int(data["endLine"]), str(data["text"])
        )

    def _path(self, row: Row) -> str:
        """The path; that of another host's file is marked, for it is not to be read here."""
        path, workspace = str(row.metadata["path"]), str(row.metadata["workspace"])
        return path if workspace == self._workspace else f"@{workspace}/{path}"


def _unit(place: Place, row: Row, words: WordMatches, cosines: Mapping[str, float]) -> Unit:
    return Unit(
        place=place,
        keyword=words.scores.get(row.id, 0.0),
        vector=cosines.get(str(row.metadata["vector"])),
        day=note_day(str(row.metadata["path"])),
    )


async def _cosines(
    library: Library, question: Question, rows: Mapping[str, Row]
) -> dict[str, float]:
    """The cosines of the nearest vectors and of those that belong to ``rows``, by their ids."""
    if library.vectors is None or question.vector is None or not question.uses_vectors:
        return {}
    near = await nearest(
        library.connection,
        library.vectors,
        question.vector,
        limit=min(question.settings.pool, _MOST_NEAR),
        include=("distances",),
    )
    found = {row.id for row in near}
    rest = sorted({str(row.metadata["vector"]) for row in rows.values()} - found)
    if rest:
        near += await nearest(
            library.connection,
            library.vectors,
            question.vector,
            limit=len(rest),
            ids=rest,
            include=("distances",),
        )
    return {row.id: cosine(row.distance) for row in near if row.distance is not None}


async def _alike(
    library: Library, cosines: Mapping[str, float], rows: Mapping[str, Row]
) -> dict[str, Row]:
    """The passages that are found by their vectors alone."""
    known = {str(row.metadata["vector"]) for row in rows.values()}
    wanted = sorted(
        vector_id
        for vector_id, value in cosines.items()
        if value >= _LEAST_COSINE and vector_id not in known
    )
    if not wanted:
        return {}
    found = await every(
        library.connection,
        library.passages,
        {"vector": {"$in": wanted}},
        include=("metadatas", "documents"),
    )
    return {row.id: row for row in found}
