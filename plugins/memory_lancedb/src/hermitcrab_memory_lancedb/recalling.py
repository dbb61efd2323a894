"""Memories that answer a question: found by words and by vectors, and put into one order."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from attrs import evolve

from hermitcrab.memory.longterm import Memory
from hermitcrab.memory.ranking import FusionSettings, Place, Unit, fuse
from hermitcrab_memory_lancedb.embedder import Vector
from hermitcrab_memory_lancedb.lookups import matching_rows, nearest_rows
from hermitcrab_memory_lancedb.memory_rows import COLUMNS, VECTOR, memory_of
from hermitcrab_memory_lancedb.terms import asked_terms, is_only_stop_words

if TYPE_CHECKING:
    from lancedb import AsyncTable

#: A memory without a word of the question is found from this cosine on, whatever else is asked for.
LEAST_COSINE = 0.2

# How many memories each side brings at least.
_LEAST_POOL = 50


async def candidates(
    table: AsyncTable, question: str, *, vector: Vector | None, where: str, limit: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows that words find and those that meaning finds, more than ``limit`` of each."""
    pool = max(_LEAST_POOL, 4 * limit)
    by_words: list[dict[str, Any]] = []
    by_meaning: list[dict[str, Any]] = []
    terms = " ".join(asked_terms(question))
    # Words that say nothing would let every memory through where meaning can tell.
    if terms and not (vector is not None and is_only_stop_words(question)):
        columns = COLUMNS if vector is None else (*COLUMNS, VECTOR)
        by_words = await matching_rows(table, terms, where=where, limit=pool, columns=columns)
    if vector is not None:
        by_meaning = await nearest_rows(
            table, vector, column=VECTOR, where=where, limit=pool, columns=COLUMNS
        )
    return by_words, by_meaning


def ranked(
    question: str,
    by_words: Iterable[Mapping[str, Any]],
    by_meaning: Iterable[Mapping[str, Any]],
    *,
    vector: Vector | None,
    least: float,
    today: date,
) -> list[Memory]:
    """The memories, best first; ``least`` is the cosine below which meaning alone finds nothing."""
    memories: dict[str, Memory] = {}
    words: dict[str, float] = {}
    for row in by_words:
        memories[row["id"]] = memory_of(row, _cosine(vector, row.get(VECTOR)))
        words[row["id"]] = max(0.0, row["_score"])
    for row in by_meaning:
        cosine = 1 - row["_distance"]
        if row["id"] in memories:
            memories[row["id"]] = evolve(memories[row["id"]], score=cosine)
        elif cosine >= least:
            memories[row["id"]] = memory_of(row, cosine)
    found = list(memories.values())
    units = [
        Unit(
            place=Place(number, memory.id, 0, 0),
            keyword=words.get(memory.id, 0.0),
            vector=memory.score,
        )
        for number, memory in enumerate(found)
    ]
    order = fuse(units, FusionSettings(decay_enabled=False).suited(question), today=today)
    return [found[item.place.id] for item in order]


def _cosine(vector: Sequence[float] | None, stored: Sequence[float] | None) -> float | None:
    if vector is None or stored is None:
        return None
    return float(sum(map(operator.mul, vector, stored)))
