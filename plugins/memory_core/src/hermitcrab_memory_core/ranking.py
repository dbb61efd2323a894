"""Scores of passages: pure functions over what the index found."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from attrs import evolve, frozen

from hermitcrab.memory.files import Keywords

# Shares of the best neighbours' and the chunk's scores in the score of a passage; chosen on LoCoMo (see the README).
_NEIGHBOUR_WEIGHT = 0.5
_CHUNK_WEIGHT = 0.6
_DAILY = re.compile(r"memory/([0-9]{4}-[0-9]{2}-[0-9]{2})(?:-[^/]*)?\.md")
_SUFFIXES = ("ingly", "edly", "ing", "ies", "ied", "ed", "es", "ly", "er", "s", "e", "y")


@frozen
class Score:
    """A passage or a chunk with its score, larger being better; passages of one file have consecutive ids."""

    id: int
    path: str
    start_line: int
    end_line: int
    score: float


@frozen
class Terms:
    """The words and the CJK pairs of a passage, each after a space."""

    words: str
    pairs: str


def combine(passages: Sequence[Score], chunks: Iterable[Score]) -> list[Score]:
    """Passages, best first, each with a share of its neighbours' scores and of its chunk's."""
    by_id = {passage.id: passage for passage in passages}
    by_line: dict[tuple[str, int], float] = {}
    for chunk in chunks:
        for line in range(chunk.start_line, chunk.end_line + 1):
            place = (chunk.path, line)
            by_line[place] = max(by_line.get(place, 0.0), chunk.score)
    return _sorted(
        evolve(
            passage,
            score=passage.score
            + _NEIGHBOUR_WEIGHT * _neighbours(passage, by_id)
            + _CHUNK_WEIGHT * by_line.get((passage.path, passage.start_line), 0.0),
        )
        for passage in passages
    )


def finish(
    passages: Iterable[Score],
    found: Mapping[int, Terms],
    wanted: Keywords,
    *,
    today: date,
    half_life_days: float = 30.0,
) -> list[Score]:
    """Passages, best first, with scores between 0 and 1.

    What share of the query a passage has counts too: in a small collection BM25 gives common words next to nothing.
    Decay only reorders near-ties.
    """
    stems = [f" {_stem(word)}" for word in wanted.words]
    finished = []
    for passage in passages:
        raw = passage.score + coverage(found.get(passage.id, Terms("", "")), stems, wanted.pairs)
        raw *= decay(passage.path, today=today, half_life_days=half_life_days)
        finished.append(evolve(passage, score=raw / (1 + raw) if raw > 0 else 0.0))
    return _sorted(finished)


def coverage(terms: Terms, stems: Sequence[str], pairs: Sequence[str]) -> float:
    """The share of a query's stems (each after a space) and pairs that a passage has."""
    wanted = len(stems) + len(pairs)
    found = sum(stem in terms.words for stem in stems)
    found += sum(f" {pair}" in terms.pairs for pair in pairs)
    return found / wanted if wanted else 1.0


def decay(path: str, *, today: date, half_life_days: float = 30.0) -> float:
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


def _neighbours(passage: Score, by_id: Mapping[int, Score]) -> float:
    around = (by_id.get(passage.id - 1), by_id.get(passage.id + 1))
    return sum(near.score for near in around if near is not None and near.path == passage.path)


def _sorted(passages: Iterable[Score]) -> list[Score]:
    return sorted(passages, key=lambda item: (-item.score, item.path, item.start_line, item.id))


def _stem(word: str) -> str:
    """A rough stem, good enough to count by prefix the words that FTS5's own stemmer matched."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word
