"""Finding passages in an index: what keywords and vectors say of them, joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from hermitcrab.memory import Hit
from hermitcrab.memory.contract import SearchMode
from hermitcrab.memory.files import Keywords, keywords
from hermitcrab.memory.ranking.dates import named_dates
from hermitcrab.memory.ranking.fusion import Fused, FusionSettings, Unit, fuse
from hermitcrab.memory.ranking.places import Place, note_day
from hermitcrab.memory.ranking.snippets import choose
from hermitcrab_memory_core.index import Index
from hermitcrab_memory_core.matrix import LostMatrixError
from hermitcrab_memory_core.narrowing import narrowed
from hermitcrab_memory_core.ranking import beside, keyword_scores
from hermitcrab_memory_core.vector_store import Nearest

if TYPE_CHECKING:
    from hermitcrab_memory_core.matrix import Vectors

#: A passage without a word of the question is found from this cosine on. With the local models, what means the same
#: lies above .27, and what has nothing in common below .2; other models put both higher.
LEAST_COSINE = 0.2


@frozen(kw_only=True)
class Question:
    """What is looked for; without a ``vector`` by keywords alone."""

    text: str
    vector: Vectors | None = None
    settings: FusionSettings
    today: date

    @property
    def terms(self) -> Keywords:
        return keywords(self.text)

    @property
    def uses_vectors(self) -> bool:
        return self.vector is not None and self.settings.shares[1] > 0

    @property
    def uses_keywords(self) -> bool:
        return self.settings.shares[0] > 0 or not self.uses_vectors

    @property
    def mode(self) -> SearchMode:
        if not self.uses_vectors:
            return "keyword"
        return "hybrid" if self.uses_keywords else "vector"


@frozen
class Found:
    """Hits, and by which side they were found."""

    hits: tuple[Hit, ...]
    mode: SearchMode


def find(index: Index, question: Question, limit: int) -> Found:
    """The best ``limit`` hits. Vectors that were lost leave the answer to keywords; the next sync restores them."""
    try:
        return _once(index, question, limit)
    except LostMatrixError:
        # Another process may have laid out the vectors anew between two reads; a second look tells.
        try:
            return _once(index, question, limit)
        except LostMatrixError:
            stored = index.vectors.generation()
            if stored is not None:
                index.vectors.begin(stored.identity)
            return _once(index, evolve(question, vector=None), limit)


def ranked(index: Index, question: Question) -> list[Fused]:
    """All candidates of both sides, best first."""
    scores, places = _keyword_side(index, question.terms) if question.uses_keywords else ({}, {})
    near = _vector_side(index, question, scores)
    missing = set() if near is None else alike(near.cosines) - places.keys()
    places = {**places, **index.places_of(missing)} if missing else places
    return fuse(
        _units(places, scores, near),
        question.settings.suited(question.text),
        today=question.today,
        named=named_dates(question.text),
        vector_floor=None if near is None else near.mean,
        texts=index.texts,
    )


def alike(cosines: Mapping[int, float]) -> set[int]:
    """Those that are found by their vector alone: the nearest of all may still have nothing to do with the question."""
    return {passage for passage, cosine in cosines.items() if cosine >= LEAST_COSINE}


def _once(index: Index, question: Question, limit: int) -> Found:
    with index.snapshot():
        return Found(tuple(choose(ranked(index, question), index.around, limit)), question.mode)


def _keyword_side(index: Index, terms: Keywords) -> tuple[dict[int, float], dict[int, Place]]:
    passage_matches = narrowed(index.passage_matches(terms))
    chunk_matches = narrowed(index.chunk_matches(terms))
    places = index.passages(passage_matches)
    places = {**places, **index.places_of(beside(places, passage_matches))}
    chunks = index.chunks(chunk_matches)
    scores = keyword_scores(places, passage_matches, chunks, chunk_matches)
    return scores, {passage_id: places[passage_id] for passage_id in scores}


def _vector_side(index: Index, question: Question, scores: Mapping[int, float]) -> Nearest | None:
    if question.vector is None or not question.uses_vectors or not question.vector.any():
        return None
    return index.vectors.nearest(question.vector, limit=question.settings.pool, also=scores)


def _units(
    places: Mapping[int, Place], scores: Mapping[int, float], near: Nearest | None
) -> Iterator[Unit]:
    cosines: Mapping[int, float] = {} if near is None else near.cosines
    for place in places.values():
        yield Unit(
            place=place,
            keyword=scores.get(place.id, 0.0),
            vector=cosines.get(place.id),
            day=note_day(place.path),
        )
