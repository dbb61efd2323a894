"""Scores of passages: pure functions over what the index found for each term of a query."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date

from attrs import frozen

# What a term is worth in a neighbour alone, what it adds in both, and what the chunk adds; chosen on LoCoMo.
_NEIGHBOUR_WEIGHT = 0.7
_REPEAT_WEIGHT = 0.2
_CHUNK_WEIGHT = 0.5

# FTS5 gives every term that half of the rows have this factor instead of its rarity.
_FTS5_LEAST_RARITY = 1e-6
_HALF_LIFE_DAYS = 30.0
_DAILY = re.compile(r"memory/([0-9]{4}-[0-9]{2}-[0-9]{2})(?:-[^/]*)?\.md")


@frozen
class Place:
    """Where a passage or chunk stands; passages of one file have consecutive ids."""

    id: int
    path: str
    start_line: int
    end_line: int


@frozen
class Matches:
    """What FTS5 says of one term: how many of all rows have it, and the BM25 score of the best ones by row id."""

    rows: int
    matching: int
    scores: Mapping[int, float]


@frozen
class Ranked:
    """A passage with its score between 0 and 1."""

    place: Place
    score: float


def rank(
    passages: Mapping[int, Place],
    passage_matches: Sequence[Matches],
    chunks: Mapping[int, Place],
    chunk_matches: Sequence[Matches],
    *,
    today: date,
) -> list[Ranked]:
    """The passages, best first: each with its neighbours' terms, and a share of its chunk's score.

    Decay only reorders near-ties.
    """
    terms = [weights(matches) for matches in passage_matches]
    by_line = _best_by_line(chunks, [weights(matches) for matches in chunk_matches])
    ranked = []
    for place in passages.values():
        raw = sum(_term_score(place, term, passages) for term in terms)
        raw += _CHUNK_WEIGHT * by_line.get((place.path, place.start_line), 0.0)
        raw *= decay(place.path, today=today)
        ranked.append(Ranked(place, raw / (1 + raw)))
    return sorted(
        ranked,
        key=lambda item: (-item.score, item.place.path, item.place.start_line, item.place.id),
    )


def weights(matches: Matches) -> dict[int, float]:
    """The worth of a term in each row: how much the row is about it, times one plus its rarity.

    FTS5 takes the rarity of a common term as zero, so that in a small collection most words would not count at all,
    and a passage with all the words would not come before one with the rarest alone.
    """
    absent = matches.rows - matches.matching
    ratio = (absent + 0.5) / (matches.matching + 0.5)
    fts5_rarity = max(_FTS5_LEAST_RARITY, math.log(ratio)) if ratio > 1 else _FTS5_LEAST_RARITY
    factor = (1 + math.log1p(ratio)) / fts5_rarity
    return {row: score * factor for row, score in matches.scores.items()}


def decay(path: str, *, today: date, half_life_days: float = _HALF_LIFE_DAYS) -> float:
    """``0.9 + 0.1 * 2 ** (-age / half_life)`` for daily files, 1 for everything else."""
    match = _DAILY.fullmatch(path)
    if match is None:
        return 1.0
    try:
        day = date.fromisoformat(match[1])
    except ValueError:
        return 1.0
    age = max(0, (today - day).days)
    return 0.9 + 0.1 * math.exp2(-age / half_life_days)


def _term_score(place: Place, term: Mapping[int, float], passages: Mapping[int, Place]) -> float:
    own = term.get(place.id, 0.0)
    near = 0.0
    for neighbour_id in (place.id - 1, place.id + 1):
        score = term.get(neighbour_id, 0.0)
        if score > near and passages[neighbour_id].path == place.path:
            near = score
    return max(own, _NEIGHBOUR_WEIGHT * near) + _REPEAT_WEIGHT * min(own, near)


def _best_by_line(
    chunks: Mapping[int, Place], terms: Sequence[Mapping[int, float]]
) -> dict[tuple[str, int], float]:
    """For every line of a chunk the score of the best chunk that has it."""
    scores: defaultdict[int, float] = defaultdict(float)
    for term in terms:
        for chunk_id, score in term.items():
            scores[chunk_id] += score
    best: defaultdict[tuple[str, int], float] = defaultdict(float)
    for chunk_id, score in scores.items():
        chunk = chunks[chunk_id]
        for line in range(chunk.start_line, chunk.end_line + 1):
            best[chunk.path, line] = max(best[chunk.path, line], score)
    return best
