"""Asking an embedding provider: in time, with every answer checked, and not again at once after a failure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermitcrab.errors import EmbeddingError

if TYPE_CHECKING:
    from hermitcrab.memory import EmbeddingProvider
    from hermitcrab_memory_core.matrix import Vectors

#: How long the vector of a query may take, in seconds: a search has to answer within the deadline of its tool.
QUERY_TIMEOUT_S = 5.0

#: How long the vectors of one batch of passages may take, in seconds (memory 5.5).
BATCH_TIMEOUT_S = 600.0

# A failed provider is left alone for a while, twice as long after each failure in a row.
_SHORTEST_COOLDOWN_S = 2.0
_LONGEST_COOLDOWN_S = 60.0
_LASTING = frozenset({"quota", "auth", "request"})


class Embedder:
    """An embedding provider that remembers its failures. All methods belong to one event loop."""

    def __init__(
        self,
        provider: EmbeddingProvider,
        *,
        clock: Callable[[], float] = time.monotonic,
        query_timeout_s: float = QUERY_TIMEOUT_S,
        batch_timeout_s: float = BATCH_TIMEOUT_S,
    ) -> None:
        self.provider = provider
        #: The last failure since the last success.
        self.error: EmbeddingError | None = None
        self._clock = clock
        self._query_timeout_s = query_timeout_s
        self._batch_timeout_s = batch_timeout_s
        self._failures = 0
        self._rests_until = 0.0

    @property
    def name(self) -> str:
        return f"{self.provider.id}/{self.provider.model}"

    @property
    def is_resting(self) -> bool:
        """Whether it failed so recently that it is not asked."""
        return self.error is not None and self._clock() < self._rests_until

    async def query(self, text: str, weights: Mapping[str, float] | None = None) -> Vectors:
        """The vector of a query, of length 1, or all zeros; ``weights`` are those of its words.

        :raises EmbeddingError: it failed, now or a moment ago.
        """
        if self.is_resting and self.error is not None:
            raise self.error
        asked = (
            self.provider.embed_query(text)
            if weights is None
            else self.provider.embed_weighed_query(text, weights)
        )
        answer = self._asked(asked, self._query_timeout_s)
        return await self._checked(answer, lambda vector: checked([vector], 1, self._dims)[0])

    async def documents(self, texts: Sequence[str]) -> Vectors:
        """One row for each text, of length 1.

        :raises EmbeddingError: it failed.
        """
        answer = self._asked(self.provider.embed_documents(texts), self._batch_timeout_s)
        return await self._checked(answer, lambda vectors: checked(vectors, len(texts), self._dims))

    @property
    def _dims(self) -> int:
        return self.provider.dims or 0

    async def _asked(self, answer: Awaitable[Any], timeout_s: float) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            raise EmbeddingError(
                f"the embedding provider did not answer within {timeout_s:g} s",
                kind="transient",
                where=self.name,
            ) from error

    async def _checked(self, answer: Awaitable[Any], check: Callable[[Any], Vectors]) -> Vectors:
        try:
            vectors = check(await answer)
        except EmbeddingError as error:
            self._note(error)
            raise
        except Exception as error:
            # Providers come from plugins: whatever one raises is its failure, and the search goes on without it.
            failure = EmbeddingError(
                f"the embedding provider failed ({type(error).__name__}: {error})",
                kind="answer",
                where=self.name,
            )
            self._note(failure)
            raise failure from error
        self.error = None
        self._failures = 0
        return vectors

    def _note(self, error: EmbeddingError) -> None:
        self.error = error
        if error.kind == "switched":
            return
        wait = _LONGEST_COOLDOWN_S
        if error.kind not in _LASTING:
            wait = min(wait, _SHORTEST_COOLDOWN_S * 2.0**self._failures)
        self._failures = min(self._failures + 1, 10)
        self._rests_until = self._clock() + max(wait, error.retry_after_s or 0.0)


def checked(vectors: Any, count: int, dims: int) -> Vectors:
    """``vectors`` as rows of length 1: ``count`` of them, each of ``dims`` finite numbers (any number if 0).

    :raises EmbeddingError: the answer of the provider is something else.
    """
    import numpy as np

    try:
        data = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _wrong_answer(
            f"its vectors are not lists of numbers of one length ({error})"
        ) from error
    if data.ndim != 2 or data.shape[0] != count or data.shape[1] == 0:
        raise _wrong_answer(f"it answered with the shape {data.shape} for {count:,} texts")
    if dims and data.shape[1] != dims:
        raise _wrong_answer(f"its vectors have {data.shape[1]} numbers instead of {dims}")
    if not np.isfinite(data).all():
        raise _wrong_answer("its vectors have numbers that are not finite")
    lengths = np.linalg.norm(data, axis=1, keepdims=True)
    return (data / np.where(lengths == 0, 1.0, lengths)).astype("<f4")


def _wrong_answer(what: str) -> EmbeddingError:
    return EmbeddingError(f"the embedding provider's answer cannot be used: {what}", kind="answer")
