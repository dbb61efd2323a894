"""What models behind an HTTP server have in common: requests, retries, streams, and the errors of all these."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from attrs import field, frozen

from hermitcrab.errors import ConfigError, ModelRequestError
from hermitcrab.models.contract import (
    ChatModel,
    ChatReply,
    ChatRequest,
    TextDelta,
    ThinkingDelta,
)
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
from hermitcrab.models.replies import Delta, ProviderReportedError, StreamAssembler
from hermitcrab.models.sse import EventDecoder
from hermitcrab.models.window_probe import WindowAnswer

if TYPE_CHECKING:
    import httpx

_DONE = "[DONE]"
_Dialect = TypeVar("_Dialect")


@frozen(kw_only=True)
class Endpoint:
    """Where a server is and how it is asked.

    :param base_url: up to and including the version.
    :param headers: sent with every request; ``secrets`` are the texts in them that no message may repeat.
    :param timeout_s: seconds that the server may be silent.
    :param client: an ``httpx.AsyncClient`` to use; it stays the caller's to close.
    """

    base_url: str
    headers: Mapping[str, str]
    secrets: tuple[str, ...] = ()
    timeout_s: float = DEFAULT_TIMEOUT_S
    retries: RetryPolicy = field(factory=RetryPolicy)
    client: httpx.AsyncClient | None = None


class RemoteModel(ChatModel, Generic[_Dialect]):
    """A chat model over HTTP; a subclass knows its protocol.

    Rate limits, server errors and broken connections are retried, as the endpoint's policy says and never once text
    was streamed; everything else is raised at once as one of the :class:`~hermitcrab.errors.ModelError` classes. The
    dialect is what a server accepts of the optional parameters; it shrinks when the server refuses one.

    :param context_window: tokens, where the caller knows them; otherwise the server is asked.
    :raises ConfigError: for a ``base_url`` that is no HTTP address.
    """

    #: The name of the protocol, for messages.
    protocol: ClassVar[str]
    #: What requests are posted to, below the server's address.
    path: ClassVar[str]

    def __init__(
        self,
        provider_id: str,
        model: str,
        endpoint: Endpoint,
        *,
        dialect: _Dialect,
        context_window: int | None,
    ) -> None:
        if not endpoint.base_url.startswith(("http://", "https://")):
            raise ConfigError(
                "the address of a provider begins with http:// or https://",
                where=f"models.providers.{provider_id}.baseUrl",
            )
        self.id = f"{provider_id}/{model}"
        self._provider_id = provider_id
        self._model = model
        self._base_url = endpoint.base_url.rstrip("/")
        self._headers = dict(endpoint.headers)
        self._origin = Origin(
            provider_id=provider_id,
            model=model,
            protocol=self.protocol,
            secrets=tuple(sorted(filter(None, endpoint.secrets), key=len, reverse=True)),
        )
        self._timeout_s = endpoint.timeout_s
        self._retries = endpoint.retries
        self._client = endpoint.client
        self._owns_client = endpoint.client is None
        self._dialect = dialect
        self._context_window = context_window
        self._window_asked = context_window is not None

    @abstractmethod
    def _payload(self, request: ChatRequest, dialect: _Dialect, *, stream: bool) -> dict[str, Any]:
        """The JSON body of a request."""

    @abstractmethod
    def _adapted(self, dialect: _Dialect, refusal: str) -> _Dialect | None:
        """The dialect to try after a refusal whose text names a parameter, or None if nothing can be left out."""

    @abstractmethod
    def _reply_of(self, payload: Any) -> ChatReply:
        """The reply in a whole answer. Raises ProviderReportedError, or ValueError for what is no answer."""

    @abstractmethod
    def _assembler(self) -> StreamAssembler:
        """What puts the pieces of one streamed answer together."""

    @abstractmethod
    async def _ask_window(self) -> WindowAnswer:
        """Ask the server how large the context window is. Never raises."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        return await with_retries(self._retries, lambda: self._complete_once(request))

    async def stream(
        self, request: ChatRequest
    ) -> AsyncIterator[TextDelta | ThinkingDelta | ChatReply]:
        opened = await with_retries(self._retries, lambda: self._open(request))
        async with aclosing(opened):
            try:
                async for piece in opened.pieces():
                    yield piece
            except AttemptFailedError as failed:
                raise failed.failure.error from failed.__cause__

    async def context_window(self) -> int | None:
        if not self._window_asked:
            answer = await self._ask_window()
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
            return self._whole_reply(await self._body(response))
        finally:
            await response.aclose()

    async def _open(self, request: ChatRequest) -> _OpenStream:
        """Open a stream and read up to its first delta, so that what fails before can be retried."""
        response = await self._send(request, stream=True)
        try:
            opened = _OpenStream(
                self._origin,
                response,
                self._timeout_s,
                self._assembler(),
                with_thinking=request.stream_thinking,
            )
            if response.headers.get("content-type", "").startswith("application/json"):
                opened.hold(self._whole_reply(await self._body(response)))
            else:
                await opened.read_first()
        except BaseException:
            await response.aclose()
            raise
        return opened

    async def _send(self, request: ChatRequest, *, stream: bool) -> httpx.Response:
        """Send a request; a server that refuses an optional parameter is asked again without it."""
        while True:
            dialect = self._dialect
            response = await self._post(self._payload(request, dialect, stream=stream))
            if response.is_success:
                return response
            try:
                failure = await self._failure(response)
            finally:
                await response.aclose()
            refused = isinstance(failure.error, ModelRequestError)
            simpler = self._adapted(dialect, failure.error.message) if refused else None
            if simpler is None:
                raise AttemptFailedError(failure)
            self._dialect = simpler

    async def _post(self, payload: Mapping[str, Any]) -> httpx.Response:
        import httpx

        client = self._http()
        try:
            url = f"{self._base_url}{self.path}"
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

    def _whole_reply(self, body: str) -> ChatReply:
        try:
            return self._reply_of(json.loads(body))
        except ProviderReportedError as reported:
            failure = failure_of_stream_error(self._origin, reported.payload)
            raise AttemptFailedError(failure) from reported
        except (ValueError, RecursionError) as error:
            raise AttemptFailedError(unreadable(self._origin, str(error))) from error


class _OpenStream:
    """A streamed answer that has been read up to its first delta."""

    def __init__(
        self,
        origin: Origin,
        response: httpx.Response,
        timeout_s: float,
        assembler: StreamAssembler,
        *,
        with_thinking: bool,
    ) -> None:
        self._origin = origin
        self._response = response
        self._timeout_s = timeout_s
        self._assembler = assembler
        self._with_thinking = with_thinking
        self._deltas = self._read()
        self._reply: ChatReply | None = None
        self._first: Delta | None = None

    def hold(self, reply: ChatReply) -> None:
        """Take the whole answer of a server that does not stream."""
        self._reply = reply
        self._first = TextDelta(reply.text) if reply.text else None

    async def read_first(self) -> None:
        self._first = await anext(self._deltas, None)

    async def pieces(self) -> AsyncIterator[Delta | ChatReply]:
        if self._first is not None:
            yield self._first
        if self._reply is None:
            async for delta in self._deltas:
                yield delta
            self._reply = self._assembler.reply(
                provider=self._origin.provider_id, model=self._origin.model
            )
        yield self._reply

    async def aclose(self) -> None:
        await self._deltas.aclose()
        await self._response.aclose()

    async def _read(self) -> AsyncGenerator[Delta, None]:
        """Deltas to the end of the answer; raises AttemptFailedError for a broken stream."""
        import httpx

        decoder = EventDecoder()
        try:
            async for chunk in self._response.aiter_bytes():
                for data in decoder.feed(chunk):
                    if data == _DONE:
                        return
                    for delta in self._wanted(data):
                        yield delta
            for data in decoder.close():
                for delta in self._wanted(data) if data != _DONE else ():
                    yield delta
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

    def _wanted(self, data: str) -> list[Delta]:
        added = self._assembler.add(data)
        return [each for each in added if self._with_thinking or isinstance(each, TextDelta)]
