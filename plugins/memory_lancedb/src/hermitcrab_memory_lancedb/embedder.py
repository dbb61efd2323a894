"""Asking an embedding provider: in time, with every answer checked, and not again at once after a failure."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from hermitcrab.errors import EmbeddingError

if TYPE_CHECKING:
    from hermitcrab.memory import EmbeddingProvider

Vector = list[float]

#: How long the vector of a question may take, in seconds: a search has to answer within the deadline of its tool.
QUERY_TIMEOUT_S = 5.0
#: How long the vector of a memory may take, in seconds: a provider may have to load its model first.
DOCUMENT_TIMEOUT_S = 12.0
#: How long one batch of texts may take, in seconds (memory 5.5).
BATCH_TIMEOUT_S = 600.0
#: How many vectors are remembered (memory 7.2).
MOST_REMEMBERED = 512

# A failed provider is left alone for a while, twice as long after each failure in a row.
_SHORTEST_REST_S = 2.0
_LONGEST_REST_S = 60.0
_LASTING = frozenset({"quota", "auth", "request"})


class Embedder:
    """An embedding provider that remembers its failures, and the vectors of what was asked last."""

    def __init__(
        self,
        provider: EmbeddingProvider,
        *,
        clock: Callable[[], float] = time.monotonic,
        query_timeout_s: float = QUERY_TIMEOUT_S,
    ) -> None:
        self.provider = provider
        #: The last failure since the last success.
        self.error: EmbeddingError | None = None
        self._clock = clock
        self._query_timeout_s = query_timeout_s
        self._failures = 0
        self._rests_until = 0.0
        self._remembered: OrderedDict[tuple[str, str, str], Vector] = OrderedDict()

    @property
    def name(self) -> str:
        return f"{self.provider.id}/{self.provider.model}"

    @property
    def is_resting(self) -> bool:
        """Whether it failed so recently that it is not asked."""
        return self.error is not None and self._clock() < self._rests_until

    def fingerprint(self) -> str:
        """The provider's fingerprint.

        :raises EmbeddingError: it has none.
        """
        try:
            return self.provider.fingerprint()
        except Exception as error:
            raise self._failure("has no fingerprint", error) from error

    async def query(self, text: str) -> Vector:
        """The vector of a question, of length 1 or all zeros.

        :raises EmbeddingError: it failed, now or a moment ago.
        """

        async def ask() -> Any:
            return [await self.provider.embed_query(text)]

        (vector,) = await self._known("query", text, ask, self._query_timeout_s)
        return vector

    async def document(self, text: str) -> Vector:
        """The vector of one text, of length 1 or all zeros.

        :raises EmbeddingError: it failed, now or a moment ago.
        """

        async def ask() -> Any:
            return await self.provider.embed_documents([text])

        (vector,) = await self._known("document", text, ask, DOCUMENT_TIMEOUT_S)
        return vector

    async def documents(self, texts: Sequence[str]) -> list[Vector]:
        """One vector for each text, of length 1 or all zeros.

        :raises EmbeddingError: it failed.
        """
        return await self._asked(
            lambda: self.provider.embed_documents(texts), len(texts), BATCH_TIMEOUT_S
        )

    async def _known(
        self, kind: str, text: str, ask: Callable[[], Awaitable[Any]], timeout_s: float
    ) -> list[Vector]:
        key = (self.fingerprint(), kind, text)
        known = self._remembered.get(key)
        if known is not None:
            self._remembered.move_to_end(key)
            return [known]
        if self.is_resting and self.error is not None:
            raise self.error
        vectors = await self._asked(ask, 1, timeout_s)
        if any(vectors[0]) and key[0] == self.fingerprint():
            self._remembered[key] = vectors[0]
            if len(self._remembered) > MOST_REMEMBERED:
                self._remembered.popitem(last=False)
        return vectors

    async def _asked(
        self, ask: Callable[[], Awaitable[Any]], count: int, timeout_s: float
    ) -> list[Vector]:
        try:
            async with asyncio.timeout(timeout_s):
                answer = await ask()
            vectors = checked(answer, count, self.provider.dims or 0, self.name)
        except EmbeddingError as error:
            self._note(error)
            raise
        except TimeoutError as error:
            failure = EmbeddingError(
                f"the embedding provider did not answer within {timeout_s:g} s",
                kind="transient",
                where=self.name,
            )
            self._note(failure)
            raise failure from error
        except Exception as error:
            # Providers come from plugins: whatever one raises is its failure, and words answer without it.
            failure = self._failure("failed", error)
            self._note(failure)
            raise failure from error
        self.error, self._failures = None, 0
        return vectors

    def _failure(self, what: str, error: Exception) -> EmbeddingError:
        reason = f"{type(error).__name__}: {error}"
        return EmbeddingError(
            f"the embedding provider {what} ({reason})", kind="answer", where=self.name
        )

    def _note(self, error: EmbeddingError) -> None:
        self.error = error
        if error.kind == "switched":
            return
        rest = _LONGEST_REST_S
        if error.kind not in _LASTING:
            rest = min(rest, _SHORTEST_REST_S * 2.0**self._failures)
        self._failures = min(self._failures + 1, 10)
        self._rests_until = self._clock() + max(rest, error.retry_after_s or 0.0)


def checked(answer: Any, count: int, dims: int, where: str) -> list[Vector]:
    """``count`` vectors of length 1 or all zeros, each of ``dims`` finite numbers; of 0 dims, as many as the first.

    :raises EmbeddingError: the answer is something else.
    """
    try:
        vectors = [[float(number) for number in vector] for vector in answer]
    except (TypeError, ValueError, OverflowError) as error:
        raise _unusable(f"its vectors are not lists of numbers ({error})", where) from error
    if len(vectors) != count:
        raise _unusable(f"{len(vectors)} vectors came back for {count} texts", where)
    for vector in vectors:
        dims = dims or len(vector)
        if not vector or len(vector) != dims:
            raise _unusable(f"a vector has {len(vector)} numbers instead of {dims}", where)
    return [_of_length_one(vector, where) for vector in vectors]


def _of_length_one(vector: Vector, where: str) -> Vector:
    length = math.hypot(*vector)
    if not math.isfinite(length):
        raise _unusable("a vector has numbers that are not finite", where)
    return [number / length for number in vector] if length else vector


def _unusable(what: str, where: str) -> EmbeddingError:
    return EmbeddingError(
        f"the embedding provider's answer cannot be used: {what}",
        kind="answer",
        where=where,
        hint="Check agents.defaults.memorySearch.model and .outputDimensionality",
    )
