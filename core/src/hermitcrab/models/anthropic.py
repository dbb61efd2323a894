"""Models behind the Anthropic Messages API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from hermitcrab.models.anthropic_answer import MessageAssembler, reply_of_message
from hermitcrab.models.anthropic_wire import Dialect, PromptCache, adapted, request_payload
from hermitcrab.models.contract import ChatReply, ChatRequest
from hermitcrab.models.http import DEFAULT_TIMEOUT_S, RetryPolicy
from hermitcrab.models.remote import Endpoint, RemoteModel
from hermitcrab.models.replies import StreamAssembler
from hermitcrab.models.window_probe import WindowAnswer, ask_model_window

if TYPE_CHECKING:
    import httpx

ANTHROPIC_URL = "https://api.anthropic.com/v1"
API_VERSION = "2023-06-01"
#: Tokens that the window of a Claude model is assumed to have where the server does not say.
CLAUDE_CONTEXT_WINDOW = 200_000


class AnthropicModel(RemoteModel[Dialect]):
    """A chat model over HTTP, as the Messages API.

    :param base_url: up to and including the version; ``/v1`` is added to a bare host.
    :param headers: besides ``x-api-key`` and ``anthropic-version``, or in their place.
    :param timeout_s: seconds that the server may be silent.
    :param context_window: tokens, where the caller knows them; otherwise the server is asked, and Claude models whose
        server does not say are assumed to have 200,000.
    :param max_tokens: limit of every answer in tokens, its thinking included; 8,192 where nobody says, 16,384 with
        thinking.
    :param thinking_levels: the levels that the model can be told; none is for models that cannot.
    :param fast_body: fields that a request in fast mode has besides.
    :param prompt_cache: whether the provider is to remember the system prompt and the conversation, and for how long.
    :param client: an ``httpx.AsyncClient`` to use; it stays the caller's to close.
    :raises ConfigError: for a ``base_url`` that is no HTTP address.
    """

    protocol = "Anthropic"
    path = "/messages"

    def __init__(
        self,
        provider_id: str,
        model: str,
        base_url: str = ANTHROPIC_URL,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_retries: int = 3,
        context_window: int | None = None,
        client: httpx.AsyncClient | None = None,
        max_tokens: int | None = None,
        thinking_levels: Sequence[str] = (),
        fast_body: Mapping[str, Any] | None = None,
        prompt_cache: PromptCache = "short",
        backoff_s: float = 0.5,
    ) -> None:
        own = {"anthropic-version": API_VERSION} | ({"x-api-key": api_key} if api_key else {})
        given = dict(headers or {})
        endpoint = Endpoint(
            base_url=_versioned(base_url),
            headers={**own, **{name.lower(): value for name, value in given.items()}},
            secrets=(api_key or "", *given.values()),
            timeout_s=timeout_s,
            retries=RetryPolicy(max_retries=max_retries, backoff_s=backoff_s),
            client=client,
        )
        super().__init__(
            provider_id, model, endpoint, dialect=Dialect(), context_window=context_window
        )
        self._max_tokens = max_tokens
        self._prompt_cache: PromptCache = prompt_cache
        self._fast_body = dict(fast_body or {})
        self.thinking_levels = tuple(thinking_levels)
        self.has_fast_mode = bool(self._fast_body)

    def _payload(self, request: ChatRequest, dialect: Dialect, *, stream: bool) -> dict[str, Any]:
        return request_payload(
            request,
            provider=self._provider_id,
            model=self._model,
            dialect=dialect,
            stream=stream,
            max_tokens=self._max_tokens,
            prompt_cache=self._prompt_cache,
            fast_body=self._fast_body,
        )

    def _adapted(self, dialect: Dialect, refusal: str) -> Dialect | None:
        return adapted(dialect, refusal)

    def _reply_of(self, payload: Any) -> ChatReply:
        return reply_of_message(payload, provider=self._provider_id, model=self._model)

    def _assembler(self) -> StreamAssembler:
        return MessageAssembler()

    async def _ask_window(self) -> WindowAnswer:
        url = f"{self._base_url}/models/{quote(self._model, safe='')}"
        answer = await ask_model_window(self._http(), url, headers=self._headers)
        assumed = CLAUDE_CONTEXT_WINDOW if "claude-" in self._model else None
        return WindowAnswer(answer.tokens or assumed, answer.reached)


def _versioned(base_url: str) -> str:
    return f"{base_url.rstrip('/')}/v1" if urlsplit(base_url).path in ("", "/") else base_url
