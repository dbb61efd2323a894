"""Leaving out, of very many rows with some word of a question, those that cannot come first: a pure function."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from attrs import evolve

from hermitcrab_memory_core.ranking import Matches, weights

#: How many passages, and how many chunks, are ranked for the terms of a question.
MOST_CANDIDATES = 400


def narrowed(matches: Sequence[Matches], limit: int = MOST_CANDIDATES) -> list[Matches]:
    """``matches`` with the ``limit`` rows whose terms weigh most, and the rows beside these; whole if there are fewer.

    In a large memory thousands of rows have some word of a question, and each costs time to rank.
    """
    totals: dict[int, float] = {}
    for match in matches:
        for row, weight in weights(match).items():
            totals[row] = totals.get(row, 0.0) + weight
    if len(totals) <= limit:
        return list(matches)
    best = heapq.nlargest(limit, totals, key=totals.__getitem__)
    kept = {near for row in best for near in (row - 1, row, row + 1)}
    return [
        evolve(match, scores={row: match.scores[row] for row in match.scores.keys() & kept})
        for match in matches
    ]
