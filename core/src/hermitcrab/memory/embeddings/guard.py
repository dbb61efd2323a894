"""What stands between a memory backend and an embedding provider: checks, pauses, and the one fallback (memory 5.7)."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from hermitcrab.errors import EmbeddingError
from hermitcrab.memory.contract import EmbeddingProvider, ProbeResult
from hermitcrab.memory.embeddings.failures import failure
from hermitcrab.memory.embeddings.vectors import checked_vectors
from hermitcrab.messages.text import scrub_text
from hermitcrab.models.errors_map import Origin

#: Seconds for which a provider is left alone that says that the quota is used up or refuses the credentials.
PAUSE_S = 300.0
#: After how many failures in a row the fallback takes the place of a provider that may still come back.
FAILURES_BEFORE_FALLBACK = 3

logger = logging.getLogger("hermitcrab.memory")


class GuardedEmbeddings(EmbeddingProvider):
    """Asks a provider, and holds it to its contract, whoever made it.

    Every answer is checked: as many vectors as texts, all of ``dims`` finite numbers, of length 1. Whatever else a
    provider raises becomes an :class:`EmbeddingError`. One that says that a quota is used up is not asked again for
    five minutes, one that names a pause not before it is over.

    With a fallback, what fails for good, or three times in a row, is replaced once. The call that failed raises an
    error of the kind ``switched``, and id, model, dims and fingerprint are the other provider's from then on, so that
    vectors of two providers never come from one call, and none under the other's fingerprint.

    :param fallback: makes the provider to fall back on; may raise EmbeddingError.
    :param secrets: texts that no message may repeat.
    :param now: seconds of a clock that never goes back.
    """

    def __init__(
        self,
        provider: EmbeddingProvider,
        *,
        fallback: Callable[[], EmbeddingProvider] | None = None,
        secrets: tuple[str, ...] = (),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fallback = fallback
        self._secrets = secrets
        self._now = now
        self._retired: list[EmbeddingProvider] = []
        #: Why the fallback took the first provider's place, if it did.
        self.switch_reason: str | None = None
        self._take(provider)

    def _take(self, provider: EmbeddingProvider) -> None:
        self._provider = provider
        self.id = provider.id
        self.model = provider.model
        self.dims = provider.dims
        self.remote = provider.remote
        self.weighs_words = provider.weighs_words
        self._failures = 0
        self._refusal: EmbeddingError | None = None
        self._resumes_at = 0.0

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        if not texts:
            return []
        clean = [scrub_text(text) for text in texts]
        return await self._ask(lambda provider: provider.embed_documents(clean), len(clean))

    async def embed_query(self, text: str) -> list[float]:
        return await self._query(text, lambda provider, clean: provider.embed_query(clean))

    async def embed_weighed_query(self, text: str, weights: Mapping[str, float]) -> list[float]:
        return await self._query(
            text, lambda provider, clean: provider.embed_weighed_query(clean, weights)
        )

    async def _query(
        self, text: str, call: Callable[[EmbeddingProvider, str], Awaitable[Any]]
    ) -> list[float]:
        clean = scrub_text(text)
        if not clean.strip():
            raise failure(self._where, "request", "a blank query has no vector").error

        async def ask(provider: EmbeddingProvider) -> list[Any]:
            return [await call(provider, clean)]

        return (await self._ask(ask, 1))[0]

    def fingerprint(self) -> str:
        return self._provider.fingerprint()

    async def probe(self) -> ProbeResult:
        """Whether the provider can work right now; it is asked even during a pause, and never replaced."""
        try:
            vector = await self._provider.embed_query("ping")
            checked_vectors([vector], count=1, dims=self.dims, where=self._where)
        except EmbeddingError as error:
            return ProbeResult(ok=False, error=str(error))
        except Exception as error:
            logger.warning("embedding provider '%s' failed", self.id, exc_info=True)
            return ProbeResult(ok=False, error=str(self._typed(error)))
        self.dims = len(vector)
        self._failures, self._refusal = 0, None
        return ProbeResult(ok=True)

    async def close(self) -> None:
        for provider in (self._provider, *self._retired):
            try:
                await provider.close()
            except Exception:
                logger.warning(
                    "embedding provider '%s' failed to close", provider.id, exc_info=True
                )
        self._retired.clear()

    @property
    def _where(self) -> str:
        return f"{self.id}/{self.model}"

    async def _ask(
        self, call: Callable[[EmbeddingProvider], Awaitable[Any]], count: int
    ) -> list[list[float]]:
        self._refuse_during_pause()
        provider, dims = self._provider, self.dims
        try:
            answer = await call(provider)
            vectors = checked_vectors(answer, count=count, dims=dims, where=self._where)
        except EmbeddingError as error:
            raise self._after_failure(error, provider) from error.__cause__
        except Exception as error:
            raise self._after_failure(self._typed(error), provider) from error
        if provider is not self._provider:
            # Another call has switched meanwhile: these are vectors of a provider that is no longer asked.
            raise self._switched()
        self.dims = len(vectors[0])
        self._failures, self._refusal = 0, None
        return vectors

    def _refuse_during_pause(self) -> None:
        if self._refusal is not None and self._now() < self._resumes_at:
            raise _again(self._refusal)

    def _typed(self, error: Exception) -> EmbeddingError:
        origin = Origin(provider_id=self.id, model=self.model, secrets=self._secrets)
        message = f"the provider failed: {type(error).__name__}: {origin.safe(str(error))}"
        return failure(self._where, "transient", message).error

    def _after_failure(self, error: EmbeddingError, provider: EmbeddingProvider) -> EmbeddingError:
        """Count a failure, and decide what the caller is told."""
        if provider is not self._provider:
            return self._switched()
        self._failures += 1
        final = error.kind in ("quota", "auth")
        if self._fallback is not None and (final or self._failures >= FAILURES_BEFORE_FALLBACK):
            switched = self._switch(error, self._fallback)
            if switched is not None:
                return switched
        pause_s = PAUSE_S if final else min(error.retry_after_s or 0.0, PAUSE_S)
        if pause_s:
            self._refusal, self._resumes_at = error, self._now() + pause_s
        return error

    def _switch(
        self, error: EmbeddingError, fallback: Callable[[], EmbeddingProvider]
    ) -> EmbeddingError | None:
        """Put the fallback in the provider's place; None if it cannot be made."""
        self._fallback = None
        try:
            replacement = fallback()
        except EmbeddingError as failed:
            logger.warning("the fallback for embeddings cannot be used: %s", failed)
            return None
        failed_provider = self._where
        self._retired.append(self._provider)
        self._take(replacement)
        self.switch_reason = (
            f"{failed_provider} failed ({error.message}); {self._where} takes its place"
        )
        logger.warning("embeddings: %s", self.switch_reason)
        return self._switched()

    def _switched(self) -> EmbeddingError:
        return failure(self._where, "switched", self.switch_reason or "the provider changed").error


def _again(error: EmbeddingError) -> EmbeddingError:
    """The same error without the traceback that it has collected."""
    return EmbeddingError(
        error.message,
        kind=error.kind,
        where=error.where,
        hint=error.hint,
        retry_after_s=error.retry_after_s,
    )
