"""Embedding providers behind an HTTP server: batches, retries, time limits, and the errors of all these (memory 5)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import field, frozen

from hermitcrab.errors import EmbeddingError
from hermitcrab.memory.contract import EmbeddingProvider
from hermitcrab.memory.embeddings.batching import BATCH_BYTES, batches
from hermitcrab.memory.embeddings.failures import (
    SETTINGS,
    Failure,
    failure,
    failure_of_response,
)
from hermitcrab.memory.embeddings.fingerprint import fingerprint_of
from hermitcrab.memory.embeddings.protocols import Protocol, Purpose, Question
from hermitcrab.memory.embeddings.vectors import checked_vectors
from hermitcrab.models.errors_map import Origin
from hermitcrab.models.http import AttemptFailedError, RetryPolicy, new_client, repeated

if TYPE_CHECKING:
    import httpx

#: Seconds that a query may take with its retries: less than the patience of the search that waits for it, so that a
#: silent server is a failure of the provider, and not a call that somebody cancelled.
QUERY_TIMEOUT_S = 4.0
#: Seconds that one request for documents may take.
BATCH_TIMEOUT_S = 120.0
_JITTER = 0.2

logger = logging.getLogger("hermitcrab.memory")


@frozen(kw_only=True)
class Limits:
    """How much is asked at a time, and how long an answer may take, in seconds."""

    items: int = 64
    bytes: int = BATCH_BYTES
    concurrency: int = 4
    query_timeout_s: float = QUERY_TIMEOUT_S
    batch_timeout_s: float = BATCH_TIMEOUT_S
    documents: RetryPolicy = field(factory=lambda: RetryPolicy(jitter=_JITTER))
    query: RetryPolicy = field(
        factory=lambda: RetryPolicy(max_retries=1, longest_wait_s=2.0, jitter=_JITTER)
    )


@frozen(kw_only=True)
class Server:
    """Where a server is and what it is told with every request.

    :param base_url: up to and including the version.
    :param remote: whether it is on another machine.
    """

    base_url: str
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    remote: bool = True


def secrets_of(api_key: str | None, headers: Mapping[str, str]) -> tuple[str, ...]:
    """The texts that no message may repeat, the longest first."""
    # A short header such as a version would blot out half of a message.
    found = {api_key or "", *(value for value in headers.values() if len(value) >= 8)}
    return tuple(sorted(filter(None, found), key=len, reverse=True))


class RemoteEmbeddings(EmbeddingProvider):
    """Vectors from a server that speaks ``protocol``.

    :param input_types: what the server is told of queries and of documents, where config says so.
    :param dimensions: how many numbers a vector is to have; sent with every request.
    :param known_dims: how many numbers the vectors of this model have, where that is known.
    """

    def __init__(
        self,
        provider_id: str,
        model: str,
        protocol: Protocol,
        server: Server,
        *,
        input_types: tuple[str | None, str | None] = (None, None),
        dimensions: int | None = None,
        known_dims: int = 0,
        limits: Limits | None = None,
    ) -> None:
        self.id = provider_id
        self.model = model
        self.dims = dimensions or known_dims
        self.remote = server.remote
        self._protocol = protocol
        self._server = server
        self._input_types: dict[Purpose, str | None] = {
            "query": input_types[0],
            "document": input_types[1],
        }
        self._dimensions = dimensions
        self._limits = limits or Limits()
        secrets = secrets_of(server.api_key, server.headers)
        self._origin = Origin(provider_id=provider_id, model=model, secrets=secrets)
        self._client: httpx.AsyncClient | None = None

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        limits = self._limits
        groups = list(batches(texts, max_items=limits.items, max_bytes=limits.bytes))
        free = asyncio.Semaphore(limits.concurrency)

        async def embed(group: list[str]) -> list[list[float]]:
            async with free:
                return await self._split_if_too_large(group)

        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(embed(group)) for group in groups]
        except* EmbeddingError as failed:
            # The others were cancelled; what failed first says why.
            first = failed.exceptions[0]
        else:
            return [vector for task in running for vector in task.result()]
        raise first

    async def embed_query(self, text: str) -> list[float]:
        limits = self._limits
        try:
            async with asyncio.timeout(limits.query_timeout_s):
                vectors = await self._ask([text], "query", limits.query_timeout_s, limits.query)
        except TimeoutError:
            raise self._late(limits.query_timeout_s).failure.error from None
        except AttemptFailedError as failed:
            raise failed.failure.error from failed.__cause__
        return vectors[0]

    def fingerprint(self) -> str:
        return fingerprint_of(
            provider=self.id,
            model=self.model,
            base_url=self._server.base_url,
            headers=self._server.headers,
            dimensions=self._dimensions,
            input_types=(self._input_types["query"], self._input_types["document"]),
        )

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _split_if_too_large(self, texts: list[str]) -> list[list[float]]:
        """The vectors of documents; what a server calls too large is sent in halves."""
        limits = self._limits
        try:
            return await self._ask(texts, "document", limits.batch_timeout_s, limits.documents)
        except AttemptFailedError as failed:
            if not failed.failure.too_large or len(texts) == 1:
                raise failed.failure.error from failed.__cause__
        middle = len(texts) // 2
        first = await self._split_if_too_large(texts[:middle])
        return first + await self._split_if_too_large(texts[middle:])

    async def _ask(
        self, texts: Sequence[str], purpose: Purpose, timeout_s: float, retries: RetryPolicy
    ) -> list[list[float]]:
        question = Question(
            model=self.model,
            purpose=purpose,
            input_type=self._input_types[purpose],
            dimensions=self._dimensions,
        )
        path, body = self._protocol.request(question, texts)
        # What comes of it is told by whoever asked.
        response = await repeated(
            retries,
            lambda: self._post(path, body, timeout_s),
            logger=logger,
            level=logging.INFO,
        )
        vectors = checked_vectors(
            self._answer(response), count=len(texts), dims=self.dims, where=self._origin.where
        )
        self.dims = len(vectors[0])
        return vectors

    async def _post(
        self, path: str, body: Mapping[str, object], timeout_s: float
    ) -> httpx.Response:
        import httpx

        try:
            async with asyncio.timeout(timeout_s):
                response = await self._http().post(
                    self._server.base_url.rstrip("/") + path,
                    content=json.dumps(body).encode(),
                    headers={"Content-Type": "application/json", **self._headers()},
                )
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout):
            raise self._late(timeout_s) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._unreachable(error) from error
        if not response.is_success:
            raise AttemptFailedError(
                failure_of_response(
                    self._origin, response.status_code, response.text, response.headers
                )
            )
        return response

    def _answer(self, response: httpx.Response) -> object:
        try:
            return self._protocol.vectors(response.json())
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            message = f"the answer is unreadable: {self._origin.safe(response.text[:200])}"
            # The cause would repeat the whole answer.
            raise failure(self._origin.where, "answer", message).error from None

    def _headers(self) -> dict[str, str]:
        key = self._server.api_key
        own = {} if key is None else self._protocol.credentials(key)
        given = dict(self._server.headers)
        taken = {name.lower() for name in given}
        return {name: value for name, value in own.items() if name.lower() not in taken} | given

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            limits = self._limits
            self._client = new_client(max(limits.query_timeout_s, limits.batch_timeout_s))
        return self._client

    def _late(self, timeout_s: float) -> AttemptFailedError[Failure]:
        # A server that took a request and stayed silent is not asked again: it would be kept waiting once more.
        message = f"no answer within {timeout_s:g} s"
        hint = f"Check that the server of {SETTINGS}.remote.baseUrl is running"
        return AttemptFailedError(failure(self._origin.where, "transient", message, hint=hint))

    def _unreachable(self, error: Exception) -> AttemptFailedError[Failure]:
        import httpx

        reason = self._origin.safe(str(error)) or type(error).__name__
        usable = not isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL)
        return AttemptFailedError(
            failure(
                self._origin.where,
                "transient" if usable else "request",
                f"the server cannot be reached: {reason}",
                hint=f"Check {SETTINGS}.remote.baseUrl, and that the server is running",
                retryable=usable,
            )
        )
