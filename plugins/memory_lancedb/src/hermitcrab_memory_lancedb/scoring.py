"""Keyword scores of passages out of what the full-text index says of each term: pure."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence

from hermitcrab.memory.ranking import Place

#: The scores of one term by passage id.
TermScores = Mapping[int, float]

# What a term is worth that only a neighbour has, by distance; what it adds where both have it.
_NEIGHBOUR_WEIGHTS = {-1: 0.7, 1: 0.7, -2: 0.5, 2: 0.5}
_REPEAT_WEIGHT = 0.2
# Beyond a blank line or a heading less is lent.
_GAP_FACTOR = 0.3
# Only the best by their own terms are looked at closely, which bounds the time of a search.
_MOST_CANDIDATES = 300


def weighted(scores: TermScores, *, rows: int) -> dict[int, float]:
    """The worth of a term in each of its rows: how much the row is about it, times one plus its rarity.

    The index counts a term that nearly every row has as worth nothing, so that in a small collection an exact hit
    would have a score of nearly nothing. ``rows`` is how many there are in all.
    """
    matching = min(len(scores), rows)
    rarity = math.log1p((rows - matching + 0.5) / (matching + 0.5))
    return {row: score * (1 + 1 / rarity) for row, score in scores.items()}


def narrowed(places: Mapping[int, Place], terms: Sequence[TermScores]) -> dict[int, Place]:
    """The places whose terms weigh most, and those beside them; in a large memory thousands have some term."""
    own = _sums(terms)
    best = heapq.nlargest(_MOST_CANDIDATES, own, key=lambda row: (own[row], -row))
    kept = {near for row in best for near in range(row - 2, row + 3)}
    return {row: places[row] for row in sorted(kept & places.keys())}


def keyword_scores(places: Mapping[int, Place], terms: Sequence[TermScores]) -> dict[int, float]:
    """The score of each place that has one: its own terms, and what those right beside it lend."""
    scores = {row: _score(place, terms, places) for row, place in places.items()}
    return {row: score for row, score in scores.items() if score > 0}


def _sums(terms: Sequence[TermScores]) -> dict[int, float]:
    sums: dict[int, float] = {}
    for term in terms:
        for row, score in term.items():
            sums[row] = sums.get(row, 0.0) + score
    return sums


def _score(place: Place, terms: Sequence[TermScores], places: Mapping[int, Place]) -> float:
    neighbours = [
        (neighbour.id, weight, 1.0 if _apart(place, neighbour) <= abs(step) else _GAP_FACTOR)
        for step, weight in _NEIGHBOUR_WEIGHTS.items()
        if (neighbour := places.get(place.id + step)) is not None and neighbour.path == place.path
    ]
    score = 0.0
    for term in terms:
        own, near, lent = term.get(place.id, 0.0), 0.0, 0.0
        for neighbour_id, weight, factor in neighbours:
            value = factor * term.get(neighbour_id, 0.0)
            if weight * value > lent:
                near, lent = value, weight * value
        score += max(own, lent) + _REPEAT_WEIGHT * min(own, near)
    return score


def _apart(first: Place, second: Place) -> int:
    """How many lines it is from the end of one place to the start of the other."""
    return max(first.start_line - second.end_line, second.start_line - first.end_line)
