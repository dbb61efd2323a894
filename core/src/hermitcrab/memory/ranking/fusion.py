"""One order out of keyword scores, vector scores, dates and age: pure functions (memory 4.4 to 4.7, 9.1).

A unit is a passage of an index. The index stores for each passage its place, its text, its rows of terms and, where
there is an embedding provider, one vector of the text that
:func:`~hermitcrab.memory.ranking.units.embedding_texts` gives for it. Nothing here reads the index: whoever calls
brings the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import date

from attrs import evolve, frozen

from hermitcrab.memory.files import index_terms
from hermitcrab.memory.ranking.places import Place

# The pool is this many units for each step of the multiplier, whatever number of results is asked for.
_POOL_STEP = 50
# The share of vectors where words lead, and where CJK characters do; chosen on LoCoMo and zh-memory.
_VECTOR_SHARE = 0.3
_WIDE_VECTOR_SHARE = 0.65
# What a unit gains by standing in a note of a date that the question names, as a share of the best score.
_NAMED_DATE = 0.3
# How many of the first units diversity reorders.
_MOST_DIVERSE = 100


@frozen(kw_only=True)
class FusionSettings:
    """How scores are joined (memory 9.1, ``query.hybrid``).

    The weights are normalised to a sum of 1; without either, :meth:`suited` chooses them. ``min_score`` is a floor
    between 0 and 1 for units that no term of the query is in; ``None`` is no floor. ``mmr_lambda`` of 1 is relevance
    alone, of 0 diversity alone.
    """

    vector_weight: float | None = None
    text_weight: float | None = None
    candidate_multiplier: int = 4
    mmr_enabled: bool = False
    mmr_lambda: float = 0.7
    decay_enabled: bool = True
    half_life_days: float = 30.0
    min_score: float | None = None

    @property
    def pool(self) -> int:
        """How many units each side brings at most; it does not depend on the number of results."""
        return _POOL_STEP * min(20, max(1, self.candidate_multiplier))

    @property
    def shares(self) -> tuple[float, float]:
        """The weights of keywords and of vectors, as shares of 1."""
        given_text, given_vector = self.text_weight, self.vector_weight
        if given_vector is None:
            given_vector = _VECTOR_SHARE if given_text is None else 1 - given_text
        if given_text is None:
            given_text = 1 - given_vector
        text, vector = _within(given_text), _within(given_vector)
        if text + vector == 0:
            return 1 - _VECTOR_SHARE, _VECTOR_SHARE
        return text / (text + vector), vector / (text + vector)

    def suited(self, query: str) -> FusionSettings:
        """Weights for the script of ``query`` where none are set.

        Words with stems say more than pairs of CJK characters do, so vectors weigh more where the query is mostly CJK.
        """
        if self.vector_weight is not None or self.text_weight is not None:
            return self
        terms = index_terms(query)
        is_wide = len(terms.pairs) > len(terms.words)
        return evolve(self, vector_weight=_WIDE_VECTOR_SHARE if is_wide else _VECTOR_SHARE)


@frozen(kw_only=True)
class Unit:
    """A candidate.

    ``keyword`` is its score by the keyword index, above 0 without an upper limit, and 0 where no term matches;
    ``vector`` the cosine between -1 and 1, ``None`` where it has no vector. A candidate that keywords found brings its
    cosine too, if there is one. ``day`` is the date of its note, ``None`` for a note that never ages.
    """

    place: Place
    keyword: float = 0.0
    vector: float | None = None
    day: date | None = None


@frozen(kw_only=True)
class Fused:
    """A unit in its final order: ``score`` between 0 and 1, and what it came from.

    ``keyword`` and ``vector`` are the two sides, scaled to between 0 and 1 over all candidates; ``decay`` is what age
    left of the score, ``named_date`` whether the query names the date of the note.
    """

    place: Place
    score: float
    keyword: float = 0.0
    vector: float | None = None
    decay: float = 1.0
    named_date: bool = False


def fuse(
    units: Iterable[Unit],
    settings: FusionSettings,
    *,
    today: date,
    named: Callable[[date], bool] | None = None,
    vector_floor: float | None = None,
    texts: Callable[[Sequence[int]], Mapping[int, str]] | None = None,
) -> list[Fused]:
    """All units that may be returned, best first; the caller cuts to the number of results.

    ``named`` says whether the query names a date (:func:`~hermitcrab.memory.ranking.dates.named_dates`).
    ``vector_floor`` is the cosine that means nothing in common, such as the mean over the whole index; without it the
    least of the candidates. ``texts`` gives the texts of units by their ids, for diversity alone.

    Without any vector the order is that of keywords, without any keyword that of vectors. A unit with a term of the
    query is never dropped by ``min_score``. Age multiplies by ``0.9 + 0.1 * 2 ** (-age / half_life)``: it reorders
    near-ties.
    """
    fused = _joined(list(units), settings, today, named, vector_floor)
    kept = [
        item
        for item in fused
        if item.keyword > 0 or settings.min_score is None or item.score >= settings.min_score
    ]
    kept.sort(key=_order)
    if settings.mmr_enabled and texts is not None:
        return _diverse(kept, settings.mmr_lambda, texts)
    return kept


def age_factor(day: date | None, *, today: date, half_life_days: float = 30.0) -> float:
    """``0.9 + 0.1 * 2 ** (-age / half_life)``; 1 for a note that never ages."""
    if day is None:
        return 1.0
    age = max(0, (today - day).days)
    return 0.9 + 0.1 * math.exp2(-age / max(1.0, half_life_days))


def _joined(
    units: Sequence[Unit],
    settings: FusionSettings,
    today: date,
    named: Callable[[date], bool] | None,
    vector_floor: float | None,
) -> list[Fused]:
    keyword, keyword_top = _scaled_keywords(units)
    vector, vector_top = _scaled_vectors(units, vector_floor)
    text_share, vector_share = _shares(settings, keyword_top, vector_top)
    # Scores are relative to the best unit; how good that one is says how high they start.
    height = text_share * keyword_top / (1 + keyword_top) + vector_share * max(0.0, vector_top)
    ages = [_age(unit, settings, today) for unit in units]
    is_named = [named is not None and unit.day is not None and named(unit.day) for unit in units]
    scores = [
        (text_share * own + vector_share * (near or 0.0) + _NAMED_DATE * lifts) * age
        for own, near, lifts, age in zip(keyword, vector, is_named, ages, strict=True)
    ]
    top = max(scores, default=0.0)
    return [
        Fused(
            place=unit.place,
            score=score / top * height if top > 0 else score,
            keyword=own,
            vector=near,
            decay=age,
            named_date=lifts,
        )
        for unit, score, own, near, age, lifts in zip(
            units, scores, keyword, vector, ages, is_named, strict=True
        )
    ]


def _scaled_keywords(units: Sequence[Unit]) -> tuple[list[float], float]:
    top = max((unit.keyword for unit in units), default=0.0)
    return [unit.keyword / top if top > 0 else 0.0 for unit in units], top


def _scaled_vectors(units: Sequence[Unit], floor: float | None) -> tuple[list[float | None], float]:
    known = [unit.vector for unit in units if unit.vector is not None]
    if not known:
        return [None] * len(units), 0.0
    top = max(known)
    least = min(known) if floor is None else floor
    span = top - least
    return [
        None if unit.vector is None else _within((unit.vector - least) / span) if span > 0 else 1.0
        for unit in units
    ], top


def _shares(settings: FusionSettings, keyword_top: float, vector_top: float) -> tuple[float, float]:
    """A side that found nothing leaves its share to the other one."""
    if keyword_top <= 0:
        return 0.0, 1.0
    return settings.shares if vector_top > 0 else (1.0, 0.0)


def _age(unit: Unit, settings: FusionSettings, today: date) -> float:
    if not settings.decay_enabled:
        return 1.0
    return age_factor(unit.day, today=today, half_life_days=settings.half_life_days)


def _order(item: Fused) -> tuple[float, str, int, int]:
    return -item.score, item.place.path, item.place.start_line, item.place.id


def _diverse(
    fused: list[Fused], relevance_share: float, texts: Callable[[Sequence[int]], Mapping[int, str]]
) -> list[Fused]:
    """Maximal marginal relevance over the first units; the scores stay as they are (memory 4.5)."""
    share = _within(relevance_share)
    waiting, rest = fused[:_MOST_DIVERSE], fused[_MOST_DIVERSE:]
    if share == 1 or len(waiting) < 2:
        return fused
    found = texts([item.place.id for item in waiting])
    tokens = {item.place.id: _tokens(found.get(item.place.id, "")) for item in waiting}
    most, least = waiting[0].score, waiting[-1].score
    nearest = {item.place.id: 0.0 for item in waiting}
    chosen: list[Fused] = []
    while waiting:
        best = max(
            waiting,
            key=lambda item: (
                share * _relevance(item.score, most, least) - (1 - share) * nearest[item.place.id],
                item.score,
            ),
        )
        waiting.remove(best)
        chosen.append(best)
        for item in waiting:
            likeness = _likeness(tokens[item.place.id], tokens[best.place.id])
            nearest[item.place.id] = max(nearest[item.place.id], likeness)
    return chosen + rest


def _relevance(score: float, most: float, least: float) -> float:
    return (score - least) / (most - least) if most > least else 1.0


def _tokens(text: str) -> frozenset[str]:
    terms = index_terms(text)
    return frozenset((*terms.words, *terms.pairs, *terms.characters))


def _likeness(first: Set[str], second: Set[str]) -> float:
    if not first and not second:
        return 1.0
    return len(first & second) / len(first | second)


def _within(value: float) -> float:
    return min(1.0, max(0.0, value))
