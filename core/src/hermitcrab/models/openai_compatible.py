"""Models behind any server that speaks the OpenAI chat completions protocol."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hermitcrab.errors import ConfigError, ModelRequestError
from hermitcrab.models.contract import ChatModel, ChatReply, ChatRequest, TextDelta
from hermitcrab.models.errors_map import (
    Failure,
    Origin,
    failure_of_response,
    failure_of_stream_error,
    unreadable,
)
from hermitcrab.models.http import (
    DEFAULT_TIMEOUT_S,
    AttemptFailedError,
    RetryPolicy,
    failure_of_transport,
    new_client,
    with_retries,
)
from hermitcrab.models.openai_wire import (
    Dialect,
    ProviderReportedError,
    StreamAssembler,
    adapted,
    reply_of_completion,
    request_payload,
)
from hermitcrab.models.sse import EventDecoder
from hermitcrab.models.window_probe import ask_context_window

if TYPE_CHECKING:
    import httpx

_DONE = "[DONE]"


class OpenAICompatibleModel(ChatModel):
    """A chat model over HTTP.

    Rate limits, server errors and broken connections are retried, at most ``max_retries`` times and never once text
    was streamed; everything else is raised at once as one of the :class:`~hermitcrab.errors.ModelError` classes.

    :param base_url: up to and including the version, such as ``http://127.0.0.1:8080/v1``.
    :param timeout_s: seconds that the server may be silent.
    :param context_window: tokens, where the caller knows them; otherwise the server is asked.
    :param max_tokens: limit of every answer in tokens, where a request does not set a lower one.
    :param client: an ``httpx.AsyncClient`` to use; it stays the caller's to close.
    :raises ConfigError: for a ``base_url`` that is no HTTP address.
    """

    def __init__(
        self,
        provider_id: str,
        model: str,
        base_url: str,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_retries: int = 3,
        context_window: int | None = None,
        client: httpx.AsyncClient | None = None,
        *,
        max_tokens: int | None = None,
        backoff_s: float = 0.5,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ConfigError(
                "the address of a provider begins with http:// or https://",
                where=f"models.providers.{provider_id}.baseUrl",
            )
        self.id = f"{provider_id}/{model}"
        self._provider_id = provider_id
        self._model = model
        self._base_url = base_url.rstrip("/")
        self._headers = {**(headers or {})}
        if api_key:
            self._headers.setdefault("Authorization", f"Bearer {api_key}")
        secrets = [secret for secret in (api_key, *(headers or {}).values()) if secret]
        self._origin = Origin(
            provider_id=provider_id,
            model=model,
            secrets=tuple(sorted(secrets, key=len, reverse=True)),
        )
        self._timeout_s = timeout_s
        self._retries = RetryPolicy(max_retries=max_retries, backoff_s=backoff_s)
        self._max_tokens = max_tokens
        self._context_window = context_window
        self._window_asked = context_window is not None
        self._client = client
        self._owns_client = client is None
        self._dialect = Dialect()

    async def complete(self, request: ChatRequest) -> ChatReply:
        return await with_retries(self._retries, lambda: self._complete_once(request))

    async def stream(self, request: ChatRequest) -> AsyncIterator[TextDelta | ChatReply]:
        opened = await with_retries(self._retries, lambda: self._open(request))
        async with aclosing(opened):
            try:
                async for piece in opened.pieces():
                    yield piece
            except AttemptFailedError as failed:
                raise failed.failure.error from failed.__cause__

    async def context_window(self) -> int | None:
        if not self._window_asked:
            answer = await ask_context_window(
                self._http(), self._base_url, self._model, headers=self._headers
            )
            self._context_window, self._window_asked = answer.tokens, answer.reached
        return self._context_window

    async def close(self) -> None:
        if self._owns_client and self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = new_client(self._timeout_s)
        return self._client

    async def _complete_once(self, request: ChatRequest) -> ChatReply:
        response = await self._send(request, stream=False)
        try:
            return _whole_reply(self._origin, await self._body(response))
        finally:
            await response.aclose()

    async def _open(self, request: ChatRequest) -> _OpenStream:
        """Open a stream and read up to its first text, so that what fails before can be retried."""
        response = await self._send(request, stream=True)
        try:
            if response.headers.get("content-type", "").startswith("application/json"):
                reply = _whole_reply(self._origin, await self._body(response))
                return _OpenStream(self._origin, response, self._timeout_s, reply)
            opened = _OpenStream(self._origin, response, self._timeout_s)
            await opened.read_first()
        except BaseException:
            await response.aclose()
            raise
        return opened

    async def _send(self, request: ChatRequest, *, stream: bool) -> httpx.Response:
        """Send a request; a server that refuses an optional parameter is asked again without it."""
        while True:
            dialect = self._dialect
            payload = request_payload(
                request,
                model=self._model,
                dialect=dialect,
                stream=stream,
                max_tokens=self._max_tokens,
            )
            response = await self._post(payload)
            if response.is_success:
                return response
            try:
                failure = await self._failure(response)
            finally:
                await response.aclose()
            refused = isinstance(failure.error, ModelRequestError)
            simpler = adapted(dialect, failure.error.message) if refused else None
            if simpler is None:
                raise AttemptFailedError(failure)
            self._dialect = simpler

    async def _post(self, payload: Mapping[str, Any]) -> httpx.Response:
        import httpx

        client = self._http()
        try:
            url = f"{self._base_url}/chat/completions"
            message = client.build_request("POST", url, json=payload, headers=self._headers)
            return await client.send(message, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            failure = failure_of_transport(self._origin, error, self._timeout_s)
            raise AttemptFailedError(failure) from error

    async def _body(self, response: httpx.Response) -> str:
        import httpx

        try:
            return (await response.aread()).decode("utf-8", errors="replace")
        except httpx.HTTPError as error:
            failure = failure_of_transport(self._origin, error, self._timeout_s)
            raise AttemptFailedError(failure) from error

    async def _failure(self, response: httpx.Response) -> Failure:
        body = await self._body(response)
        return failure_of_response(self._origin, response.status_code, body, response.headers)


def _whole_reply(origin: Origin, body: str) -> ChatReply:
    try:
        return reply_of_completion(
            json.loads(body), provider=origin.provider_id, model=origin.model
        )
    except ProviderReportedError as reported:
        failure = failure_of_stream_error(origin, reported.payload)
        raise AttemptFailedError(failure) from reported
    except (ValueError, RecursionError) as error:
        raise AttemptFailedError(unreadable(origin, str(error))) from error


class _OpenStream:
    """A streamed answer of which the text up to the first delta has been read."""

    def __init__(
        self,
        origin: Origin,
        response: httpx.Response,
        timeout_s: float,
        reply: ChatReply | None = None,
    ) -> None:
        self._origin = origin
        self._response = response
        self._timeout_s = timeout_s
        self._reply = reply
        self._assembler = StreamAssembler()
        self._deltas = self._read()
        self._first: str | None = reply.text if reply else None

    async def read_first(self) -> None:
        self._first = await anext(self._deltas, None)

    async def pieces(self) -> AsyncIterator[TextDelta | ChatReply]:
        if self._first:
            yield TextDelta(self._first)
        if self._reply is None:
            async for text in self._deltas:
                yield TextDelta(text)
            self._reply = self._assembler.reply(
                provider=self._origin.provider_id, model=self._origin.model
            )
        yield self._reply

    async def aclose(self) -> None:
        await self._deltas.aclose()
        await self._response.aclose()

    async def _read(self) -> AsyncGenerator[str, None]:
        """Text deltas to the end of the answer; raises AttemptFailedError for a broken stream."""
        import httpx

        decoder = EventDecoder()
        try:
            async for chunk in self._response.aiter_bytes():
                for data in decoder.feed(chunk):
                    if data == _DONE:
                        return
                    if text := self._assembler.add(data):
                        yield text
            for data in decoder.close():
                if data != _DONE and (text := self._assembler.add(data)):
                    yield text
        except httpx.HTTPError as error:
            failure = failure_of_transport(self._origin, error, self._timeout_s)
            raise AttemptFailedError(failure) from error
        except ProviderReportedError as reported:
            failure = failure_of_stream_error(self._origin, reported.payload)
            raise AttemptFailedError(failure) from reported
        except (ValueError, RecursionError) as error:
            raise AttemptFailedError(unreadable(self._origin, str(error))) from error
        if not self._assembler.finished:
            raise AttemptFailedError(unreadable(self._origin, "the stream ended early"))
