"""What the vectors in an answer must be: as many as texts, of one size, made of numbers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, isfinite
from typing import Any

from hermitcrab.errors import EmbeddingError

#: A vector this close to length 1 is left as it is.
_UNIT_TOLERANCE = 1e-6


def checked_vectors(answer: Any, *, count: int, dims: int, where: str) -> list[list[float]]:
    """The vectors of an answer, each of length 1; one of zeros stays as it is.

    :param count: how many texts were sent.
    :param dims: how many numbers each must have; 0 is as many as the first.
    :raises EmbeddingError: of the kind ``answer``, if it is anything else.
    """
    vectors = _as_list(answer)
    if vectors is None:
        raise _wrong("the answer holds no list of vectors", where)
    if len(vectors) != count:
        raise _wrong(f"{len(vectors)} vectors came back for {count} texts", where)
    checked: list[list[float]] = []
    for vector in vectors:
        numbers = _numbers(vector, where)
        dims = dims or len(numbers)
        if len(numbers) != dims:
            raise _wrong(f"a vector has {len(numbers)} numbers instead of {dims}", where)
        checked.append(_of_length_one(numbers, where))
    return checked


def _as_list(value: Any) -> list[Any] | None:
    if isinstance(value, str | bytes | dict) or not hasattr(value, "__iter__"):
        return None
    return list(value)


def _numbers(vector: Any, where: str) -> list[float]:
    values = _as_list(vector)
    if not values:
        raise _wrong("a vector is empty", where)
    if any(isinstance(value, str | bytes) for value in values):
        raise _wrong("a vector holds text instead of numbers", where)
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError, OverflowError) as error:
        raise _wrong("a vector holds something other than numbers", where) from error


def _of_length_one(numbers: Sequence[float], where: str) -> list[float]:
    length = hypot(*numbers)
    if not isfinite(length):
        raise _wrong("a vector holds numbers that are not finite", where)
    if length == 0 or abs(length - 1) <= _UNIT_TOLERANCE:
        return list(numbers)
    return [number / length for number in numbers]


def _wrong(message: str, where: str) -> EmbeddingError:
    return EmbeddingError(
        message,
        kind="answer",
        where=where,
        hint="Check that the model is an embedding model, and outputDimensionality where it is set",
    )
