"""Scores of passages: pure functions over what the index found for each term of a query."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from attrs import frozen

from hermitcrab.memory.ranking.places import Place

# What a term is worth that only a neighbour has, by distance; what it adds where both have it; what the chunk adds.
_NEIGHBOUR_WEIGHTS = {-1: 0.7, 1: 0.7, -2: 0.5, 2: 0.5}
_REPEAT_WEIGHT = 0.2
_CHUNK_WEIGHT = 0.7
# Beyond a blank line or a heading less is lent.
_GAP_FACTOR = 0.3
# Only the best by their own terms and their neighbours' are looked at closely, which bounds the time of a search.
_MOST_CANDIDATES = 500

# FTS5 gives every term that half of the rows have this factor instead of its rarity.
_FTS5_LEAST_RARITY = 1e-6


@frozen
class Matches:
    """What FTS5 says of one term: how many of all rows have it, and the BM25 score of the best ones by row id."""

    rows: int
    matching: int
    scores: Mapping[int, float]


def keyword_scores(
    passages: Mapping[int, Place],
    passage_matches: Sequence[Matches],
    chunks: Mapping[int, Place],
    chunk_matches: Sequence[Matches],
) -> dict[int, float]:
    """The score of each passage that has one: its terms, what its neighbours lend, and a share of its chunk's score."""
    terms = [weights(matches) for matches in passage_matches]
    own = _sums(terms)
    paths = {place.path for place in passages.values()}
    near = {number: chunk for number, chunk in chunks.items() if chunk.path in paths}
    by_line = _best_by_line(near, _sums([weights(matches) for matches in chunk_matches]))
    scores = {place.id: own.get(place.id, 0.0) for place in passages.values()}
    for passage_id in _most_promising(passages, own):
        scores[passage_id] = _score(passages[passage_id], terms, passages)
    return {
        passage_id: score + _CHUNK_WEIGHT * by_line.get(_line(passages[passage_id]), 0.0)
        for passage_id, score in scores.items()
        if score > 0
    }


def beside(passages: Mapping[int, Place], passage_matches: Sequence[Matches]) -> set[int]:
    """The ids next to the best passages, which may have no term themselves but stand amid those that have."""
    own = _sums([weights(matches) for matches in passage_matches])
    best = heapq.nlargest(_MOST_CANDIDATES // 2, own, key=own.__getitem__)
    return {passage_id + step for passage_id in best for step in (-1, 1)} - passages.keys()


def weights(matches: Matches) -> dict[int, float]:
    """The worth of a term in each row: how much the row is about it, times one plus its rarity.

    FTS5 takes the rarity of a common term as zero, so that in a small collection most words would not count at all,
    and a passage with all the words would not come before one with the rarest alone.
    """
    ratio = _absence(matches.rows, matches.matching)
    fts5_rarity = max(_FTS5_LEAST_RARITY, math.log(ratio)) if ratio > 1 else _FTS5_LEAST_RARITY
    factor = (1 + rarity(matches.rows, matches.matching)) / fts5_rarity
    return {row: score * factor for row, score in matches.scores.items()}


def rarity(rows: int, matching: int) -> float:
    """How rare a term is that ``matching`` of all ``rows`` have; 0 or more."""
    return math.log1p(_absence(rows, matching))


def _absence(rows: int, matching: int) -> float:
    return (rows - matching + 0.5) / (matching + 0.5)


def _most_promising(passages: Mapping[int, Place], own: Mapping[int, float]) -> list[int]:
    if len(passages) <= _MOST_CANDIDATES:
        return list(passages)

    def promise(passage_id: int) -> float:
        return own.get(passage_id, 0.0) + max(
            own.get(passage_id - 1, 0.0), own.get(passage_id + 1, 0.0)
        )

    return heapq.nlargest(_MOST_CANDIDATES, passages, key=promise)


def _score(
    place: Place, terms: Sequence[Mapping[int, float]], passages: Mapping[int, Place]
) -> float:
    neighbours = [
        (neighbour.id, weight, 1.0 if _apart(place, neighbour) <= abs(step) else _GAP_FACTOR)
        for step, weight in _NEIGHBOUR_WEIGHTS.items()
        if (neighbour := passages.get(place.id + step)) is not None and neighbour.path == place.path
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


def _line(place: Place) -> tuple[str, int]:
    return place.path, place.start_line


def _sums(terms: Sequence[Mapping[int, float]]) -> dict[int, float]:
    sums: defaultdict[int, float] = defaultdict(float)
    for term in terms:
        for row, score in term.items():
            sums[row] += score
    return dict(sums)


def _best_by_line(
    chunks: Mapping[int, Place], scores: Mapping[int, float]
) -> dict[tuple[str, int], float]:
    """For every line of a chunk the score of the best chunk that has it."""
    best: dict[tuple[str, int], float] = {}
    for chunk_id in sorted(scores.keys() & chunks.keys(), key=scores.__getitem__):
        chunk = chunks[chunk_id]
        for line in range(chunk.start_line, chunk.end_line + 1):
            best[chunk.path, line] = scores[chunk_id]
    return best
