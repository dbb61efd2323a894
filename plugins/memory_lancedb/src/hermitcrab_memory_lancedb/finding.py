"""Finding passages: what words and vectors say of them, joined by the ranking that all memories share."""

from __future__ import annotations

import asyncio
import heapq
import operator
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import islice
from typing import Any

from attrs import frozen

from hermitcrab.memory import Explanation, Hit
from hermitcrab.memory.contract import SearchMode
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
from hermitcrab_memory_lancedb.embedder import Vector
from hermitcrab_memory_lancedb.passages import PassageTable
from hermitcrab_memory_lancedb.scoring import keyword_scores, narrowed, weighted
from hermitcrab_memory_lancedb.terms import asked_terms

#: A passage without a word of the question is found from this cosine on. With the local models, what means the same
#: lies above .27, and what has nothing in common below .2; other models put both higher.
LEAST_COSINE = 0.2

# How many rows of each term are looked at, the best by the full-text index.
_MOST_MATCHES = 400
# Passages of one file have consecutive ids; files are this far apart.
_STRIDE = 10_000_000
# A snippet may show what stands this near to its passage.
_NEAR = range(-2, 4)
# How many ranked passages are looked up for each hit: some turn out to be shown by an earlier one.
_LOOKED_UP = 4


@frozen(kw_only=True)
class Question:
    """What is looked for; without a ``vector`` by words alone. ``column`` is where vectors like it stand."""

    text: str
    vector: Vector | None = None
    column: str | None = None
    settings: FusionSettings
    today: date

    @property
    def uses_vectors(self) -> bool:
        return self.vector is not None and any(self.vector) and self.settings.shares[1] > 0

    @property
    def uses_keywords(self) -> bool:
        return self.settings.shares[0] > 0 or not self.uses_vectors

    @property
    def mode(self) -> SearchMode:
        if not self.uses_vectors:
            return "keyword"
        return "hybrid" if self.uses_keywords else "vector"


async def find(table: PassageTable, question: Question, limit: int) -> list[tuple[Fused, Hit]]:
    """The best ``limit`` hits with what they were made of."""
    fused = await _ranked(table, question)
    found: list[tuple[Fused, Hit]] = []
    looked_up = _LOOKED_UP * limit + 10
    for end in range(looked_up, len(fused) + looked_up, looked_up):
        ranked = fused[:end]
        around = _Surroundings.of(ranked, await table.texts(_wanted(ranked)))
        found = list(islice(chosen(around.present(ranked), around.of_id), limit))
        if len(found) == limit:
            break
    return found


def explained(found: Sequence[tuple[Fused, Hit]]) -> tuple[Explanation, ...]:
    """Why hits rank as they do."""
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


@frozen
class _Surroundings:
    """The passages around those that were ranked, by id."""

    by_id: Mapping[int, StoredPassage]

    @classmethod
    def of(cls, ranked: Sequence[Fused], rows: Iterable[Mapping[str, Any]]) -> _Surroundings:
        bases = {item.place.path: _base(item.place.id) for item in ranked}
        passages = (
            StoredPassage(
                bases[row["path"]] + row["number"],
                row["path"],
                row["startLine"],
                row["endLine"],
                row["text"],
            )
            for row in rows
            if row["path"] in bases
        )
        return cls({passage.id: passage for passage in passages})

    def present(self, ranked: Iterable[Fused]) -> Iterable[Fused]:
        """Those that are still there: another process may have replaced a file meanwhile."""
        return (item for item in ranked if item.place.id in self.by_id)

    def of_id(self, passage_id: int) -> list[StoredPassage]:
        near = (self.by_id.get(passage_id + step) for step in _NEAR)
        return [passage for passage in near if passage is not None]


async def _ranked(table: PassageTable, question: Question) -> list[Fused]:
    """All candidates of both sides, best first."""
    places = Places()
    terms = asked_terms(question.text) if question.uses_keywords else []
    matches, near, counts = await asyncio.gather(
        table.matching(terms, limit=_MOST_MATCHES),
        _nearest(table, question),
        table.counts(),
    )
    by_term = [
        weighted({places.of(row).id: row["_score"] for row in rows}, rows=counts.passages)
        for rows in matches
    ]
    cosines = {places.of(row).id: 1 - row["_distance"] for row in near}
    scores = keyword_scores(narrowed(places.by_id, by_term), by_term)
    best = heapq.nlargest(question.settings.pool, scores, key=lambda row: (scores[row], -row))
    cosines |= await _cosines(table, question, places, [row for row in best if row not in cosines])
    units = [
        Unit(
            place=places.by_id[row],
            keyword=scores.get(row, 0.0),
            vector=cosines.get(row),
            day=note_day(places.by_id[row].path),
        )
        for row in {*scores, *(row for row, cosine in cosines.items() if cosine >= LEAST_COSINE)}
    ]
    settings = question.settings.suited(question.text)
    texts = await _texts(table, units) if settings.mmr_enabled else {}
    return fuse(
        units,
        settings,
        today=question.today,
        named=named_dates(question.text),
        texts=lambda ids: {wanted: texts.get(wanted, "") for wanted in ids},
    )


async def _nearest(table: PassageTable, question: Question) -> list[dict[str, Any]]:
    if not question.uses_vectors or question.vector is None or question.column is None:
        return []
    limit = question.settings.pool
    return await table.nearest(question.vector, column=question.column, limit=limit)


async def _cosines(
    table: PassageTable, question: Question, places: Places, rows: Sequence[int]
) -> dict[int, float]:
    """The cosines of passages that words have found and that are not among the nearest."""
    vector, column = question.vector, question.column
    if not question.uses_vectors or vector is None or column is None or not rows:
        return {}
    wanted: dict[str, list[int]] = {}
    for row in rows:
        wanted.setdefault(places.by_id[row].path, []).append(row % _STRIDE)
    found = await table.vectors(column, wanted)
    return {
        places.of(row).id: sum(map(operator.mul, vector, row[column]))
        for row in found
        if row[column] is not None
    }


class Places:
    """Places by their ids, which hold for one search: passages of one file have consecutive ones."""

    def __init__(self) -> None:
        self.by_id: dict[int, Place] = {}
        self._bases: dict[str, int] = {}

    def of(self, row: Mapping[str, Any]) -> Place:
        """The place of a row."""
        base = self._bases.setdefault(row["path"], len(self._bases) * _STRIDE)
        place = Place(base + row["number"], row["path"], row["startLine"], row["endLine"])
        self.by_id[place.id] = place
        return place


def _base(passage_id: int) -> int:
    return passage_id - passage_id % _STRIDE


def _wanted(ranked: Iterable[Fused]) -> dict[str, set[int]]:
    wanted: dict[str, set[int]] = {}
    for item in ranked:
        number = item.place.id % _STRIDE
        wanted.setdefault(item.place.path, set()).update(number + step for step in _NEAR)
    return wanted


async def _texts(table: PassageTable, units: Sequence[Unit]) -> dict[int, str]:
    bases = {unit.place.path: _base(unit.place.id) for unit in units}
    wanted: dict[str, set[int]] = {}
    for unit in units:
        wanted.setdefault(unit.place.path, set()).add(unit.place.id % _STRIDE)
    return {bases[row["path"]] + row["number"]: row["text"] for row in await table.texts(wanted)}
