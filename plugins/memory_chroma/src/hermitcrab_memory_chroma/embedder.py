"""Asking the embedding provider in time, and not twice for the same text."""

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

Vector = Sequence[float]

_QUERY_TIMEOUT_S = 5.0
_BATCH_TIMEOUT_S = 600.0
# A provider that failed is not asked for vectors of queries for so long.
_REST_S = 5.0
_REMEMBERED = 256


class Embedder:
    """The embedding provider of an agent, with the latest vectors remembered. Belongs to one event loop."""

    def __init__(
        self, provider: EmbeddingProvider, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.provider = provider
        self._clock = clock
        self._known: OrderedDict[tuple[str, str, str], Vector] = OrderedDict()
        self._failure: EmbeddingError | None = None
        self._rests_until = 0.0

    @property
    def name(self) -> str:
        return f"{self.provider.id}/{self.provider.model}"

    @property
    def is_remote(self) -> bool:
        return self.provider.remote

    @property
    def is_resting(self) -> bool:
        """Whether it failed so recently that it is not asked."""
        return self._failure is not None and self._clock() < self._rests_until

    def fingerprint(self) -> str:
        """Changes whenever vectors stop being comparable."""
        return self.provider.fingerprint()

    async def query(self, text: str) -> Vector:
        """The vector of a query.

        :raises EmbeddingError: the provider failed, now or a moment ago.
        """
        if self.is_resting and self._failure is not None:
            raise self._failure

        async def ask() -> Vector:
            return (await self._asked(self._one(text), 1, _QUERY_TIMEOUT_S))[0]

        return await self._remembered("query", text, ask)

    async def document(self, text: str) -> Vector:
        """The vector of a text that is stored.

        :raises EmbeddingError: the provider failed.
        """

        async def ask() -> Vector:
            return (await self.documents([text]))[0]

        return await self._remembered("document", text, ask)

    async def documents(self, texts: Sequence[str]) -> list[Vector]:
        """One vector for each text.

        :raises EmbeddingError: the provider failed.
        """
        asked = self.provider.embed_documents(texts)
        return await self._asked(asked, len(texts), _BATCH_TIMEOUT_S)

    async def _one(self, text: str) -> list[Any]:
        return [await self.provider.embed_query(text)]

    async def _remembered(
        self, kind: str, text: str, ask: Callable[[], Awaitable[Vector]]
    ) -> Vector:
        key = (self.fingerprint(), kind, text)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        vector = await ask()
        if any(vector):
            self._known[key] = vector
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return vector

    async def _asked(self, answer: Awaitable[Any], count: int, timeout_s: float) -> list[Vector]:
        try:
            async with asyncio.timeout(timeout_s):
                vectors = _checked(await answer, count, self.provider.dims, self.name)
        except EmbeddingError as error:
            raise self._noted(error) from error.__cause__
        except TimeoutError as error:
            message = f"the embedding provider did not answer within {timeout_s:g} s"
            failure = EmbeddingError(message, kind="transient", where=self.name)
            raise self._noted(failure) from error
        except Exception as error:
            # Providers come from plugins: whatever one raises is its failure.
            message = f"the embedding provider failed ({type(error).__name__}: {error})"
            failure = EmbeddingError(message, kind="answer", where=self.name)
            raise self._noted(failure) from error
        self._failure = None
        return vectors

    def _noted(self, error: EmbeddingError) -> EmbeddingError:
        self._failure = error
        if error.kind != "switched":
            self._rests_until = self._clock() + max(_REST_S, error.retry_after_s or 0.0)
        return error


def _checked(vectors: Any, count: int, dims: int, where: str) -> list[Vector]:
    """``count`` vectors of ``dims`` finite numbers each (any number, but the same, if 0)."""
    rows = [[float(number) for number in vector] for vector in vectors]
    wanted = dims or (len(rows[0]) if rows else 0)
    if len(rows) != count or any(len(row) != wanted for row in rows):
        shape = sorted({len(row) for row in rows})
        raise EmbeddingError(
            f"the embedding provider answered with {len(rows)} vectors of {shape} numbers"
            f" for {count} texts of {wanted}",
            kind="answer",
            where=where,
        )
    if not all(math.isfinite(number) for row in rows for number in row):
        raise EmbeddingError("a vector has numbers that are not finite", kind="answer", where=where)
    return list(rows)
