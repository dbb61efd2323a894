"""Models behind any server that speaks the OpenAI chat completions protocol."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermitcrab.models.contract import ChatReply, ChatRequest
from hermitcrab.models.http import DEFAULT_TIMEOUT_S, RetryPolicy
from hermitcrab.models.openai_wire import (
    CompletionAssembler,
    Dialect,
    adapted,
    reply_of_completion,
    request_payload,
)
from hermitcrab.models.remote import Endpoint, RemoteModel
from hermitcrab.models.replies import StreamAssembler
from hermitcrab.models.window_probe import WindowAnswer, ask_context_window

if TYPE_CHECKING:
    import httpx

_log = logging.getLogger("hermitcrab.models")


class OpenAICompatibleModel(RemoteModel[Dialect]):
    """A chat model over HTTP, as chat completions.

    :param base_url: up to and including the version, such as ``http://127.0.0.1:8080/v1``.
    :param timeout_s: seconds that the server may be silent.
    :param context_window: tokens, where the caller knows them; otherwise the server is asked.
    :param max_tokens: limit of every answer in tokens, where a request does not set a lower one.
    :param thinking_levels: the levels that the model can be told; none is for models that cannot.
    :param fast_body: fields that a request in fast mode has besides.
    :param client: an ``httpx.AsyncClient`` to use; it stays the caller's to close.
    :raises ConfigError: for a ``base_url`` that is no HTTP address.
    """

    protocol = "OpenAI"
    path = "/chat/completions"

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
        thinking_levels: Sequence[str] = (),
        fast_body: Mapping[str, Any] | None = None,
        backoff_s: float = 0.5,
    ) -> None:
        own = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        given = dict(headers or {})
        endpoint = Endpoint(
            base_url=base_url,
            headers={**own, **given},
            secrets=(api_key or "", *given.values()),
            timeout_s=timeout_s,
            retries=RetryPolicy(max_retries=max_retries, backoff_s=backoff_s),
            client=client,
        )
        super().__init__(
            provider_id, model, endpoint, dialect=Dialect(), context_window=context_window
        )
        self._max_tokens = max_tokens
        self._fast_body = dict(fast_body or {})
        self.thinking_levels = tuple(thinking_levels)
        self.has_fast_mode = bool(self._fast_body)

    def _payload(self, request: ChatRequest, dialect: Dialect, *, stream: bool) -> dict[str, Any]:
        return request_payload(
            request,
            model=self._model,
            dialect=dialect,
            stream=stream,
            max_tokens=self._max_tokens,
            fast_body=self._fast_body,
        )

    def _adapted(self, dialect: Dialect, refusal: str) -> Dialect | None:
        simpler = adapted(dialect, refusal)
        if simpler is not None and dialect.reasoning_effort and not simpler.reasoning_effort:
            _log.warning("%s takes no thinking level and is told none: %s", self.id, refusal)
        return simpler

    def _reply_of(self, payload: Any) -> ChatReply:
        return reply_of_completion(payload, provider=self._provider_id, model=self._model)

    def _assembler(self) -> StreamAssembler:
        return CompletionAssembler()

    async def _ask_window(self) -> WindowAnswer:
        return await ask_context_window(
            self._http(), self._base_url, self._model, headers=self._headers
        )
